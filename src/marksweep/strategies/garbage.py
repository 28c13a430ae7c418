"""Garbage: only what no root reaches, the newest first. Never touches anything in use.

All of it is equally worthless, and a cut near the end keeps the prompt cache.
"""

from __future__ import annotations

from collections.abc import Iterator

from marksweep.core.context import PlanningContext
from marksweep.core.mark import Mark
from marksweep.core.strategy import Proposal
from marksweep.model import Action


class Garbage:
    """Rank what is unreachable; leave the rest alone, whatever the budget asks."""

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return "garbage"

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose every unreachable unit; first those unrelated to what is in use."""
        firsts, marks = list(context.units.firsts()), context.marks
        reasons: dict[str, str] = {}  # One string for all of a kind: each takes its room.
        for wanted in (Mark.GARBAGE, Mark.RELATED):
            for first in reversed(firsts):
                if marks[first] == wanted:
                    kind = context.segments[first].type
                    reason = reasons.setdefault(kind, f"unreachable: no root refers to this {kind}")
                    yield Proposal((first,), Action.STASH, reason)
