"""Token counting, in processor time so that other processes do not count; and import time."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from functools import partial
from pathlib import Path
from time import process_time

from benchmarks.rows import Row, best_of, print_rows
from marksweep.tokens import ESTIMATOR, cached, from_rs_bpe

MEGABYTE = 1_000_000


def source_code() -> str:
    """Return all top-level modules of the standard library: four to five megabytes."""
    library = Path(sysconfig.get_path("stdlib"))
    modules = sorted(library.glob("*.py"))
    return "".join(path.read_text("utf-8", errors="replace") for path in modules)


def rows() -> list[Row]:
    """Measure the exact counter if it is installed, the estimator, the cache, the import."""
    code = source_code()
    megabytes = len(code.encode()) / MEGABYTE
    measured: list[Row] = []

    counter = from_rs_bpe()
    if counter is None:
        measured.append(Row("exact token counter", "rs-bpe installed", "no wheel here", ok=False))
    else:
        speed = megabytes / best_of(3, lambda: counter.count(code), process_time)
        measured.append(_speed("tokens of source code, exact, cold", 5, speed))
        for character in " a=-":
            text = character * MEGABYTE
            seconds = best_of(2, partial(counter.count, text), process_time)
            what = f"tokens of 1 MB of {character!r}, exact"
            measured.append(Row(what, "< 2 s", f"{seconds:.2f} s", ok=seconds < 2))

    speed = megabytes / best_of(3, lambda: ESTIMATOR.count(code), process_time)
    measured.append(_speed("tokens of source code, estimated", 2, speed))

    again = cached(counter or ESTIMATOR).count
    again(code)
    speed = megabytes / best_of(3, lambda: again(code), process_time)
    measured.append(_speed("tokens of a text seen before", 200, speed))

    extra = 1000 * (_start("import marksweep") - _start("pass"))
    what = "`import marksweep` over bare Python"
    measured.append(Row(what, "≤ 60 ms", f"{extra:.0f} ms", ok=extra <= 60))
    return measured


def _speed(what: str, at_least: float, speed: float) -> Row:
    return Row(what, f"≥ {at_least:g} MB/s", f"{speed:.0f} MB/s", ok=speed >= at_least)


def _start(code: str) -> float:
    """Return the seconds a fresh interpreter takes for some code."""
    command = [sys.executable, "-c", code]
    return best_of(10, lambda: subprocess.run(command, check=True))


if __name__ == "__main__":
    print_rows(rows())
