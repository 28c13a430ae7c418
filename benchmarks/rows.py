"""One row of the table of figures, and the table."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import TextIO

import msgspec


class Row(msgspec.Struct, frozen=True):
    """What was measured, the bar, the value, and whether the bar is met."""

    what: str
    bar: str
    measured: str
    ok: bool


def best_of(
    times: int, work: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> float:
    """Time some work: the seconds of the quickest of several runs.

    With `time.process_time` as the clock, other processes do not count.
    """
    seconds = []
    for _ in range(times):
        started = clock()
        work()
        seconds.append(clock() - started)
    return min(seconds)


def print_rows(rows: Iterable[Row], out: TextIO | None = None) -> None:
    """Print rows as a Markdown table with aligned columns."""
    lines = [("what", "bar", "measured", "ok")]
    lines += [(row.what, row.bar, row.measured, "yes" if row.ok else "NO") for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    lines.insert(1, (*("-" * width for width in widths),))  # type: ignore[arg-type]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("| " + " | ".join(cells) + " |", file=out or sys.stdout)
