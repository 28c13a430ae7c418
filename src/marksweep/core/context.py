"""The planning context: everything that a strategy may use when it ranks.

A snapshot with its roots, and the time, pressure and target passed in. References, units and marks
are computed once, when first needed: a strategy that uses age alone needs no marks.
A context is immutable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from functools import cached_property

import msgspec

from marksweep.core.mark import mark
from marksweep.core.roots import RULES, Focus, Rule, find_roots
from marksweep.core.units import Graph, Units
from marksweep.model import IN_PLACE, Action, GCPolicy, Pressure, Segment, Snapshot

EXPENDABLE = frozenset({GCPolicy.EPHEMERAL, GCPolicy.PARTIAL})
"""The policies of segments that may go without pressure."""


class Yield(IntEnum):
    """How far a root may be cut once the strategy has nothing more to offer."""

    TARGET = 1
    """Its bulky results may be trimmed to reach the target."""
    LIMIT = 2
    """Its bulky results and pastes may be trimmed to fit the limit; under HARD pressure to reach
    the target."""
    LAST = 3
    """Its pastes may be trimmed to reach the target; it may go to fit the limit, last of all."""


@dataclass(frozen=True, eq=False)
class PlanningContext:
    """A snapshot and what is known about it. Segments are named by their index."""

    snapshot: Snapshot
    roots: Mapping[int, str]
    """Which segments must stay, each with a reason."""
    now: datetime
    target: int | None = None
    """The target size; None: take everything that the strategy offers."""
    pressure: Pressure = Pressure.SOFT
    unanswered: int | None = None
    """The first segment that the model has not answered: what comes back is placed before it.

    None: nothing is brought back automatically.
    """
    limit: int | None = None
    """What must not be exceeded, if that is known; the target is at most this."""
    yields: Mapping[int, Yield] = field(default_factory=dict)
    """Which of the roots yield, and how far."""
    is_cache_cold: bool = False
    """Whether the provider reads the whole prompt again anyway, wherever it changes."""

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        focus: Focus,
        target: int | None = None,
        *,
        pressure: Pressure = Pressure.SOFT,
        rules: Sequence[Rule] = RULES,
    ) -> PlanningContext:
        """Find the roots by the rules."""
        roots = find_roots(snapshot.segments, focus, rules)
        return cls(snapshot, roots, focus.now, target, pressure)

    def aiming_at(self, target: int) -> PlanningContext:
        """Return the same context with another target; computed values are shared."""
        other = copy(self)
        object.__setattr__(other, "target", target)
        return other

    def freed_elsewhere(self, size: int) -> PlanningContext:
        """Return the same context for a strategy that need not free this much: others do."""
        if self.target is None or not size:
            return self
        other = self.aiming_at(self.target + size)
        object.__setattr__(other, "limit", None if self.limit is None else self.limit + size)
        return other

    def with_edits(self, edits: Mapping[int, Segment]) -> PlanningContext:
        """Return the same context with other forms of some segments; references are the same."""
        segments = list(self.segments)
        for i, segment in edits.items():
            segments[i] = segment
        other = copy(self)
        snapshot = msgspec.structs.replace(self.snapshot, segments=tuple(segments))
        object.__setattr__(other, "snapshot", snapshot)
        for worked_out in ("sizes", "size"):
            vars(other).pop(worked_out, None)
        return other

    @property
    def segments(self) -> Sequence[Segment]:
        """The segments of the snapshot."""
        return self.snapshot.segments

    @cached_property
    def sizes(self) -> Sequence[int]:
        """The size of each segment."""
        return [segment.tokens for segment in self.segments]

    @cached_property
    def size(self) -> int:
        """The size of the whole heap, even if the snapshot is a part of it."""
        return sum(self.sizes) + (self.snapshot.rest_size or 0)

    @property
    def needed(self) -> int:
        """How much has to go to meet the target; everything if there is none."""
        return self.size - (self.target or 0)

    @cached_property
    def graph(self) -> Graph:
        """Who refers to whom."""
        return Graph(self.segments)

    @cached_property
    def units(self) -> Units:
        """What must go together."""
        return Units(self.graph)

    @cached_property
    def marks(self) -> bytearray:
        """How firmly the roots hold each segment."""
        return mark(self.segments, self.graph, self.units, self.roots)

    def free(self) -> list[int]:
        """Yield what may be swept or changed."""
        return [i for i, held in enumerate(self._held) if not held]

    def held(self, until: int | None = None) -> int:
        """Size of what may not be swept, of all or of the segments before an index."""
        return sum(size for size, held in zip(self.sizes[:until], self._held, strict=False) if held)

    def may_go(self, members: tuple[int, ...]) -> bool:
        """Return whether all of these segments may be swept or changed."""
        held = self._held
        for i in members:  # noqa: SIM110  # a generator makes planning a fifth slower
            if held[i]:
                return False
        return True

    def may_yield(self, members: tuple[int, ...], action: Action) -> bool:
        """Return whether this may be done to all of these segments as a last resort."""
        least = Yield.TARGET if action in IN_PLACE else Yield.LAST
        return all(not self._held[i] or self.yields.get(i, 0) >= least for i in members)

    def reason_to_keep(self, members: tuple[int, ...]) -> str | None:
        """Return why a unit may not be swept: the reason of its first member that may not."""
        for i in members:
            if self._held[i]:
                return self.roots.get(i) or _REASONS[_hold(self.segments[i], self.pressure)]
        return None

    def ids_of(self, steps: Sequence[tuple[int, ...]]) -> list[tuple[str, ...]]:
        """Return the segment ids of each step, given by their indices."""
        segments = self.segments
        return [tuple([segments[i].segment_id for i in members]) for members in steps]

    @cached_property
    def _held(self) -> bytearray:
        """What may not be swept, whatever the strategy: one byte per segment.

        Roots, pins and locks always hold; PRESERVABLE yields only to HARD pressure; CONDITIONAL
        stays unless its owner gave it another policy.
        """
        pressure = self.pressure
        held = bytearray(
            [
                _FREE if s.policy in EXPENDABLE and not s.pinned else _hold(s, pressure)
                for s in self.segments
            ]
        )
        for root in self.roots:
            held[root] = _ROOT
        return held


_FREE, _PINNED, _LOCKED, _PRESERVABLE, _CONDITIONAL, _ROOT = range(6)

_REASONS = {
    _PINNED: "pinned",
    _LOCKED: "locked by its policy",
    _PRESERVABLE: "preservable, and the pressure is not high",
    _CONDITIONAL: "conditional, and its owner has not released it",
}


def _hold(segment: Segment, pressure: Pressure) -> int:
    """Return what holds a segment that is not a root."""
    if segment.pinned:
        return _PINNED
    policy = segment.policy
    if policy == GCPolicy.LOCKED:
        return _LOCKED
    if policy == GCPolicy.PRESERVABLE:
        return _PRESERVABLE if pressure < Pressure.HARD else _FREE
    return _CONDITIONAL if policy == GCPolicy.CONDITIONAL else _FREE
