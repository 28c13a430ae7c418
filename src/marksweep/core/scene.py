"""The scene: all that a strategy may look at when it ranks.

A snapshot with its roots, and the time and pressure passed in. References, units and marks are
worked out once, when something first asks: a strategy that goes by age alone needs no marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property

from marksweep.core.graph import Graph
from marksweep.core.mark import mark
from marksweep.core.roots import RULES, Focus, Rule, find_roots
from marksweep.core.units import Units
from marksweep.model import GCPolicy, Pressure, Segment, Snapshot


class Scene:
    """A snapshot and what is known about it. Segments are named by their index."""

    def __init__(
        self,
        snapshot: Snapshot,
        roots: dict[int, str],
        now: datetime,
        pressure: Pressure = Pressure.SOFT,
    ) -> None:
        self.snapshot = snapshot
        self.segments: Sequence[Segment] = snapshot.segments
        self.roots = roots
        self.now = now
        self.pressure = pressure
        self.sizes = [segment.tokens for segment in self.segments]
        self.tokens = sum(self.sizes) + (snapshot.rest_tokens or 0)
        self.target_tokens = 0
        """Where the planner wants to land. A strategy may reckon with it, and need not."""
        self._held = self._find_held()

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        focus: Focus,
        pressure: Pressure = Pressure.SOFT,
        rules: Sequence[Rule] = RULES,
    ) -> Scene:
        """Set the scene by the root rules."""
        return cls(snapshot, find_roots(snapshot.segments, focus, rules), focus.now, pressure)

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
        """Give what may be swept or changed."""
        return [i for i, held in enumerate(self._held) if not held]

    def may_go(self, members: tuple[int, ...]) -> bool:
        """Say whether segments may be swept or changed, all of them."""
        for i in members:  # noqa: SIM110  # a generator makes planning a fifth slower
            if self._held[i]:
                return False
        return True

    def reason_to_keep(self, members: tuple[int, ...]) -> str | None:
        """Say why a unit may not be swept: the first of its members that may not."""
        for i in members:
            if self._held[i]:
                return self.roots.get(i) or _REASONS[_hold(self.segments[i], self.pressure)]
        return None

    def _find_held(self) -> bytearray:
        """Find what may not be swept, whatever the strategy: one byte per segment.

        Roots, pins and locks always hold; PRESERVABLE yields only to HARD pressure; CONDITIONAL
        stays unless its owner gave it another policy.
        """
        pressure, partial = self.pressure, GCPolicy.PARTIAL
        held = bytearray(
            [
                _FREE if s.policy is partial and not s.pinned else _hold(s, pressure)
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
    _CONDITIONAL: "conditional, and its owner has not let go",
}


def _hold(segment: Segment, pressure: Pressure) -> int:
    """Say what holds a segment that is no root."""
    if segment.pinned:
        return _PINNED
    policy = segment.policy
    if policy == GCPolicy.LOCKED:
        return _LOCKED
    if policy == GCPolicy.PRESERVABLE:
        return _PRESERVABLE if pressure < Pressure.HARD else _FREE
    return _CONDITIONAL if policy == GCPolicy.CONDITIONAL else _FREE
