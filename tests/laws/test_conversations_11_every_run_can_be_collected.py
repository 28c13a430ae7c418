"""Law 11 on conversations: whatever the strategy, what can be made to fit the limit fits it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marksweep import tidy, validate
from marksweep.conversation import Conversation
from marksweep.core.budget import Budget
from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.dialects import read, written
from marksweep.errors import ContextOverflow, OverLimitWarning
from marksweep.messages import FunctionCall, Message, Part, Role, count_message, starts_turn
from marksweep.plugins import GCConfig, GCTriggerReason, load_gc_plugin
from marksweep.plugins.discovery import BUILT_IN
from marksweep.session import Session, Tool
from marksweep.testing.histories import Answered, Call, Said, Script, render_script
from tests.laws.talking import PROVIDERS, each_strategy

LIMIT = 3_000
LINES = "\n".join(f"{n:5}\tvalue_{n} = compute(value_{n - 1}, {n})" for n in range(1, 1_200))
"""Several times the limit."""

SUMMARIZING = {"gc_summarize", "gc_hybrid"}
"""Plugins that keep what they cannot summarise, unless it does not fit the limit."""


def huge(dialect: str, *, is_answered: bool) -> list[Any]:
    """Make a history with a result larger than the window."""
    ends = (Answered("I have read it."), Said("go on")) if is_answered else ()
    read = Answered("Let me look.", calls=(Call("read", {"path": "src/app.py"}, LINES),))
    return render_script(Script((Said("fix the parser"), read, *ends)), dialect)


@each_strategy
@pytest.mark.parametrize("is_answered", [True, False])
def test_a_result_larger_than_the_window_is_trimmed_to_fit(
    strategy: Any, is_answered: bool
) -> None:
    for dialect in PROVIDERS if strategy == "coverage" else PROVIDERS[::2]:
        messages = huge(dialect, is_answered=is_answered)
        talk = Conversation(limit=LIMIT, strategy=strategy, dialect=dialect)
        talk.extend(messages)
        left = talk.messages
        assert talk.tokens <= LIMIT
        assert validate(left, dialect) == []
        if not is_answered:
            assert "    1\\tvalue_1" in str(left)
            assert " lines of src/app.py left out, " in str(left)
        tidied = tidy(messages, limit=LIMIT, strategy=strategy, dialect=dialect)
        again = Conversation(limit=10**9, dialect=dialect)
        again.extend(tidied)
        assert again.tokens <= LIMIT
        talk.undo()
        assert [m.raw for m in talk.history] == messages


@each_strategy
def test_a_result_that_stays_with_a_system_message_is_trimmed_to_fit(strategy: Any) -> None:
    read = Answered(calls=(Call("read", {"path": "a.py"}, LINES),), instructed="be brief")
    beats = (Said("fix the parser"), read, Answered("I have read it."), Said("go on"))
    talk = Conversation(limit=LIMIT, strategy=strategy, dialect="anthropic")
    talk.extend(render_script(Script(beats), "anthropic"))
    left = talk.messages
    assert talk.tokens <= LIMIT
    assert "be brief" in str(left)
    assert validate(left, "anthropic") == []


@each_strategy
@settings(max_examples=8)
@given(data=st.data())
def test_what_may_go_or_be_trimmed_never_keeps_a_conversation_above_its_limit(
    strategy: Any, data: st.DataObject
) -> None:
    beats: list[Any] = [Said("fix the parser")]
    for n in range(data.draw(st.integers(1, 6))):
        result = "\n".join(f"line {k} of {n}" for k in range(data.draw(st.integers(0, 400))))
        beats.append(Answered(f"step {n}", calls=(Call("read", {"path": f"{n}.py"}, result),)))
        if data.draw(st.booleans()):
            beats.append(Said(f"and then {n}"))
    dialect = data.draw(st.sampled_from(PROVIDERS))
    talk = Conversation(limit=600, strategy=strategy, dialect=dialect)
    talk.extend(render_script(Script(tuple(beats)), dialect))
    assert validate(talk.messages, dialect) == []
    assert talk.tokens <= 600


class OffersNothing:
    name = "nothing"

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        return iter(())


def test_results_are_trimmed_before_the_users_words_go_whatever_the_strategy_offers() -> None:
    read = Answered("Let me look.", calls=(Call("read", {"path": "src/app.py"}, LINES),))
    script = Script((Said("fix the parser"), Answered("Which one?"), Said("that of dates"), read))
    talk = Conversation(limit=LIMIT, strategy=OffersNothing())
    talk.extend(render_script(script, "openai_chat"))
    assert "that of dates" in str(talk.messages)
    assert " lines of src/app.py left out, " in str(talk.messages)
    assert talk.tokens <= LIMIT


def test_a_paste_larger_than_the_window_keeps_its_ends_and_the_words_around_it() -> None:
    asked = f"Why does this fail?\n\n```\n{LINES}\n```\n\nPlease be brief."
    talk = Conversation(limit=LIMIT)
    talk.extend([{"role": "user", "content": asked}])
    (left,) = talk.messages
    said = left["content"]
    assert talk.tokens <= LIMIT
    assert said.startswith("Why does this fail?\n\n```\n    1\tvalue_1 =")
    assert said.endswith(" 1199)\n```\n\nPlease be brief.")
    assert said.count("[marksweep: ") == 1


def test_what_somebody_wrote_in_many_small_paragraphs_is_trimmed_to_fit_too() -> None:
    notes = "\n\n".join(f"Point {n}: value_{n} follows from value_{n - 1}." for n in range(1, 900))
    said = {"role": "user", "content": f"Read this.\n\n{notes}\n\nWhat is missing?"}
    wrote = {"role": "assistant", "content": f"My notes.\n\n{notes}\n\nThat is all."}
    for messages in ([said], [said, wrote, {"role": "user", "content": "go on"}]):
        talk = Conversation(limit=LIMIT)
        talk.extend(messages)
        left = [message["content"] for message in talk.messages]
        assert talk.tokens <= LIMIT
        assert left[0].startswith("Read this.\n\nPoint 1:")
        assert left[0].endswith("\n\nWhat is missing?")
        assert all(text.count("[marksweep: ") <= 1 for text in left)


@pytest.mark.parametrize("lines", [16, 30])
def test_what_comes_back_never_takes_a_request_above_the_limit(lines: int) -> None:
    talk = Conversation(limit=1_000, dialect="openai_chat")
    talk.extend([{"role": "user", "content": "Find out which value is wrong."}])
    for n in range(30):
        names = [
            f"value_{(n * 11 + k) % 97} = compute({n}, {k}) # and some words about it"
            for k in range(lines + n * 13 % lines)
        ]
        asked = {"name": "read", "arguments": f'{{"path": "part_{n % 5}.py"}}'}
        call = {"id": f"c{n}", "type": "function", "function": asked}
        said = f"value_{n % 9} and value_{n * 5 % 31}"
        looks = {"role": "assistant", "content": f"I look at {said}.", "tool_calls": [call]}
        result = {"role": "tool", "tool_call_id": f"c{n}", "content": "\n".join(names)}
        answer = {"role": "assistant", "content": "done"}
        for new in ([looks, result], [answer, {"role": "user", "content": f"Now {said}. " * 4}]):
            talk.extend(new)
            assert validate(talk.messages, "openai_chat") == []
            assert talk.tokens <= 1_000


def test_the_users_words_stay_where_trimming_a_result_is_enough() -> None:
    read = Answered("Let me look.", calls=(Call("read", {"path": "src/app.py"}, LINES),))
    turns = (Said("fix the parser"), Answered("Done."), Said("mind the tabs"), Answered("Yes."))
    talk = Conversation(limit=LIMIT, strategy="truncate", dialect="openai_chat")
    talk.extend(render_script(Script((*turns, Said("go on"), read)), "openai_chat"))
    said = [message["content"] for message in talk.messages if message["role"] == "user"]
    assert talk.tokens <= LIMIT
    assert {"fix the parser", "mind the tabs", "go on"} <= set(said)


def test_what_cannot_fit_is_said_aloud() -> None:
    talk = Conversation(limit=20)
    talk.extend([{"role": "user", "content": "these words are pinned " * 20}], pin=True)
    with pytest.warns(OverLimitWarning, match="do not fit the limit of 20.*pinned by the caller"):
        assert len(talk.messages) == 1
    assert talk.plan().blockers


def test_the_users_words_go_last_and_the_oldest_first_and_the_plan_says_so() -> None:
    talk = Conversation(limit=200, strategy="truncate", budget=Budget.at_limit(200))
    for n in range(12):
        talk.extend([{"role": "user", "content": f"wish {n} " * 4}])
        talk.extend([{"role": "assistant", "content": f"answer {n} " * 20}])
    plan = talk.plan()
    assert plan.size_after <= 200
    talk.collect(plan)
    said = [m.text.split()[1] for m in talk.history if starts_turn(m)]
    assert said == ["0", *said[1:]]
    assert said[1:] == [str(n) for n in range(12 - len(said) + 1, 12)]


@pytest.mark.parametrize("name", BUILT_IN)
def test_one_request_with_sixty_calls_finishes_under_every_plugin(name: str) -> None:
    calls = 0

    def respond(history: Any) -> Message:
        nonlocal calls
        calls += 1
        size = sum(map(count_message, history))
        if size > 20_000:
            raise ContextOverflow(f"{size} tokens > 20000 maximum")
        if calls > 60:
            return Message.from_text(Role.MODEL, "done")
        call = FunctionCall(f"c{calls}", "read", {"path": f"{calls}.py"})
        return Message(Role.MODEL, (Part(function_call=call),))

    def read_file(path: str) -> str:
        lines = 9_000 if calls == 40 else 200  # the fortieth is larger than the window
        return "\n".join(f"{path}: line {n} says so" for n in range(lines))

    chat = Session(respond, context_limit=20_000, tools=[Tool("read", "Read a file.", read_file)])
    chat.set_gc_plugin(load_gc_plugin(name), GCConfig())
    assert chat.send_message("look at all files").text == "done"
    assert calls == 61, "no request was refused as too long"
    collections = chat.get_gc_history()
    assert len(collections) > 5
    assert all(result.success for result in collections)


@pytest.mark.parametrize("name", sorted({*BUILT_IN} - SUMMARIZING))
@settings(max_examples=20)
@given(data=st.data())
def test_at_the_hard_limit_only_what_must_stay_keeps_a_plugin_from_its_target(
    name: str, data: st.DataObject
) -> None:
    beats: list[Any] = [Said("fix the parser")]
    for n in range(data.draw(st.integers(1, 6))):
        wrote = f"step {n}: " + f"I found value_{n} in the parser and think about it. " * 6
        result = "\n".join(f"line {k} of {n}" for k in range(data.draw(st.integers(20, 400))))
        calls = (Call("read", {"path": f"{n}.py"}, result),) if data.draw(st.booleans()) else ()
        beats.append(Answered(wrote, calls=calls))
        if not calls:
            beats.append(Said(f"and then {n}?" + data.draw(st.sampled_from(["", f"\n\n{LINES}"]))))
    system = ("be brief " * data.draw(st.sampled_from([1, 400])),)
    dialect = data.draw(st.sampled_from(PROVIDERS))
    before = read(render_script(Script(tuple(beats), system), dialect), dialect).messages
    config = GCConfig(preserve_recent_turns=data.draw(st.integers(0, 5)))
    window = int(sum(map(count_message, before)) * 100 / config.pressure_percent)
    usage: Any = {"context_limit": window, "percent_used": config.pressure_percent}
    after, _ = load_gc_plugin(name).collect(before, usage, config, GCTriggerReason.THRESHOLD)
    assert validate(written(after, dialect), dialect) == []
    if sum(map(count_message, after)) > window * config.target_percent / 100:
        last = max(at for at, message in enumerate(before) if message.role is Role.MODEL)
        while before[last - 1].role is Role.MODEL:
            last -= 1
        may_go = [m for m in before[:last] if m.role is not Role.SYSTEM and not starts_turn(m)]
        assert not {m.message_id for m in may_go} & {m.message_id for m in after}
        assert max(count_message(m) for m in after if m.role is not Role.SYSTEM) < 400
