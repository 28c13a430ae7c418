"""Chosen: exactly the segments that the caller named, in that order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.model import Action, Segment


class Chosen:
    """Propose what was named; the planner still refuses what must stay."""

    name = "chosen"

    def __init__(
        self,
        segment_ids: Sequence[str],
        action: Action | Callable[[PlanningContext, int], Action] = Action.STASH,
        *,
        replacements: Mapping[str, Segment] | None = None,
    ) -> None:
        """Take the names; `action` is what is done with each, or a function that says so."""
        self._segment_ids = segment_ids
        self._action = action
        self._replacements = replacements or {}

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose each named segment that is in the snapshot."""
        for segment_id in self._segment_ids:
            i = context.graph.index.get(segment_id)
            if i is not None:
                replacement = self._replacements.get(segment_id)
                action = self._action(context, i) if callable(self._action) else self._action
                yield Proposal((i,), action, "asked for by name", replacement)
