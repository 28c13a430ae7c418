"""Many threads use one conversation: nothing is lost or split, and all threads end."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from marksweep.conversation import Conversation
from marksweep.dialects import validate
from marksweep.errors import NotFound, PlanOutdated
from marksweep.messages import count_message
from marksweep.testing.histories import Answered, Call, Script, render_script

THREADS = 6
ROUNDS = 40

Deed = Callable[[Conversation, random.Random], None]


def step(name: str) -> list[dict[str, Any]]:
    """Make a call and its result, with a unique id."""
    call, result = render_script(
        Script((Answered(name, calls=(Call("read", {"path": name}, f"{name}\n" * 80),)),)),
        "openai_chat",
    )
    call["tool_calls"][0]["id"] = result["tool_call_id"] = name
    return [call, result]


def say_more(talk: Conversation, chance: random.Random) -> None:
    talk.extend(step(f"call {chance.random()}"))


def sweep_a_shown_plan(talk: Conversation, chance: random.Random) -> None:
    plan = talk.plan(int(talk.tokens * chance.random()))
    with contextlib.suppress(PlanOutdated):
        talk.collect(plan)


def undo_the_last(talk: Conversation, _: random.Random) -> None:
    with contextlib.suppress(NotFound):
        talk.undo()


def pin_and_unpin(talk: Conversation, chance: random.Random) -> None:
    name = f"m{chance.randrange(1, 40)}"
    with contextlib.suppress(NotFound):
        talk.pin(name)
        talk.unpin(name)


def look(talk: Conversation, chance: random.Random) -> None:
    talk.recall("read", 100)
    talk.ledger()
    assert talk.tokens >= 0
    with contextlib.suppress(NotFound):
        talk.why(f"m{chance.randrange(1, 40)}")


def ask(talk: Conversation, _: random.Random) -> None:
    assert validate(talk.messages, "openai_chat") == []


ACTIONS: tuple[Deed, ...] = (
    say_more,
    say_more,
    ask,
    sweep_a_shown_plan,
    undo_the_last,
    pin_and_unpin,
    look,
)


@pytest.mark.parametrize("strategy", ["truncate", "coverage", ("superseded", "mask", "truncate")])
def test_threads_that_do_everything_at_once_lose_nothing(strategy: Any) -> None:
    talk = Conversation(limit=6_000, strategy=strategy, dialect="openai_chat")
    talk.extend([{"role": "user", "content": "fix it"}])

    def work(number: int) -> int:
        chance = random.Random(number)
        said = 0
        for _ in range(ROUNDS):
            action = chance.choice(ACTIONS)
            action(talk, chance)
            said += 2 * (action is say_more)
        return said

    with ThreadPoolExecutor(THREADS) as threads:
        said = sum(threads.map(work, range(THREADS)))
    assert talk.tokens == sum(map(count_message, talk.history))
    while talk.latest() is not None:
        talk.undo()
    left = [message.raw for message in talk.history]
    assert len(left) == said + 1
    assert validate(left, "openai_chat") == []
