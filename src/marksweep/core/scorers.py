"""The scorers by name, and scorers that want to know all segments first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from marksweep.core.covering import Covering
from marksweep.core.score import Scorer, seed_age, seed_retention
from marksweep.errors import UnknownName
from marksweep.model import Segment

SCORERS: Mapping[str, Scorer] = {
    "seed_age": seed_age,
    "seed_retention": seed_retention,
    "covering": Covering(),
}
"""The scorers by name."""


def scorer_named(name: str) -> Scorer:
    """Find a scorer by its name."""
    try:
        return SCORERS[name]
    except KeyError:
        raise UnknownName(
            f"no scorer named {name!r}; known are {', '.join(sorted(SCORERS))}. "
            "Pass one of these, or a function from a segment and a time to a number."
        ) from None


def knowing(scorer: Scorer, segments: Iterable[Segment]) -> Scorer:
    """Let a scorer know all segments, if it is one that looks at others than the one it scores."""
    return scorer.over(segments) if isinstance(scorer, Covering) else scorer
