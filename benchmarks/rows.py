"""One line of the table of figures, and the table."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable
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


SIZES = (1_000, 10_000, 100_000)
ROUNDS = 3


def apart(module: str, *given: object) -> tuple[float, ...]:
    """Measure each size in processes of its own; the median of each.

    Each prints the seconds that the module's `measure(*given, size)` takes. What another size left
    in the allocator and in the caches makes one slower or quicker, so all are treated alike; and
    they take turns, so that a busy moment does not fall on one alone.
    """
    seconds: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(ROUNDS):
        for size in SIZES:
            code = f"from {module} import measure; measure{(*given, size)!r}"
            command = [sys.executable, "-c", code]
            ran = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds[size].append(float(ran.stdout))
    return tuple(map(median, seconds.values()))


def print_rows(rows: Iterable[Row], out: TextIO | None = None) -> None:
    """Print rows as a Markdown table with columns in line, ready for the README."""
    lines = [("what", "bar", "measured", "ok")]
    lines += [(row.what, row.bar, row.measured, "yes" if row.ok else "NO") for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    lines.insert(1, (*("-" * width for width in widths),))  # type: ignore[arg-type]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("| " + " | ".join(cells) + " |", file=out or sys.stdout)
