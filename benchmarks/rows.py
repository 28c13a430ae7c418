"""One line of the table of figures, and the table."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from statistics import median
from typing import TextIO

import msgspec


class Row(msgspec.Struct, frozen=True):
    """What was measured, what it must be, what it was, and whether that is enough."""

    what: str
    bar: str
    measured: str
    ok: bool


def best_of(
    times: int, work: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> float:
    """Time some work: the seconds of the quickest of several runs.

    `time.process_time` as clock leaves out what other processes took.
    """
    seconds = []
    for _ in range(times):
        started = clock()
        work()
        seconds.append(clock() - started)
    return min(seconds)


TIMES = {1_000: 4, 10_000: 3, 100_000: 1}
"""How often each size is measured in a round."""
ROUNDS = 5


def apart(module: str, *given: object) -> list[float]:
    """Measure each size; the seconds that the module's `measure(*given, size)` says it takes.

    Each time in a process of its own: what another run left in the allocator and in the caches
    makes one slower or quicker. The sizes take turns, so that a busy hour of the machine falls on
    all of them, and the median of each counts: the quickest run would be a lucky one, and a short
    one is lucky more often.
    """
    code = f"from benchmarks.rows import in_rounds; in_rounds({module!r}, {given!r})"
    ran = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    )
    return [float(line) for line in ran.stdout.splitlines()]


def in_rounds(module: str, given: tuple[object, ...]) -> None:
    """Print the seconds of each size."""
    measure: Callable[..., float] = import_module(module).measure
    seconds: dict[int, list[float]] = {size: [] for size in TIMES}
    for _ in range(ROUNDS):
        for size, times in TIMES.items():
            seconds[size] += [_in_child(measure, *given, size) for _ in range(times)]
    for each in seconds.values():
        print(median(each))


def _in_child(measure: Callable[..., float], *given: object) -> float:
    """Measure in a copy of this process, which has everything imported and nothing else."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: sender.send(measure(*given)))
    child.start()
    sender.close()
    seconds: float = receiver.recv()
    child.join()
    return seconds


def print_rows(rows: Iterable[Row], out: TextIO | None = None) -> None:
    """Print rows as a Markdown table with columns in line, ready for the README."""
    lines = [("what", "bar", "measured", "ok")]
    lines += [(row.what, row.bar, row.measured, "yes" if row.ok else "NO") for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    lines.insert(1, (*("-" * width for width in widths),))  # type: ignore[arg-type]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("| " + " | ".join(cells) + " |", file=out or sys.stdout)
