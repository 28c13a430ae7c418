"""What was swept from a conversation: finding it again, and bringing back whole units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
