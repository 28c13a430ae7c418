"""Run collectors over transcripts at several budgets: the front of recall against cost.

One job is one transcript at one budget. Jobs are spread over processes and come back in their
order. What is done can be kept in a folder, so that a run that was stopped goes on from there.
"""

from __future__ import annotations

import hashlib
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import cast

import msgspec

from marksweep.errors import BadInput
from marksweep.replay import catalog
from marksweep.replay.atoms import EXTRACTORS
from marksweep.replay.datasets import NEED_STEPS, Case
from marksweep.replay.drive import limit_of
from marksweep.replay.evidence import Evidence, Recalling, blind, recalled
from marksweep.replay.inputs import Passed
from marksweep.replay.lab import CLAIRVOYANT, Done, Job, work
from marksweep.replay.needs import habits, study
from marksweep.replay.records import Conversation, Count, Trajectory, price

HABIT_SHARE = 0.10
"""Share of transcripts beyond which an atom of their actions is a habit and needs no context."""
HABITS_FROM = 20
"""Transcripts from which habits can be told; fewer say too little."""
SMALL = 60_000
"""Tokens times budgets below which starting processes costs more than they save."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kKmM%]?)")
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6}

Told = Callable[[int, int], None]
"""Told of progress: jobs done, and jobs there are."""


class Budget(msgspec.Struct, frozen=True):
    """What a context may take: so many tokens, or a share of what is not pinned."""

    label: str
    tokens: int | None = None
    percent: float | None = None

    @staticmethod
    def of(text: str) -> Budget:
        """Read `32000`, `32k` or `25%`."""
        found = _SIZE.fullmatch(text.strip())
        if found is None or float(found[1]) == 0:
            raise BadInput(f"{text!r} is no budget; expected for example 32000, 32k or 25%.")
        number, unit = float(found[1]), found[2].lower()
        if unit == "%":
            return Budget(f"{number:g}%", percent=number)
        return Budget(text.strip().lower(), tokens=int(number * _UNITS[unit]))

    def share(self, case: Case) -> float:
        """The budget as percent of what is not pinned in a transcript."""
        if self.percent is not None:
            return self.percent
        pinned = case.study.trajectory.pinned
        rest = max(1, sum(case.prices[pinned:]))
        room = max(0, (self.tokens or 0) - sum(case.prices[:pinned]))
        return 100 * (room + 0.5) / rest

    def limit(self, case: Case) -> int:
        """The budget in tokens of a transcript, with its pinned prefix."""
        return limit_of(case.prices, case.study.trajectory.pinned, self.share(case))


def prepared(
    trajectories: Sequence[Trajectory], extractor: str, count: Count, *, answers: bool = False
) -> tuple[list[Case], list[Passed]]:
    """Find the needs of each transcript; those with too few to be scored are passed over."""
    extract = EXTRACTORS[extractor]
    stop: set[str] = set()
    if len(trajectories) >= HABITS_FROM:
        stop = habits(list(trajectories), HABIT_SHARE, extract, answers=answers)
    cases, passed = [], []
    for each in trajectories:
        found = study(each, extract, frozenset(stop), answers=answers)
        if found.need_steps < NEED_STEPS:
            reason = f"{found.need_steps} steps take something from before; {NEED_STEPS} are needed"
            passed.append(Passed(each.id, reason))
            continue
        cases.append(Case(found, tuple(price(message, count) for message in each.messages)))
    return cases, passed


def run(
    cases: Sequence[Case],
    strategies: Sequence[str],
    budgets: Sequence[Budget],
    *,
    workers: int = 1,
    seconds: float = 20.0,
    keep: Path | None = None,
    told: Told | None = None,
) -> dict[str, list[Done]]:
    """Drive strategies, and the bound, over every transcript at every budget."""
    names = tuple(dict.fromkeys((catalog.TRUNCATE, *strategies, CLAIRVOYANT)))
    jobs = [
        Job(case, names, budget.share(case), weight, keep, seconds)
        for budget in budgets
        for weight in [src_weight(cases, budget)]
        for case in cases
    ]
    size = sum(sum(case.prices) for case in cases) * len(budgets)
    done: list[Done | None] = [None] * len(jobs)
    for finished, (at, result) in enumerate(
        _inline(jobs) if workers <= 1 or size < SMALL else _spread(jobs, workers), 1
    ):
        done[at] = result
        if told is not None:
            told(finished, len(jobs))
    each = iter(result for result in done if result is not None)
    return {budget.label: [next(each) for _ in cases] for budget in budgets}


def src_weight(cases: Sequence[Case], budget: Budget) -> float:
    """Weight of a src step against an any step, so that both halves of the mean count the same."""
    any_ = src = 0
    for case in cases:
        pinned = sum(case.prices[: case.study.trajectory.pinned])
        limit = budget.limit(case)
        for step in case.study.steps:
            if pinned + sum(case.prices[step.tail : step.at]) <= limit:
                any_ += bool(step.any)
                src += bool(step.src)
    return any_ / src if src else 1.0


def _inline(jobs: Sequence[Job]) -> Iterator[tuple[int, Done]]:
    for at, job in enumerate(jobs):
        yield at, _work(job)


def _spread(jobs: Sequence[Job], workers: int) -> Iterator[tuple[int, Done]]:
    """Spread jobs over processes, the biggest first; leave none behind when stopped."""
    order = sorted(range(len(jobs)), key=lambda at: -sum(jobs[at].case.prices))
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_quiet)
    try:
        waiting = {pool.submit(_work, jobs[at]): at for at in order}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    except BaseException:
        for child in active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _quiet() -> None:
    """End without a traceback when the user stops the run."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _work(job: Job) -> Done:
    """Do a job, or take what was kept of it."""
    for name in job.collectors:
        catalog.register(name)
    path = job.cache and job.cache / f"{_key(job)}.json"
    if path and path.exists():
        try:
            return msgspec.json.decode(path.read_bytes(), type=Done)
        except msgspec.DecodeError:
            path.unlink()
    done = work(job)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(done))
        part.replace(path)
    return done


def _key(job: Job) -> str:
    """Name a job by all that its result depends on."""
    found = job.case.study
    needs = [[s.at, s.tail, s.any, s.src] for s in found.steps]
    given = [needs, found.trajectory, job.case.prices, job.collectors, job.percent]
    content = msgspec.json.encode([*given, job.src_weight, job.seconds])
    return "job-" + hashlib.sha256(content).hexdigest()[:32]


class Answers(msgspec.Struct, frozen=True):
    """Evidence at hand for the questions of one conversation."""

    blind: Evidence
    recalled: Evidence | None
    """None: the strategy has no recall."""


def ask(talk: Conversation, strategy: str, percent: float, count: Count) -> Answers:
    """Tell a conversation to a strategy, and see what it holds for the questions."""
    make = catalog.maker(strategy)
    found = blind(talk, make(count), percent, count)
    again = make(count)
    if not hasattr(again, "recall"):
        return Answers(found, None)
    return Answers(found, recalled(talk, cast(Recalling, again), percent, count))
