"""Which transcripts are scored, drawn by lot, with what they need and what they cost."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

import msgspec

from marksweep.replay.atoms import EXTRACTORS
from marksweep.replay.inputs import Passed
from marksweep.replay.needs import Study, study
from marksweep.replay.records import Count, Trajectory, price

NEED_STEPS = 3
"""Steps with a need that a trajectory must have to be used."""


class Case(msgspec.Struct, frozen=True):
    """A trajectory with its needs and the price of each message."""

    study: Study
    prices: tuple[int, ...]


def prepare(
    trajectories: Sequence[Trajectory],
    extractor: str,
    count: Count,
    *,
    stop: Collection[str] = (),
    answers: bool = False,
    most: int,
) -> tuple[list[Case], list[Passed]]:
    """Find the needs of at most so many trajectories, drawn by lot; the others are skipped."""
    cases: dict[str, Case] = {}
    reasons: dict[str, str] = {}
    for run in sorted(trajectories, key=lot):
        if len(cases) == most:
            reasons[run.id] = f"{most} others were drawn by lot; --most takes more"
            continue
        found = study(run, EXTRACTORS[extractor], frozenset(stop), answers=answers)
        if found.need_steps >= NEED_STEPS:
            cases[run.id] = Case(found, tuple(price(message, count) for message in run.messages))
        else:
            uses = f"{found.need_steps} steps take something from before"
            reasons[run.id] = f"{uses}; {NEED_STEPS} are needed"
    return (
        [cases[run.id] for run in trajectories if run.id in cases],
        [Passed(run.id, reasons[run.id]) for run in trajectories if run.id in reasons],
    )


def lot(trajectory: Trajectory) -> str:
    """The rank of a trajectory in the sample: the lowest are used. Independent of the others."""
    return hashlib.md5(trajectory.id.encode(), usedforsecurity=False).hexdigest()
