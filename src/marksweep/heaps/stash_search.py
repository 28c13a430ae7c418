"""Swept segments found again: the store finds candidates, recall ranks them.

A small stash is ranked whole. Of a large one the store chooses, by the words it has indexed, which
segments are looked at; the ranking is the same.
"""

from __future__ import annotations

import msgspec

from marksweep.model import Stashed
from marksweep.search.recall import Recall
from marksweep.search.words import segment_text
from marksweep.stores.base import Hit, Query, Stash

WHOLE = 500
"""Swept segments up to which all are ranked. Higher finds other forms of a word in more of them."""

CANDIDATES = 200
"""Segments of a larger stash that are ranked, at least. Higher looks deeper, and takes longer."""


def search_stash(stash: Stash, workspace: str, query: Query) -> tuple[Hit[Stashed], ...]:
    """Find swept segments, best first; without words, the one put last first."""
    if not query.words or query.limit <= 0:
        return stash.search(workspace, query)
    found = _candidates(stash, workspace, query)
    found.sort(key=lambda entry: (entry.segment.position, entry.segment.segment_id))
    ranking = Recall()
    before = None
    for entry in found:
        if before is not None and entry.segment.position != before + 1:
            ranking.leave_gap()
        ranking.add(segment_text(entry.segment))
        before = entry.segment.position
    best = ranking.best(query.words, query.limit)
    return tuple(Hit(found[number], score) for number, score in best)


def _candidates(stash: Stash, workspace: str, query: Query) -> list[Stashed]:
    if stash.count(workspace, WHOLE + 1) <= WHOLE:
        wider = msgspec.structs.replace(query, words="", limit=WHOLE)
    else:
        wider = msgspec.structs.replace(query, limit=max(CANDIDATES, 2 * query.limit))
    return [hit.found for hit in stash.search(workspace, wider)]
