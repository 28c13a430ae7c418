"""Search in swept segments: the store finds candidates, recall ranks them.

A small stash is ranked completely. For a large one, the store preselects candidates by its word
index; the ranking is the same. In a conversation, passages are found: the messages around a match
often contain the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from marksweep.model import Hold, Segment, Stashed
from marksweep.search.recall import Recall
from marksweep.search.words import segment_text
from marksweep.sections import NEXT_GAP, Gap, Piece, Section, Sections, sections, shown
from marksweep.stores.base import Hit, Query, Stash
from marksweep.tokens import count

RANK_ALL_SEGMENTS = 500
"""Swept segments up to which all are ranked. Higher finds other forms of a word in more of them."""

MIN_CANDIDATES = 200
"""Minimum candidates of a larger stash that are ranked. Higher finds more, and takes longer."""

FRAME_TOKENS = 4
"""Overhead of a recalled text in tokens."""

STAND_IN_TOKENS = 50
"""Tokens for the line that says which part of a message did not fit."""

RECALLED = "recalled"
"""The type of notes: parts of swept messages that came back."""

NOTE_HEAD = "[recalled]"
"""The first line of a note."""

GAP = "gap"
"""The type of segments that are one line each, in place of messages."""

EVERYTHING = Query(limit=1_000_000)
"""A limit above the length of any conversation: all swept messages."""

RANK_ALL_MESSAGES = 20_000
"""Swept messages up to which all are ranked; of more, those that the store finds by their words.

Higher ranks longer conversations with the context of each message, and takes longer.
"""


def note_of(excerpts: Sections) -> str:
    """Write a note: a head that says that nobody says this now, and a sign between what was apart.

    The head may be in the first excerpt already: in a note that is shortened. No line stands for
    what is not in it any more: a note only repeats what is elsewhere. Empty if nothing is left.
    """
    out: list[str] = []
    is_apart = False
    for piece in excerpts.pieces:
        if isinstance(piece, Gap):
            is_apart = True
            continue
        text = piece.text if out else piece.text.removeprefix(NOTE_HEAD).removeprefix("\n")
        if out and is_apart:
            out += ["\n", NEXT_GAP]
        if text:
            out += [text] if out and piece.glued and not is_apart else ["\n", text]
        is_apart = False
    return "".join([NOTE_HEAD, *out]) if out else ""


def search_stash(stash: Stash, workspace: str, query: Query) -> tuple[Hit[Stashed], ...]:
    """Find swept segments, best first; without words, newest first."""
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
    """A passage of swept messages, and the id of its first message."""

    __slots__ = ("message_id", "tokens")

    message_id: str
    tokens: int

    def __new__(cls, text: str, message_id: str, tokens: int) -> Recalled:
        """Build one from a message's text."""
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
    """Return all messages, live or swept and found by a query, in full and in order.

    The stash has a version of a message for each time it was shortened; the longest is the whole.
    """
    whole = {segment.segment_id: segment for segment in live}
    for hit in stash.search(workspace, query):
        swept = hit.found.segment
        is_made = swept.type == RECALLED or (swept.type == GAP and not swept.raw)
        if not is_made:
            known = whole.get(swept.segment_id)
            if known is None or known.tokens < swept.tokens:
                whole[swept.segment_id] = swept
    return sorted(whole.values(), key=lambda segment: (segment.position, segment.segment_id))


def recently_said(
    stash: Stash, workspace: str, live: Sequence[Segment], tokens: int
) -> list[Segment]:
    """Return live messages and the newest swept ones, up to so many tokens, in order."""
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
    """Find passages that answer a query, in conversation order, within so many tokens.

    The messages around a match often contain the answer, so live messages count as context. The id
    of a message, as its stand-in line shows it, returns its text and that of all messages swept
    with it.
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
    """Return a message and those swept with it, as far as they fit.

    These are the messages up to the next live one, and later results of calls among them.
    """
    start = next((i for i, segment in enumerate(said) if segment.segment_id == name), len(said))
    end = start + 1 if name in live else len(said)
    returned: set[str] = set()
    is_adjacent = True
    for segment in said[start:end]:
        if segment.segment_id in live and segment.segment_id != name:
            is_adjacent = False
            continue
        pairs = [r.target for r in segment.references if r.hold is Hold.PAIRED]
        if not is_adjacent and returned.isdisjoint(pairs):
            continue
        returned.add(segment.segment_id)
        text = _beginning(segment, limit - FRAME_TOKENS)
        if not text and segment.text:
            return
        if text:
            yield Recalled(text, segment.segment_id, _price(text))
            limit -= _price(text)


def _beginning(segment: Segment, limit: int) -> str:
    """Return the text of a message, or as many of its first sections as fit."""
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
    return shown(Sections(tuple(kept), cut.measure), "", segment.segment_id)


def _price(text: str) -> int:
    return count(text) + FRAME_TOKENS
