"""Garbage: only what no root reaches, the newest first. Never touches anything in use.

All of it is equally worthless, and a cut near the end keeps the prompt cache.
"""

from __future__ import annotations

from collections.abc import Iterator

from marksweep.core.mark import Mark
from marksweep.core.plan import Proposal
from marksweep.core.scene import Scene
from marksweep.model import Action


class Garbage:
    """Rank what is unreachable; leave the rest alone, whatever the budget asks."""

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return "garbage"

    def rank(self, scene: Scene) -> Iterator[Proposal]:
        """Propose every unreachable unit; first those unrelated to what is in use."""
        firsts, marks = list(scene.units.firsts()), scene.marks
        reasons: dict[str, str] = {}  # One string for all of a kind: each takes its room.
        for wanted in (Mark.GARBAGE, Mark.RELATED):
            for first in reversed(firsts):
                if marks[first] == wanted:
                    kind = scene.segments[first].type
                    reason = reasons.setdefault(kind, f"unreachable: no root refers to this {kind}")
                    yield Proposal((first,), Action.STASH, reason)
