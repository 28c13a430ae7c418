"""What was swept from a conversation: finding it again, and bringing back whole units."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from marksweep.model import Hold, Segment
from marksweep.stores.base import Query, Stash
from marksweep.tokens import count

FRAME = 4
"""Tokens that a recalled text costs beside its own."""

CANDIDATES = 64
"""How many hits are looked at. More may fill the room better, and takes longer."""


class Recalled(msgspec.Struct, frozen=True):
    """A swept message that was found again."""

    message_id: str
    text: str
    tokens: int
    score: float
    """How good the match is, high is better; 0 for a neighbour of a match."""


def recalled(stash: Stash, workspace: str, query: str, limit: int) -> list[Recalled]:
    """Find swept messages by words, best first, each with its neighbours, in so many tokens.

    What was said just before and after a match often holds the answer.
    """
    found: dict[str, Recalled] = {}
    room = limit
    for hit in stash.search(workspace, Query(words=query, limit=CANDIDATES)):
        segment = hit.found.segment
        around = _neighbours(stash, workspace, segment)
        for candidate, score in ((segment, hit.score), *((s, 0.0) for s in around)):
            tokens = count(candidate.text) + FRAME
            if candidate.segment_id in found or not candidate.text or tokens > room:
                continue
            room -= tokens
            name, text = candidate.segment_id, candidate.text
            found[name] = Recalled(name, text, tokens, score)
    return list(found.values())


def _neighbours(stash: Stash, workspace: str, segment: Segment) -> Iterator[Segment]:
    names = [f"m{segment.position - 1}", f"m{segment.position + 1}"]
    for entry in stash.get(workspace, names):
        yield entry.segment


def drop_later_versions(stash: Stash, workspace: str, plan_id: str) -> None:
    """Let go of what later plans swept of the messages that this plan is about to bring back.

    A message that was masked and then swept lies in the stash twice: whole, and masked. Once it is
    back whole, the masked version must never take its place.
    """
    ids = [entry.segment.segment_id for entry in stash.of_plan(workspace, plan_id)]
    reached: set[str] = set()
    for entry in stash.get(workspace, ids):
        name = entry.segment.segment_id
        if entry.plan_id == plan_id:
            reached.add(name)
        elif name not in reached:
            stash.remove(workspace, entry.plan_id, [name])


def with_units(stash: Stash, workspace: str, segment_ids: Collection[str]) -> tuple[str, ...]:
    """Name swept messages among these, with those that were one unit with them when swept."""
    wanted: dict[str, None] = {}
    for entry in stash.get(workspace, sorted(segment_ids)) if segment_ids else ():
        swept = stash.of_plan(workspace, entry.plan_id)
        unit = unit_among(entry.segment.segment_id, [each.segment for each in swept])
        wanted.update(dict.fromkeys(sorted(unit)))
    return tuple(wanted)


def unit_among(segment_id: str, segments: Sequence[Segment]) -> set[str]:
    """Name all that is one unit with a segment among these."""
    mates: dict[str, set[str]] = {}
    for segment in segments:
        for reference in segment.references:
            if reference.hold is Hold.PAIRED:
                mates.setdefault(segment.segment_id, set()).add(reference.target)
                mates.setdefault(reference.target, set()).add(segment.segment_id)
    present = {segment.segment_id for segment in segments}
    unit = {segment_id}
    stack = [segment_id]
    while stack:
        for mate in (mates.get(stack.pop(), set()) & present) - unit:
            unit.add(mate)
            stack.append(mate)
    return unit
