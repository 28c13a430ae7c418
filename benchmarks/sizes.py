"""The time of a collection at several sizes, and its growth."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from statistics import fmean, median

from benchmarks.rows import Row

COLLECT_MS = 150.0
GROWTH = 12.0

TIMES = {1_000: 5, 10_000: 5}
"""How often each size is measured in a round."""
ROUNDS = 9


def collecting(module: str, name: str, given: object) -> Iterator[Row]:
    """Return the rows of a collection that the module's `measure(given, size)` times."""
    seconds = _in_fresh_process(module, given)
    took = seconds[1] * 1000
    yield Row(
        f"collect 10,000 messages, {name}",
        f"≤ {COLLECT_MS:.0f} ms",
        f"{took:.0f} ms",
        took <= COLLECT_MS,
    )
    growth = seconds[1] / seconds[0]
    yield Row(
        f"growth of that, 1k → 10k messages, {name}",
        f"≤ ×{GROWTH:.0f}",
        f"×{growth:.1f}",
        growth <= GROWTH,
    )


def _in_fresh_process(module: str, given: object) -> list[float]:
    """Return the seconds that each size takes, measured in a fresh process."""
    code = f"from benchmarks.sizes import in_rounds; in_rounds({module!r}, {given!r})"
    ran = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    )
    return [float(line) for line in ran.stdout.splitlines()]


def in_rounds(module: str, given: object) -> None:
    """Print the seconds of each size: the mean of a round, the median of all rounds.

    A shared machine is slow for moments and for minutes. A long run includes such moments, so the
    mean of short runs counts in a round; the median would hide them. Slow minutes affect whole
    rounds, in which the sizes alternate.
    """
    measure: Callable[..., float] = import_module(module).measure
    rounds = [
        [fmean([_in_child(measure, given, size) for _ in range(n)]) for size, n in TIMES.items()]
        for _ in range(ROUNDS)
    ]
    for seconds in zip(*rounds, strict=True):
        print(median(seconds))


def _in_child(measure: Callable[..., float], *given: object) -> float:
    """Measure in a fork of this process, which has everything imported and has done nothing else.

    The state of the allocator and of caches after another run would change the time.
    """
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: sender.send(measure(*given)))
    child.start()
    sender.close()
    seconds: float = receiver.recv()
    child.join()
    return seconds
