"""Sets of trajectories, made ready to be scored: which to use, what they need, what they cost."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from marksweep.errors import NotFound
from marksweep.replay.atoms import EXTRACTORS
from marksweep.replay.inputs import Passed
from marksweep.replay.needs import Study, habits, study
from marksweep.replay.records import Count, Trajectory, price, read_records

VARIABLE = "MARKSWEEP_DATA"
"""Names the folder that holds the recorded data, or one with such a sub-folder `dev`."""
NEED_STEPS = 3
"""Steps with a need that a trajectory must have to be used."""
AT_MOST = 60
"""Trajectories of a set that are used, the first by the MD5 of their id."""


class Source(msgspec.Struct, frozen=True):
    """Where a set is stored and how its actions are read."""

    name: str
    share: float | None = None
    """Share of trajectories beyond which an atom of their actions is a habit. None: no habits."""
    answers: bool = False
    """Whether a plain answer is an action too."""


DEVELOPMENT = (
    Source("mini_swe", share=0.02),
    Source("tau_airline", share=0.10, answers=True),
    Source("coding_sessions"),
)
CONVERSATIONS = ("locomo", "qmsum", "beam100k")


class Case(msgspec.Struct, frozen=True):
    """A trajectory with its needs and the price of each message."""

    study: Study
    prices: tuple[int, ...]


def folder() -> Path:
    """The folder of the development data."""
    given = os.environ.get(VARIABLE)
    for place in (Path(given) / "dev", Path(given)) if given else ():
        if (place / f"{DEVELOPMENT[0].name}.jsonl.xz").is_file():
            return place
    raise NotFound(
        f"{VARIABLE} is {given!r}; expected a folder with {DEVELOPMENT[0].name}.jsonl.xz and the "
        "other sets. Set it to the folder of the recorded data."
    )


def load(count: Count, extractor: str = "names", most: int = AT_MOST) -> dict[str, list[Case]]:
    """The development sets, ready to be scored, each in the order of its lots."""
    extract = EXTRACTORS[extractor]
    read = {s.name: read_records(folder() / f"{s.name}.jsonl.xz", Trajectory) for s in DEVELOPMENT}
    stop: set[str] = set()
    for source in DEVELOPMENT:
        if source.share is not None:
            found = read[source.name]
            stop |= habits(found, source.share, extract, answers=source.answers)
    sets = {}
    for source in DEVELOPMENT:
        runs = sorted(read[source.name], key=lot)
        cases, _ = prepare(runs, extractor, count, stop=stop, answers=source.answers, most=most)
        sets[source.name] = cases
    return sets


def prepare(
    trajectories: Sequence[Trajectory],
    extractor: str,
    count: Count,
    *,
    stop: Collection[str] = (),
    answers: bool = False,
    most: int = AT_MOST,
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
