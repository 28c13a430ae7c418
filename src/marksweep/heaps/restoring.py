"""Restoring: which versions come from the stash, together with which others, and what they replace.

A segment may be shortened by one plan and swept by a later one: then the stash holds it twice, in
full and shortened. Or another, such as a summary, stands in for it and is shortened or swept.
Undo and restore follow the same rules, whatever the order:

1. Whole units come back: what was swept as one unit with a segment comes along, as it was last.
2. An earlier version replaces later ones: once it is back, what later plans made of it is obsolete.
3. No stand-in beside its original: once an original is back, all its stand-ins are removed from the
   heap and the stash. Other originals of it stay in the stash, under the plan that swept them.

So the stash never holds a stand-in whose original is live, and undoing everything in any order ends
where it began.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence

import msgspec

from marksweep.model import Hold, Segment, Stashed
from marksweep.stores.base import Stash


class Returning(msgspec.Struct, frozen=True):
    """Stash entries whose segments come back, in heap order, and what is removed for them."""

    entries: tuple[Stashed, ...]
    stand_ins: frozenset[str]


def returning(
    stash: Stash, workspace: str, chosen: Sequence[Stashed], live: Container[str]
) -> Returning:
    """Complete chosen entries to whole units, and leave out stand-ins of what comes back."""
    back = {entry.segment.segment_id: entry for entry in chosen}
    swept_by: dict[str, dict[str, set[str]]] = {}
    unseen = list(back)
    while unseen:
        mates: dict[str, None] = {}
        for entry in stash.get(workspace, unseen):
            if entry.plan_id not in swept_by:
                of_plan = stash.of_plan(workspace, entry.plan_id)
                swept_by[entry.plan_id] = _mates([each.segment for each in of_plan])
            mates.update(dict.fromkeys(sorted(swept_by[entry.plan_id][entry.segment.segment_id])))
        wanted = [mate for mate in mates if mate not in back and mate not in live]
        newest = newest_of(stash, workspace, wanted)
        back.update(newest)
        unseen = list(newest)
    _, stand_ins = obsolete(stash, workspace, tuple(back.values()))
    entries = [entry for name, entry in back.items() if name not in stand_ins]
    entries.sort(key=lambda entry: (entry.segment.position, entry.segment.segment_id))
    return Returning(tuple(entries), stand_ins)


def obsolete(
    stash: Stash, workspace: str, entries: Sequence[Stashed]
) -> tuple[list[Stashed], frozenset[str]]:
    """Find what is obsolete once these are back: stash entries of later versions, and stand-ins."""
    later: list[Stashed] = []
    found: set[str] = set()
    reached: set[str] = set()
    chosen = {entry.segment.segment_id: entry.plan_id for entry in entries}
    waiting = _stand_ins(entries)
    for entry in stash.get(workspace, list(chosen)):
        name = entry.segment.segment_id
        if entry.plan_id == chosen[name]:
            reached.add(name)
        elif name not in reached:
            later.append(entry)
    waiting |= _stand_ins(later)
    while waiting:
        found |= waiting
        versions = stash.get(workspace, sorted(waiting))
        later += versions
        waiting = _stand_ins(versions) - found
    return later, frozenset(found)


def newest_of(stash: Stash, workspace: str, segment_ids: Sequence[str]) -> dict[str, Stashed]:
    """Fetch the version of each segment that was swept last, of those that are in the stash."""
    newest: dict[str, Stashed] = {}
    for entry in stash.get(workspace, segment_ids) if segment_ids else ():
        newest.setdefault(entry.segment.segment_id, entry)
    return newest


def is_back(entry: Stashed, live: Mapping[str, Segment]) -> bool:
    """Return whether a segment is live in the same version as in the stash."""
    found = live.get(entry.segment.segment_id)
    return found is not None and (found.text, found.raw) == (entry.segment.text, entry.segment.raw)


def _stand_ins(entries: Iterable[Stashed]) -> set[str]:
    """Return the stand-ins of segments under another id."""
    return {
        entry.replaced_by
        for entry in entries
        if entry.replaced_by is not None and entry.replaced_by != entry.segment.segment_id
    }


def _mates(segments: Collection[Segment]) -> dict[str, set[str]]:
    """Map each segment to those that are one unit with it among these."""
    units = {segment.segment_id: {segment.segment_id} for segment in segments}
    for segment in segments:
        for reference in segment.all_references:
            if reference.hold is Hold.PAIRED and reference.target in units:
                one, other = units[segment.segment_id], units[reference.target]
                if one is not other:
                    small, large = sorted((one, other), key=len)
                    large |= small
                    units.update(dict.fromkeys(small, large))
    return units
