"""A naive segment collector, as a baseline.

It uses a dictionary of sets of names, links every pair of segments that shares a topic or tag, a
stack, a list, and `sorted`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from marksweep.model import Segment


class Candidate(NamedTuple):
    """What could go, and why."""

    segment_id: str
    score: float
    tokens: int
    reason: str


def candidates(
    segments: Sequence[Segment], roots: Collection[str], now: datetime
) -> list[Candidate]:
    """Return what no root reaches, most dispensable first."""
    links: dict[str, set[str]] = defaultdict(set)
    sharing: dict[tuple[str, str], list[str]] = defaultdict(list)
    for s in segments:
        links[s.segment_id].update(r.target for r in s.references)
        if s.topic_id:
            sharing["topic", s.topic_id].append(s.segment_id)
        for tag in s.tags:
            sharing["tag", tag].append(s.segment_id)
    for names in sharing.values():
        for name in names:
            links[name].update(other for other in names if other != name)
    reachable: set[str] = set()
    stack = list(roots)
    while stack:
        name = stack.pop()
        if name in reachable:
            continue
        reachable.add(name)
        stack.extend(other for other in links.get(name, set()) if other not in reachable)
    found = [
        Candidate(s.segment_id, score, s.tokens, f"unreachable {s.type}, score {score:.2f}")
        for s in segments
        if s.segment_id not in reachable and not s.pinned
        for score in [_score(s, now)]
    ]
    return sorted(found, key=lambda candidate: candidate.score, reverse=True)


def _score(segment: Segment, now: datetime) -> float:
    age = (now - segment.last_touched_at).total_seconds() / 3600
    kinds = {"log": 1.0, "note": 0.8, "code": 0.5, "message": 0.3, "decision": 0.1, "summary": 0.2}
    old = 1.0 if segment.generation == "old" else 0.3
    return (
        0.4 * age / 24
        + 0.3 * kinds.get(segment.type, 0.5)
        + 0.2 / (segment.refcount + 1)
        + 0.1 * old
    )
