"""Why: the path from a root that keeps a segment alive, as text."""

from __future__ import annotations

from itertools import pairwise

from marksweep.core.context import PlanningContext
from marksweep.core.mark import Mark, hubs, path
from marksweep.model import Link

_BACKWARDS = {
    Link.REFERS: "which refers to",
    Link.DERIVED: "which is derived from",
    Link.REPLY: "which is a reply to",
    Link.ANSWERS: "which answers",
    Link.PART: "which is part of",
    Link.RELATED: "which is related to",
}


def why(context: PlanningContext, segment_id: str) -> str:
    """Say what keeps a segment alive, or that nothing does."""
    goal = context.graph.index[segment_id]
    steps = path(context.graph, context.roots, goal)
    if not steps:
        held = held_because(context, goal)
        return f"{segment_id} stays: {held}" if held else _not_kept(context, goal)
    root = context.segments[steps[0]]
    words = [f"{root.segment_id} must stay: {context.roots[steps[0]]}"]
    for source, target in pairwise(steps):
        words.append(f"{_link(context, source, target)} {context.segments[target].segment_id}")
    return ", ".join(words)


def held_because(context: PlanningContext, i: int) -> str | None:
    """Say what holds a segment or what it is paired with; None if both may go."""
    for member in context.units.members(i):
        reason = context.reason_to_keep((member,))
        if reason is not None:
            mate = context.segments[member].segment_id
            return reason if member == i else f"paired with {mate!r}, which is {reason}"
    return None


def _link(context: PlanningContext, source: int, target: int) -> str:
    """Say how one segment leads to the next; a pair may be linked from its other end."""
    wanted = context.segments[target].segment_id
    for reference in context.segments[source].all_references:
        if reference.target == wanted:
            return _BACKWARDS[Link(reference.link)]
    back = {reference.target for reference in context.segments[target].all_references}
    if context.segments[source].segment_id in back:
        return "which is one unit with"
    return "which refers to the original of"


def _not_kept(context: PlanningContext, goal: int) -> str:
    segment = context.segments[goal]
    if context.marks[goal] == Mark.RELATED:
        for kind, name in hubs(segment):
            for i, other in enumerate(context.segments):
                if context.marks[i] == Mark.REACHED and (kind, name) in hubs(other):
                    return (
                        f"nothing that must stay refers to {segment.segment_id}; it only shares "
                        f"the {kind} {name} with {other.segment_id}, so it goes after the rest"
                    )
    return f"nothing that must stay refers to {segment.segment_id}: it may go"
