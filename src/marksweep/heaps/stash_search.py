"""What was swept, found again: the store finds candidates, recall ranks them.

A small stash is ranked whole. Of a large one the store chooses, by the words it has indexed, what
is looked at; the ranking is the same. Of a conversation, passages are found: what was said around
a match often holds the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from marksweep.model import Segment, Stashed
from marksweep.search.recall import Recall
from marksweep.search.words import segment_text
from marksweep.sections import Gap, Piece, Section, Sections, sections, shown
from marksweep.stores.base import Hit, Query, Stash
from marksweep.tokens import count

RANK_ALL_SEGMENTS = 500
"""Swept segments up to which all are ranked. Higher finds other forms of a word in more of them."""

MIN_CANDIDATES = 200
"""Segments of a larger stash that are ranked, at least. Higher looks deeper, and takes longer."""

FRAME_TOKENS = 4
"""Tokens that a recalled text costs beside its own."""

STAND_IN_TOKENS = 50
"""Tokens for the line that says what of a message did not fit."""

RECALLED = "recalled"
"""The type of notes: parts of swept messages that came back."""

GAP = "gap"
"""The type of segments that are one line each, where messages were."""

EVERYTHING = Query(limit=1_000_000)
"""All swept messages, for any conversation one can hold."""

RANK_ALL_MESSAGES = 20_000
"""Swept messages up to which all are ranked; of more, those that the store finds by their words.

Higher ranks longer conversations with all that surrounds each message, and takes longer.
"""


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
    if stash.count(workspace, RANK_ALL_SEGMENTS + 1) <= RANK_ALL_SEGMENTS:
        wider = msgspec.structs.replace(query, words="", limit=RANK_ALL_SEGMENTS)
    else:
        wider = msgspec.structs.replace(query, limit=max(MIN_CANDIDATES, 2 * query.limit))
    return [hit.found for hit in stash.search(workspace, wider)]


class Recalled(str):
    """A passage of swept messages that was found again, and the id of its first message."""

    __slots__ = ("message_id", "tokens")

    message_id: str
    tokens: int

    def __new__(cls, text: str, message_id: str, tokens: int) -> Recalled:
        """Make one of a message's text."""
        made = super().__new__(cls, text)
        made.message_id = message_id
        made.tokens = tokens
        return made

    @property
    def text(self) -> str:
        """The text as a plain string."""
        return str(self)


def all_said(
    stash: Stash, workspace: str, live: Sequence[Segment], query: Query = EVERYTHING
) -> list[Segment]:
    """Give all that was ever said, live or swept and found by a query, whole and in order.

    A message that was shortened lies in the stash once for each time; the longest is the whole.
    """
    whole = {segment.segment_id: segment for segment in live}
    for hit in stash.search(workspace, query):
        swept = hit.found.segment
        if swept.raw or swept.type not in (RECALLED, GAP):
            known = whole.get(swept.segment_id)
            if known is None or known.tokens < swept.tokens:
                whole[swept.segment_id] = swept
    return sorted(whole.values(), key=lambda segment: (segment.position, segment.segment_id))


def recently_said(
    stash: Stash, workspace: str, live: Sequence[Segment], tokens: int
) -> list[Segment]:
    """Give what is live and the newest that was swept, of so many tokens together, in order."""
    present = {segment.segment_id for segment in live}
    kept: list[Segment] = []
    for segment in reversed(all_said(stash, workspace, live)):
        tokens -= segment.tokens
        if tokens >= 0 or segment.segment_id in present:
            kept.append(segment)
    return kept[::-1]


def recalled(
    stash: Stash, workspace: str, live: Sequence[Segment], query: str, limit: int
) -> list[Recalled]:
    """Find passages that answer a query, in the order they were said, in so many tokens.

    What was said around a match often holds the answer, so live messages count as surroundings. The
    id of a message, as the line that stands in for it gives it, brings back its text, and that of
    all that went with it.
    """
    if stash.get(workspace, [query.strip()]):
        said = all_said(stash, workspace, live)
        return list(_from(said, query.strip(), {s.segment_id for s in live}, limit))
    words = query if stash.count(workspace, RANK_ALL_MESSAGES + 1) > RANK_ALL_MESSAGES else ""
    said = all_said(stash, workspace, live, Query(words=words, limit=RANK_ALL_MESSAGES))
    kept_whole = {id(segment) for segment in live}
    ranking = Recall()
    for segment in said:
        ranking.add(segment.text)
    kept = {i for i, s in enumerate(said) if id(s) in kept_whole or not s.text}
    numbers = ranking.find(query, limit, count, skip=kept)
    firsts = [i for i in numbers if i - 1 not in numbers]
    passages = ranking.passages(numbers)
    return [
        Recalled(text, said[i].segment_id, _price(text))
        for i, text in zip(firsts, passages, strict=True)
    ]


def _from(
    said: Sequence[Segment], name: str, live: Collection[str], limit: int
) -> Iterator[Recalled]:
    """Give a message and those after it, up to the next that is live, as far as they fit."""
    start = next((i for i, segment in enumerate(said) if segment.segment_id == name), len(said))
    for i, segment in enumerate(said[start:]):
        if i and (segment.segment_id in live or name in live):
            return
        text = _beginning(segment, limit - FRAME_TOKENS)
        if not text and segment.text:
            return
        if text:
            yield Recalled(text, segment.segment_id, _price(text))
            limit -= _price(text)


def _beginning(segment: Segment, limit: int) -> str:
    """Give the text of a message, or as many of its first sections as fit."""
    if count(segment.text) <= limit:
        return segment.text
    cut = sections(segment.text)
    left = limit - STAND_IN_TOKENS
    kept: list[Piece] = []
    for piece in cut.pieces:
        if isinstance(piece, Section):
            tokens = count(piece.text) + 1
            left -= tokens
            kept.append(piece if left >= 0 else Gap(piece.size(cut.measure), tokens))
        else:
            kept.append(piece)
    if not kept or isinstance(kept[0], Gap):
        return ""
    return shown(Sections(tuple(kept), cut.measure), "this message", segment.segment_id)


def _price(text: str) -> int:
    return count(text) + FRAME_TOKENS
