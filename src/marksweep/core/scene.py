"""The scene: all that a strategy may look at when it ranks.

A snapshot with its roots, marks and units worked out once, and the time and pressure passed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

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
        self.graph = Graph(self.segments)
        self.units = Units(self.graph, len(self.segments))
        self.marks = mark(self.segments, self.graph, roots)
        self.sizes = [segment.tokens for segment in self.segments]
        self.tokens = sum(self.sizes)

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

    def reason_to_keep(self, i: int) -> str | None:
        """Say why a segment may not be swept; None if it may.

        Roots, pins and locks hold whatever the strategy; PRESERVABLE yields only to HARD pressure;
        CONDITIONAL stays unless its owner gave it another policy.
        """
        if i in self.roots:
            return self.roots[i]
        segment = self.segments[i]
        if segment.pinned:
            return "pinned"
        policy = segment.policy
        if policy == GCPolicy.LOCKED:
            return "locked by its policy"
        if policy == GCPolicy.PRESERVABLE and self.pressure < Pressure.HARD:
            return "preservable, and the pressure is not high"
        if policy == GCPolicy.CONDITIONAL:
            return "conditional, and its owner has not let go"
        return None

    def unit_to_keep(self, members: tuple[int, ...]) -> str | None:
        """Say why a unit may not be swept: it has a member that may not."""
        for i in members:
            reason = self.reason_to_keep(i)
            if reason is not None:
                return reason
        return None
