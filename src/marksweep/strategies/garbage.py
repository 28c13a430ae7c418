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

    name = "garbage"

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose every unreachable unit; first those unrelated to what is in use."""
        firsts, marks = list(context.units.firsts()), context.marks
        for wanted in (Mark.GARBAGE, Mark.RELATED):
            for first in reversed(firsts):
                if marks[first] == wanted:
                    reason = f"unreachable: no root refers to this {context.segments[first].type}"
                    yield Proposal((first,), Action.STASH, reason)
