"""GC plugins: collecting a long, tool-heavy history, growth, and the check after each message."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from statistics import median

from benchmarks.rows import Row, print_rows
from benchmarks.sizes import collecting
from marksweep.core.budget import SOFT_PERCENT
from marksweep.ledger import InstructionBudget
from marksweep.messages import Counter, FunctionCall, Message, Part, Role, ToolResult, count_message
from marksweep.plugins import ContextUsage, GCConfig, GCTriggerReason, load_gc_plugin
from marksweep.plugins.discovery import BUILT_IN
from marksweep.session import Session

LEARNING = frozenset({"gc_coverage"})
"""Plugins that remember messages from one collection to the next."""

CALLS_PER_TURN = 5
OUTPUT = "def parse(line): return [field.strip() for field in line.split(',')]\n" * 4


def counting_once() -> Counter:
    """Count each message when it is first seen, as a session does."""
    known: dict[str, tuple[Message, int]] = {}

    def count(message: Message) -> int:
        if known.get(message.message_id, (None,))[0] is not message:
            known[message.message_id] = (message, count_message(message))
        return known[message.message_id][1]

    return count


def history(size: int) -> list[Message]:
    """Make a history of about so many messages, mostly calls and results."""
    messages: list[Message] = [Message.from_text(Role.SYSTEM, "You mend parsers.")]
    turn = 0
    while len(messages) < size:
        messages.append(_said(Role.USER, f"u{turn}", f"What about src/module_{turn}.py?"))
        for n in range(CALLS_PER_TURN):
            messages += _call(f"{turn}.{n}", f"src/module_{turn}_{n}.py")
        messages.append(_said(Role.MODEL, f"m{turn}", "We decided to skip empty lines there."))
        turn += 1
    return messages


def _said(role: Role, name: str, text: str) -> Message:
    return Message(role, (Part(text=text),), name)


def _call(name: str, path: str) -> Iterator[Message]:
    call = FunctionCall(name, "read", {"path": path})
    yield Message(Role.MODEL, (Part(function_call=call),), f"call {name}")
    result = ToolResult(name, "read", f"# {path}\n{OUTPUT}")
    yield Message(Role.TOOL, (Part(function_response=result),), f"result {name}")


def seconds_to_collect(name: str, messages: list[Message]) -> float:
    """Time a collection from the threshold down to the target; tokens are counted beforehand.

    A plugin that learns from what it sees makes a small collection first, as in a session.
    """
    counter = counting_once()
    total = sum(map(counter, messages))
    plugin = load_gc_plugin(name)
    budget = InstructionBudget.create_default(total)
    budget.follow(lambda: messages, counter)
    if name in LEARNING:
        usage: ContextUsage = {"percent_used": 100.0}
        a_little = GCConfig(threshold_percent=100.0, target_percent=99.0)
        messages, _ = plugin.collect(messages, usage, a_little, GCTriggerReason.MANUAL, budget)
        total = sum(map(counter, messages))
    budget.context_limit = int(total * 100 / SOFT_PERCENT)
    usage = {"percent_used": SOFT_PERCENT}
    gc.collect()
    started = time.process_time()
    _, result = plugin.collect(messages, usage, GCConfig(), GCTriggerReason.MANUAL, budget)
    taken = time.process_time() - started
    if result.tokens_freed < total / 5:
        raise AssertionError(f"{name} freed only {result.tokens_freed} of {total} tokens")
    return taken


def measure(name: str, size: int) -> float:
    """Return the seconds it takes to collect so many messages, after a few to warm up."""
    seconds_to_collect(name, history(200))
    return seconds_to_collect(name, history(size))


def rows() -> Iterator[Row]:
    """Measure everything."""
    for name in BUILT_IN:
        yield from collecting(__name__, name, name)
    yield _check()


def _check() -> Row:
    """Time what a session does for a message apart from calling the model: add it and check."""
    session = Session(lambda _: "yes", context_limit=10**9, history=history(10_000))
    session.set_gc_plugin(load_gc_plugin("gc_budget"), GCConfig())
    seconds = []
    for n in range(200):
        started = time.perf_counter()
        session.append(Message.from_text(Role.USER, f"And {n}?"))
        seconds.append(time.perf_counter() - started)
    return Row(
        "session of 10,000 messages: append one and check the trigger",
        "≤ 1 ms median",
        f"{median(seconds) * 1000:.3f} ms",
        ok=median(seconds) <= 0.001,
    )


if __name__ == "__main__":
    print_rows(rows())
