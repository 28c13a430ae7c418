"""A program dies at any write: its conversation loses nothing and stays valid."""

from __future__ import annotations

import contextlib

import pytest

from marksweep.conversation import Conversation
from marksweep.dialects import validate
from marksweep.errors import NotFound
from marksweep.stores.memory import MemoryStore
from marksweep.testing.faults import Fault, FaultyStore, Killed
from marksweep.testing.histories import Answered, Call, Said, Script, render_script

SCRIPT = Script(
    (
        Said("fix it"),
        *(
            Answered(
                thought="hm", calls=(Call("read", {"path": f"{n % 3}.py"}, f"text {n} " * 80),)
            )
            for n in range(8)
        ),
        Answered("done"),
        Said("thanks"),
    ),
    extras=True,
)


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini"])
def test_a_death_at_any_write_loses_nothing_and_splits_nothing(dialect: str) -> None:
    messages = render_script(SCRIPT, dialect)
    deaths = 0
    for chance in range(1, 40):
        store = MemoryStore()
        Conversation(limit=10**6, dialect=dialect, store=store).extend(messages)
        strategy = ("superseded", "mask", "truncate")
        mortal = FaultyStore(store, Fault(chance))
        talk = Conversation(limit=10**6, dialect=dialect, store=mortal, strategy=strategy)
        try:
            masking = talk.plan(talk.tokens * 3 // 4)
            talk.collect(masking)
            talk.collect(talk.plan(talk.tokens // 3))
            talk.undo(masking.plan_id)
        except Killed:
            deaths += 1
        again = Conversation(limit=10**6, dialect=dialect, store=store)
        assert validate([m.raw for m in again.history], dialect) == []
        with contextlib.suppress(NotFound):
            while True:
                again.undo()
        assert [m.raw for m in again.history] == messages
    assert deaths > 10
