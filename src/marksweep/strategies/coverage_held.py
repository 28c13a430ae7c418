"""Messages in blocks, as coverage holds them: learnt once, and followed through every change.

A bulky text is cut into blocks, and so is a long string in the arguments of a call. What else a
call says is its frame: it goes only when nothing else of the call and its results is left, so that
pairs stay whole. A small text is one block.

A message is told once, in order. Which blocks stand in a shortened version is noted when that
version is proposed, so that a sweep, an undo or a restore is followed without reading again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from marksweep.core.atoms import atoms_of
from marksweep.core.blocks import cut, whole
from marksweep.messages import Place, Text
from marksweep.model import Hold, Segment
from marksweep.strategies.coverage_index import Block, Counts, Index
from marksweep.tokens import count

BULKY = 100
"""Tokens from which a text is cut into blocks. Smaller texts go whole."""

SAID = 3.0
"""What the user says in a few words counts so many times as much: no tool can repeat it.

Higher keeps more of what was talked about, and less of what tools returned.
"""

_BYTES = 4
"""The most bytes a character takes, and so the most tokens."""

_FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)

Texts = Callable[[Segment], Sequence[Text]]
"""Give the texts of a message."""


class Held:
    """A message in blocks."""

    __slots__ = ("_places", "at", "frame", "left", "name", "parts", "seen", "version", "whole")

    def __init__(self, name: str) -> None:
        self.name = name
        self.parts: list[Block] = []
        """The blocks of all its texts, without the frame."""
        self._places: tuple[tuple[Place, int], ...] = ()
        """Where each text stands, and how many blocks it has."""
        self.frame: Block | None = None
        self.left = 0
        """How many of its parts are kept."""
        self.version: str | None = None
        """The form of the message that the blocks show now; None: it is not in the heap."""
        self.whole = ""
        """The form in which all blocks stand."""
        self.at = self.seen = 0
        """Where it stood when the shelf last saw it, and at which look that was."""

    def blocks(self) -> list[Block]:
        """Give all blocks."""
        return self.parts if self.frame is None else [*self.parts, self.frame]

    def put(self, place: Place, blocks: list[Block]) -> None:
        """Add the blocks of a text."""
        self.parts += blocks
        self._places += ((place, len(blocks)),)

    def texts(self) -> Iterator[tuple[Place, list[Block]]]:
        """Give the blocks of each text, and where it stands."""
        start = 0
        for place, size in self._places:
            yield place, self.parts[start : start + size]
            start += size

    @property
    def stands(self) -> bool:
        """Whether anything of it is kept."""
        return self.left > 0 or (self.frame is not None and self.frame.alive)


class Shelf:
    """All messages that were ever told, in blocks, and the index over them."""

    def __init__(self, texts: Texts) -> None:
        self.index = Index()
        self.held: dict[str, Held] = {}
        self.gone: list[Block] = []
        """What was dropped, in order; some of it may be back."""
        self.level = 0.0
        """The worth of the best that the last sweep took."""
        self._texts = texts
        self._present: list[Held] = []
        """The messages in the heap, in its order, as of the last look."""
        self._looks = 0
        self._copied: dict[str, list[Block]] = {}
        self._shorter: dict[tuple[str, str], frozenset[int]] = {}
        """Which blocks stand in the shorter forms of messages, by name and form."""
        self._spoke = False

    def announce(self, note: Segment, blocks: list[Block]) -> None:
        """Say of which dropped blocks a note would consist, if it came."""
        self._copied[note.segment_id + _form(note)] = blocks

    def propose(self, held: Held, form: str, kept: Iterable[Block]) -> None:
        """Say in which form a message would stand, if it came to show these of its blocks."""
        self._shorter[held.name, form] = frozenset([block.seq for block in kept])

    def arrive(self, segments: Iterable[Segment]) -> None:
        """Learn of new messages."""
        for segment in segments:
            if segment.segment_id not in self.held:
                held = self._learn(segment)
                held.at = len(self._present)
                self._present.append(held)

    def follow(self, segments: Iterable[Segment]) -> list[Held]:
        """Learn of new messages, and of what happened to the known ones; give them all in blocks.

        Nearly all stand where they stood, in the same order. Only where others went or came does a
        message have to be looked up by its name, which is slow among very many.
        """
        before, present, lost = self._present, list[Held](), list[Block]()
        self._looks += 1
        at = 0
        for segment in segments:
            held = before[at] if at < len(before) else None
            if held is None or held.name != segment.segment_id:
                held = self.held.get(segment.segment_id)
            if held is None:
                held = self._learn(segment)
            else:
                if held.at < len(before) and before[held.at] is held:
                    at = held.at + 1
                if held.version is not _form(segment):
                    held = self._change(held, segment, lost)
            held.at, held.seen = len(present), self._looks
            present.append(held)
        for held in before:
            if held.seen != self._looks:
                self._show(held, frozenset(), lost)
                held.version = None
        self._present = present
        if lost:
            self.gone += [block for block in lost if not block.is_copy]
            self.level = max(block.value for block in lost)
        return present

    def _change(self, held: Held, segment: Segment, lost: list[Block]) -> Held:
        form = _form(segment)
        kept = self._shorter.get((held.name, form))
        if form == held.whole:
            self._show(held, frozenset([block.seq for block in held.blocks()]), lost)
        elif kept is not None:
            self._show(held, kept, lost)
        else:
            self._show(held, frozenset(), lost)
            held = self._cut(segment, self._texts(segment))
        held.version = form
        return held

    def _show(self, held: Held, kept: frozenset[int], lost: list[Block]) -> None:
        for block in held.blocks():
            if block.alive and block.seq not in kept:
                self.drop(block)
                self.index.remember(block)
                lost.append(block)
            elif not block.alive and block.seq in kept:
                self._keep(block)

    def drop(self, block: Block) -> Held:
        """Give a block up; `put_back` takes that back. Give the message it stands in."""
        self.index.drop(block)
        held = cast("Held", block.home)
        held.left -= block is not held.frame
        return held

    def put_back(self, counts: Counts, blocks: Sequence[Block]) -> None:
        """Have all as it was when the index was counted: these blocks were dropped since."""
        self.index.put_back(counts, blocks)
        for block in blocks:
            held = cast("Held", block.home)
            held.left += block is not held.frame

    def _keep(self, block: Block) -> None:
        """Have a dropped block where it was."""
        self.index.keep(block)
        held = cast("Held", block.home)
        held.left += block is not held.frame

    def _learn(self, segment: Segment) -> Held:
        copied = self._copied.pop(segment.segment_id + _form(segment), None)
        if copied is not None:
            held = Held(segment.segment_id)
            held.put((0, ()), self.index.copies(copied))
            return self._settle(held, segment)
        texts = self._texts(segment)
        speaks = any(not text.is_observed for text in texts)
        answers = any(reference.hold is Hold.PAIRED for reference in segment.references)
        if (speaks and not self._spoke) or not (speaks or self._spoke or answers):
            self.index.step()
        held = self._cut(segment, texts)
        if speaks:
            self.index.act(atoms_of(action_in(texts)))
        self._spoke = speaks
        return held

    def _cut(self, segment: Segment, texts: Sequence[Text]) -> Held:
        """Cut a message into blocks."""
        held = Held(segment.segment_id)
        calls = any(text.is_call for text in texts)
        small: list[Text] = []
        rest = segment.tokens
        for text in texts:
            tokens = count(text.words) if _BYTES * len(text.words) >= BULKY else 0
            if tokens < BULKY or (text.is_call and not text.place[1]):
                small.append(text)
                continue
            blocks = self.index.add(cut(text.words), count, observed=text.is_observed)
            held.put(text.place, blocks)
            rest -= tokens
        if calls:
            words = "\n".join(text.words for text in small)
            held.frame = self._whole(words, rest, observed=False)
        else:
            for text in small:
                tokens = rest if len(texts) == 1 else count(text.words)
                weight = SAID if text.is_said else 1.0
                block = self._whole(text.words, tokens, observed=text.is_observed, weight=weight)
                held.put(text.place, [block])
        return self._settle(held, segment)

    def _settle(self, held: Held, segment: Segment) -> Held:
        for block in held.blocks():
            block.home = held
        held.left = len(held.parts)
        held.version = held.whole = _form(segment)
        self.held[held.name] = held
        return held

    def _whole(self, words: str, tokens: int, *, observed: bool, weight: float = 1.0) -> Block:
        piece = whole(words)
        return self.index.add_whole(piece, max(1, tokens), observed=observed, weight=weight)


def _form(segment: Segment) -> str:
    return segment.raw or segment.text


def _asked(text: Text) -> str:
    """What a call asks for, without the name of the tool, which stands first."""
    return text.words if text.place[1] else text.words.partition("\n")[2]


def action_in(texts: Sequence[Text]) -> str:
    """What the agent does: its calls, else its code blocks, else its words with a digit."""
    calls = [_asked(text) for text in texts if text.is_call]
    if calls:
        return "\n".join(calls)
    said = "\n".join(text.words for text in texts if not text.is_observed)
    blocks = _FENCED.findall(said)
    if blocks:
        return "\n".join(blocks)
    return "\n".join(word for word in said.split() if any(map(str.isdigit, word)))
