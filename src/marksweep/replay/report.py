"""A whole replay: find the needs, run the front, choose a setting, trace what it missed.

found = replay(gather(["logs/"]), Request(budgets=("32k",)))
print(found.chosen)
Path("report.html").write_text(page(found.result, found.chosen, found.timelines))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from marksweep.errors import BadInput
from marksweep.money import MODEL, MODELS, ModelPrice
from marksweep.replay import catalog
from marksweep.replay.atoms import EXTRACTORS
from marksweep.replay.cases import Case, prepare
from marksweep.replay.catalog import CLAIRVOYANT
from marksweep.replay.drive import Pricer
from marksweep.replay.inputs import Inputs
from marksweep.replay.measures import Outcome
from marksweep.replay.needs import habits
from marksweep.replay.recommend import WANTED_RECALL_PERCENT, Recommendation, recommend
from marksweep.replay.runner import Budget, Front, How, Progress, build, counter, run
from marksweep.replay.table import Result, tabulate
from marksweep.replay.timeline import Timeline, trace

BUDGETS = ("10%", "25%", "50%")
MAX_TRANSCRIPTS = 100
"""Transcripts that are replayed, drawn by lot; more take longer and change the figures little."""
MAX_TIMELINES = 3
"""Transcripts with a timeline, those that missed most; each adds some 50 kB to a report."""
HABIT_SHARE = 0.10
"""Share of transcripts beyond which an atom of their actions is a habit and needs no context."""
HABITS_FROM = 20
"""Transcripts from which habits can be learned; fewer say too little."""


class Request(msgspec.Struct, frozen=True):
    """What to replay, and how."""

    strategies: tuple[str, ...] = catalog.DEFAULT
    budgets: tuple[str, ...] = BUDGETS
    enough: float = WANTED_RECALL_PERCENT
    """Need recall in percent that the recommended setting should have."""
    extractor: str = "names"
    answers: bool = False
    """Whether a plain answer is an action too, for agents whose answer is the action."""
    most: int = MAX_TRANSCRIPTS
    how: How = How()
    price: ModelPrice = MODELS[MODEL]
    """Whose prices costs are written in."""
    trace: str | None = None
    """Part of the name of the transcript whose timeline is wanted; else those that missed most."""
    source: str = "PATH"
    """Where the transcripts are, for the command that is recommended."""
    usable_as: Callable[[str], bool] = catalog.is_usable
    """Which strategies may be recommended."""


class Replayed(msgspec.Struct, frozen=True, rename={"chosen": "recommended"}):
    """What a replay found."""

    result: Result
    chosen: Recommendation | None
    timelines: tuple[Timeline, ...]


def replay(inputs: Inputs, request: Request, progress: Progress | None = None) -> Replayed:
    """Replay transcripts and conversations."""
    runs, extract = inputs.trajectories, EXTRACTORS[request.extractor]
    stop: set[str] = set()
    if len(runs) >= HABITS_FROM:
        stop = habits(runs, HABIT_SHARE, extract, answers=request.answers)
    cases, unfit = prepare(
        runs, request.extractor, counter(), stop=stop, answers=request.answers, most=request.most
    )
    talks, passed = inputs.conversations, [*inputs.passed, *unfit]
    if not cases and not talks:
        first = f"; the first: {passed[0].name}: {passed[0].reason}" if passed else ""
        raise BadInput(f"no transcript can be replayed; {len(passed)} were skipped{first}.")
    budgets = _by_size([Budget.of(text) for text in dict.fromkeys(request.budgets)], cases)
    asked = [catalog.canonical(name) for name in request.strategies]
    names = dict.fromkeys((catalog.TRUNCATE, *asked, CLAIRVOYANT))
    found = run(cases, talks, tuple(names), budgets, request.how, progress=progress)
    result = tabulate(
        cases, budgets, found, passed, extractor=request.extractor, price=request.price
    )
    chosen = recommend(result, request.enough, request.source, request.usable_as)
    timelines = _traced(cases, found, chosen, request) if chosen else ()
    return Replayed(result, chosen, timelines)


def _by_size(budgets: list[Budget], cases: Sequence[Case]) -> list[Budget]:
    """The smallest first, so that a line in the picture goes from little to much."""
    if not cases:
        return sorted(budgets, key=lambda budget: budget.percent or 0.0)
    return sorted(budgets, key=lambda budget: sum(map(budget.limit, cases)))


def _traced(
    cases: Sequence[Case], found: Front, chosen: Recommendation, request: Request
) -> tuple[Timeline, ...]:
    """Timelines of the chosen setting, and of truncation beside the first of them."""
    outcomes = [each.outcomes[chosen.strategy] for each in found.done[chosen.budget]]
    order = sorted(range(len(cases)), key=lambda at: (-_lost(outcomes[at]), at))
    if request.trace is not None:
        order = [at for at in order if request.trace in cases[at].study.trajectory.id]
        if not order:
            raise BadInput(
                f"no transcript named {request.trace!r} was replayed; the names are in --json."
            )
    wanted = [(at, chosen.strategy) for at in order[:MAX_TIMELINES]]
    if chosen.strategy != catalog.TRUNCATE:
        wanted.insert(1, (order[0], catalog.TRUNCATE))
    budget = Budget.of(chosen.budget)
    count = counter()
    tokens = Pricer(count)
    return tuple(
        trace(
            cases[at],
            build(name, count, request.how.patience),
            tokens,
            strategy=name,
            budget=chosen.budget,
            limit=budget.limit(cases[at]),
        )
        for at, name in wanted
    )


def _lost(outcome: Outcome) -> float:
    return sum(1 - step.any for step in outcome.steps if step.any is not None)
