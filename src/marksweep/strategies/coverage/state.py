"""The messages that coverage knows, in blocks: learnt once, and followed through every change.

A bulky text is cut into blocks, a small one is one block. What a message calls for is its frame,
arguments included, however long: it is never cut, and goes only when nothing else of the calls and
their results is left. So pairs stay whole, and no model sees a call that it did not make.

Messages are learnt in order; the same stream gives the same state. Which blocks are kept in a
shorter form is noted when that form is proposed, so that a sweep, an undo or a restore is followed
without reading again.

Memory follows what is live: dropped blocks are remembered up to MEMORY_WINDOWS times the most that
was ever live, then those that were dropped first are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from marksweep.messages import Text
from marksweep.model import Hold, Segment
from marksweep.strategies.coverage.index import Block, BlockIndex, MessageBlocks
from marksweep.strategies.coverage.text import action_in, atoms_of, cut, uncut
from marksweep.tokens import count

BULKY_TOKENS = 100
"""Tokens from which a text is cut into blocks. Smaller texts go whole."""
MAX_BYTES_PER_CHARACTER = 4
"""The most bytes, and so the most tokens, that a character takes."""
USER_WEIGHT = 3.0
"""What the user says in a few words counts so many times as much: no tool can repeat it.

Higher keeps more of what was talked about, and less of what tools returned.
"""

MEMORY_WINDOWS = 4
"""Dropped text that is remembered, in multiples of the most that was ever live.

More lets older text come back by itself, and takes some twenty bytes for each character of it.
"""

Texts = Callable[[Segment], Sequence[Text]]
"""Give the texts of a message."""


class CoverageState:
    """The messages that are live or remembered, in blocks."""

    def __init__(self, texts: Texts) -> None:
        self.index = BlockIndex()
        self.messages: dict[str, MessageBlocks] = {}
        self.level = 0.0
        """The worth of the best that the last sweep took."""
        self._texts = texts
        self._live: dict[str, MessageBlocks] = {}
        self._most_live_tokens = 0
        self._lost: list[Block] = []
        self._announced: tuple[str, str, list[Block]] | None = None
        self._spoke = False

    def observe(self, segments: Iterable[Segment]) -> None:
        """Learn messages that are new, and note those that are back."""
        for segment in segments:
            self._show(segment)

    def forget(self, segment_ids: Iterable[str]) -> None:
        """Note that messages have left. Their blocks can come back while they are remembered."""
        for segment_id in segment_ids:
            message = self._live.pop(segment_id, None)
            if message is not None:
                message.form = None
                self._keep_only(message, frozenset())

    def follow(self, segments: Sequence[Segment]) -> list[MessageBlocks]:
        """Take in the heap as it is now; give its messages in blocks."""
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
        """Say of which dropped blocks a note would consist, if it came."""
        self._announced = note.segment_id, _form(note), blocks

    def _show(self, segment: Segment) -> MessageBlocks:
        """Give a message as it is now: new, back, in another form, or as it was."""
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
        """Take a forgotten block out of its message, and the message out if nothing is left."""
        message = block.message
        message.remove(block)
        is_known = self.messages.get(message.segment_id) is message
        if is_known and message.form is None and not message.blocks():
            del self.messages[message.segment_id]

    def _learn(self, segment: Segment) -> MessageBlocks:
        message = MessageBlocks(segment.segment_id)
        copied = self._take_announced(segment)
        if copied:
            message.texts.append(((0, ()), [*self.index.copy(message, copied)]))
            return self._settle(message, segment)
        texts = self._texts(segment)
        speaks = any(not text.is_observed for text in texts)
        answers = any(reference.hold is Hold.PAIRED for reference in segment.references)
        if (speaks and not self._spoke) or not (speaks or self._spoke or answers):
            self.index.step()
        message = self._cut(segment, texts)
        if speaks:
            self.index.act(atoms_of(action_in(texts)))
        self._spoke = speaks
        return message

    def _take_announced(self, note: Segment) -> list[Block]:
        """Give the blocks that a note was announced to consist of, if they are all remembered."""
        if self._announced is None or self._announced[:2] != (note.segment_id, _form(note)):
            return []
        blocks, self._announced = self._announced[2], None
        return blocks if all(block.number in self.index.remembered for block in blocks) else []

    def _cut(self, segment: Segment, texts: Sequence[Text]) -> MessageBlocks:
        """Cut a message into blocks."""
        message, add = MessageBlocks(segment.segment_id), self.index.add
        small: list[Text] = []
        rest = segment.tokens
        for text in texts:
            is_long = MAX_BYTES_PER_CHARACTER * len(text.words) >= BULKY_TOKENS
            tokens = count(text.words) if is_long else 0
            if tokens < BULKY_TOKENS or text.is_call:
                small.append(text)
                continue
            blocks = add(message, cut(text.words), observed=text.is_observed)
            message.texts.append((text.place, [*blocks]))
            rest -= tokens
        if any(text.is_call for text in texts):
            words = uncut("\n".join(text.words for text in small))
            (message.frame,) = add(message, words, rest, observed=False)
            message.frame.is_frame = True
            small = []
        for text in small:
            tokens = rest if len(texts) == 1 else count(text.words)
            (block,) = add(message, uncut(text.words), tokens, observed=text.is_observed)
            block.weight = USER_WEIGHT if text.is_said else 1.0
            message.texts.append((text.place, [block]))
        return self._settle(message, segment)

    def _settle(self, message: MessageBlocks, segment: Segment) -> MessageBlocks:
        message.parts_kept = len(message.parts())
        message.know_form(_form(segment), message.blocks())
        self.messages[message.segment_id] = message
        return message


def _form(segment: Segment) -> str:
    return segment.raw or segment.text
