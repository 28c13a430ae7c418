"""What coverage swept comes back when the newest messages mention it, as an ordinary plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from marksweep import Conversation, validate
from marksweep.core.laws import broken_laws
from marksweep.errors import NotFound
from marksweep.model import Action, Entry, Event
from marksweep.stores.sqlite import SqliteStore
from marksweep.testing.builders import Clock
from marksweep.testing.histories import Answered, Call, Said, Script, render_script

PROVIDERS = ["openai_chat", "openai_responses", "anthropic", "gemini"]
LIMIT = 1_500
ASKED = "old_17"


def read(name: str) -> Answered:
    body = "\n".join(f"{name}_{n} = make_it({n}) with some more words" for n in range(40))
    return Answered(f"Reading {name}.", calls=(Call("read", {"path": f"{name}.py"}, body),))


FLOOD = Script((Said("Mend the parser."), read("old"), *(read(f"new{n}") for n in range(6))))


def parts(dialect: str, asked: str = ASKED) -> tuple[list[Any], list[Any]]:
    """Return the flood of messages, and the one that mentions what it swept."""
    flood = render_script(FLOOD, dialect)
    asks = Answered("", calls=(Call("grep", {"q": asked}, "no such file"),))
    whole = render_script(Script((*FLOOD.beats, asks)), dialect)
    return flood, whole[len(flood) :]


def flooded(dialect: str = "openai_chat", asked: str = ASKED, **options: Any) -> Conversation:
    """Make a conversation that swept the old read, and then got a message that mentions it."""
    options = {"limit": LIMIT, "strategy": "coverage_quality", "clock": Clock(), **options}
    talk = Conversation(**options, dialect=dialect)
    flood, again = parts(dialect, asked)
    for message in flood:
        talk.extend([message])
        talk.collect_if_due()
    assert not holds(talk, f"{ASKED} = make_it(17)")
    talk.extend(again)
    return talk


def holds(talk: Conversation, line: str) -> bool:
    return any(line in message.text for message in talk.history) or any(
        line in str(part.function_response.result)
        for message in talk.history
        for part in message.parts
        if part.function_response
    )


@pytest.mark.parametrize("dialect", PROVIDERS)
def test_what_is_spoken_of_again_comes_back_in_a_valid_history(dialect: str) -> None:
    talk = flooded(dialect)
    messages = talk.messages
    assert holds(talk, f"{ASKED} = make_it(17)")
    assert validate(messages, dialect) == []
    assert talk.tokens <= LIMIT
    assert messages[-len(parts(dialect)[1]) :] == parts(dialect)[1]


@pytest.mark.parametrize("dialect", PROVIDERS)
def test_reading_twice_is_the_same_though_the_newest_messages_speak_of_what_was_swept(
    dialect: str,
) -> None:
    talk = Conversation(limit=LIMIT, strategy="coverage_quality", clock=Clock(), dialect=dialect)
    for part in parts(dialect):
        talk.extend(part)
    first = talk.messages
    assert talk.store.stash.count(talk.workspace) > 0
    assert [talk.messages for _ in range(3)] == [first] * 3


def test_a_plan_shows_what_would_come_back_and_touches_nothing() -> None:
    talk = flooded()
    before = talk.history
    plan = talk.plan_recall()
    assert plan is not None
    (step,) = plan.steps
    assert step.action is Action.RECALL
    assert step.segments == ()
    assert ASKED in step.reason
    assert step.replacement is not None
    assert step.replacement.text.startswith("[recalled]\n")
    assert talk.history == before
    assert talk.plan_recall() == plan
    assert broken_laws(talk._heap.snapshot(), {}, plan) == ()
    report = talk.collect(plan)
    assert report.tokens_freed == step.size < 0


@pytest.mark.parametrize("dialect", PROVIDERS)
def test_a_note_that_is_shortened_keeps_its_head_and_needs_no_line(dialect: str) -> None:
    asked = " ".join(f"old_{n}" for n in range(3, 40, 6))
    talk = flooded(dialect, asked)
    assert talk.messages
    *_, note = [m for m in talk.history if m.text.startswith("[recalled]\n")]
    head, *lines = note.text.split("\n")
    shorter: set[str] = set()
    for target in range(talk.tokens, 0, -10):
        for step in talk.plan(target).steps:
            if note.message_id in step.segments and step.replacement is not None:
                shorter.add(step.replacement.text)
    assert shorter
    for text in shorter:
        first, *rest = text.split("\n")
        assert first == head
        assert rest
        assert set(rest) < set(lines)


def test_it_comes_back_once() -> None:
    talk = flooded()
    messages, journal = talk.messages, talk.journal()
    assert talk.messages == messages
    assert talk.journal() == journal
    assert talk.plan_recall() is None


def test_undo_takes_the_note_away_and_then_brings_everything_back() -> None:
    talk = flooded()
    plan = talk.plan_recall()
    assert plan is not None
    before = talk.history
    talk.collect(plan)
    assert talk.history != before
    assert talk.undo() == (f"recalled-{before[-2].message_id}",)
    assert talk.history == before
    assert talk.journal(1)[0].event is Event.UNDONE
    while talk.latest():
        talk.undo()
    with pytest.raises(NotFound):
        talk.undo()
    flood, again = parts("openai_chat")
    assert [message.raw for message in talk.history] == [*flood, *again]


def test_a_recall_that_was_cut_off_is_rolled_back() -> None:
    talk = flooded()
    plan = talk.plan_recall()
    assert plan is not None
    cut_off = Entry(Event.SWEEPING, talk._clock(), plan.plan_id, plan=plan)
    talk.store.journal.append(talk.workspace, cut_off)
    before = talk.history
    again = Conversation(limit=LIMIT, store=talk.store, clock=Clock())
    assert again.journal(1)[0].event is Event.ROLLED_BACK
    assert again.history == before


def test_a_program_that_was_started_again_still_knows_what_is_gone(tmp_path: Path) -> None:
    store = tmp_path / "talk.db"
    options: dict[str, Any] = {"limit": LIMIT, "strategy": "coverage_quality"}
    talk = Conversation(**options, store=SqliteStore(store), dialect="openai_chat")
    flood, again = parts("openai_chat")
    for message in flood:
        talk.extend([message])
        talk.collect_if_due()
    talk.close()
    reopened = Conversation(**options, store=SqliteStore(store), dialect="openai_chat")
    assert not holds(reopened, f"{ASKED} = make_it(17)")
    reopened.extend(again)
    assert reopened.messages
    assert holds(reopened, f"{ASKED} = make_it(17)")
    reopened.close()


def test_what_came_back_is_not_recalled_twice_from_the_stash() -> None:
    talk = flooded()
    assert talk.messages
    talk.extend(render_script(read_more(), "openai_chat"))
    assert talk.messages
    found = talk.recall(f"where is {ASKED} made?", 4_000)
    assert sum(passage.count(f"{ASKED} = make_it(17)") for passage in found) <= 1


def read_more() -> Script:
    return Script((Said("Go on."), *(read(f"more{n}") for n in range(6))))


def test_when_a_big_result_is_gone_what_it_displaced_comes_back_up_to_where_sweeps_land() -> None:
    talk = Conversation(limit=LIMIT, strategy="coverage", clock=Clock())
    for message in render_script(Script((Said("Mend the parser."), read("old"))), "openai_chat"):
        talk.extend([message])
    big = Call("read", {"path": "big.py"}, "\n".join(f"word{n} of many" for n in range(250)))
    whole = Script((Said("Mend the parser."), read("old"), Answered("", calls=(big,))))
    talk.extend(render_script(whole, "openai_chat")[3:])
    assert talk.messages
    assert not all(holds(talk, f"old_{n} = make_it({n})") for n in range(40))
    talk.extend([{"role": "assistant", "content": "I see."}, {"role": "user", "content": "Well?"}])
    talk.collect(talk.plan(talk.tokens // 2))
    talk.extend([{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And?"}])
    plan = talk.plan_recall()
    assert plan is not None
    assert "there is room for them again" in plan.steps[0].reason
    assert talk.messages
    assert talk.tokens <= LIMIT
    assert any(message.text.startswith("[recalled]\n") for message in talk.history)
