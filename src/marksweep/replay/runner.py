"""Collectors over transcripts and conversations, at several budgets, beside their bounds.

A job is one transcript, or one conversation with questions, at one budget, and the names of
collectors, so that a worker process can build its own. Results come back in the order of the jobs:
the same input gives the same figures. What is done can be kept in a folder, so that a run that was
stopped goes on from there.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar, cast

import msgspec

from marksweep.errors import BadInput, MarksweepError
from marksweep.replay.cases import Case
from marksweep.replay.catalog import CLAIRVOYANT, maker
from marksweep.replay.clairvoyant import MAX_NODES, Clairvoyant, Foresight, Solved, foresee
from marksweep.replay.counting import exact
from marksweep.replay.drive import Collector, Pricer, drive, limit_of
from marksweep.replay.evidence import Evidence, Recalling, blind, nothing, recalled, tokens_of
from marksweep.replay.hits import Reader, proofs
from marksweep.replay.measures import Outcome
from marksweep.replay.records import PER_MESSAGE, Conversation, Count
from marksweep.replay.references import STUB
from marksweep.replay.result_cache import code_of, load, name_of, own_code, save
from marksweep.replay.sandbox import CALL_SECONDS, StrategyFailed
from marksweep.sizes import Size
from marksweep.worker import ProcessWorker, WorkerEnded, take_pipes

MIN_PARALLEL_TOKENS = 60_000
"""Tokens times budgets below which starting processes costs more than they save."""

T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Receives progress: jobs done, and jobs there are."""


class Budget(msgspec.Struct, frozen=True):
    """What a context may take: so many tokens, or a share of what is not pinned."""

    label: str
    tokens: int | None = None
    percent: float | None = None

    @staticmethod
    def of(text: str) -> Budget:
        """Read `32000`, `32k` or `25%`."""
        size = Size.read(text)
        if not (size.tokens or size.percent):
            raise BadInput(f"{text!r} leaves no room; expected for example 32000, 32k or 25%.")
        label = text.strip().lower() if size.percent is None else f"{size.percent:g}%"
        return Budget(label, size.tokens, size.percent)

    def limit(self, case: Case) -> int:
        """The budget in tokens of a transcript, with its pinned prefix."""
        if self.percent is not None:
            return limit_of(case.prices, case.study.trajectory.pinned, self.percent)
        return self.tokens or 0

    def share(self, talk_tokens: int) -> float:
        """The budget as percent of a conversation in which nothing is pinned."""
        if self.percent is not None:
            return self.percent
        return min(100.0, 100 * (self.tokens or 0) / max(1, talk_tokens))


class How(msgspec.Struct, frozen=True):
    """How work is done: it changes the time taken, and what is given up on."""

    workers: int = 1
    nodes: int = MAX_NODES
    """Nodes that the clairvoyant's solver may look at; 0 takes the greedy bound."""
    patience: float = CALL_SECONDS
    """Seconds that a third-party strategy has for one call."""
    folder: Path | None = None
    """Where finished work is kept, to go on from there."""


class Job(msgspec.Struct, frozen=True):
    """One trajectory, the collectors to drive over it, and the budget."""

    case: Case
    collectors: tuple[str, ...]
    limit: int
    src_weight: float
    how: How


class JobResult(msgspec.Struct, frozen=True):
    """Outcome per collector of one trajectory, and how its bound was found."""

    outcomes: dict[str, Outcome]
    solved: Solved | None


class Ask(msgspec.Struct, frozen=True):
    """One conversation with questions, a collector, and the budget."""

    talk: Conversation
    collector: str
    budget: Budget
    how: How


class Answers(msgspec.Struct, frozen=True):
    """Evidence in context for the questions of one conversation."""

    blind: Evidence
    recalled: Evidence | None
    """None: the strategy has no recall."""


class Front(msgspec.Struct, frozen=True):
    """What was done, by budget: per transcript, and per collector and conversation."""

    done: dict[str, list[JobResult]]
    answers: dict[str, dict[str, list[Answers]]]


def run(
    cases: Sequence[Case],
    talks: Sequence[Conversation],
    collectors: Sequence[str],
    budgets: Sequence[Budget],
    how: How,
    *,
    progress: Progress | None = None,
) -> Front:
    """Drive collectors over every transcript and conversation at every budget.

    The clairvoyant knows the steps of a transcript; it has no answers to questions.
    """
    asked = [name for name in collectors if name != CLAIRVOYANT]
    jobs: list[Job | Ask] = []
    for budget in budgets:
        limits = [budget.limit(case) for case in cases]
        weight = src_weight(cases, limits)
        jobs += [
            Job(case, tuple(collectors), limit, weight, how)
            for case, limit in zip(cases, limits, strict=True)
        ]
        jobs += [Ask(talk, name, budget, how) for name in asked for talk in talks]
    workers = how.workers if sum(map(_size, jobs)) >= MIN_PARALLEL_TOKENS else 1
    results: dict[int, JobResult | Answers] = {}
    for at, result in _spread(jobs, workers):
        results[at] = result
        if progress is not None:
            progress(len(results), len(jobs))
    each = iter(results[at] for at in range(len(jobs)))
    front = Front({}, {})
    for budget in budgets:
        front.done[budget.label] = [cast(JobResult, next(each)) for _ in cases]
        front.answers[budget.label] = {
            name: [cast(Answers, next(each)) for _ in talks] for name in asked
        }
    return front


def _spread(jobs: Sequence[Job | Ask], workers: int) -> Iterator[tuple[int, JobResult | Answers]]:
    """Do jobs in so many processes, the biggest first; give each result with its job's number.

    Leaves no process behind when it is stopped or killed.
    """
    if workers <= 1:
        for at, job in enumerate(jobs):
            yield at, _do(job)
        return
    order = sorted(range(len(jobs)), key=lambda at: -_size(jobs[at]))
    path = list(filter(None, sys.path))
    idle: SimpleQueue[ProcessWorker] = SimpleQueue()
    processes: list[ProcessWorker] = []
    pool = ThreadPoolExecutor(workers)

    def do(job: Job | Ask) -> JobResult | Answers:
        process = idle.get()
        try:
            return _asked(process, job)
        finally:
            idle.put(process)

    try:
        for _ in range(workers):
            processes.append(ProcessWorker(__name__, str(Path.cwd()), path=path))
            idle.put(processes[-1])
        waiting = {pool.submit(do, jobs[at]): at for at in order}
        for future in as_completed(waiting):
            yield waiting.pop(future), future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.close()  # the threads wait for these


def _asked(process: ProcessWorker, job: Job | Ask) -> JobResult | Answers:
    """Have a process do a job; raise what it raises."""
    try:
        answer = pickle.loads(process.ask(pickle.dumps(job)))  # noqa: S301 - our own process
    except WorkerEnded as ended:
        raise MarksweepError(
            f"a process of the replay ended ({ended}). If memory is short, use fewer: --workers 1."
        ) from None
    if isinstance(answer, Exception):
        raise answer
    return cast(JobResult | Answers, answer)


def main(folder: str) -> None:
    """Do the jobs that the parent process sends, as its worker.

    Strategies of the user's are imported from the folder that the replay was started in.
    """
    requests, send = take_pipes()
    os.chdir(folder)
    for request in requests:
        answer: JobResult | Answers | Exception
        try:
            answer = _do(pickle.loads(request))  # noqa: S301 - from our own parent
        except Exception as error:  # noqa: BLE001 - raised again in the parent
            error.add_note(f"In a process of the replay:\n{traceback.format_exc()}")
            answer = error
        send(pickle.dumps(answer))


def _size(job: Job | Ask) -> int:
    """About how many tokens a job has to go through."""
    if isinstance(job, Job):
        return sum(job.case.prices)
    return sum(len(turn.text) for turn in job.talk.turns) // 4


def _do(job: Job | Ask) -> JobResult | Answers:
    """Do a job, or take what was kept of it."""
    if isinstance(job, Job):
        codes = [own_code(), *map(code_of, job.collectors)]
        given = (*_given(job), job.case.study.trajectory, job.collectors)
        return _kept(job.how.folder, name_of("job", codes, given), JobResult, lambda: work(job))
    codes = [own_code(), code_of(job.collector)]
    name = name_of("ask", codes, job.talk, job.collector, job.budget)
    return _kept(job.how.folder, name, Answers, lambda: ask(job))


def _given(job: Job) -> tuple[object, ...]:
    """What the bound of a job depends on."""
    found = job.case.study
    steps = [[s.at, s.tail, s.any, s.src] for s in found.steps]
    pinned = found.trajectory.pinned
    return steps, pinned, job.case.prices, job.limit, job.src_weight, job.how.nodes


def _kept(folder: Path | None, name: str, kind: type[T], make: Callable[[], T]) -> T:
    """Return what was kept under a name; else make it, and keep it."""
    found = load(folder, name, kind)
    if found is None:
        found = make()
        save(folder, name, found)
    return found


def ask(job: Ask) -> Answers:
    """Send a conversation to a collector, and see what it holds for the questions."""
    talk, count = job.talk, counter()
    percent = job.budget.share(tokens_of(talk, count))
    collector = build(job.collector, count, job.how.patience)
    try:
        found = blind(talk, collector, percent, count)
        if getattr(collector, "recall", None) is None:
            return Answers(found, None)
        return Answers(found, recalled(talk, cast(Recalling, collector), percent, count))
    except StrategyFailed as error:
        return Answers(nothing(talk, str(error)), None)


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
            collector = build(name, count, job.how.patience)
        steps = drive(found, needed, collector, job.limit, tokens=tokens, reader=reader)
        outcomes[name] = Outcome(found.trajectory.id, tuple(steps))
    return JobResult(outcomes, solved)


def _foresight(job: Job, count: Count) -> Foresight:
    """The clairvoyant's schedule, from what was kept if it is there."""
    name = name_of("bound", own_code(), *_given(job))
    stub, weight = count(STUB) + PER_MESSAGE, job.src_weight
    case, how = job.case, job.how
    return _kept(
        how.folder,
        name,
        Foresight,
        lambda: foresee(
            case.study, case.prices, job.limit, stub=stub, src_weight=weight, nodes=how.nodes
        ),
    )
