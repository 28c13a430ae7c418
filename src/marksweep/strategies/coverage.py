"""Coverage: keep at least one copy of everything that is likely to be needed again.

Texts are cut into blocks, and a block is worth only what no other kept block holds (the index says
how much). The least worth per token goes first: parts of messages before whole ones, and a call
only when nothing else of it and its results is left.

The strategy keeps its index between rankings. It is told of each message once, in order; the same
stream gives the same state, and ranking leaves the state as it was.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Sequence

from marksweep.core.atoms import atoms_of
from marksweep.core.blocks import cut, join, whole
from marksweep.core.plan import Proposal
from marksweep.core.scene import Scene
from marksweep.messages import Text
from marksweep.model import Action, Segment
from marksweep.strategies.coverage_index import Block, Index
from marksweep.strategies.coverage_price import ECONOMY, Choice, Offer, Setting, choose
from marksweep.strategies.mask import Masked
from marksweep.tokens import count

BULKY = 100
"""Tokens from which a text is cut into blocks. Smaller texts go whole."""

MORE = 0.05
"""Share of what must be freed that each further round offers, if markers ate up the last one."""

_FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)


Texts = Callable[[Segment], Sequence[Text]]
"""Give the texts of a message."""


class _Held:
    """A message in blocks."""

    def __init__(self, segment_id: str) -> None:
        self.segment_id = segment_id
        self.fields: dict[int, list[Block]] = {}
        self.frame: Block | None = None
        self.raw: str | None = None
        """The version that the blocks show."""
        self.kept: dict[str, frozenset[int]] = {}
        """Which blocks stand in each version of the message, by its raw form."""

    def blocks(self) -> Iterator[Block]:
        for field in self.fields.values():
            yield from field
        if self.frame is not None:
            yield self.frame

    def left(self) -> list[Block]:
        """The blocks that are kept, without the frame."""
        return [block for field in self.fields.values() for block in field if block.alive]


class Coverage:
    """Rank the blocks of messages by what would be lost with them."""

    def __init__(self, texts: Texts, masked: Masked, setting: Setting = ECONOMY) -> None:
        self._texts = texts
        self._masked = masked
        self._setting = setting
        self._index = Index()
        self._held: dict[str, _Held] = {}
        self._present: dict[str, _Held] = {}
        """Those of the messages that stood in the last scene."""

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return f"coverage ({self._setting.name})"

    def landing(self, scene: Scene, target_tokens: int) -> int:
        """Choose how deep to sweep, at most at the target: rare and deep, or often and shallow.

        What the prompt cache would have to read again is weighed against what would be lost.
        """
        if scene.tokens <= target_tokens:
            return target_tokens
        self._take_in(scene)
        return scene.tokens - self._choice(scene, target_tokens).free

    def rank(self, scene: Scene) -> Iterator[Proposal]:
        """Propose to trim messages, or to stash units of which nothing is left."""
        self._take_in(scene)
        dropped: list[tuple[Block, int]] = []
        try:
            yield from self._rounds(scene, dropped)
        finally:
            for block, born in reversed(dropped):
                self._index.bring_back(block, block.home)
                block.born = born
            self._index.forget()

    def _take_in(self, scene: Scene) -> None:
        """Learn of new messages, and of what happened to the known ones."""
        present = {}
        for segment in scene.segments:
            name = segment.segment_id
            held = self._present.pop(name, None) or self._held.get(name)
            if held is None:
                held = self._held[name] = self._learn(segment)
            elif held.raw is not segment.raw:
                self._set_kept(held, held.kept.get(segment.raw, frozenset()))
                held.raw = segment.raw
            present[name] = held
        for held in self._present.values():
            self._set_kept(held, frozenset())
            held.raw = None
        self._present = present

    def _set_kept(self, held: _Held, kept: frozenset[int]) -> None:
        for block in held.blocks():
            if block.alive and block.seq not in kept:
                self._index.drop(block)
            elif not block.alive and block.seq in kept:
                born = block.born
                self._index.bring_back(block, held)
                block.born = born

    def _learn(self, segment: Segment) -> _Held:
        """Cut a new message into blocks."""
        held = _Held(segment.segment_id)
        texts = self._texts(segment)
        speaks = any(not text.is_observed for text in texts)
        if speaks:
            self._index.step()
        small: list[str] = []
        for text in texts:
            if text.is_call or text.tokens < BULKY:
                small.append(text.words)
                if not text.is_call and not any(t.is_call for t in texts):
                    held.fields[text.part] = [self._whole(text.words, text.tokens, text)]
            else:
                held.fields[text.part] = self._index.add(
                    cut(text.words), count, observed=text.is_observed
                )
        if any(text.is_call for text in texts):
            tokens = sum(t.tokens for t in texts if t.is_call or t.tokens < BULKY)
            held.frame = self._whole("\n".join(small), tokens, texts[0])
        for block in held.blocks():
            block.home = held
        if speaks:
            self._index.act(atoms_of(action_in(texts)))
        held.raw = segment.raw
        held.kept[segment.raw] = frozenset(block.seq for block in held.blocks())
        return held

    def _whole(self, words: str, tokens: int, text: Text) -> Block:
        return self._index.add_whole(whole(words), max(1, tokens), observed=text.is_observed)

    def _rounds(self, scene: Scene, dropped: list[tuple[Block, int]]) -> Iterator[Proposal]:
        """Drop in rounds; after each, propose what became of the messages it touched."""
        places = {segment.segment_id: i for i, segment in enumerate(scene.segments)}
        must = max(1, scene.tokens - scene.target_tokens)
        for first in (self._choice(scene, scene.target_tokens).first, 0):
            heap = self._candidates(scene, first)
            amount = must
            while heap:
                touched = self._drop(scene, heap, amount, dropped, places)
                for i in sorted(touched):
                    proposal = self._proposal(scene, i)
                    if proposal is not None:
                        yield proposal
                amount = max(32, int(must * MORE))

    def _choice(self, scene: Scene, target_tokens: int) -> Choice:
        """Choose from where on to cut, and how deep: near the end is cheap for the prompt cache."""
        offers = [
            Offer(self._index.worth(block), block.tokens, i)
            for i, segment in enumerate(scene.segments)
            if scene.may_go((i,))
            for block in self._held[segment.segment_id].left()
        ]
        fixed = sum(size for i, size in enumerate(scene.sizes) if not scene.may_go((i,)))
        must = max(1, scene.tokens - target_tokens)
        return choose(offers, scene.sizes, must, max(1, target_tokens - fixed), self._setting)

    def _candidates(self, scene: Scene, first: int) -> list[tuple[float, int, Block]]:
        heap = [
            (self._index.worth(block), block.seq, block)
            for i in range(first, len(scene.segments))
            if scene.may_go((i,))
            for block in self._may_drop(scene, i)
        ]
        heapq.heapify(heap)
        return heap

    def _may_drop(self, scene: Scene, i: int) -> list[Block]:
        held = self._held[scene.segments[i].segment_id]
        if held.frame is not None and held.frame.alive and self._is_bare(scene, i):
            return [held.frame]
        return held.left()

    def _is_bare(self, scene: Scene, i: int) -> bool:
        """Whether nothing but frames is left of a unit, and all of it may go."""
        members = scene.units.members(i)
        return scene.may_go(members) and not any(
            self._held[scene.segments[mate].segment_id].left() for mate in members
        )

    def _drop(
        self,
        scene: Scene,
        heap: list[tuple[float, int, Block]],
        amount: int,
        dropped: list[tuple[Block, int]],
        places: dict[str, int],
    ) -> set[int]:
        """Drop the least worth first; a block may have become a last holder, so look again."""
        index, touched = self._index, set()
        while amount > 0 and heap:
            _, seq, block = heapq.heappop(heap)
            if not block.alive:
                continue
            worth = index.worth(block)
            if heap and worth > heap[0][0]:
                heapq.heappush(heap, (worth, seq, block))
                continue
            held = block.home
            assert isinstance(held, _Held)  # noqa: S101
            i = places[held.segment_id]
            dropped.append((block, block.born))
            index.drop(block)
            amount -= max(1, block.tokens - 1)
            touched.add(i)
            if block is not held.frame:
                for mate in scene.units.members(i):
                    frame = self._held[scene.segments[mate].segment_id].frame
                    if frame is not None and frame.alive and self._is_bare(scene, mate):
                        heapq.heappush(heap, (index.worth(frame), frame.seq, frame))
        return touched

    def _proposal(self, scene: Scene, i: int) -> Proposal | None:
        """Say what became of a message."""
        segment = scene.segments[i]
        members = scene.units.members(i)
        if scene.may_go(members) and not any(self._is_kept(scene, mate) for mate in members):
            return Proposal((i,), Action.STASH, self._reason(self._blocks_of(scene, members)))
        held = self._held[segment.segment_id]
        texts = {
            part: join([(b.text, b.glued) if b.alive else None for b in blocks])
            for part, blocks in held.fields.items()
            if not all(block.alive for block in blocks)
        }
        shorter = self._masked(segment, texts)
        if shorter is None:
            return None
        held.kept[shorter.raw] = frozenset(b.seq for b in held.blocks() if b.alive)
        return Proposal((i,), Action.TRIM, self._reason(list(held.blocks())), shorter)

    def _blocks_of(self, scene: Scene, members: tuple[int, ...]) -> list[Block]:
        names = (scene.segments[i].segment_id for i in members)
        return [block for name in names for block in self._held[name].blocks()]

    def _reason(self, blocks: list[Block]) -> str:
        """Say what goes with the dropped ones among these blocks."""
        gone = [block for block in blocks if not block.alive]
        parts = f"{len(gone)} of {len(blocks)} parts go"
        lost = {name for block in gone for name in self._index.lost(block)}
        if not lost:
            return f"{parts}: what they say stands in other messages"
        used = sum(map(self._index.acted_on, lost))
        unused = "none of them used so far" if not used else f"{used} of them used before"
        return f"{parts}: of the least worth, last copies of {len(lost)} names and lines, {unused}"

    def _is_kept(self, scene: Scene, i: int) -> bool:
        held = self._held[scene.segments[i].segment_id]
        return bool(held.left()) or (held.frame is not None and held.frame.alive)


def action_in(texts: Sequence[Text]) -> str:
    """What the agent does: its calls, else its code blocks, else its words with a digit."""
    calls = [text.words for text in texts if text.is_call]
    if calls:
        return "\n".join(calls)
    said = "\n".join(text.words for text in texts if not text.is_observed)
    blocks = _FENCED.findall(said)
    if blocks:
        return "\n".join(blocks)
    return "\n".join(word for word in said.split() if any(map(str.isdigit, word)))
