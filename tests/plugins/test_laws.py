"""What every plugin promises, on random histories in every dialect."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from marksweep.dialects import read, validate, written
from marksweep.ledger import InstructionBudget
from marksweep.messages import Message, Role
from marksweep.plugins import GCConfig, GCResult, GCTriggerReason, load_gc_plugin
from marksweep.plugins.discovery import BUILT_IN
from marksweep.testing.histories import Answered, Call, Said, Script, render_script, valid
from tests.broken_histories import broken
from tests.plugins.histories import ids

DIALECTS = ["openai_chat", "openai_responses", "anthropic", "gemini"]


def weight(message: Message) -> int:
    """Return a count that grows with the message; never 0, as with real providers."""
    results = sum(len(str(result.result)) for result in message.function_responses)
    return 4 + 7 * len(message.parts) + (len(message.text) + results) // 4


class Collected(NamedTuple):
    before: tuple[Message, ...]
    after: list[Message]
    result: GCResult
    config: GCConfig
    limit: int

    @property
    def is_hard(self) -> bool:
        """Whether the hard limit was reached, or the provider refused."""
        percent = 100 * self.result.tokens_before / self.limit
        overflow = self.result.trigger_reason is GCTriggerReason.OVERFLOW
        return overflow or int(100 * percent) >= 100 * self.config.pressure_percent


def spared(recent: Sequence[Message], *, is_hard: bool) -> list[Message]:
    """Return what recency protects: words and new work; over the hard limit the user's words."""
    if is_hard:
        return [m for m in recent if m.role is Role.USER and not m.function_responses]
    work = [m for m in recent if m.function_calls or m.function_responses]
    return [*(m for m in recent if m not in work), *work[-1:]]


def draw_and_collect(data: st.DataObject, name: str, history: list[Any], dialect: str) -> Collected:
    before = read(history, dialect).messages
    total = sum(map(weight, before))
    limit = max(1, int(total * data.draw(st.floats(0.3, 2.0))))
    config = GCConfig(
        threshold_percent=80,
        target_percent=data.draw(st.integers(0, 80)),
        preserve_recent_turns=data.draw(st.integers(0, 4)),
        pinned_turn_indices=tuple(data.draw(st.sets(st.integers(0, 5), max_size=2))),
        max_turns=data.draw(st.none() | st.integers(1, 5)),
    )
    reason = data.draw(st.sampled_from(GCTriggerReason))
    plugin = load_gc_plugin(name, {"notify_on_gc": data.draw(st.booleans())})
    budget = InstructionBudget(limit)
    budget.follow(lambda: before, weight)
    usage = {"percent_used": 100.0 * total / limit}
    after, result = plugin.collect(before, usage, config, reason, budget)  # type: ignore[arg-type]
    return Collected(before, after, result, config, limit)


def faults(messages: list[Any], dialect: str) -> Tally[str]:
    return Tally(finding.rule for finding in validate(messages, dialect))


def it_stays_valid(done: Collected, dialect: str) -> None:
    if done.after:
        assert validate(written(done.after, dialect), dialect) == []


def what_must_stay_stays(done: Collected, dialect: str) -> None:
    kept = set(ids(done.after))
    starts = [
        at
        for at, message in enumerate(done.before)
        if message.role is Role.USER and not message.function_responses
    ]
    must = {m.message_id for m in done.before if m.role is Role.SYSTEM}
    must |= {done.before[at].message_id for at in starts[:1]}
    recent = done.config.preserve_recent_turns
    if recent and starts:
        newest = done.before[starts[-min(recent, len(starts))] :]
        must |= set(ids(spared(newest, is_hard=done.is_hard)))
    for number in done.config.pinned_turn_indices:
        if number < len(starts):
            stop = starts[number + 1] if number + 1 < len(starts) else len(done.before)
            must |= set(ids(done.before[starts[number] : stop]))
    joined = set(ids(done.before)) - kept
    if len(done.after) and dialect == "gemini":
        texts = " ".join(str(message.parts) for message in done.after)
        joined = {
            m.message_id
            for m in done.before
            if m.message_id in joined and not all(str(part) in texts for part in m.parts)
        }
    assert not must & joined


def freed_tokens_are_real(done: Collected) -> None:
    assert done.result.tokens_before == sum(map(weight, done.before))
    assert done.result.tokens_after == sum(map(weight, done.after))
    assert done.result.tokens_freed >= 0
    gone = Tally(i for item in done.result.removal_list for i in item.message_ids)
    assert all(times == 1 for times in gone.values())


def the_target_is_met_or_the_result_says_what_blocks_it(done: Collected) -> None:
    if done.result.trigger_reason is GCTriggerReason.TURN_LIMIT:
        return
    target = int(done.limit * done.config.target_percent / 100)
    if done.result.tokens_after > target:
        assert "cannot reach target" in str(done.result.details["cannot_reach_target"])
    if done.result.tokens_before <= target and (
        done.result.trigger_reason is not GCTriggerReason.OVERFLOW
    ):
        assert done.after == list(done.before)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", BUILT_IN)
@settings(max_examples=settings().max_examples // 2)
@given(data=st.data())
def test_a_valid_history_stays_valid_keeps_what_must_stay_and_is_counted(
    name: str, dialect: str, data: st.DataObject
) -> None:
    history = data.draw(valid(dialect, 8))
    assume(validate(history, dialect) == [])
    done = draw_and_collect(data, name, history, dialect)
    it_stays_valid(done, dialect)
    what_must_stay_stays(done, dialect)
    freed_tokens_are_real(done)
    the_target_is_met_or_the_result_says_what_blocks_it(done)


@pytest.mark.parametrize("name", BUILT_IN)
@given(data=st.data())
def test_a_broken_history_is_not_made_worse(name: str, data: st.DataObject) -> None:
    dialect = data.draw(st.sampled_from(DIALECTS))
    history = data.draw(broken(dialect))
    done = draw_and_collect(data, name, history, dialect)
    before = faults(written(done.before, dialect), dialect)
    after = faults(written(done.after, dialect), dialect)
    assert set(after) <= set(before)


def collect_twice(name: str, history: Sequence[Message], target: int, recent: int) -> None:
    """Collect at the threshold, and check that a second collection changes nothing."""
    config = GCConfig(threshold_percent=80, target_percent=target, preserve_recent_turns=recent)
    budget = InstructionBudget(max(1, sum(map(weight, history))))
    plugin = load_gc_plugin(name)
    usage: Any = {"percent_used": 85.0}
    budget.follow(lambda: history, weight)
    once, _ = plugin.collect(history, usage, config, GCTriggerReason.THRESHOLD, budget)
    twice, result = plugin.collect(once, usage, config, GCTriggerReason.THRESHOLD, budget)
    assert twice == once
    assert result.tokens_freed == 0


@pytest.mark.parametrize("name", BUILT_IN)
@given(data=st.data())
def test_a_second_collection_changes_nothing(name: str, data: st.DataObject) -> None:
    dialect = data.draw(st.sampled_from(DIALECTS))
    history = read(data.draw(valid(dialect, 8)), dialect).messages
    collect_twice(name, history, data.draw(st.integers(0, 80)), data.draw(st.integers(0, 3)))


def read_rows(rows: int, remark: str = "use tabs", instructed: str = "") -> Answered:
    """Make a call with what the user says beside its result, and the system before it."""
    call = Call("read", {"path": "a.py"}, "line of output\n" * rows)
    return Answered(calls=(call,), remark=remark, instructed=instructed)


@pytest.mark.parametrize("name", BUILT_IN)
def test_words_beside_results_do_not_go_because_newer_results_were_trimmed(name: str) -> None:
    """The newer ones would take the room of the older ones, for which they were too large."""
    beats = (Said("go"), read_rows(6), Said("and?"), read_rows(14), Answered("done"))
    history = render_script(Script(beats), "anthropic")
    collect_twice(name, read(history, "anthropic").messages, target=0, recent=1)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_result_that_stays_with_a_locked_message_is_trimmed_at_once(name: str) -> None:
    """The second collection would find room for the words beside it, and trim it then."""
    beats = (Said("go"), read_rows(7, instructed="be brief"), read_rows(8), read_rows(12, ""))
    history = render_script(Script(beats), "anthropic")
    collect_twice(name, read(history, "anthropic").messages, target=0, recent=0)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_line_that_fits_no_target_but_for_the_notice_is_not_put(name: str) -> None:
    """The second collection would aim at the whole target, and take the line away."""

    def read_all(*results: str) -> Answered:
        return Answered(calls=tuple(Call("read", {"path": "a.py"}, each) for each in results))

    words = "all " * 41 + "!"
    lines = {n: f"line of output {n}\n" * n for n in (31, 50, 55)}
    beats = (
        Said(words),
        Answered(""),
        read_all("fix the parser", "fix the parser", lines[50]),
        read_all(lines[31], lines[50], lines[55]),
        Said("fix the parser"),
        read_all(words),
        Answered(""),
    )
    history = read(render_script(Script(beats), "openai_chat"), "openai_chat").messages
    for target in range(9, 14):
        collect_twice(name, history, target, recent=1)


@pytest.mark.parametrize("name", ["gc_budget", "gc_summarize"])
def test_a_notice_is_not_put_between_a_call_and_its_result(name: str) -> None:
    """Where a result that answers no call was between them, and went."""

    def call(*ids: str) -> dict[str, Any]:
        read_file = {"name": "read", "arguments": '{"path": "a.py"}'}
        calls = [{"id": each, "type": "function", "function": read_file} for each in ids]
        return {"role": "assistant", "content": None, "tool_calls": calls}

    def result(call_id: str, text: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": call_id, "content": text}

    stray = [call("a", "b"), result("x", "fix the parser"), result("b", "")]
    history = read([*stray, call("c"), result("c", "all " * 40)], "openai_chat").messages
    tokens = sum(map(weight, history))
    budget = InstructionBudget(tokens // 2)
    budget.follow(lambda: history, weight)
    plugin = load_gc_plugin(name, {"notify_on_gc": True})
    config = GCConfig(target_percent=0, preserve_recent_turns=0)
    usage: Any = {"percent_used": 200.0}
    left, _ = plugin.collect(history, usage, config, GCTriggerReason.THRESHOLD, budget)
    assert len(left) < len(history)
    assert "results-follow-calls" not in faults(written(left, "openai_chat"), "openai_chat")
