"""The tools that fill and steer the working set, over both protocols."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.support import Agent, with_agent


def test_segments_are_added_with_their_links(tmp_path: Path, mode: str) -> None:
    async def work(one: Agent) -> None:
        added = await one.call(
            "context_add",
            segments=[
                {"text": "def parse(): ...", "type": "code", "segment_id": "code"},
                {
                    "text": "we keep the parser",
                    "type": "decision",
                    "segment_id": "decided",
                    "references": [
                        "code",
                        {"target": "later", "link": "related to", "hold": "weak"},
                    ],
                    "tags": ["parser"],
                },
            ],
        )
        assert added["segment_ids"] == ["code", "decided"]
        assert added["tokens"] == added["usage"]["current"] > 0
        assert "Added 2" in one.said
        contents = (await one.client.read_resource("marksweep://segments/code")).contents
        shown = json.loads(contents[0].text)  # type: ignore[union-attr]
        assert shown["state"] == "live"
        assert "decided must stay: a decision made recently" in shown["why"]

    with_agent(tmp_path, work, mode)


def test_an_id_is_chosen_where_none_is_given(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        added = await one.call("context_add", segments=[{"text": "a"}, {"text": "b"}])
        assert len(set(added["segment_ids"])) == 2

    with_agent(tmp_path, work)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "'segments' is missing"),
        ({"segments": []}, "'segments' is []; expected"),
        ({"segments": [{"text": "x"}], "colour": "red"}, "there is no parameter 'colour'"),
        ({"segments": [{"text": "x", "colour": 1}]}, "no parameter 'segments.0.colour'"),
        ({"segments": [{"text": ""}]}, "'segments.0.text' is ''"),
        ({"segments": [{"text": "x", "type": "poem"}]}, "'message', 'code', 'log'"),
        ({"segments": [{"text": "x", "segment_id": "a"}] * 2}, "must be unique"),
        ({"segments": [{"text": "x", "line_range": [1]}]}, "line_range"),
    ],
)
def test_a_bad_segment_is_refused_and_nothing_is_added(
    tmp_path: Path, arguments: dict[str, Any], expected: str
) -> None:
    async def work(one: Agent) -> None:
        assert expected in await one.fail("context_add", **arguments)
        usage = (await one.call("context_gc_configure"))["usage"]
        assert usage["current"] == 0

    with_agent(tmp_path, work)


def test_a_known_id_is_refused_and_says_so(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await one.add("a")
        words = await one.fail("context_add", segments=[{"text": "x", "segment_id": "a"}])
        assert words.startswith("already live: a.")

    with_agent(tmp_path, work)


def test_json_in_a_text_stays_a_text(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await one.call("context_add", segments=[{"text": '{"a": [1]}', "segment_id": "j"}])
        shown = await one.client.read_resource("marksweep://segments/j")
        assert json.loads(shown.contents[0].text)["segment"]["text"] == '{"a": [1]}'  # type: ignore[union-attr]
        await one.call("context_focus", task="[1, 2]")
        await one.call("context_gc_compress", segment_id="j", text="[]")

    with_agent(tmp_path, work)


def test_what_is_in_focus_is_not_collected(tmp_path: Path, mode: str) -> None:
    async def work(one: Agent) -> None:
        await one.call(
            "context_add",
            segments=[
                {"text": "old " * 50, "type": "log", "segment_id": "log"},
                {"text": "mine " * 50, "type": "code", "segment_id": "mine", "file_path": "a.py"},
            ],
        )
        focused = await one.call(
            "context_focus", task="t1", active_file="a.py", active_lines=[1, 9], open_files=["b.py"]
        )
        assert focused == {
            "task": "t1",
            "active_file": "a.py",
            "open_files": ["b.py"],
            "breakpoints": [],
        }
        found = await one.call("context_gc_analyze", target_tokens=0)
        assert [each["segment_id"] for each in found["candidates"]] == ["log"]
        assert "in the active file a.py" in found["blockers"][0]["reason"]

    with_agent(tmp_path, work, mode)


def test_the_focus_outlives_a_change_of_settings(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await one.call("context_focus", task="t1")
        await one.call("context_gc_configure", last_messages=0)
        segment = {"text": "x " * 20, "type": "log", "segment_id": "a", "task_id": "t1"}
        await one.call("context_add", segments=[segment])
        assert (await one.call("context_gc_analyze", target_tokens=0))["candidates"] == []

    with_agent(tmp_path, work)


def test_a_focus_on_lines_needs_their_file(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        assert "Name the file" in await one.fail("context_focus", active_lines=[1, 2])

    with_agent(tmp_path, work)


def test_a_pinned_segment_stays_until_it_is_unpinned(tmp_path: Path, mode: str) -> None:
    async def work(one: Agent) -> None:
        await one.add("a", "b")
        await one.call("context_gc_pin", segment_ids=["a"], reason="still needed")
        pruned = await one.call("context_gc_prune", segment_ids=["a", "b"])
        assert pruned["stashed"] == ["b"]
        (kept,) = pruned["kept"]
        assert kept["segment_id"] == "a"
        assert kept["reason"].startswith("pinned by")
        assert kept["reason"].endswith("still needed")
        assert "Must stay: a (pinned by" in one.said
        await one.call("context_gc_unpin", segment_ids=["a"])
        assert (await one.call("context_gc_prune", segment_ids=["a"]))["stashed"] == ["a"]

    with_agent(tmp_path, work, mode)


@pytest.mark.parametrize("tool", ["context_gc_pin", "context_gc_unpin"])
def test_pins_on_unknown_segments_are_refused_and_none_is_set(tmp_path: Path, tool: str) -> None:
    async def work(one: Agent) -> None:
        await one.add("a")
        words = await one.fail(tool, segment_ids=["a", "nowhere"])
        assert "not in the working set: nowhere" in words
        assert (await one.call("context_gc_prune", segment_ids=["a"]))["stashed"] == ["a"]
        assert "segment_ids" in await one.fail(tool, segment_ids=[])
        assert "segment_ids" in await one.fail(tool)

    with_agent(tmp_path, work)


def test_recall_finds_by_words_and_brings_back(tmp_path: Path, mode: str) -> None:
    async def work(one: Agent) -> None:
        await one.add("a", text="the proxy listens on port 8443 ")
        await one.add("b", text="nothing to see here ")
        await one.call("context_gc_prune", segment_ids=["a", "b"])
        shown = await one.call("context_recall", words="proxy port", action="show")
        assert [each["segment_id"] for each in shown["found"]] == ["a"]
        assert shown["restored"] == []
        assert "8443" in shown["found"][0]["text"]
        back = await one.call("context_recall", words="proxy port")
        assert back["restored"] == ["a"]
        assert await one.live("a", "b") == ["a"]
        assert (await one.call("context_recall", segment_ids=["b", "b"]))["restored"] == ["b"]
        assert (await one.call("context_recall", words="zebra"))["found"] == []

    with_agent(tmp_path, work, mode)


ABOUT: list[dict[str, Any]] = [
    {
        "segment_id": "old",
        "type": "log",
        "text": "the proxy failed " * 9,
        "file_path": "a.py",
        "task_id": "t1",
        "tags": ["bug", "net"],
    },
    {"segment_id": "note", "text": "the proxy is slow " * 9, "task_id": "t2", "tags": ["net"]},
    {"segment_id": "code", "type": "code", "text": "def proxy(): ... " * 9, "file_path": "b.py"},
]
FILTERED: list[tuple[dict[str, Any], list[str]]] = [
    ({"types": ["log", "code"]}, ["code", "old"]),
    ({"file_path": "a.py"}, ["old"]),
    ({"task_id": "t2"}, ["note"]),
    ({"tags": ["net"]}, ["note", "old"]),
    ({"tags": ["net", "bug"]}, ["old"]),
    ({"since": "2001-01-01T00:00:00Z"}, ["code", "note", "old"]),
    ({"until": "2001-01-01T00:00:00"}, []),
    ({"types": ["log"], "file_path": "b.py"}, []),
    ({"words": "slow", "tags": ["net"]}, ["note"]),
]


def test_the_live_working_set_is_listed_and_searched_with_every_filter(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        assert (await one.call("context_search"))["segments"] == []
        await one.call("context_add", segments=ABOUT)
        listed = await one.call("context_search")
        assert [each["segment_id"] for each in listed["segments"]] == ["code", "note", "old"]
        assert listed["usage"]["current"] == sum(each["tokens"] for each in listed["segments"])
        for filters, expected in FILTERED:
            found = await one.call("context_search", **filters)
            assert sorted(each["segment_id"] for each in found["segments"]) == expected, filters
        assert len((await one.call("context_search", limit=1))["segments"]) == 1
        await one.add("long", times=500)
        (long,) = (await one.call("context_search", words="long"))["segments"]
        assert len(long["text"]) == 301
        await one.call("context_gc_pin", segment_ids=["code"])
        found = await one.call("context_search", words="def")
        assert [each["pinned"] for each in found["segments"]] == [True]
        await one.call("context_gc_prune", segment_ids=["old"])
        assert (await one.call("context_search", file_path="a.py"))["segments"] == []

    with_agent(tmp_path, work)


def test_the_stash_is_searched_with_every_filter(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await one.call("context_add", segments=ABOUT)
        await one.call("context_gc_prune", segment_ids=["old", "note", "code"])
        for filters, expected in FILTERED:
            found = await one.call("context_recall", action="show", **filters)
            assert sorted(each["segment_id"] for each in found["found"]) == expected, filters
        assert (await one.call("context_recall", file_path="a.py"))["restored"] == ["old"]
        words = await one.fail("context_recall", segment_ids=["note"], tags=["net"])
        assert "either words or filters, or segment_ids" in words
        assert "'since'" in await one.fail("context_recall", since="soon")

    with_agent(tmp_path, work)


def test_code_with_a_breakpoint_in_it_stays(tmp_path: Path) -> None:
    def code(name: str, file: str, lines: list[int] | None) -> dict[str, Any]:
        given = {"line_range": lines} if lines else {}
        text = f"{name} = 1 " * 9
        return {"segment_id": name, "type": "code", "text": text, "file_path": file, **given}

    async def work(one: Agent) -> None:
        await one.call(
            "context_add",
            segments=[
                code("hit", "a.py", [10, 20]),
                code("miss", "a.py", [21, 30]),
                code("whole", "b.py", None),
                code("other", "c.py", [1, 50]),
            ],
        )
        focus = await one.call("context_focus", breakpoints=["a.py:20", "b.py:7"])
        assert focus["breakpoints"] == ["a.py:20", "b.py:7"]
        assert "breakpoints a.py:20, b.py:7" in one.said
        found = await one.call("context_gc_analyze", target_tokens=0)
        assert {each["segment_id"] for each in found["candidates"]} == {"miss", "other"}
        assert "has a breakpoint at a.py:20" in str(found["blockers"])
        await one.call("context_gc_configure", batch=6)
        found = await one.call("context_gc_analyze", target_tokens=0)
        assert found["candidates_total"] == 2, "a change of settings does not forget them"
        await one.call("context_focus")
        assert (await one.call("context_gc_analyze", target_tokens=0))["candidates_total"] == 4
        for bad in ("a.py", ":7", "a.py:x", "a.py:-1"):
            words = await one.fail("context_focus", breakpoints=[bad])
            assert "expected a file and a line" in words

    with_agent(tmp_path, work)


def test_recall_refuses_what_it_cannot_bring_back(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await one.add("a")
        assert "either words or filters" in await one.fail("context_recall")
        both = await one.fail("context_recall", words="x", segment_ids=["a"])
        assert "either words or filters" in both
        live = await one.fail("context_recall", segment_ids=["a"])
        assert "already in the working set: a" in live
        assert "not in the stash: no" in await one.fail("context_recall", segment_ids=["no"])
        assert "'limit' is 0" in await one.fail("context_recall", words="x", limit=0)
        assert "'action' is 'eat'" in await one.fail("context_recall", words="x", action="eat")

    with_agent(tmp_path, work)


def test_limits_can_be_changed_and_take_effect(tmp_path: Path, mode: str) -> None:
    async def work(one: Agent) -> None:
        before = await one.call("context_gc_configure")
        assert before["changed"] == []
        turned = await one.call(
            "context_gc_configure", limit_tokens=1_000, soft_percent=50, target_percent=20, batch=5
        )
        assert turned["usage"] == {
            "current": 0,
            "soft_limit": 500,
            "hard_limit": 950,
            "limit": 1_000,
            "target": 200,
        }
        assert turned["settings"]["steps"]["batch"] == 5
        await one.call("context_gc_configure", hard_percent=60)
        for number in range(30):
            await one.add(f"s{number}", times=10)
        assert (await one.call("context_gc_configure"))["usage"]["current"] <= 600

    with_agent(tmp_path, work, mode)


def test_the_recency_windows_can_be_changed_and_take_effect(tmp_path: Path) -> None:
    segments = [
        {"text": "we use port 80 " * 9, "type": "decision", "segment_id": "decided"},
        {"text": "is it done? " * 9, "type": "message", "segment_id": "said"},
        {"text": "def f(): ... " * 9, "type": "code", "segment_id": "opened", "file_path": "a.py"},
    ]

    async def kept(one: Agent) -> list[str]:
        found = await one.call("context_gc_analyze", target_tokens=0)
        going = {each["segment_id"] for each in found["candidates"]}
        return sorted({"decided", "said", "opened"} - going)

    async def work(one: Agent) -> None:
        await one.call("context_add", segments=segments)
        await one.call("context_focus", open_files=["a.py"])
        assert await kept(one) == ["decided", "opened", "said"]
        await one.call("context_gc_configure", last_messages=0)
        assert await kept(one) == ["decided", "opened"]
        await one.call("context_gc_configure", decision_hours=0)
        assert await kept(one) == ["opened"]
        await one.call("context_gc_configure", recent_file_hours=0)
        assert await kept(one) == []

    with_agent(tmp_path, work)


@pytest.mark.parametrize("batch", [5, 20])
def test_the_size_of_a_small_sweep_can_be_changed_and_takes_effect(
    tmp_path: Path, batch: int
) -> None:
    async def work(one: Agent) -> None:
        await one.call(
            "context_gc_configure",
            limit_tokens=10_000,
            soft_percent=20,
            target_percent=1,
            hard_percent=99,
            batch=batch,
        )
        for start in (0, 30):
            await one.add(*(f"s{start + number}" for number in range(30)), times=10)
        events = (await one.call("context_gc_history"))["events"]
        assert [each["segments"] for each in events if each["event"] == "swept"] == [batch]

    with_agent(tmp_path, work)


def test_the_scorer_is_chosen_by_name(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        turned = await one.call("context_gc_configure", scorer="seed_retention")
        assert turned["settings"]["scoring"]["scorer"] == "seed_retention"

    with_agent(tmp_path, work)


def test_impossible_limits_are_refused_and_change_nothing(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        words = await one.fail("context_gc_configure", target_percent=95)
        assert "above window.threshold_percent" in words
        assert "'batch' is 4" in await one.fail("context_gc_configure", batch=4)
        assert "limit_tokens" in await one.fail("context_gc_configure", limit_tokens=-1)
        assert "no parameter 'limit'" in await one.fail("context_gc_configure", limit=1)
        assert "no scorer named 'magic'" in await one.fail("context_gc_configure", scorer="magic")
        usage = (await one.call("context_gc_configure"))["usage"]
        assert usage["limit"] == 128_000

    with_agent(tmp_path, work)


def test_an_addition_says_what_it_evicted(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await one.call("context_gc_configure", limit_tokens=1_000, last_messages=0)
        added = await one.call("context_add", segments=[{"text": "few words"}])
        assert added["evicted"] == []
        for number in range(12):
            segment = {"text": f"log {number} " + "words " * 150, "type": "log"}
            added = await one.call("context_add", segments=[segment])
        assert added["evicted"]
        assert "Swept to make room" in one.said
        gone = added["evicted"]
        while not (back := await one.call("context_recall", segment_ids=gone[:1]))["evicted"]:
            gone = gone[1:]
        assert "Swept to make room" in one.said
        gone = back["evicted"]
        back = await one.call("context_recall", segment_ids=gone, action="show")
        assert len(back["found"]) == len(gone)

    with_agent(tmp_path, work)
