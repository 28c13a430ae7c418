"""GC plugins: collecting a long, tool-heavy history, growth, and the check after each message."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from statistics import median

from benchmarks.rows import Row, print_rows
from marksweep.ledger import InstructionBudget
from marksweep.ledger.counting import CountOnce
from marksweep.messages import FunctionCall, Message, Part, Role, ToolResult
from marksweep.plugins import GCConfig, GCTriggerReason, load_gc_plugin
from marksweep.plugins.discovery import BUILT_IN
from marksweep.session import Session

CALLS_PER_TURN = 5
OUTPUT = "def parse(line): return [field.strip() for field in line.split(',')]\n" * 4


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


def collecting(name: str, messages: list[Message]) -> Callable[[], object]:
    """Prepare a collection from 90 % of the window to 60 %; tokens are counted beforehand."""
    counter = CountOnce()
    total = sum(map(counter, messages))
    plugin = load_gc_plugin(name)
    budget = InstructionBudget.create_default(int(total / 0.9))
    budget.follow(lambda: messages, counter)
    budget.total_tokens()

    def collect() -> None:
        _, result = plugin.collect(
            messages, {"percent_used": 90.0}, GCConfig(), GCTriggerReason.THRESHOLD, budget
        )
        if result.tokens_freed < total / 4:
            raise AssertionError(f"{name} freed only {result.tokens_freed} of {total} tokens")

    return collect


def cpu_best_of(times: int, work: Callable[[], object]) -> float:
    """Time some work: the processor seconds of the quickest of several runs.

    The work is of one thread and waits for nothing, so on a quiet machine this is its duration.
    """
    seconds = []
    for _ in range(times):
        gc.collect()
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return min(seconds)


def rows() -> list[Row]:
    """Measure everything."""
    return [*_each(), *_growth(), _check()]


def _each() -> Iterator[Row]:
    messages = history(10_000)
    for name in BUILT_IN:
        seconds = cpu_best_of(5, collecting(name, messages))
        yield Row(
            f"{name}: collect 10,000 messages",
            "≤ 150 ms",
            f"{seconds * 1000:.0f} ms",
            ok=seconds <= 0.150,
        )


def _growth() -> Iterator[Row]:
    for name in BUILT_IN:
        small, middle, large = (
            cpu_best_of(times, collecting(name, history(size)))
            for times, size in ((9, 1_000), (5, 10_000), (3, 100_000))
        )
        worst = max(middle / small, large / middle)
        yield Row(
            f"{name}: growth 1k → 10k → 100k messages",
            "≤ ×12 per ×10",
            f"×{middle / small:.1f}, ×{large / middle:.1f}",
            ok=worst <= 12,
        )


def _check() -> Row:
    """Time what a session does for a message beside asking the model: take it in and look."""
    session = Session(lambda _: "yes", context_limit=10**9, history=history(100_000))
    session.set_gc_plugin(load_gc_plugin("gc_budget"), GCConfig())
    seconds = []
    for n in range(200):
        started = time.perf_counter()
        session.append(Message.from_text(Role.USER, f"And {n}?"))
        seconds.append(time.perf_counter() - started)
    return Row(
        "session of 100,000 messages: append one and check the trigger",
        "≤ 1 ms median",
        f"{median(seconds) * 1000:.3f} ms",
        ok=median(seconds) <= 0.001,
    )


if __name__ == "__main__":
    print_rows(rows())
