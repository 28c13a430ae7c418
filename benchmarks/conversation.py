"""Conversations: collecting, growth, and adding one more message."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Iterator
from typing import Any

from benchmarks.rows import Row, best_of
from benchmarks.sizes import collecting
from marksweep.conversation import Conversation
from marksweep.core.budget import SOFT_PERCENT, Budget
from marksweep.dialects import read, validate
from marksweep.strategies.registry import STRATEGIES, Choice
from marksweep.testing.histories import Answered, Call, Said, Script, render_script

APPEND_MS = 1.0

TIERS = ("superseded", "mask", "truncate")
COLLECTED: tuple[str | tuple[str, ...], ...] = (*sorted(STRATEGIES), TIERS)
"""All named strategies. None of them calls a model: summaries are extractive."""


def history(messages: int) -> list[dict[str, Any]]:
    """A tool-heavy conversation: half of the messages are results of a few hundred characters."""
    steps = (
        Answered(
            f"step {n}",
            calls=(Call("read", {"path": f"src/{n % 97}.py"}, f"line {n} of the file\n" * 20),),
        )
        for n in range(messages // 2)
    )
    return render_script(Script((Said("fix the parser"), *steps)), "openai_chat")


def seconds_to_collect(messages: list[dict[str, Any]], strategy: Choice) -> float:
    """Time what a program waits for when a collection is due, with the default limits.

    From the threshold down to the target: planned, swept and written for the next request.
    """
    talk = Conversation(limit=10**9, strategy=strategy, pays_within_turns=math.inf)
    talk.extend(messages)
    before = talk.tokens
    talk.budget = Budget.of(int(before * 100 / SOFT_PERCENT))
    gc.collect()
    started = time.process_time()
    left = talk.messages
    taken = time.process_time() - started
    assert talk.tokens < before
    assert validate(left[:200], "openai_chat") == []
    return taken


def seconds_to_append(messages: list[dict[str, Any]], times: int = 200) -> float:
    """Time adding one message and checking the trigger; the median."""
    talk = Conversation(limit=10**9)
    talk.extend(messages)
    taken = []
    for n in range(times):
        started = time.process_time()
        talk.extend([{"role": "user", "content": f"and {n}?"}])
        assert not talk.is_due
        taken.append(time.process_time() - started)
    return statistics.median(taken)


def measure(strategy: Choice, size: int) -> float:
    """Return the seconds it takes to collect so many messages, after a few to warm up."""
    seconds_to_collect(history(200), strategy)
    return seconds_to_collect(history(size), strategy)


def rows() -> Iterator[Row]:
    """Measure."""
    for strategy in COLLECTED:
        name = strategy if isinstance(strategy, str) else " → ".join(strategy)
        yield from collecting(__name__, name, strategy)
    messages = history(10_000)
    took = seconds_to_append(messages) * 1000
    yield Row(
        "append one message to 10,000 and check the trigger",
        f"≤ {APPEND_MS:.0f} ms median",
        f"{took:.3f} ms",
        took <= APPEND_MS,
    )
    took = best_of(3, lambda: read(messages, "openai_chat"), time.process_time) * 1000
    yield Row("read 10,000 messages", "≤ 150 ms", f"{took:.0f} ms", took <= 150)
    given = read(messages, "openai_chat").given
    took = best_of(3, lambda: validate(given, "openai_chat"), time.process_time) * 1000
    yield Row("validate 10,000 messages", "≤ 500 ms", f"{took:.0f} ms", took <= 500)
