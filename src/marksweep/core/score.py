"""Scores: how little a segment is worth. **High goes first**, in every scorer, from 0 to 1.

Two formulas, kept under their names so that they can be compared. Both are strictly monotone in
age and bounded: age counts as `age / (age + half_life)`, so a very old decision cannot outrank
everything by its age alone, and a minute does not use up the whole scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType

import msgspec

from marksweep.errors import unknown_name
from marksweep.model import Generation, Segment

Scorer = Callable[[Segment, datetime], float]
"""A prune score from 0 to 1; high goes first."""

HALF_LIFE_HOURS = 24.0
"""Age at which recency has lost half its weight.

Shorter separates minutes and treats yesterday as gone; longer separates days.
"""

DISPENSABLE: Mapping[str, float] = MappingProxyType(
    {
        "log": 1.0,
        "note": 0.8,
        "code": 0.5,
        "message": 0.3,
        "summary": 0.2,
        "decision": 0.1,
    }
)
"""How dispensable each type is, for `SeedAge`; 0.5 for others. High goes first."""

IMPORTANCE: Mapping[str, float] = MappingProxyType(
    {
        "decision": 1.0,
        "note": 0.8,
        "summary": 0.7,
        "code": 0.6,
        "message": 0.5,
        "log": 0.2,
    }
)
"""How much each type matters, for `SeedRetention`; 0.4 for others. High stays."""


class Weights(msgspec.Struct, frozen=True):
    """The weight of each term. They should add up to 1, so that scores stay between 0 and 1."""

    recency: float = 0.4
    type: float = 0.3
    references: float = 0.2
    generation: float = 0.1


class SeedAge(msgspec.Struct, frozen=True):
    """Prune score from 0 to 1; high goes first. Age, dispensable type, few references, old."""

    weights: Weights = Weights()
    half_life_hours: float = HALF_LIFE_HOURS
    dispensable: Mapping[str, float] = DISPENSABLE

    def __call__(self, segment: Segment, now: datetime) -> float:
        """Score one segment."""
        w = self.weights
        age = age_hours(segment, now)
        return (
            w.recency * (age / (age + self.half_life_hours))
            + w.type * self.dispensable.get(segment.type, 0.5)
            + w.references / (segment.refcount + 1)
            + w.generation * (1.0 if segment.generation == Generation.OLD else 0.3)
        )


class SeedRetention(msgspec.Struct, frozen=True):
    """Prune score from 0 to 1; high goes first. One minus the retention score."""

    weights: Weights = Weights()
    half_life_hours: float = HALF_LIFE_HOURS
    importance: Mapping[str, float] = IMPORTANCE

    def __call__(self, segment: Segment, now: datetime) -> float:
        """Score one segment; a pinned one scores 0."""
        if segment.pinned:
            return 0.0
        w = self.weights
        age = age_hours(segment, now)
        return 1.0 - (
            w.recency * (self.half_life_hours / (age + self.half_life_hours))
            + w.type * self.importance.get(segment.type, 0.4)
            + w.references * min(segment.refcount / 5.0, 1.0)
            + w.generation * (0.1 if segment.generation == Generation.YOUNG else 0.0)
        )


seed_age = SeedAge()
seed_retention = SeedRetention()

SCORERS: Mapping[str, Scorer] = MappingProxyType(
    {"seed_age": seed_age, "seed_retention": seed_retention}
)
"""The scorers by name."""


def scorer_named(name: str) -> Scorer:
    """Find a scorer by its name."""
    if name not in SCORERS:
        advice = "Pass one of these, or a function from a segment and a time to a number."
        raise unknown_name("no scorer named", name, SCORERS, advice)
    return SCORERS[name]


def age_hours(segment: Segment, now: datetime) -> float:
    """Hours since the segment was last touched; 0 if that is in the future."""
    if now.tzinfo is None:
        now = now.replace(tzinfo=UTC)
    hours = (now - segment.last_touched_at).total_seconds() / 3600.0
    return hours if hours > 0.0 else 0.0


def age_in_words(hours: float) -> str:
    """Write an age in its largest fitting unit: `5 min`, `3 h`, `12 days`."""
    return minutes_in_words(rounded_minutes(hours))


def rounded_minutes(hours: float) -> int:
    """Round an age down to the precision with which it is written."""
    if hours < 1:
        return int(hours * 60)
    return int(hours) * 60 if hours < 48 else int(hours / 24) * 24 * 60


def minutes_in_words(minutes: int) -> str:
    """Write an age that `rounded_minutes` returned."""
    if minutes < 60:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h" if hours < 48 else f"{hours // 24} days"


def references_in_words(count: int) -> str:
    """Write how many segments refer to one."""
    if count == 0:
        return "no references"
    return "1 reference" if count == 1 else f"{count} references"
