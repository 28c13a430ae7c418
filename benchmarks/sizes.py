"""What a collection takes at several sizes, and how that grows."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from statistics import fmean, median

import msgspec

from benchmarks.rows import Row

COLLECT_MS = 150.0
GROWTH = 12.0

TIMES = {1_000: 5, 10_000: 5, 100_000: 1}
"""How often each size is measured in a round."""
ROUNDS = 9


class Measured(msgspec.Struct, frozen=True):
    """The seconds that each size takes, and how often as long as the one before that is."""

    seconds: tuple[float, ...]
    growth: tuple[float, ...]


def collecting(module: str, name: str, given: object) -> Iterator[Row]:
    """Give the rows of a collection that the module's `measure(given, size)` times."""
    measured = _apart(module, given)
    took = measured.seconds[1] * 1000
    yield Row(
        f"collect 10,000 messages, {name}",
        f"≤ {COLLECT_MS:.0f} ms",
        f"{took:.0f} ms",
        took <= COLLECT_MS,
    )
    yield Row(
        f"growth of that, 1k → 10k → 100k messages, {name}",
        f"≤ ×{GROWTH:.0f} per ×10",
        ", ".join(f"×{growth:.1f}" for growth in measured.growth),
        max(measured.growth) <= GROWTH,
    )


def _apart(module: str, given: object) -> Measured:
    """Measure in a process that has done nothing else."""
    code = f"from benchmarks.sizes import in_rounds; in_rounds({module!r}, {given!r})"
    ran = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(ran.stdout, type=Measured)


def in_rounds(module: str, given: object) -> None:
    """Print what each size takes: the median of some rounds.

    A machine that others use is slow for moments and for minutes. A long run has its share of the
    moments, so of short ones the mean in a round counts, not the median, which has none. Minutes
    fall on whole rounds, so sizes are compared within a round.
    """
    measure: Callable[..., float] = import_module(module).measure
    rounds = [
        [fmean([_in_child(measure, given, size) for _ in range(n)]) for size, n in TIMES.items()]
        for _ in range(ROUNDS)
    ]
    growths = [[after / before for before, after in pairwise(each)] for each in rounds]
    measured = Measured(_middle(rounds), _middle(growths))
    print(msgspec.json.encode(measured).decode())


def _middle(rounds: list[list[float]]) -> tuple[float, ...]:
    return tuple(median(column) for column in zip(*rounds, strict=True))


def _in_child(measure: Callable[..., float], *given: object) -> float:
    """Measure in a copy of this process, which has everything imported and nothing else.

    What another run left in the allocator and in the caches makes one slower or quicker.
    """
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: sender.send(measure(*given)))
    child.start()
    sender.close()
    seconds: float = receiver.recv()
    child.join()
    return seconds
