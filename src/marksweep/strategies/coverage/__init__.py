"""Coverage: keep at least one copy of everything that is likely to be needed again.

    observe, forget   track the live messages, in blocks (index.py, text.py)
    recall            bring back what the agent mentions again, if worth more than what is swept
    target            choose where to cut into the prompt: what is lost against what its cache must
                      read again (choose.py)
    rank              lowest worth per token first: parts of messages before whole ones

A block is worth only what no other kept block holds. What comes back is in a note before the
newest messages, where it costs its own tokens but no cached prefix.

A bulky text is cut into blocks, a small one is one block. The calls of a message are its frame,
arguments included, however long: it is never cut, and is dropped only when nothing else of the
calls and their results is left. So pairs stay whole, and no model sees a call that it did not make.

Messages are learned once, in order; the same stream gives the same state, and ranking does not
change it. Which blocks are kept in a shorter form is recorded when that form is proposed, so
that a sweep, an undo or a restore needs no further reading.

Memory follows what is live: dropped blocks are remembered up to MEMORY_WINDOWS times the most that
was ever live, then the first dropped are forgotten.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.messages import Text
from marksweep.model import Action, GCPolicy, Hold, Segment, Snapshot
from marksweep.sections import (
    MAX_CHARACTERS,
    MIN_CHARACTERS,
    Gap,
    Measure,
    Piece,
    Section,
    Sections,
    has_gap,
    paragraphs,
    sections,
    sections_within,
)
from marksweep.strategies.coverage.choose import ECONOMY, QUALITY, Setting, Sweep
from marksweep.strategies.coverage.index import FENCE, Block, BlockIndex, CutText, MessageBlocks
from marksweep.strategies.coverage.text import acted_on, calls_of
from marksweep.strategies.mask import Texts, Trimmed
from marksweep.tokens import count

__all__ = ["ECONOMY", "QUALITY", "Coverage", "Note", "Setting", "Texts"]

MAX_REFILL_BLOCKS = 4096
"""Dropped blocks to consider when there is free space, the last dropped first."""
NOTE_TOKENS = 20
"""Overhead of a note, in tokens."""
SMALLEST_ROOM = 8
"""Tokens below which nothing comes back."""
SMALLEST_WORTH = 1e-4
"""Worth of a block below which it does not come back."""
MAX_NAMES = 3
"""How many names a reason lists."""

BULKY_TOKENS = 100
"""Tokens from which a text is cut into blocks. A smaller text is one block."""
MAX_BYTES_PER_CHARACTER = 4
"""Maximum bytes, and so maximum tokens, per character."""
USER_WEIGHT = 3.0
"""Factor for short texts of the user: no tool can repeat them.

Higher keeps more of the conversation, and less tool output.
"""

SCRIPT_SHARE = 0.1
"""Share of the limit up to which a script of the agent is kept or dropped as a whole.

A larger one could not stay at all, so it is cut at blank lines. Higher keeps larger scripts whole,
and loses more of them in a small window.
"""
SECTION_SHARE = 0.04
"""Share of the limit that a section of a result may take, up to the usual size of a section.

In a window of a few thousand tokens a section of twenty lines leaves no room for another. Higher
keeps functions whole there, and less of everything else.
"""
CHARACTERS_PER_TOKEN = 4
"""Approximate, for code."""

MEMORY_WINDOWS = 4
"""Dropped text that is remembered, in multiples of the most that was ever live.

More lets older text come back automatically, and takes about twenty bytes per character.
"""

Item = TypeVar("Item")

Note = Callable[[Sections, Segment], Segment]
"""Make a note of excerpts that comes right before a message."""

Limit = Callable[[], int]
"""Return the tokens of the window; 0 if unknown."""


class _Landing(NamedTuple):
    """The target of a sweep of a snapshot, and the first message that it cuts."""

    snapshot: Snapshot
    target: int
    first: int
    sweep: Sweep


class Coverage:
    """Rank the blocks of messages by what would be lost with them."""

    def __init__(
        self,
        texts: Texts,
        trimmed: Trimmed,
        setting: Setting = ECONOMY,
        *,
        note: Note | None = None,
        limit: Limit | None = None,
    ) -> None:
        """Create the strategy. Without `note`, nothing comes back automatically."""
        self._state = CoverageState(texts, limit)
        self._trimmed = trimmed
        self._note = note
        self._setting = setting
        self._landing: _Landing | None = None
        self._swept = False
        """Whether this strategy chose what was dropped."""

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return f"coverage ({self._setting.name})"

    @property
    def goes_to_limit(self) -> bool:
        """Whether it sweeps only what does not fit, because rereading costs nothing."""
        return not self._setting.reread

    def observe(self, segments: Iterable[Segment]) -> None:
        """Learn new messages. Those it did not observe are learned when it ranks."""
        self._state.observe(segments)

    def forget(self, segment_ids: Iterable[str]) -> None:
        """Record that messages are gone. Their content can still come back."""
        self._state.forget(segment_ids)

    def target(self, context: PlanningContext, wanted: int) -> int:
        """Return the wanted target, and choose the first message to cut."""
        if context.size <= wanted:
            return wanted
        self._swept = True
        sweep = self._sweep(context)
        first = sweep.choose(wanted, self._setting)
        self._landing = _Landing(context.snapshot, wanted, first, sweep)
        return wanted

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose to trim messages, or to stash units of which nothing is left."""
        landing, self._landing = self._landing, None
        if (
            landing is not None
            and landing.snapshot is context.snapshot
            and landing.target == context.target
        ):
            sweep, first = landing.sweep, landing.first
        else:
            sweep = self._sweep(context)
            first = sweep.choose(context.target or 0, self._setting)
        yield from sweep.rank(first, max(1, context.needed), self._trimmed)

    def _sweep(self, context: PlanningContext) -> Sweep:
        return Sweep(context, self._state.index, self._state.follow(context.segments))

    def recall(self, context: PlanningContext) -> Proposal | None:
        """Propose a note before the newest messages with dropped blocks that they mention."""
        before, limit = context.unanswered, context.target
        if self._note is None or before is None or limit is None:
            return None
        self._state.follow(context.segments)
        if not self._state.index.remembered or not _may_precede(context.segments[before]):
            return None
        held = [0 if context.may_go((i,)) else size for i, size in enumerate(context.sizes)]
        if sum(held) > limit:
            return None
        blocks, bar = self._state.index.recallable(), self._state.level
        room = int(self._setting.recall * (limit - sum(held[:before])))
        idle = limit - context.size - NOTE_TOKENS
        refills = self._swept and idle > room
        if refills:
            blocks += [*self._state.index.remembered.values()][-MAX_REFILL_BLOCKS:]
            room, bar = idle, 0.0
        most = context.limit if context.limit is not None else limit if refills else None
        if most is not None:
            room = min(room, most - context.size - NOTE_TOKENS)
        while taken := self._pick(blocks, room, bar):
            excerpts = Sections(tuple(_spaced([block.section for block in taken], taken)))
            note = self._note(excerpts, context.segments[before])
            excess = 0 if most is None else context.size + note.tokens - most
            if excess <= 0:
                break
            room -= excess
        if not taken or note.segment_id in self._state.messages:
            return None
        self._state.announce(note, taken)
        return Proposal((before,), Action.RECALL, self._why_back(taken, refills=refills), note)

    def _pick(self, blocks: Iterable[Block], room: int, bar: float) -> list[Block]:
        """Choose the best blocks that fit, while they are worth more than what is swept."""
        index = self._state.index
        taken: dict[int, Block] = {}
        heap = [(-index.worth_if_restored(block), block.number, block) for block in blocks]
        heapq.heapify(heap)
        with index.hypothetically() as take:
            while heap and room > SMALLEST_ROOM:
                _, number, block = heapq.heappop(heap)
                if number in taken:
                    continue
                worth = index.worth_if_restored(block)
                if heap and -worth > heap[0][0]:
                    heapq.heappush(heap, (-worth, number, block))
                elif worth <= bar or worth * block.tokens < SMALLEST_WORTH:
                    break
                elif block.tokens + 1 <= room:
                    room -= block.tokens + 1
                    take(block)
                    taken[number] = block
        return [taken[number] for number in sorted(taken)]

    def _why_back(self, blocks: list[Block], *, refills: bool) -> str:
        """Explain what comes back."""
        if refills:
            return f"{len(blocks)} parts come back: there is room for them again"
        names = self._state.index.spoken_of(blocks)
        listed = ", ".join(names[:MAX_NAMES])
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        return f"{len(blocks)} parts come back: the newest messages mention {listed}{more}"


def _may_precede(message: Segment) -> bool:
    """Return whether a note may come before a message: not between a call and its result."""
    return not any(reference.hold is Hold.PAIRED for reference in message.references)


def _spaced(items: Iterable[Item], blocks: Sequence[Block]) -> Iterator[Item | Gap]:
    """Put a gap between the items of blocks that were apart."""
    before = None
    for item, block in zip(items, blocks, strict=True):
        if before is not None and not (
            block.message is before.message and block.number == before.number + 1
        ):
            yield Gap(0, 0)
        yield item
        before = block


class CoverageState:
    """The messages that are live or remembered, in blocks."""

    def __init__(self, texts: Texts, limit: Limit | None = None) -> None:
        self.index = BlockIndex()
        self._limit = limit
        self.messages: dict[str, MessageBlocks] = {}
        self.level = 0.0
        """Worth of the best block that the last sweep dropped."""
        self._texts = texts
        self._live: dict[str, MessageBlocks] = {}
        self._most_live_tokens = 0
        self._lost: list[Block] = []
        self._announced: tuple[str, str, list[Block]] | None = None
        self._spoke = False

    def observe(self, segments: Iterable[Segment]) -> None:
        """Learn new messages, and record those that are back."""
        for segment in segments:
            self._show(segment)

    def forget(self, segment_ids: Iterable[str]) -> None:
        """Record that messages are gone. Their blocks can come back while they are remembered."""
        for segment_id in segment_ids:
            message = self._live.pop(segment_id, None)
            if message is not None:
                message.form = None
                self._keep_only(message, frozenset())

    def follow(self, segments: Sequence[Segment]) -> list[MessageBlocks]:
        """Learn the current heap; return its messages in blocks."""
        present = [self._show(segment) for segment in segments]
        names = {segment.segment_id for segment in segments}
        self.forget([name for name in self._live if name not in names])
        if self._lost:
            self.level = max(block.value for block in self._lost)
            self._lost = []
        tokens = sum(segment.tokens for segment in segments)
        self._most_live_tokens = max(self._most_live_tokens, tokens)
        while self.index.remembered_tokens > MEMORY_WINDOWS * self._most_live_tokens:
            self._detach(self.index.forget_oldest())
        return present

    def announce(self, note: Segment, blocks: list[Block]) -> None:
        """Record which dropped blocks a proposed note consists of."""
        self._announced = note.segment_id, _form(note), blocks

    def _show(self, segment: Segment) -> MessageBlocks:
        """Return the current state of a message: new, back, in another form, or unchanged."""
        form = _form(segment)
        message = self.messages.get(segment.segment_id)
        if message is None:
            message = self._learn(segment)
        elif message.form != form:
            kept = message.kept_in(form)
            self._keep_only(message, kept or frozenset())
            if kept is None:
                message = self._cut(segment, self._texts(segment))
        message.form = form
        self._live[segment.segment_id] = message
        return message

    def _keep_only(self, message: MessageBlocks, kept: frozenset[int]) -> None:
        for block in message.blocks():
            if block.is_kept and block.number not in kept:
                self.index.drop(block)
                self._lost.append(block)
                if block.is_copy:  # its original is remembered
                    self.index.release(block)
                    self._detach(block)
                else:
                    self.index.remember(block)
            elif not block.is_kept and block.number in kept:
                self.index.recover(block)

    def _detach(self, block: Block) -> None:
        """Remove a forgotten block from its message, and the message if nothing is left."""
        message = block.message
        message.remove(block)
        is_known = self.messages.get(message.segment_id) is message
        if is_known and message.form is None and not message.blocks():
            del self.messages[message.segment_id]

    def _learn(self, segment: Segment) -> MessageBlocks:
        message = MessageBlocks(segment.segment_id)
        copied = self._take_announced(segment)
        if copied:
            copies = self.index.copy(message, copied)
            message.texts.append(CutText(0, [*_spaced(copies, copied)], is_note=True))
            return self._settle(message, segment)
        texts = self._texts(segment)
        speaks = any(not text.is_observed for text in texts)
        answers = any(reference.hold is Hold.PAIRED for reference in segment.references)
        if texts and ((speaks and not self._spoke) or not (speaks or self._spoke or answers)):
            self.index.step()
        if not segment.pinned and segment.policy is not GCPolicy.LOCKED:
            own = sum([len(text.words) for text in texts if _is_own_prose(text)])
            self.index.hear(own, sum([len(text.words) for text in texts]) - own)
        message = self._cut(segment, texts)
        if speaks:
            self.index.act(acted_on(texts))
        self._spoke = speaks if texts else self._spoke
        return message

    def _take_announced(self, note: Segment) -> list[Block]:
        """Return the blocks recorded for a note, if they are all remembered."""
        if self._announced is None or self._announced[:2] != (note.segment_id, _form(note)):
            return []
        blocks, self._announced = self._announced[2], None
        return blocks if all(block.number in self.index.remembered for block in blocks) else []

    def _cut(self, segment: Segment, texts: Sequence[Text]) -> MessageBlocks:
        """Cut a message into blocks. With calls, the agent's text starts in the frame.

        So do the words of a user beside results: a result may be cut, they stay with their message.
        """
        message, index = MessageBlocks(segment.segment_id), self.index
        has_calls = any(text.is_call for text in texts)
        has_results = any(text.is_observed and not text.is_said for text in texts)
        framed: list[str] = []
        rest = segment.tokens
        for text in texts:
            is_own = not text.is_observed
            is_long = MAX_BYTES_PER_CHARACTER * len(text.words) >= BULKY_TOKENS
            tokens = count(text.words) if is_long else 0
            is_framed = has_calls or (has_results and text.is_said)
            if text.is_call or (is_framed and tokens < BULKY_TOKENS):
                framed.append(text.words)
                continue
            if tokens < BULKY_TOKENS and not has_gap(text.words):
                tokens = segment.tokens if len(texts) == 1 else count(text.words)
                block = index.add_whole(message, text.words, tokens, observed=text.is_observed)
                block.weight = USER_WEIGHT if text.is_said else 1.0
                message.texts.append(CutText(text.part, [block], is_own=is_own))
                continue
            is_written = is_own or text.is_said
            cut = (
                self._paragraphs(text)
                if is_written
                else sections(text.words, self._section_characters)
            )
            head, body = _headed(cut) if has_calls else ((), cut)
            pieces = [*head, *index.add(message, body, observed=text.is_observed)]
            framed += [piece.text for piece in head]
            message.texts.append(CutText(text.part, pieces, cut.measure, is_own))
            rest -= tokens - sum([count(piece.text) for piece in head])
        if framed:
            words = "\n".join(framed)
            tokens = rest if has_calls else count(words)
            message.frame = index.add_whole(message, words, tokens, observed=not has_calls)
            message.frame.is_frame = True
            message.frame.own = 0.0
            if has_calls:
                index.call(message.frame, calls_of(texts), is_long=tokens >= BULKY_TOKENS)
        return self._settle(message, segment)

    def _paragraphs(self, text: Text) -> Sections:
        """Cut written text; scripts only if they are too large for the window."""
        limit = self._limit() if self._limit else 0
        largest = int(SCRIPT_SHARE * limit * CHARACTERS_PER_TOKEN)
        cut = paragraphs(text.words, largest or None, self._section_characters)
        return _with_pastes_cut(cut, self._section_characters) if text.is_said else cut

    @property
    def _section_characters(self) -> int:
        """How many characters a section may have."""
        limit = self._limit() if self._limit else 0
        share = int(SECTION_SHARE * limit * CHARACTERS_PER_TOKEN)
        return min(max(share, MIN_CHARACTERS), MAX_CHARACTERS) if limit else MAX_CHARACTERS

    def _settle(self, message: MessageBlocks, segment: Segment) -> MessageBlocks:
        for text in message.texts:
            for at, piece in enumerate(text.pieces):
                if isinstance(piece, Block):
                    piece.cut, piece.at = text, at
            text.count_gaps()
        message.parts_kept = len(message.parts())
        message.know_form(_form(segment), message.blocks())
        self.messages[message.segment_id] = message
        return message


def _is_own_prose(text: Text) -> bool:
    """Whether it is what the agent says, without calls and code."""
    return not (text.is_observed or text.is_call or FENCE in text.words)


def _with_pastes_cut(cut: Sections, most: int) -> Sections:
    """Cut tool output that was sent in the user's name."""
    has_gaps = any(isinstance(piece, Gap) for piece in cut.pieces)
    cuts_lines = cut.measure is Measure.CHARACTERS or not has_gaps
    pieces: list[Piece] = []
    for piece in cut.pieces:
        if isinstance(piece, Section) and len(piece.text) > MAX_CHARACTERS:
            pieces += sections_within(piece, most, cuts_lines=cuts_lines)
        else:
            pieces.append(piece)
    if any(isinstance(piece, Section) and piece.glued for piece in pieces):
        return Sections(tuple(pieces), Measure.CHARACTERS)
    return msgspec.structs.replace(cut, pieces=tuple(pieces))


def _headed(cut: Sections) -> tuple[tuple[Section, ...], Sections]:
    """Split off the first section, which stays as long as its call does."""
    head, *rest = cut.pieces
    if not isinstance(head, Section):
        return (), cut
    return (head,), msgspec.structs.replace(cut, pieces=tuple(rest))


def _form(segment: Segment) -> str:
    return segment.raw or segment.text
