"""Coverage: keep at least one copy of everything that is likely to be needed again.

    arrive   cut new messages into blocks, tell the index
    recall   bring back what the agent speaks of again, if it is worth more than what would go
    landing  choose how deep to sweep: what is lost against what the prompt cache must read again
    rank     the least worth per token first: parts of messages before whole ones

A block is worth only what no other kept block holds; the index says how much. What comes back
stands in a note in front of the newest messages, where it costs its own tokens and no cached
prefix.

The strategy keeps its index between rankings. It is told of each message once, in order; the same
stream gives the same state, and ranking leaves the state as it was.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

from marksweep.core.atoms import shown
from marksweep.core.blocks import join
from marksweep.core.plan import Proposal
from marksweep.core.scene import Scene
from marksweep.messages import Place
from marksweep.model import Action, Hold, Segment
from marksweep.strategies.coverage_held import Held, Shelf, Texts
from marksweep.strategies.coverage_index import Block
from marksweep.strategies.coverage_price import (
    ECONOMY,
    QUALITY,
    Choice,
    Offer,
    Setting,
    choose,
)

MORE = 0.05
"""Share of what must be freed that each further round offers, if markers ate up the last one."""
REFILL = 0.5
"""Share of the budget that may come back after one big result had emptied the context."""
FORGOTTEN = 4096
"""Dropped blocks that are looked at when there is room again, the last to go first."""
RECALLED = "[recalled]"
"""How a note begins."""
NAMED = 3
"""How many names a reason tells."""

Trimmed = Callable[[Segment, Mapping[Place, str]], Segment | None]
"""Put shorter texts in their places; None if that does not make the message shorter."""

Note = Callable[[str, Segment], Segment]
"""Make a note that stands right in front of a message."""


class Coverage:
    """Rank the blocks of messages by what would be lost with them."""

    def __init__(
        self,
        texts: Texts,
        trimmed: Trimmed,
        setting: Setting = ECONOMY,
        *,
        note: Note | None = None,
    ) -> None:
        """Begin. Without `note`, nothing comes back by itself."""
        self._shelf = Shelf(texts)
        self._index = self._shelf.index
        self._trimmed = trimmed
        self._note = note
        self._setting = setting
        self._landing: tuple[str, int, Choice] | None = None
        self._emptied = False

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return f"coverage ({self._setting.name})"

    def arrive(self, segments: Iterable[Segment]) -> None:
        """Learn of new messages. Those it was not told of are learnt when it ranks."""
        self._shelf.arrive(segments)

    @property
    def is_missing(self) -> bool:
        """Whether something may have to come back. Looks at the newest messages only."""
        return self._note is not None and (self._emptied or bool(self._index.missing()))

    def recall(self, scene: Scene, before: int, limit_tokens: int) -> Proposal | None:
        """Propose a note in front of a message: what it speaks of, and is no longer there."""
        self._shelf.follow(scene.segments)
        first = scene.segments[before]
        fixed = sum(size for i, size in enumerate(scene.sizes) if not scene.may_go((i,)))
        if self._note is None or fixed > limit_tokens or not _may_precede(scene, before):
            return None
        blocks, share, bar = self._index.missing(), self._setting.recall, self._shelf.level
        if self._emptied:
            blocks += self._shelf.gone[-FORGOTTEN:]
            share, bar = max(share, REFILL), 0.0
        front = sum(size for i, size in enumerate(scene.sizes[:before]) if not scene.may_go((i,)))
        taken = self._pick(blocks, int(share * (limit_tokens - front)), bar)
        if not taken:
            return None
        note = self._note(_told(taken), first)
        if note.segment_id in self._shelf.held:
            return None
        self._shelf.announce(note, taken)
        return Proposal((before,), Action.RECALL, self._why_back(taken), note)

    def landing(self, scene: Scene, target_tokens: int) -> int:
        """Choose how deep to sweep, at most at the target: rare and deep, or often and shallow.

        What the prompt cache would have to read again is weighed against what would be lost.
        """
        if scene.tokens <= target_tokens:
            return target_tokens
        self._shelf.follow(scene.segments)
        choice = self._choose(scene, target_tokens)
        landing = scene.tokens - choice.free
        self._landing = scene.snapshot.fingerprint, landing, choice
        return landing

    def rank(self, scene: Scene) -> Iterator[Proposal]:
        """Propose to trim messages, or to stash units of which nothing is left."""
        self._shelf.follow(scene.segments)
        dropped: list[Block] = []
        try:
            yield from self._rounds(scene, dropped)
        finally:
            for block in reversed(dropped):
                self._index.keep(block)

    def _pick(self, blocks: Iterable[Block], room: int, bar: float) -> list[Block]:
        """Take back the best blocks that fit, while they are worth more than what goes."""
        index = self._index
        taken: dict[int, Block] = {}
        heap = [(-index.worth_back(block, ()), block.seq, block) for block in blocks]
        heapq.heapify(heap)
        with index.trial() as take:
            while heap and room > 8:
                _, seq, block = heapq.heappop(heap)
                if block.alive or seq in taken:
                    continue
                worth = index.worth_back(block, taken)
                if heap and -worth > heap[0][0]:
                    heapq.heappush(heap, (-worth, seq, block))
                elif worth <= bar or worth * block.tokens < 1e-4:
                    break
                elif block.tokens + 1 <= room:
                    room -= block.tokens + 1
                    take(block, taken)
                    taken[seq] = block
        return [taken[seq] for seq in sorted(taken)]

    def _rounds(self, scene: Scene, dropped: list[Block]) -> Iterator[Proposal]:
        """Drop in rounds; after each, propose what became of the messages it touched."""
        places = {segment.segment_id: i for i, segment in enumerate(scene.segments)}
        must = max(1, scene.tokens - scene.target_tokens)
        first = self._first(scene)
        for start in dict.fromkeys((first, 0)):
            heap = self._candidates(scene, start)
            amount = must
            while heap:
                touched = self._drop(scene, heap, amount, dropped, places)
                for i in sorted(touched):
                    proposal = self._proposal(scene, i)
                    if proposal is not None:
                        yield proposal
                amount = max(32, int(must * MORE))

    def _first(self, scene: Scene) -> int:
        """Find where to cut in."""
        known = self._landing
        if known is not None and known[:2] == (scene.snapshot.fingerprint, scene.target_tokens):
            return known[2].first
        return self._choose(scene, scene.target_tokens).first

    def _choose(self, scene: Scene, target_tokens: int) -> Choice:
        """Choose from where on to cut, and how deep: near the end is cheap for the prompt cache."""
        free = [i for i in range(len(scene.segments)) if scene.may_go((i,))]
        must = max(1, scene.tokens - target_tokens)
        if not free:
            return Choice(0, must)
        start, end = free[0], free[-1] + 1
        fixed = scene.tokens - sum(scene.sizes[i] for i in free)
        self._emptied = fixed > target_tokens
        offers = [
            Offer(self._index.worth_about(block), block.tokens, i - start)
            for i in free
            for block in self._may_drop(scene, i)
        ]
        front = sum(scene.sizes[:start])
        choice = choose(
            offers,
            scene.sizes[start:end],
            must,
            max(1, target_tokens - front),
            QUALITY if self._emptied else self._setting,
        )
        return Choice(choice.first + start, choice.free)

    def _candidates(self, scene: Scene, first: int) -> list[tuple[float, int, Block]]:
        heap = [
            (self._index.worth_about(block), block.seq, block)
            for i in range(first, len(scene.segments))
            if scene.may_go((i,))
            for block in self._may_drop(scene, i)
        ]
        heapq.heapify(heap)
        return heap

    def _may_drop(self, scene: Scene, i: int) -> list[Block]:
        held = self._held(scene, i)
        if held.frame is not None and held.frame.alive and self._is_bare(scene, i):
            return [held.frame]
        return held.left()

    def _is_bare(self, scene: Scene, i: int) -> bool:
        """Whether nothing but frames is left of a unit, and all of it may go."""
        members = scene.units.members(i)
        return scene.may_go(members) and not any(
            self._held(scene, mate).has_left for mate in members
        )

    def _held(self, scene: Scene, i: int) -> Held:
        return self._shelf.held[scene.segments[i].segment_id]

    def _drop(
        self,
        scene: Scene,
        heap: list[tuple[float, int, Block]],
        amount: int,
        dropped: list[Block],
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
            assert isinstance(held, Held)  # noqa: S101
            i = places[held.name]
            dropped.append(block)
            index.drop(block)
            amount -= max(1, block.tokens - 1)
            touched.add(i)
            if block is not held.frame:
                for mate in scene.units.members(i):
                    frame = self._held(scene, mate).frame
                    if frame is not None and frame.alive and self._is_bare(scene, mate):
                        heapq.heappush(heap, (index.worth(frame), frame.seq, frame))
        return touched

    def _proposal(self, scene: Scene, i: int) -> Proposal | None:
        """Say what became of a message."""
        segment = scene.segments[i]
        members = scene.units.members(i)
        if scene.may_go(members) and not any(self._is_kept(scene, mate) for mate in members):
            return Proposal((i,), Action.STASH, self._reason(self._blocks_of(scene, members)))
        held = self._held(scene, i)
        texts = {
            place: join([(b.text, b.glued) if b.alive else None for b in blocks])
            for place, blocks in held.fields.items()
            if not all(block.alive for block in blocks)
        }
        shorter = self._trimmed(segment, texts)
        if shorter is None:
            return None
        held.kept[shorter.raw] = frozenset(b.seq for b in held.blocks() if b.alive)
        return Proposal((i,), Action.TRIM, self._reason(list(held.blocks())), shorter)

    def _blocks_of(self, scene: Scene, members: tuple[int, ...]) -> list[Block]:
        return list(chain.from_iterable(self._held(scene, i).blocks() for i in members))

    def _is_kept(self, scene: Scene, i: int) -> bool:
        held = self._held(scene, i)
        return held.is_framed or held.has_left

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

    def _why_back(self, blocks: list[Block]) -> str:
        """Say what comes back."""
        if self._emptied:
            return f"{len(blocks)} parts come back: there is room again after one big message"
        names = self._index.missed(blocks)
        told = ", ".join(map(shown, names[:NAMED]))
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return f"{len(blocks)} parts come back: the newest messages speak of {told}{more}"


def _may_precede(scene: Scene, before: int) -> bool:
    """Whether a note may stand in front of a message: not between a call and its result."""
    first = scene.segments[before]
    return not any(reference.hold is Hold.PAIRED for reference in first.references)


def _told(blocks: list[Block]) -> str:
    """Write blocks that come back as one text."""
    text: list[tuple[str, bool]] = []
    before = -2
    for block in blocks:
        text.append((block.text, block.glued and block.seq == before + 1))
        before = block.seq
    return f"{RECALLED}\n{join(text)}"
