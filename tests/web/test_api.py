"""The page's JSON: what it shows, what it does, and who may use it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest

from marksweep import Conversation, Segments
from marksweep.graph.memory import KnowledgeGraph
from tests.cli.support import history, run
from tests.web.support import Page, filled, web

SET = "segments:default"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("web") / "heap.db"
    filled(path).close()
    return path


@pytest.fixture(scope="module")
def page(store: Path) -> Iterator[Page]:
    with web(store.parent, "--store", "heap.db", "--limit", "2k") as running:
        yield running


@pytest.fixture
def heap(store: Path, request: pytest.FixtureRequest) -> str:
    """Make a working set for one test."""
    workspace = request.node.name
    filled(store, workspace=workspace).close()
    return f"segments:{workspace}"


def names(found: Any) -> list[str]:
    return [tile["name"] for tile in found["tiles"]]


def test_a_plan_is_shown_collected_by_its_id_and_undone(page: Page, heap: str) -> None:
    before = page.get("view", heap=heap)
    assert before["size"] == 60 * 30 + 40
    assert [(each["name"], each["size"]) for each in before["staying"]] == [("pinned by ada", 40)]
    states = {each["name"]: each["size"] for each in before["states"]}
    assert states == {"root": 40, "reached": 30, "related": 14 * 30, "garbage": 45 * 30}
    shown = page.post("plan", heap=heap)
    plan = shown["plan"]
    assert shown["steps"] == len(plan["steps"]) > 0
    assert all(step["reason"] for step in plan["steps"])
    assert page.get("view", heap=heap)["size"] == before["size"], "a plan touches nothing"

    report = page.post("collect", heap=heap, plan_id=plan["plan_id"])
    after = page.get("view", heap=heap)
    assert report["size_after"] == after["size"] == plan["size_after"] < before["size"]
    assert after["timeline"][0] == {
        **after["timeline"][0],
        "event": "swept",
        "plan_id": plan["plan_id"],
        "size_before": before["size"],
        "size_after": after["size"],
        "can_undo": True,
    }
    assert len(page.post("undo", heap=heap, plan_id=plan["plan_id"])) == len(report["swept"])
    undone = page.get("view", heap=heap)
    assert undone["size"] == before["size"]
    assert [each["can_undo"] for each in undone["timeline"]] == [False, False]
    assert page.get("plan", heap=heap, plan=plan["plan_id"]) == shown


def test_a_plan_of_a_heap_that_has_moved_is_refused_and_nothing_is_done(
    page: Page, heap: str, store: Path
) -> None:
    plan = page.post("plan", heap=heap)["plan"]
    other = Segments(store, workspace=heap.partition(":")[2], limit=1_000_000)
    other.write("somebody else was here", segment_id="new")
    other.close()
    said = page.post("collect", 409, heap=heap, plan_id=plan["plan_id"])["error"]
    assert "has changed since" in said
    assert "Plan again" in said
    view = page.get("view", heap=heap)
    assert view["tiles"] == 62, "the page sees what others wrote"
    assert view["timeline"] == []


def test_what_was_swept_is_found_by_words_and_restored(page: Page, heap: str) -> None:
    plan = page.post("plan", heap=heap, target=100)["plan"]
    page.post("collect", heap=heap, plan_id=plan["plan_id"])
    assert page.get("view", heap=heap)["swept"] == len(page.get("swept", heap=heap))
    found = page.get("swept", heap=heap, words="failed")
    assert [each["segment"]["segment_id"] for each in found] == ["log-0"]
    assert page.post("restore", heap=heap, names=["log-0"]) == ["log-0"]
    assert names(page.get("tiles", heap=heap, words="failed")) == ["log-0"]
    assert page.post("restore", 404, heap=heap, names=["log-0"])["error"].startswith("not in")


def test_tiles_are_listed_by_state_by_words_and_page_by_page(page: Page) -> None:
    found = page.get("tiles", heap=SET)
    assert (found["total"], names(found)[0]) == (61, "note")
    assert names(page.get("tiles", heap=SET, offset=60)) == names(found)[60:]
    assert names(page.get("tiles", heap=SET, state="reached")) == ["log-1"]
    assert names(page.get("tiles", heap=SET, words="Ada", state="garbage")) == []
    detail = page.get("segment", heap=SET, name="log-1")
    assert detail["why"] == "note must stay: pinned by ada: who to ask, which refers to log-1"


def test_a_pin_set_on_the_page_keeps_and_one_taken_off_does_not(page: Page, heap: str) -> None:
    page.post("pin", heap=heap, names=["log-7"])
    assert [tile["name"] for tile in page.get("view", heap=heap)["pins"]] == ["log-7", "note"]
    plan = page.post("plan", heap=heap, target=0)["plan"]
    assert "log-7" not in {name for step in plan["steps"] for name in step["segments"]}
    page.post("unpin", heap=heap, names=["log-7"])
    plan = page.post("plan", heap=heap, target=0)["plan"]
    assert "log-7" in {name for step in plan["steps"] for name in step["segments"]}


def test_what_did_not_change_is_not_sent_again(page: Page, heap: str) -> None:
    first = page.client.get("api/view", params={"heap": heap})
    tag = {"If-None-Match": first.headers["etag"]}
    again = page.client.get("api/view", params={"heap": heap}, headers=tag)
    tag_of_next_minute = first.headers["etag"].rpartition(".")[0]
    assert again.status_code == 304 or not again.headers["etag"].startswith(tag_of_next_minute)
    page.post("pin", heap=heap, names=["log-7"])
    assert page.client.get("api/view", params={"heap": heap}, headers=tag).status_code == 200


def test_the_picture_is_well_formed_whatever_the_texts_say(page: Page) -> None:
    plan = page.post("plan", heap=SET)["plan"]
    for by in ("kind", "tool", "file", "state"):
        query = {"heap": SET, "by": by, "plan": plan["plan_id"], "width": "1200"}
        drawn = page.client.get("api/picture", params=query)
        assert drawn.headers["content-type"] == "image/svg+xml"
        root = ElementTree.fromstring(drawn.text)  # noqa: S314 - it is ours
        tags = {each.tag.partition("}")[2] for each in root.iter()}
        assert tags <= {"svg", "defs", "pattern", "g", "rect", "text", "title", "path"}


def test_conversations_and_the_memory_are_shown_and_collected_too(tmp_path: Path) -> None:
    store = tmp_path / "heap.db"
    talk = Conversation(limit=100_000, store=store, workspace="fit:0123:1")
    talk.extend(history())
    talk.close()
    (tmp_path / "code").mkdir()
    for name in ("a", "c"):
        (tmp_path / f"code/{name}.py").write_text(f"def {name}():\n    return 1\n")
    index = [sys.executable, "-m", "marksweep", "index", "code", "--store", str(store)]
    subprocess.run(index, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "code/a.py").unlink()
    subprocess.run(index, cwd=tmp_path, check=True, capture_output=True)
    with web(tmp_path, "--store", str(store), "--limit", "3k") as page:
        heaps = {each["kind"]: each for each in page.get("heaps")}
        assert heaps["conversation"]["title"] == "Fix the login of the shop."
        heap = heaps["conversation"]["heap"]
        view = page.get("view", heap=heap)
        assert {each["name"] for each in view["groups"]["tool"]} >= {"read_file"}
        assert {each["name"] for each in view["groups"]["file"]} >= {"shop/0.py", "shop/2.py"}
        assert view["garbage"], "the same file was read again"
        check_round(page, heap, view)

        heap = heaps["memory"]["heap"]
        view = page.get("view", heap=heap)
        assert [(root["files"], root["stale"]) for root in view["roots"]] == [(2, 1)]
        assert {each["name"] for each in view["garbage"]} == {"orphaned", "stale"}
        check_round(page, heap, view)


def check_round(page: Page, heap: str, before: Any) -> None:
    """Plan, collect, check and undo."""
    plan = page.post("plan", heap=heap)["plan"]
    drawn = page.client.get("api/picture", params={"heap": heap, "plan": plan["plan_id"]}).text
    assert drawn.count(' goes"') > 1, "the legend, and what would go"
    page.post("collect", heap=heap, plan_id=plan["plan_id"])
    after = page.get("view", heap=heap)
    assert after["size"] == plan["size_after"] < before["size"]
    swept = page.get("swept", heap=heap)
    assert swept
    name = next(filter(None, names(page.get("tiles", heap=heap))))
    assert page.get("segment", heap=heap, name=name)["segment"]["segment_id"] == name
    page.post("undo", heap=heap, plan_id=plan["plan_id"])
    assert page.get("view", heap=heap)["size"] == before["size"]


def test_a_transcript_is_shown_and_its_file_stays_as_it_is(tmp_path: Path) -> None:
    session = Path(__file__).parents[2] / "src/marksweep/cli/demo_session.jsonl"
    copy = tmp_path / "session.jsonl"
    copy.write_bytes(session.read_bytes())
    with web(tmp_path, str(copy), "--limit", "10k") as page:
        (heap,) = page.get("heaps")
        check_round(page, heap["heap"], page.get("view", heap=heap["heap"]))
    assert copy.read_bytes() == session.read_bytes()


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (401, {"Authorization": ""}),
        (401, {"Authorization": "Bearer wrong"}),
        (401, {"Authorization": "Bearer wr\u00f6ng".encode("latin-1")}),
        (421, {"Host": "evil.example:80"}),
        (421, {"Host": "127.0.0.1.evil.example"}),
        (403, {"Origin": "http://evil.example"}),
        (403, {"Origin": "null"}),
        (403, {"Sec-Fetch-Site": "cross-site"}),
        (403, {"Sec-Fetch-Site": "same-site"}),
        (415, {"Content-Type": "text/plain"}),
    ],
)
def test_other_sites_and_those_without_the_token_are_refused(
    page: Page, status: int, headers: dict[str, Any]
) -> None:
    for path in ("plan", "collect"):
        sent = {"Content-Type": "application/json", **headers}
        answer = page.client.post(f"api/{path}", headers=sent, content=b"{}")
        assert answer.status_code == status
    if status != 415:
        assert page.client.get("api/heaps", headers=headers).status_code == status


def test_a_host_may_be_named_without_the_port_of_http(page: Page) -> None:
    for host in ("127.0.0.1", "localhost", "[::1]"):
        assert page.client.get("api/heaps", headers={"Host": host}).status_code == 200


def test_bad_requests_are_answered_with_a_reason(page: Page) -> None:
    for status, path, query in (
        (404, "view", {"heap": "segments:nobody"}),
        (404, "view", {}),
        (400, "picture", {"heap": SET, "by": "colour"}),
        (400, "picture", {"heap": SET, "width": "-1"}),
        (404, "picture", {"heap": SET, "plan": "plan-0"}),
        (404, "segment", {"heap": SET, "name": "nothing"}),
    ):
        answer = page.client.get(f"api/{path}", params=query)
        assert (answer.status_code, bool(answer.json()["error"])) == (status, True), path
    for body in (
        b"",
        b"{",
        b"[]",
        b'{"heap": "\xff"}',
        b'{"heap": 1}',
        b'{"heap": "x", "more": 1}',
    ):
        answer = page.client.post(
            "api/plan", content=body, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 400
        assert "body cannot be read" in answer.json()["error"]
    large = page.client.post("api/pin", json={"heap": SET, "names": ["x" * 200_000]})
    assert large.status_code == 413
    assert page.client.get("api/collect").status_code == 404, "looking changes nothing"


def test_the_page_itself_holds_nothing_of_the_users_and_loads_nothing_from_elsewhere(
    page: Page,
) -> None:
    base = page.address.partition("#")[0]
    for name in ("", "page.css", "page.js", "picture.css"):
        answer = httpx.get(base + name)
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
    assert httpx.get(base + "../", follow_redirects=True).url == base


def test_a_page_for_other_machines_needs_a_token_of_your_own(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "MARKSWEEP_TOKEN"}
    command = [sys.executable, "-m", "marksweep", "web", "--host", "0.0.0.0", "--port", "0"]  # noqa: S104
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert "MARKSWEEP_TOKEN" in done.stderr


def test_notes_of_the_memory_are_found_by_words(tmp_path: Path) -> None:
    memory = KnowledgeGraph.open(tmp_path)
    memory.add_memory("Ada owns the parser")
    memory.close()
    with web(tmp_path) as page:
        view = page.get("view", heap="memory:default")
        assert view["unit"] == "nodes"
        assert page.get("tiles", heap="memory:default", words="parser")["total"] == 1


def test_what_the_agent_is_working_on_stays_if_it_is_named(tmp_path: Path) -> None:
    filled(tmp_path / "heap.db").close()
    drawn = run(
        "web", "--store", str(tmp_path / "heap.db"), "--svg", "-", "--active-file", "src/2.py"
    )
    assert drawn.exit_code == 0, drawn.output
    assert "must stay: in the active file src/2.py" in drawn.stdout
    refused = run("web", "session.jsonl", "--svg", "-", "--task", "t")
    assert refused.exit_code == 2
    assert "the working set" in refused.stderr


def test_a_picture_of_nothing_or_of_an_unknown_heap_is_an_error(tmp_path: Path) -> None:
    store = ("--store", str(tmp_path / "heap.db"))
    assert "0 of 128,000 tokens" in run("web", *store, "--svg", "-").stdout
    missing = run("web", *store, "--svg", "-", "--heap", "nobody")
    assert missing.exit_code == 2
    assert "known are segments:default" in " ".join(missing.stderr.split())
    assert run("web", *store, "--svg", str(tmp_path)).exit_code == 2
    assert run("web", *store, "--limit", "many").exit_code == 2
