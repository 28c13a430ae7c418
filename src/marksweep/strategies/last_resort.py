"""The last resort: what makes a conversation fit where a strategy's ranking falls short.

Before anything goes, what the model has not answered is trimmed if it is too large for the window
even alone: it would drive out everything else, and be trimmed all the same.

To reach the target, once everything that may go was offered:

1. the bulkiest results of what recency protects, and of what stays only because another part of its
   unit must, are trimmed, and older pastes of the user
2. such results become one line each, the oldest first
3. from the hard limit on, what may go goes, and the bulkiest results and pastes of all that must
   stay are trimmed

To fit the limit, whatever the strategy offered:

1. what may go goes, the oldest first, but for summaries
2. the bulkiest results and pastes of what must stay are trimmed
3. such results become one line each
4. what the user and the agent wrote is trimmed, also where it has no large block
5. summaries go, also those just made, and then the user's words, the oldest first

Of a trimmed text the beginning and the end stay. So a result larger than the window is not the end
of a conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from marksweep.core.context import PlanningContext, Yield
from marksweep.core.strategy import Proposal
from marksweep.messages import Text
from marksweep.model import Action, Pressure, Segment
from marksweep.sections import (
    MAX_CHARACTERS,
    Gap,
    Measure,
    Piece,
    Section,
    Sections,
    is_left_out,
    left_out,
    paragraphs,
    parts_of_line,
    sections,
    sections_within,
)
from marksweep.strategies.mask import Texts, Trimmed
from marksweep.strategies.summarize import SUMMARIES
from marksweep.strategies.truncate import Truncate
from marksweep.tokens import count

MIN_KEPT_CHARS = 400
"""Minimum characters left of a result or a paste, beginning and end together.

Lower lets more large results share a small window, but less of each can be understood.
"""
RETRY_SHARE = 0.6
"""Share of each text's room that is kept when the first try was not enough."""

LINE_TOKENS = 30
"""Tokens of the line that stands for what was trimmed of a text, as a rule at most.

If it is too low, the first try is not enough and more is trimmed than is needed.
"""

TRIMMED = "trimmed to fit: too large for the room there is"
LAST_WORDS = "the user's words, the oldest first: nothing else is left to make it fit the limit"


@dataclass(frozen=True)
class FitByTrimming:
    """Trims what must stay; the user's words go last."""

    texts: Texts
    trimmed: Trimmed

    def at_first(
        self, context: PlanningContext, waiting: Sequence[int], excess: int
    ) -> Iterator[Proposal]:
        """Trim the bulkiest results of what the model has not answered."""
        found = self._found(context, waiting, self._bulky)
        yield from self._trimmed(context, found, _room(_all(found), excess))

    def to_target(self, context: PlanningContext, excess: Callable[[], int]) -> Iterator[Proposal]:
        """Trim the bulkiest results that recency protects, and what the user pasted before.

        If the next request may fail, take what may go, and trim what the model has not answered.
        """
        yields = _yields(context)
        yielding = [i for i, far in yields.items() if far is not Yield.LIMIT]
        yield from self._trim(context, yielding, excess())
        yield from self._mask(context, yielding)
        if context.pressure is Pressure.HARD:
            yield from _oldest(context)
            yield from self._trim(context, yields, excess())

    def to_limit(self, context: PlanningContext, excess: Callable[[], int]) -> Iterator[Proposal]:
        """Take what may go, then trim what must stay."""
        yields = _yields(context)
        yield from _oldest(context)
        yield from self._trim(context, yields, excess())
        yield from self._mask(context, yields)
        yield from self._trim(context, yields, excess(), self._written)

    def at_last(self, context: PlanningContext) -> Iterator[Proposal]:
        """Take summaries, then the user's words, the oldest first."""
        for i, segment in enumerate(context.segments):
            if segment.type in SUMMARIES:
                yield Proposal((i,), Action.STASH, "no room for a summary within the limit")
        for i, far in sorted(context.yields.items()):
            if far is Yield.LAST:
                yield Proposal((i,), Action.STASH, LAST_WORDS)

    def _trim(
        self,
        context: PlanningContext,
        yielding: Iterable[int],
        excess: int,
        find: Callable[[Segment], list[_Bulky]] | None = None,
    ) -> Iterator[Proposal]:
        """Trim the bulkiest texts to one size that is enough; to less, if it was not."""
        found = self._found(context, yielding, find or self._bulky)
        room = _room(_all(found), excess)
        while found:
            yield from self._trimmed(context, found, room)
            if room <= MIN_KEPT_CHARS:
                return
            room = max(MIN_KEPT_CHARS, int(room * RETRY_SHARE))

    def _found(
        self,
        context: PlanningContext,
        yielding: Iterable[int],
        find: Callable[[Segment], list[_Bulky]],
    ) -> _Found:
        """Find the bulky texts of segments, the bulkiest segment first."""
        found = {
            i: bulky
            for i in yielding
            if (bulky := [b for b in find(context.segments[i]) if b.characters > MIN_KEPT_CHARS])
        }
        order = sorted(found, key=lambda i: (-sum([b.tokens for b in found[i]]), i))
        return {i: found[i] for i in order}

    def _trimmed(self, context: PlanningContext, found: _Found, room: int) -> Iterator[Proposal]:
        """Trim each text to so many characters."""
        for i, bulky in found.items():
            kept = {b.part: b.ends(room) for b in bulky if b.characters > room}
            shorter = self.trimmed(context.segments[i], kept) if kept else None
            if shorter is not None:
                yield Proposal((i,), Action.TRIM, TRIMMED, shorter)

    def _mask(self, context: PlanningContext, yielding: Iterable[int]) -> Iterator[Proposal]:
        for i in sorted(yielding):
            segment = context.segments[i]
            results = [t for t in self.texts(segment) if t.is_observed and not t.is_said]
            kept = {
                t.part: left_out(t.words, media=t.media)
                for t in results
                if not is_left_out(t.words)
            }
            shorter = self.trimmed(segment, kept) if kept else None
            if shorter is not None:
                yield Proposal((i,), Action.MASK, TRIMMED, shorter)

    def _bulky(self, segment: Segment) -> list[_Bulky]:
        """Find the results of a message that can be trimmed, and what the user pasted."""
        return [
            _Bulky.pasted(text) if text.is_said else _Bulky.of(text, sections(text.words))
            for text in self.texts(segment)
            if text.is_observed and len(text.words) > MIN_KEPT_CHARS
        ]

    def _written(self, segment: Segment) -> list[_Bulky]:
        """Find what the user or the agent wrote; what it calls for stays as it is."""
        return [
            _Bulky.of(text, paragraphs(text.words, MIN_KEPT_CHARS))
            for text in self.texts(segment)
            if len(text.words) > MIN_KEPT_CHARS
            and not text.is_call
            and (text.is_said or not text.is_observed)
        ]


def _yields(context: PlanningContext) -> dict[int, Yield]:
    """Return what yields, with what stays only because others of its unit must."""
    staying = (i for unit in context.units if not context.may_go(unit) for i in unit)
    return {i: Yield.TARGET for i in staying if context.may_go((i,))} | dict(context.yields)


def _oldest(context: PlanningContext) -> Iterator[Proposal]:
    """Take what may go, the oldest first; summaries stay."""
    for proposal in Truncate().rank(context):
        types = {context.segments[i].type for i in proposal.members}
        if not types & SUMMARIES:
            yield proposal


class FitByDropping(FitByTrimming):
    """Trims nothing that must stay: for replay, which does not count unanswered messages."""

    def at_first(
        self, context: PlanningContext, waiting: Sequence[int], excess: int
    ) -> Iterator[Proposal]:
        """Propose nothing."""
        del context, waiting, excess
        return iter(())

    def to_target(self, context: PlanningContext, excess: Callable[[], int]) -> Iterator[Proposal]:
        """Propose nothing."""
        del context, excess
        return iter(())

    def to_limit(self, context: PlanningContext, excess: Callable[[], int]) -> Iterator[Proposal]:
        """Take what may go, the oldest first."""
        del excess
        return Truncate().rank(context)


class _Bulky(msgspec.Struct, frozen=True):
    """A text that can be trimmed: runs of sections of which the ends stay, between others."""

    part: int
    runs: tuple[tuple[Piece, ...], ...]
    """Sections that can be left out, run by run; what is between two runs stays."""
    between: tuple[tuple[Piece, ...], ...]
    """What comes before each run, and behind the last."""
    measure: Measure
    characters: int
    """Of all runs."""
    tokens: int

    @classmethod
    def of(cls, text: Text, cut: Sections) -> _Bulky:
        """A text of which all but the ends can be left out."""
        return cls._made(text, [cut.pieces], [(), ()], cut.measure)

    @classmethod
    def pasted(cls, text: Text) -> _Bulky:
        """What the user said, of which only large blocks can be left out."""
        cut = paragraphs(text.words)
        runs: list[tuple[Piece, ...]] = []
        between: list[tuple[Piece, ...]] = [()]
        for piece in cut.pieces:
            if isinstance(piece, Section) and len(piece.text) > MAX_CHARACTERS:
                runs.append(sections_within(piece))
                between.append(())
            else:
                between[-1] += (piece,)
        return cls._made(text, runs, between, cut.measure)

    @classmethod
    def _made(
        cls,
        text: Text,
        runs: Sequence[tuple[Piece, ...]],
        between: Sequence[tuple[Piece, ...]],
        measure: Measure,
    ) -> _Bulky:
        characters = sum([_length(piece) for run in runs for piece in run])
        share = min(1.0, characters / max(1, len(text.words)))
        tokens = int(count(text.words) * share)
        return cls(text.part, tuple(runs), tuple(between), measure, characters, tokens)

    def ends(self, room: int) -> Sections:
        """Keep the beginning and the end of each run, so many characters of all together."""
        ends = [self._ends(run, room) for run in self.runs]
        measure = Measure.CHARACTERS if any(e.cuts_a_line for e in ends) else self.measure
        rate = self.tokens / max(1, self.characters)
        pieces: list[Piece] = []
        for before, end in zip(self.between, ends, strict=False):
            pieces += (*before, *end.shown(measure, rate))
        return Sections((*pieces, *self.between[-1]), measure)

    def _ends(self, run: tuple[Piece, ...], room: int) -> _Ends:
        """Choose what fits of a run at its beginning and at its end."""
        size = sum(map(_length, run))
        room = room * size // max(1, self.characters)
        pieces = run if room >= 4 * MAX_CHARACTERS else tuple(self._finer(run, room))
        sizes = [*map(_length, pieces)]
        low, high, left = 0, len(pieces), room
        while low < high and sizes[low] <= left - room // 2:
            left -= sizes[low]
            low += 1
        while low < high and sizes[high - 1] <= left:
            left -= sizes[high - 1]
            high -= 1
        return _Ends(pieces, low, high)

    def _finer(self, run: Iterable[Piece], room: int) -> Iterator[Piece]:
        """Cut sections into lines, and lines that are long for the room into parts.

        If something was left out before, in lines, the lines stay whole: those that are missing
        cannot be counted in characters.
        """
        most = max(MIN_KEPT_CHARS, room) // 4
        known = [*self.runs, *self.between]
        may_cut = self.measure is Measure.CHARACTERS or not any(
            isinstance(piece, Gap) for pieces in known for piece in pieces
        )
        for piece in run:
            if isinstance(piece, Gap):
                yield piece
                continue
            for at, line in enumerate(piece.text.split("\n")):
                parts = parts_of_line(line, most) if may_cut else (line,)
                for number, part in enumerate(parts):
                    yield Section(part, number > 0 or (at == 0 and piece.glued))


def _length(piece: Piece) -> int:
    """Return the characters of a piece with its line break; a gap has none."""
    return len(piece.text) + (not piece.glued) if isinstance(piece, Section) else 0


_Found = dict[int, list[_Bulky]]
"""Bulky texts by the index of their segment."""


def _all(found: _Found) -> list[_Bulky]:
    return [bulky for each in found.values() for bulky in each]


class _Ends(NamedTuple):
    """A run of sections of which only the beginning and the end are kept."""

    pieces: tuple[Piece, ...]
    low: int
    """Where the beginning ends."""
    high: int
    """Where the end begins."""

    @property
    def cuts_a_line(self) -> bool:
        """Whether a line is kept in part."""
        borders = [self.pieces[at] for at in (self.low, self.high) if at < len(self.pieces)]
        return self.low < self.high and any(isinstance(p, Section) and p.glued for p in borders)

    def shown(self, measure: Measure, rate: float) -> Iterator[Piece]:
        """Return the pieces, with a gap in place of the middle; `rate` is tokens per character."""
        for at, piece in enumerate(self.pieces):
            if isinstance(piece, Gap) or not self.low <= at < self.high:
                yield piece
            else:
                yield Gap(piece.size(measure), round(len(piece.text) * rate))


def _room(found: Sequence[_Bulky], excess: int) -> int:
    """Choose the most characters that each may keep, so that enough goes of the bulkiest."""
    order = sorted(found, key=lambda bulky: -bulky.characters)
    for n in range(1, len(order) + 1):
        following = order[n].characters if n < len(order) else MIN_KEPT_CHARS
        characters = sum([each.characters for each in order[:n]])
        tokens = sum([each.tokens for each in order[:n]])
        wanted = (excess + n * LINE_TOKENS) * characters / max(1, tokens)
        if (characters - wanted) / n >= following:
            return max(MIN_KEPT_CHARS, int((characters - wanted) / n))
    return MIN_KEPT_CHARS
