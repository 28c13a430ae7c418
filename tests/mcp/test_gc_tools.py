"""The tools that collect: analyze, prune, undo, history."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from marksweep.errors import PlanOutdated
from marksweep.mcp.gc_tools import _carry_out
from marksweep.model import Action
from marksweep.segments import Segments
from marksweep.strategies.scored import Disposal
from marksweep.testing.builders import Clock
from tests.mcp.support import Agent, data_of, with_agent


def test_an_analysis_reports_usage_candidates_and_a_plan(tmp_path: Path, mode: str) -> None:
    async def work(one: Agent) -> None:
        await one.add("a", "b", "c")
        found = await one.call("context_gc_analyze", target_tokens=0, max_candidates=2)
        assert found["plan_id"].startswith("plan-")
        assert found["candidates_total"] == 3
        assert len(found["candidates"]) == 2
        first = found["candidates"][0]
        assert first["type"] == "log"
        assert first["action"] == "stash"
        assert 0 <= first["score"] <= 1
        assert "unreachable" in first["reason"]
        assert found["tokens_after"] == 0
        assert found["usage"]["current"] == found["tokens_before"]
        assert found["usage"]["soft_limit"] < found["usage"]["hard_limit"]
        assert not found["applied"]
        assert await one.live("a", "b", "c") == ["a", "b", "c"]

    with_agent(tmp_path, work, mode)


def test_scores_can_be_left_out(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await one.add("a")
        found = await one.call("context_gc_analyze", target_tokens=0, include_scores=False)
        assert found["candidates"][0]["score"] is None

    with_agent(tmp_path, work)


def test_an_analysis_that_is_not_a_dry_run_sweeps(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await one.add("a", "b")
        done = await one.call("context_gc_analyze", target_tokens=0, dry_run=False)
        assert done["applied"]
        assert done["usage"]["current"] == 0
        assert await one.live("a", "b") == []
        again = await one.call("context_gc_analyze", target_tokens=0, dry_run=False)
        assert again["candidates_total"] == 0
        assert "Nothing to prune" in one.said

    with_agent(tmp_path, work)


def test_an_agent_prunes_what_it_names_unless_it_is_pinned_or_locked(tmp_path: Path) -> None:
    names = ["task", "active", "said", "decided", "rule", "dear", "pin", "lock", "mate", "owned"]

    def segment(name: str, **given: Any) -> dict[str, Any]:
        return {"segment_id": name, "text": f"{name} words " * 9, **given}

    async def work(one: Agent) -> None:
        await one.call(
            "context_add",
            segments=[
                segment("task", task_id="t"),
                segment("active", file_path="a.py"),
                segment("said", type="message"),
                segment("decided", type="decision"),
                segment("rule", tags=["constraint"]),
                segment("dear", policy="preservable"),
                segment("pin"),
                segment("lock", policy="locked"),
                segment("mate", references=[{"target": "lock", "hold": "paired"}]),
                segment("owned", policy="conditional"),
            ],
        )
        await one.call("context_focus", task="t", active_file="a.py")
        await one.call("context_gc_pin", segment_ids=["pin"], reason="for later")
        assert (await one.call("context_gc_analyze", target_tokens=0))["candidates"] == []
        done = await one.call("context_gc_prune", segment_ids=names)
        assert done["stashed"] == ["task", "active", "said", "decided", "rule", "dear"]
        why = {each["segment_id"]: each["reason"] for each in done["kept"]}
        assert set(why) == {"pin", "lock", "mate", "owned"}
        assert "for later" in why["pin"]
        assert why["lock"] == "locked by its policy"
        assert why["mate"] == "paired with 'lock', which is locked by its policy"
        assert why["owned"] == "conditional, and its owner has not released it"
        await one.call("context_gc_undo", plan_id=done["plan_id"])
        assert await one.live(*names) == names

    with_agent(tmp_path, work)


def test_what_is_in_use_long_and_untouched_is_offered_for_compression(tmp_path: Path) -> None:
    clock = Clock()
    with closing(Segments(tmp_path / ".marksweep" / "store.db", clock=clock)) as context:
        context.write("overview", tags=["overview"], references=["cold", "short", "fresh"])
        context.write("what was found out: " * 300, type="decision", segment_id="cold")
        context.write("brief", segment_id="short")
        clock.advance(hours=3)
        context.write("just read: " * 300, segment_id="fresh")
        (found,) = context.cold_but_important()
        assert (found.segment_id, found.action) == ("cold", Action.COMPRESS)

    async def work(one: Agent) -> None:
        found = await one.call("context_gc_analyze")
        assert found["candidates"] == []
        by_id = {each["segment_id"]: each for each in found["compressible"]}
        assert by_id["cold"]["action"] == "compress"
        assert by_id["cold"]["reason"].startswith("cold but important: reached from a root")
        assert "\n" not in one.said
        assert "short" not in by_id
        assert (await one.call("context_gc_analyze", max_candidates=0))["compressible"] == []
        short = await one.call("context_gc_compress", segment_id="cold", text="found out: 42")
        assert short["tokens_after"] < short["tokens_before"]
        again = await one.call("context_gc_analyze")
        assert "cold" not in {each["segment_id"] for each in again["compressible"]}

    with_agent(tmp_path, work)


def test_an_analysis_never_deletes_without_a_confirmation(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await one.add("a")
        words = await one.fail(
            "context_gc_analyze", target_tokens=0, dry_run=False, strategy="delete"
        )
        assert "was not confirmed" in words
        assert "context_gc_prune with plan_id and confirm" in words
        assert await one.live("a") == ["a"]
        (plan,) = set(re.findall(r"plan-[0-9a-f]+", words))
        await one.call("context_gc_prune", plan_id=plan, confirm=plan)
        assert await one.live("a") == []

    with_agent(tmp_path, work)


def test_names_of_choices_may_be_written_in_capitals(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await one.call("context_add", segments={"text": "x", "segment_id": "a", "policy": "LOCKED"})
        kept = await one.call("context_gc_prune", segment_ids="a", strategy="STASH")
        assert [each["segment_id"] for each in kept["kept"]] == ["a"]

    with_agent(tmp_path, work)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"max_candidates": -1}, "'max_candidates' is -1"),
        ({"target_tokens": -5}, "'target_tokens' is -5"),
        ({"strategy": "burn"}, "'stash', 'auto' or 'delete'"),
        ({"verbose": True}, "no parameter 'verbose'"),
        ({"transcript": "nowhere.jsonl"}, "cannot be read"),
        ({"transcript": "/etc/passwd"}, "outside the folders"),
        ({"transcript": "../../etc/passwd"}, "outside the folders"),
        ({"transcript": "."}, "is not a file"),
        ({"transcript": "a.jsonl", "dry_run": False}, "only analyzed"),
    ],
)
def test_a_bad_analysis_says_what_was_expected(
    tmp_path: Path, arguments: dict[str, Any], expected: str
) -> None:
    async def work(one: Agent) -> None:
        assert expected in await one.fail("context_gc_analyze", **arguments)

    with_agent(tmp_path, work)


def session_lines(path: Path) -> None:
    """Write a Claude Code session in which one file is read three times."""
    source = "\n".join(f"line {number} of the file" for number in range(200))
    lines: list[dict[str, Any]] = [
        {"type": "user", "message": {"role": "user", "content": "fix the parser"}}
    ]
    for number in range(3):
        call = {
            "type": "tool_use",
            "id": f"t{number}",
            "name": "Read",
            "input": {"file_path": "a.py"},
        }
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": source}
        lines.append({"type": "assistant", "message": {"role": "assistant", "content": [call]}})
        lines.append({"type": "user", "message": {"role": "user", "content": [result]}})
    done = {"role": "assistant", "content": [{"type": "text", "text": "done"}]}
    lines.append({"type": "assistant", "message": done})
    rows = [json.dumps({"uuid": f"u{n}", "sessionId": "s", **line}) for n, line in enumerate(lines)]
    path.write_text("\n".join([*rows, '{"cut off']))


def test_a_transcript_is_weighed_with_progress_and_left_alone(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "session.jsonl"
    session_lines(path)
    before = path.read_bytes()
    reports: list[tuple[float, float | None, str | None]] = []

    async def work(one: Agent) -> None:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            reports.append((progress, total, message))

        result = await one.client.call_tool(
            "context_gc_analyze", {"transcript": "session.jsonl"}, progress_callback=report
        )
        found = data_of(result)
        transcript = found["transcript"]
        assert transcript["dialect"] == "claude_code"
        assert transcript["skipped_lines"] == 1
        assert transcript["dead_tokens"] > found["tokens_before"] / 2
        assert sum(each["messages"] for each in transcript["dead_weight"]) == 2
        assert "superseded" in transcript["dead_weight"][0]["reason"]
        assert found["candidates_total"] == 2
        assert found["plan_id"] == ""

    with_agent(tmp_path, work, mode)
    assert path.read_bytes() == before
    assert [done for done, _, _ in reports] == [0, 1, 2, 3]


def rollout_lines(path: Path) -> None:
    """Write a Codex session in which a command is run twice and prints the same."""
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}
    items: list[dict[str, Any]] = [said]
    for number in range(2):
        arguments = json.dumps({"command": ["cat", "a.py"]})
        call = {"type": "function_call", "call_id": f"c{number}", "name": "shell"}
        answer = {"type": "function_call_output", "call_id": f"c{number}"}
        items += [call | {"arguments": arguments}, answer | {"output": "the same line\n" * 90}]
    rows = [{"type": "response_item", "payload": item} for item in items]
    meta = {"type": "session_meta", "payload": {"id": "x", "instructions": None}}
    path.write_text("\n".join(json.dumps({"timestamp": "t", **row}) for row in [meta, *rows]))


def test_a_codex_session_is_weighed_with_reasons(tmp_path: Path, mode: str) -> None:
    rollout_lines(tmp_path / "rollout.jsonl")

    async def work(one: Agent) -> None:
        found = await one.call("context_gc_analyze", transcript="rollout.jsonl")
        transcript = found["transcript"]
        assert (transcript["dialect"], transcript["messages"]) == ("codex", 5)
        assert [each["reason"] for each in transcript["dead_weight"]] == [
            "superseded: the same call was made again"
        ]
        assert transcript["dead_tokens"] == transcript["dead_weight"][0]["tokens"] > 0
        assert "dead weight" in one.said

    with_agent(tmp_path, work, mode)


def test_a_transcript_behind_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    session_lines(outside / "session.jsonl")
    (inside / "link.jsonl").symlink_to(outside / "session.jsonl")

    async def work(one: Agent) -> None:
        words = await one.fail("context_gc_analyze", transcript="link.jsonl")
        assert "outside the folders" in words

    with_agent(inside, work)


def test_a_file_that_is_not_a_session_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\nworld\n")
    (tmp_path / "cut.json").write_text('{"messages": [')

    async def work(one: Agent) -> None:
        words = await one.fail("context_gc_analyze", transcript="notes.txt")
        assert "line 1 is not JSON" in words
        assert "is not JSON" in await one.fail("context_gc_analyze", transcript="cut.json")

    with_agent(tmp_path, work)


def test_a_plan_is_pruned_exactly_and_undone(tmp_path: Path, mode: str) -> None:
    async def work(one: Agent) -> None:
        await one.add("a", "b", "c")
        await one.call("context_gc_pin", segment_ids=["b"])
        plan = (await one.call("context_gc_analyze", target_tokens=0))["plan_id"]
        pruned = await one.call("context_gc_prune", plan_id=plan)
        assert sorted(pruned["stashed"]) == ["a", "c"]
        assert pruned["deleted"] == []
        assert pruned["tokens_freed"] == pruned["tokens_before"] - pruned["tokens_after"] > 0
        assert await one.live("a", "b", "c") == ["b"]
        undone = await one.call("context_gc_undo")
        assert undone["plan_id"] == plan
        assert sorted(undone["restored"]) == ["a", "c"]
        assert await one.live("a", "b", "c") == ["a", "b", "c"]
        events = (await one.call("context_gc_history"))["events"]
        assert [each["event"] for each in events[:4]] == [
            "undone",
            "restoring",
            "swept",
            "sweeping",
        ]
        assert events[2]["tokens_freed"] == pruned["tokens_freed"]

    with_agent(tmp_path, work, mode)


def test_a_plan_whose_heap_has_changed_is_refused(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await one.add("a")
        plan = (await one.call("context_gc_analyze", target_tokens=0))["plan_id"]
        await one.add("b")
        words = await one.fail("context_gc_prune", plan_id=plan)
        assert "Plan again" in words
        assert await one.live("a", "b") == ["a", "b"]

    with_agent(tmp_path, work)


def test_a_deletion_needs_the_plans_id(tmp_path: Path, mode: str) -> None:
    async def work(one: Agent) -> None:
        await one.add("a", "b")
        words = await one.fail("context_gc_prune", segment_ids=["a"], strategy="delete")
        assert await one.live("a") == ["a"]
        plan = words.split()[0]
        assert f"confirm both '{plan}'" in words
        wrong = await one.fail("context_gc_prune", plan_id=plan, confirm="plan-else")
        assert "not confirmed" in wrong
        pruned = await one.call("context_gc_prune", plan_id=plan, confirm=plan)
        assert pruned["deleted"] == ["a"]
        assert pruned["stashed"] == []
        assert await one.live("a", "b") == ["b"]
        assert (await one.call("context_gc_undo", plan_id=plan))["restored"] == ["a"]

    with_agent(tmp_path, work, mode)


def test_auto_stashes_what_is_not_old(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await one.add("a")
        pruned = await one.call("context_gc_prune", segment_ids=["a"], strategy="auto")
        assert (pruned["stashed"], pruned["deleted"]) == (["a"], [])

    with_agent(tmp_path, work)


def test_auto_deletes_old_logs_and_stashes_the_rest_once_confirmed(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await one.call("context_gc_configure", delete_after_hours=0)
        await one.add("old")
        code = {"text": "def f(): ...", "type": "code", "segment_id": "code"}
        await one.call("context_add", segments=[code])
        words = await one.fail("context_gc_prune", segment_ids=["code", "old"], strategy="auto")
        plan = words.split()[0]
        pruned = await one.call("context_gc_prune", plan_id=plan, confirm=plan)
        assert (pruned["stashed"], pruned["deleted"]) == (["code"], ["old"])

    with_agent(tmp_path, work)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "either segment_ids or plan_id"),
        ({"segment_ids": ["a"], "plan_id": "p"}, "either segment_ids or plan_id"),
        ({"segment_ids": ["nowhere"]}, "not live: nowhere"),
        ({"segment_ids": {"a": 1}}, "'segment_ids.0' is {'a': 1}; expected"),
        ({"segment_ids": [""]}, "segment_ids.0"),
        ({"plan_id": "plan-none"}, "no plan 'plan-none'"),
        ({"segment_ids": ["a"], "strategy": "eat"}, "'stash', 'auto' or 'delete'"),
        ({"segment_ids": ["a"], "force": True}, "no parameter 'force'"),
    ],
)
def test_a_bad_prune_is_refused_and_changes_nothing(
    tmp_path: Path, arguments: dict[str, Any], expected: str
) -> None:
    async def work(one: Agent) -> None:
        await one.add("a")
        assert expected in await one.fail("context_gc_prune", **arguments)
        assert await one.live("a") == ["a"]

    with_agent(tmp_path, work)


def test_a_stashing_plan_is_not_turned_into_a_deletion(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await one.add("a")
        plan = (await one.call("context_gc_analyze", target_tokens=0))["plan_id"]
        words = await one.fail("context_gc_prune", plan_id=plan, strategy="delete", confirm=plan)
        assert "stashes, and strategy is 'delete'" in words

    with_agent(tmp_path, work)


def test_there_is_nothing_to_undo_at_first(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        assert "nothing to undo" in await one.fail("context_gc_undo")
        assert "plan-none" in await one.fail("context_gc_undo", plan_id="plan-none")
        assert "no parameter" in await one.fail("context_gc_undo", plan="x")

    with_agent(tmp_path, work)


def test_history_starts_empty_and_is_limited(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        assert (await one.call("context_gc_history"))["events"] == []
        assert "empty" in one.said
        for number in range(3):
            await one.call("context_add", segments=[{"text": f"note {number}", "type": "note"}])
            await one.call("context_gc_analyze")
        assert len((await one.call("context_gc_history"))["events"]) == 3
        assert len((await one.call("context_gc_history", limit=2))["events"]) == 2
        assert "'limit' is 0" in await one.fail("context_gc_history", limit=0)
        assert "'limit' is 'many'" in await one.fail("context_gc_history", limit="many")

    with_agent(tmp_path, work)


def test_named_segments_are_planned_again_when_others_change_the_heap() -> None:
    context = Segments("memory:")
    for name in ("a", "b"):
        context.write("some words", segment_id=name, type="log")
    plan = context.plan_for(["a"])
    context.write("somebody else", segment_id="c")
    with pytest.raises(PlanOutdated):
        _carry_out(context, plan, [], Disposal.STASH)
    done, report = _carry_out(context, plan, ["a"], Disposal.STASH)
    assert report.swept == ("a",)
    assert done.plan_id != plan.plan_id


def test_planning_again_never_deletes_what_was_not_agreed_to() -> None:
    context = Segments("memory:")
    context.write("some words", segment_id="a", type="log")
    stashes = context.plan_for(["a"])
    context.write("somebody else", segment_id="b")
    with pytest.raises(PlanOutdated):
        _carry_out(context, stashes, ["a"], Disposal.DELETE)
    assert context.get("a") is not None
