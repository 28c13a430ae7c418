"""Versions: what the stash holds of one segment, besides itself.

A segment may be shortened by one plan and swept by a later one: then it lies in the stash twice,
whole and shortened. Or another stands in for it, and that one is shortened or swept in turn. Once
the whole one is back, none of these may take its place again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from marksweep.model import Stashed
from marksweep.stores.base import Stash


class Later(NamedTuple):
    """What is left of segments that come back whole."""

    stashed: list[tuple[str, str]]
    """Entries that are worthless then: their plan, and their segment."""
    stand_ins: list[str]
    """Segments that stand in for them, live or not."""


def later_versions(stash: Stash, workspace: str, entries: Sequence[Stashed]) -> Later:
    """Find what later plans made of segments, given their entries as one plan stashed them."""
    found = Later([], [])
    plan_id = entries[0].plan_id
    ids = [entry.segment.segment_id for entry in entries]
    reached: set[str] = set()
    for entry in stash.get(workspace, ids):
        name = entry.segment.segment_id
        if entry.plan_id == plan_id:
            reached.add(name)
        elif name not in reached:
            found.stashed.append((entry.plan_id, name))
    waiting = [e.replaced_by for e in entries if e.replaced_by not in (None, e.segment.segment_id)]
    while waiting:
        name = waiting.pop() or ""
        if name in found.stand_ins:
            continue
        found.stand_ins.append(name)
        for entry in stash.get(workspace, [name]):
            found.stashed.append((entry.plan_id, name))
            if entry.replaced_by and _stands_for_one(stash, workspace, entry):
                waiting.append(entry.replaced_by)
    return found


def _stands_for_one(stash: Stash, workspace: str, entry: Stashed) -> bool:
    """Whether what took a segment's place took that of no other; else it is still needed."""
    others = stash.of_plan(workspace, entry.plan_id)
    return sum(other.replaced_by == entry.replaced_by for other in others) == 1
