"""The lab: collectors against sets of trajectories, beside their bounds.

A job is one trajectory at one limit, and the names of collectors, so that a worker process can
build its own. Results come back in the order of the jobs, so the same input gives the same figures.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from marksweep.replay.catalog import CLAIRVOYANT, maker
from marksweep.replay.clairvoyant import MAX_NODES, Clairvoyant, Foresight, Solved, foresee
from marksweep.replay.counting import exact
from marksweep.replay.datasets import Case
from marksweep.replay.drive import Collector, Pricer, drive, limit_of
from marksweep.replay.evidence import Evidence
from marksweep.replay.hits import Reader, proofs
from marksweep.replay.measures import Outcome
from marksweep.replay.records import PER_MESSAGE, Conversation, Count
from marksweep.replay.references import STUB
from marksweep.replay.result_cache import load, name_of, own_code, save
from marksweep.replay.sandbox import CALL_SECONDS
from marksweep.replay.workers import in_order, spread


class Job(msgspec.Struct, frozen=True):
    """One trajectory, the collectors to drive over it, and the budget."""

    case: Case
    collectors: tuple[str, ...]
    limit: int
    src_weight: float = 1.0
    folder: Path | None = None
    """Where what is done is kept."""
    nodes: int = MAX_NODES
    """Nodes that the clairvoyant's solver may look at."""
    patience: float = CALL_SECONDS
    """Seconds that a third-party strategy has for one call."""


class JobResult(msgspec.Struct, frozen=True):
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
) -> list[JobResult]:
    """Drive collectors over the trajectories of a set; `cache` keeps their bounds."""
    limits = [limit_of(case.prices, case.study.trajectory.pinned, percent) for case in cases]
    weight = src_weight(cases, limits)
    jobs = [
        Job(case, tuple(collectors), limit, weight, cache)
        for case, limit in zip(cases, limits, strict=True)
    ]
    return in_order(spread(work, jobs, workers))


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
    """Measure a collector on conversations with questions."""
    jobs = [(talk, measure, collector, percent) for talk in talks]
    return in_order(spread(listen, jobs, workers))


def listen(job: tuple[Conversation, Measure, str, float]) -> Evidence:
    """Measure a collector on one conversation."""
    talk, measure, name, percent = job
    count = counter()
    return measure(talk, build(name, count), percent, count)


def src_weight(cases: Sequence[Case], limits: Sequence[int]) -> float:
    """Weight of a src step against an any step, so that both halves of the mean count the same."""
    any_ = src = 0
    for case, limit in zip(cases, limits, strict=True):
        pinned = sum(case.prices[: case.study.trajectory.pinned])
        for step in case.study.steps:
            if pinned + sum(case.prices[step.tail : step.at]) <= limit:
                any_ += bool(step.any)
                src += bool(step.src)
    return any_ / src if src else 1.0


@lru_cache(maxsize=1)
def counter() -> Count:
    """The counter of this process, with all it has counted."""
    return exact()


def build(name: str, count: Count, patience: float = CALL_SECONDS) -> Collector:
    """Build a collector by its name."""
    return maker(name, patience)(count)


def work(job: Job) -> JobResult:
    """Drive all collectors of a job over its trajectory.

    What the lab itself holds is kept from Python's own collector meanwhile: a walk over it would
    count as a slow step of the collector being driven.
    """
    gc.collect()
    gc.freeze()
    try:
        return _drive_all(job)
    finally:
        gc.unfreeze()


def _drive_all(job: Job) -> JobResult:
    count = counter()
    found = job.case.study
    needed = proofs(found)
    tokens, reader = Pricer(count), Reader()
    outcomes = {}
    solved = None
    for name in job.collectors:
        collector: Collector
        if name == CLAIRVOYANT:
            sight = _foresight(job, count)
            solved = sight.solved
            collector = Clairvoyant(found, sight)
        else:
            collector = build(name, count, job.patience)
        steps = drive(found, needed, collector, job.limit, tokens=tokens, reader=reader)
        outcomes[name] = Outcome(found.trajectory.id, tuple(steps))
    return JobResult(outcomes, solved)


def _foresight(job: Job, count: Count) -> Foresight:
    """The clairvoyant's schedule, from what was kept if it is there."""
    found, prices = job.case.study, job.case.prices
    steps = [[s.at, s.tail, s.any, s.src] for s in found.steps]
    given = (steps, found.trajectory.pinned, prices, job.limit, job.src_weight, job.nodes)
    name = name_of("bound", own_code(), *given)
    sight = load(job.folder, name, Foresight)
    if sight is None:
        sight = foresee(
            found,
            prices,
            job.limit,
            stub=count(STUB) + PER_MESSAGE,
            src_weight=job.src_weight,
            nodes=job.nodes,
        )
        save(job.folder, name, sight)
    return sight


__all__ = [
    "CLAIRVOYANT",
    "Job",
    "JobResult",
    "build",
    "counter",
    "run",
    "run_talks",
    "src_weight",
    "work",
]
