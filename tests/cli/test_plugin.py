"""The plugin for Claude Code and what it calls. The real client runs it: make clients."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from marksweep.dialects import validate
from marksweep.fit import Fit
from marksweep.model import utc_now
from marksweep.proxy.hooks import stashed
from marksweep.recalling import recall
from marksweep.segments import Segments
from marksweep.stores.open import open_store
from tests.dialects.test_chain import line, session
from tests.test_fit import work


def run(folder: Path, *words: str, given: Any = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "marksweep", *words],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        input=given if isinstance(given, str) else json.dumps(given),
        timeout=60,
    )


BULKY = "".join(f"line {n} of the output\n" for n in range(900))


def used(stdout: str, **more: Any) -> dict[str, Any]:
    response = {"stdout": stdout, "stderr": "", "interrupted": False, "isImage": False, **more}
    base = {"session_id": "s1", "tool_name": "Bash", "tool_input": {"command": "make test"}}
    return {**base, "hook_event_name": "PostToolUse", "tool_response": response}


def test_bulky_output_is_shortened_in_its_own_shape_and_the_rest_is_found(tmp_path: Path) -> None:
    done = run(tmp_path, "hook", "post-tool-use", given=used(BULKY))
    said = json.loads(done.stdout)["hookSpecificOutput"]
    short = said["updatedToolOutput"]
    assert said["hookEventName"] == "PostToolUse"
    assert {**short, "stdout": ""} == {**used("")["tool_response"]}
    assert short["stdout"].startswith("line 0 of")
    assert short["stdout"].endswith("line 899 of the output\n")
    names = re.findall(r'recall\("(h\d+\.1)"\)', short["stdout"])
    assert "Bash make test" in short["stdout"]
    assert len(short["stdout"]) < len(BULKY) / 2
    assert "line 450 of" in run(tmp_path, "swept", names[0], "--limit", "100000").stdout
    again = run(tmp_path, "hook", "post-tool-use", given=used(BULKY + "x"))
    assert f'recall(\\"{names[0][:-1]}2\\")' in again.stdout


@pytest.mark.parametrize("name", ["post-tool-use", "fit"])
def test_a_client_writes_utf_8_whatever_the_encoding_of_the_system(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    text = "žluťoučký kůň\n" + BULKY
    ask = {"request": {"messages": [{"role": "user", "content": text}, *work("ž", 5)]}}
    event = used(text) if name == "post-tool-use" else ask
    done = subprocess.run(
        [sys.executable, "-m", "marksweep", "hook", name, "--limit", "5k"],
        check=True,
        capture_output=True,
        cwd=tmp_path,
        input=b"\xff\n" * (name == "fit") + json.dumps(event, ensure_ascii=False).encode(),
    )
    assert "žluťoučký kůň" in json.dumps(
        [json.loads(line) for line in done.stdout.splitlines()], ensure_ascii=False
    )


def test_the_outputs_of_parallel_calls_are_all_found(tmp_path: Path) -> None:
    """The client runs their hooks at the same time, each in its own process."""
    stores = [open_store(tmp_path / "hooks.db") for _ in range(4)]
    start = Barrier(len(stores))

    def keep(number: int) -> dict[str, str]:
        start.wait()
        texts = [f"output {n} of call {number}" for n in range(5)]
        return {stashed(stores[number], "s1", [text], utc_now())[0]: text for text in texts}

    with ThreadPoolExecutor(len(stores)) as hooks:
        kept = list(hooks.map(keep, range(len(stores))))
    assert len({name for each in kept for name in each}) == 20
    for name, text in (pair for each in kept for pair in each.items()):
        assert recall(stores[0], name) == text
    for store in stores:
        store.close()


@pytest.mark.parametrize(
    "event",
    [
        used("short"),
        used(BULKY, isImage=True),
        {"tool_response": BULKY},
        {"tool_response": None},
        {},
        [],
        "not json",
    ],
)
def test_what_is_short_or_strange_is_left_alone(tmp_path: Path, event: Any) -> None:
    done = run(tmp_path, "hook", "post-tool-use", given=event)
    assert (done.returncode, done.stdout) == (0, "")


def transcript(folder: Path) -> Path:
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None}
    path = folder / "session.jsonl"
    lines = [*session(3), boundary, line("s", "b", "user", "This session is being continued")]
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


def test_after_one_was_restored_the_next_gets_a_number_of_its_own(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "store.db")) as store:
        names = stashed(store, "s1", ["one", "two", "three"], utc_now())
        Segments(store, workspace="fit:hook:s1").restore(names[1])
        names += stashed(store, "s1", ["four"], utc_now())
        assert len(set(names)) == 4
        assert recall(store, names[3]) == "four"


def test_a_long_session_is_kept_as_long_as_something_is_added_to_it(tmp_path: Path) -> None:
    now = utc_now()
    with closing(open_store(tmp_path / "store.db")) as store:
        names = stashed(store, "s1", ["the first output"], now - timedelta(days=40))
        names += stashed(store, "s1", ["the newest output"], now - timedelta(days=1))
        stashed(store, "s2", ["an old output"], now - timedelta(days=40))
        assert Fit(1_000, store=store).expire(now - timedelta(days=30)) == 1
        assert "the first output" in recall(store, names[0])
        assert "the newest output" in recall(store, names[1])


def test_what_a_compaction_would_lose_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in session(3)))
    event = {"session_id": "s1", "transcript_path": str(path), "trigger": "auto"}
    assert run(tmp_path, "hook", "pre-compact", given=event).stdout == ""
    assert "content of file 2" in run(tmp_path, "swept", "content", "file", "2").stdout


def test_after_a_compaction_the_task_is_injected_again(tmp_path: Path) -> None:
    event = {"session_id": "s1", "transcript_path": str(transcript(tmp_path))}
    done = run(tmp_path, "hook", "session-start", given={**event, "source": "compact"})
    said = json.loads(done.stdout)["hookSpecificOutput"]
    assert "fix the parser" in said["additionalContext"]
    assert run(tmp_path, "hook", "session-start", given={**event, "source": "startup"}).stdout == ""


def test_the_plugin_is_a_new_folder_and_overwrites_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, "plugin", "claude", "here").returncode == 0
    written = {str(p.relative_to(tmp_path / "here")) for p in (tmp_path / "here").rglob("*.json")}
    assert written == {".claude-plugin/plugin.json", "hooks/hooks.json", ".mcp.json"}
    assert run(tmp_path, "plugin", "claude", "here").returncode == 3
    assert run(tmp_path, "plugin", "vim", "there").returncode == 2
    assert run(tmp_path, "hook", "unheard", given={}).returncode == 2


@pytest.mark.parametrize("agent", ["opencode", "pi"])
def test_the_javascript_plugins_run_this_installation_of_marksweep(
    agent: str, tmp_path: Path
) -> None:
    assert run(tmp_path, "plugin", agent, "here", "--limit", "60k").returncode == 0
    asking = (tmp_path / "here" / "fit.js").read_text()
    assert json.dumps([sys.executable, "-m", "marksweep"]) in asking
    assert '"60k"' in asking
    package = json.loads((tmp_path / "here" / "package.json").read_text())
    assert package["type"] == "module"
    assert 'from "./fit.js"' in (tmp_path / "here" / "index.js").read_text()
    assert run(tmp_path, "plugin", agent, "there", "--limit", "much").returncode == 2
    assert not (tmp_path / "there").exists()


def test_requests_of_a_plugin_are_fitted_line_by_line_and_other_lines_stay_unchanged(
    tmp_path: Path,
) -> None:
    history = work("a task of a plugin", 20)
    ends = range(1, len(history) + 1, 2)
    asked = [{"key": "a", "request": {"messages": history[:end]}} for end in ends]
    lines = [json.dumps(each | {"dialect": "anthropic"}) for each in asked]
    lines[3:3] = ["not json", '{"request": 17}', '{"request": {"messages": []}}']
    done = run(tmp_path, "hook", "fit", "--limit", "3k", given="\n".join(lines))
    answers = [json.loads(line)["kept"] for line in done.stdout.splitlines()]
    assert len(answers) == len(lines)
    assert answers[:6] == [None] * 6
    assert done.stderr.count("marksweep hook fit: ") == 3
    kept = [each["message"] or history[each["at"]] for each in answers[-1]]
    assert not validate(kept, "anthropic")
    assert len(json.dumps(kept)) < len(json.dumps(history)) / 2
    assert 'recall("m' in str(kept)
