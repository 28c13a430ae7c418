"""The recorded sets in `MARKSWEEP_DATA`: where they are, and which of their runs are used."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from marksweep.errors import NotFound
from marksweep.replay.atoms import EXTRACTORS
from marksweep.replay.cases import Case, lot, prepare
from marksweep.replay.needs import habits
from marksweep.replay.records import Count, Trajectory, read_records

VARIABLE = "MARKSWEEP_DATA"
"""Names the folder that holds the recorded data, or one with such a sub-folder `dev`."""
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
