"""Run collectors over transcripts at several budgets: the front of recall against cost.

One job is one transcript at one budget, or one conversation with questions at one budget. What is
done can be kept in a folder, so that a run that was stopped goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import msgspec

from marksweep.errors import BadInput
from marksweep.replay.atoms import EXTRACTORS
from marksweep.replay.catalog import CLAIRVOYANT, TRUNCATE
from marksweep.replay.clairvoyant import MAX_NODES
from marksweep.replay.datasets import NEED_STEPS, Case
from marksweep.replay.drive import limit_of
from marksweep.replay.evidence import (
    Evidence,
    Recalling,
    blind,
    nothing,
    recalled,
    tokens_of,
)
from marksweep.replay.inputs import Passed
from marksweep.replay.needs import habits, study
from marksweep.replay.records import Conversation, Count, Trajectory, price
from marksweep.replay.result_cache import code_of, load, name_of, own_code, save
from marksweep.replay.runner import Job, JobResult, build, counter, src_weight, work
from marksweep.replay.sandbox import CALL_SECONDS, NoRecall, StrategyFailed
from marksweep.replay.workers import spread
from marksweep.sizes import Size

HABIT_SHARE = 0.10
"""Share of transcripts beyond which an atom of their actions is a habit and needs no context."""
HABITS_FROM = 20
"""Transcripts from which habits can be learned; fewer say too little."""
MIN_PARALLEL_TOKENS = 60_000
"""Tokens times budgets below which starting processes costs more than they save."""

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


class Answers(msgspec.Struct, frozen=True):
    """Evidence in context for the questions of one conversation."""

    blind: Evidence
    recalled: Evidence | None
    """None: the strategy has no recall."""


class Ask(msgspec.Struct, frozen=True):
    """One conversation with questions, a strategy, and the budget."""

    talk: Conversation
    strategy: str
    budget: Budget
    folder: Path | None = None
    patience: float = CALL_SECONDS


class Front(msgspec.Struct, frozen=True):
    """What was done, by budget: per transcript, and per strategy and conversation."""

    done: dict[str, list[JobResult]]
    answers: dict[str, dict[str, list[Answers]]]


def prepared(
    trajectories: Sequence[Trajectory], extractor: str, count: Count, *, answers: bool = False
) -> tuple[list[Case], list[Passed]]:
    """Find the needs of each transcript; those with too few to be scored are skipped."""
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
    talks: Sequence[Conversation],
    strategies: Sequence[str],
    budgets: Sequence[Budget],
    how: How,
    *,
    progress: Progress | None = None,
) -> Front:
    """Drive strategies, and the bound, over every transcript and conversation at every budget."""
    names = tuple(dict.fromkeys((TRUNCATE, *strategies, CLAIRVOYANT)))
    jobs: list[Job | Ask] = []
    for budget in budgets:
        limits = [budget.limit(case) for case in cases]
        weight = src_weight(cases, limits)
        jobs += [
            Job(case, names, limit, weight, how.folder, how.nodes, how.patience)
            for case, limit in zip(cases, limits, strict=True)
        ]
        jobs += [
            Ask(talk, name, budget, how.folder, how.patience)
            for name in strategies
            for talk in talks
        ]
    workers = how.workers if sum(map(_size, jobs)) >= MIN_PARALLEL_TOKENS else 1
    results: dict[int, JobResult | Answers] = {}
    for at, result in spread(_do, jobs, workers, _size):
        results[at] = result
        if progress is not None:
            progress(len(results), len(jobs))
    each = iter(results[at] for at in range(len(jobs)))
    front = Front({}, {})
    for budget in budgets:
        front.done[budget.label] = [cast(JobResult, next(each)) for _ in cases]
        front.answers[budget.label] = {
            name: [cast(Answers, next(each)) for _ in talks] for name in strategies
        }
    return front


def _size(job: Job | Ask) -> int:
    """About how many tokens a job has to go through."""
    if isinstance(job, Job):
        return sum(job.case.prices)
    return sum(len(turn.text) for turn in job.talk.turns) // 4


def _do(job: Job | Ask) -> JobResult | Answers:
    """Do a job, or take what was kept of it."""
    return _done(job) if isinstance(job, Job) else _answered(job)


def _done(job: Job) -> JobResult:
    found = job.case.study
    needs = [[s.at, s.tail, s.any, s.src] for s in found.steps]
    codes = [own_code(), *map(code_of, job.collectors)]
    given = (needs, found.trajectory, job.case.prices, job.collectors, job.limit)
    name = name_of("job", codes, given, job.src_weight, job.nodes)
    done = load(job.folder, name, JobResult)
    if done is None:
        done = work(job)
        save(job.folder, name, done)
    return done


def _answered(job: Ask) -> Answers:
    codes = [own_code(), code_of(job.strategy)]
    name = name_of("ask", codes, job.talk, job.strategy, job.budget)
    answers = load(job.folder, name, Answers)
    if answers is None:
        answers = ask(job, counter())
        save(job.folder, name, answers)
    return answers


def ask(job: Ask, count: Count) -> Answers:
    """Send a conversation to a strategy, and see what it holds for the questions."""
    talk = job.talk
    percent = job.budget.share(tokens_of(talk, count))
    collector = build(job.strategy, count, job.patience)
    try:
        found = blind(talk, collector, percent, count)
        if not hasattr(collector, "recall"):
            return Answers(found, None)
        return Answers(found, recalled(talk, cast(Recalling, collector), percent, count))
    except NoRecall:
        return Answers(found, None)
    except StrategyFailed as error:
        return Answers(nothing(talk, str(error)), None)
