"""The lab: collectors against sets of trajectories, beside their bounds.

A collector is named, so that a worker process can build its own: `COLLECTORS` says how. Work is
spread over trajectories and comes back in their order, so the same input gives the same figures.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from marksweep.replay import collectors as coverage
from marksweep.replay.clairvoyant import Clairvoyant, Foresight, Solved, foresee
from marksweep.replay.counting import exact
from marksweep.replay.datasets import Case
from marksweep.replay.drive import Collector, Pricer, drive, limit_of
from marksweep.replay.evidence import Evidence
from marksweep.replay.hits import Reader, proofs
from marksweep.replay.measures import Outcome
from marksweep.replay.records import PER_MESSAGE, Conversation, Count
from marksweep.replay.references import STUB, Gdsf, Mask, OriginalScore, Random, Truncate

COLLECTORS: dict[str, Callable[[Count], Collector]] = {
    "truncate": Truncate,
    "mask last 10": Mask,
    "original score": OriginalScore,
    "GDSF": Gdsf,
    "random": Random,
    "economy": coverage.economy,
    "quality": coverage.quality,
}
CLAIRVOYANT = "clairvoyant"


class Job(msgspec.Struct, frozen=True):
    """One trajectory, the collectors to drive over it, and the budget."""

    case: Case
    collectors: tuple[str, ...]
    percent: float
    src_weight: float = 1.0
    cache: Path | None = None
    seconds: float = 60.0
    """Time limit of the clairvoyant's solver."""


class Done(msgspec.Struct, frozen=True):
    """Outcome per collector of one trajectory, and how its bound was found."""

    outcomes: dict[str, Outcome]
    solved: Solved | None


def run(
    cases: Sequence[Case],
    collectors: Sequence[str],
    percent: float,
    *,
    workers: int = 2,
    cache: Path | None = None,
    seconds: float = 60.0,
) -> list[Done]:
    """Drive collectors over the trajectories of a set, in parallel."""
    weight = src_weight(cases, percent)
    jobs = [Job(case, tuple(collectors), percent, weight, cache, seconds) for case in cases]
    if workers <= 1:
        return [work(job) for job in jobs]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return list(pool.map(work, jobs))


Measure = Callable[[Conversation, Any, float, Count], Evidence]
"""One of `evidence.blind` and `evidence.recalled`."""


def run_talks(
    talks: Sequence[Conversation],
    measure: Measure,
    collector: str,
    percent: float,
    *,
    workers: int = 2,
) -> list[Evidence]:
    """Measure a collector on conversations with questions, in parallel."""
    jobs = [(talk, measure, collector, percent) for talk in talks]
    if workers <= 1:
        return [listen(job) for job in jobs]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return list(pool.map(listen, jobs, chunksize=4))


def listen(job: tuple[Conversation, Measure, str, float]) -> Evidence:
    """Measure a collector on one conversation."""
    talk, measure, name, percent = job
    count = _counter()
    return measure(talk, COLLECTORS[name](count), percent, count)


def src_weight(cases: Sequence[Case], percent: float) -> float:
    """Weight of a src step against an any step in the mean of both halves of a set."""
    any_ = src = 0
    for case in cases:
        found, prices = case.study, case.prices
        pinned = found.trajectory.pinned
        limit = limit_of(prices, pinned, percent)
        for step in found.steps:
            if sum(prices[:pinned]) + sum(prices[step.tail : step.at]) <= limit:
                any_ += bool(step.any)
                src += bool(step.src)
    return any_ / src if src else 1.0


@lru_cache(maxsize=1)
def _counter() -> Count:
    """The counter of this process, with all it has counted."""
    return exact()


def work(job: Job) -> Done:
    """Drive all collectors of a job over its trajectory."""
    count = _counter()
    found = job.case.study
    needed = proofs(found)
    tokens, reader = Pricer(count), Reader()
    limit = limit_of(job.case.prices, found.trajectory.pinned, job.percent)
    outcomes = {}
    solved = None
    for name in job.collectors:
        collector: Collector
        if name == CLAIRVOYANT:
            sight = _foresee(job, limit, count)
            solved = sight.solved
            collector = Clairvoyant(found, sight)
        else:
            collector = COLLECTORS[name](count)
        steps = drive(found, needed, collector, limit, tokens=tokens, reader=reader)
        outcomes[name] = Outcome(found.trajectory.id, tuple(steps))
    return Done(outcomes, solved)


def _foresee(job: Job, limit: int, count: Count) -> Foresight:
    """The clairvoyant's schedule, from the cache if it is there."""
    found = job.case.study
    key = msgspec.json.encode(
        [
            [[s.at, s.tail, s.any, s.src] for s in found.steps],
            [found.trajectory.pinned, job.case.prices, limit, job.src_weight, job.seconds],
        ]
    )
    path = job.cache and job.cache / f"{hashlib.sha256(key).hexdigest()[:32]}.json"
    if path and path.exists():
        return msgspec.json.decode(path.read_bytes(), type=Foresight)
    sight = foresee(
        found,
        job.case.prices,
        limit,
        stub=count(STUB) + PER_MESSAGE,
        src_weight=job.src_weight,
        seconds=job.seconds,
    )
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(sight))
    return sight
