"""Coverage: what other kept text stands in for goes first, then what is least likely needed again.

A result is cut into blocks, and shortened to those worth keeping; a message goes whole when none
is. The worth of a block is what would be lost with it, per token: see `coverage_index`. What must
stay anyway counts as always in context, so that nothing else is kept for its sake.

The ranking knows no target. To spare the prompt cache, the `economy` setting offers what is of
little worth in the newer half first, so that a small collection leaves the front alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from marksweep.core.atoms import atoms_of
from marksweep.core.blocks import cut, join, whole
from marksweep.core.plan import Proposal
from marksweep.core.scene import Scene
from marksweep.model import Action
from marksweep.strategies.coverage_index import Block, Index
from marksweep.strategies.coverage_price import ECONOMY, Setting
from marksweep.strategies.mask import Masked, Outcomes

BULKY = 400
"""Characters from which a result is cut into blocks. Smaller ones go with their message."""
TOGETHER = 1.5
"""Blocks of one message go in one step if they are worth at most this much more than the least."""
NEWER = 0.5
"""Share of the movable context that `economy` looks at first, from its end."""


class Part:
    """A segment as the ranking sees it: what of it is left."""

    def __init__(self, at: int, tokens: int) -> None:
        self.at = at
        self.tokens = tokens
        self.results: dict[int, list[Block]] = {}
        """Blocks by the index of the result they are cut from."""
        self.frame: Block | None = None
        """All the rest; it goes with the whole unit."""

    def blocks(self) -> list[Block]:
        """The blocks of results that are left."""
        return [b for blocks in self.results.values() for b in blocks if b.alive]


class Coverage:
    """Rank blocks and messages by what would be lost with them."""

    def __init__(self, outcomes: Outcomes, masked: Masked, setting: Setting = ECONOMY) -> None:
        self._outcomes = outcomes
        self._masked = masked
        self._setting = setting

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return "coverage"

    def rank(self, scene: Scene) -> Iterator[Proposal]:
        """Propose what loses least, first the newer half if the cache is to be spared."""
        ranking = _Ranking(scene, self._outcomes, self._masked)
        if self._setting.reread:
            yield from ranking.below(ranking.middle(), ranking.mean())
        yield from ranking.below(0, float("inf"))


class _Ranking:
    """One scene, told to an index in order, and given up bit by bit."""

    def __init__(self, scene: Scene, outcomes: Outcomes, masked: Masked) -> None:
        self._scene = scene
        self._outcomes = outcomes
        self._masked = masked
        self._index = Index()
        self._parts = [Part(i, size) for i, size in enumerate(scene.sizes)]
        self._gone: set[int] = set()
        for members in scene.units:
            if not scene.may_go(members):
                for i in members:
                    self._index.know(atoms_of(scene.segments[i].text))
        for i, part in enumerate(self._parts):
            self._tell(i, part)

    def _tell(self, at: int, part: Part) -> None:
        """Take a segment into the index, as a step of its own unless it answers one."""
        segment = self._scene.segments[at]
        outcomes = self._outcomes(segment)
        if not outcomes:
            self._index.step()
        per_character = segment.tokens / max(1, len(segment.text))
        rest = segment.text
        for outcome in outcomes:
            self._index.act(atoms_of(str(outcome.args)))
            if len(outcome.text) >= BULKY:
                rest = rest.replace(outcome.text, "", 1)
                part.results[outcome.part] = self._index.add(
                    cut(outcome.text), lambda text: round(len(text) * per_character), observed=True
                )
        speaks = not outcomes and len(self._scene.units.members(at)) > 1
        tokens = round(len(rest) * per_character)
        part.frame = self._index.add_whole(whole(rest), tokens, observed=not speaks)
        for block in (part.frame, *part.blocks()):
            block.home = part

    def middle(self) -> int:
        """Where the newer half of what may go begins."""
        movable = [p.at for p in self._parts if self._scene.may_go((p.at,))]
        left = NEWER * sum(self._parts[at].tokens for at in movable)
        for at in reversed(movable):
            left -= self._parts[at].tokens
            if left <= 0:
                return at
        return 0

    def mean(self) -> float:
        """Worth of an average token that may go."""
        worth = tokens = 0.0
        for part in self._parts:
            if self._scene.may_go((part.at,)):
                for block in part.blocks():
                    worth += self._index.worth(block) * block.tokens
                    tokens += block.tokens
        return worth / tokens if tokens else 0.0

    def below(self, first: int, most: float) -> Iterator[Proposal]:
        """Propose what is worth at most so much, from a place on, least first."""
        heap: list[tuple[float, int, Part]] = []
        for part in self._parts[first:]:
            self._offer(part, heap)
        while heap:
            worth, at, part = heapq.heappop(heap)
            if worth > most:
                return
            again = self._worth(part)
            if again is None:
                continue
            if heap and again > heap[0][0]:
                heapq.heappush(heap, (again, at, part))
                continue
            yield from self._give_up(part, again)
            for i in self._scene.units.members(at):
                if i >= first:
                    self._offer(self._parts[i], heap)

    def _offer(self, part: Part, heap: list[tuple[float, int, Part]]) -> None:
        worth = self._worth(part)
        if worth is not None:
            heapq.heappush(heap, (worth, part.at, part))

    def _worth(self, part: Part) -> float | None:
        """Worth of what would go next of a segment; None if nothing can.

        Blocks of results go one by one; the rest, only when no blocks of the unit are left.
        """
        if part.at in self._gone:
            return None
        blocks = part.blocks()
        if blocks:
            free = self._scene.may_go((part.at,))
            return min(map(self._index.worth, blocks)) if free else None
        members = self._scene.units.members(part.at)
        if part.at != members[0] or not self._scene.may_go(members):
            return None
        if any(self._parts[i].blocks() for i in members):
            return None
        frames = [f for i in members if (f := self._parts[i].frame) is not None]
        tokens = sum(frame.tokens for frame in frames)
        return sum(self._index.worth(f) * f.tokens for f in frames) / max(1, tokens)

    def _give_up(self, part: Part, worth: float) -> Iterator[Proposal]:
        blocks = part.blocks()
        if not blocks:
            members = self._scene.units.members(part.at)
            frames = [f for i in members if (f := self._parts[i].frame) is not None]
            reason = self._reason(frames)
            self._gone.update(members)
            for frame in frames:
                self._index.drop(frame)
            yield Proposal(members, Action.STASH, reason)
            return
        going = [b for b in blocks if self._index.worth(b) <= TOGETHER * worth]
        reason = f"{_parts(len(going))}: {self._reason(going)}"
        for block in going:
            self._index.drop(block)
        segment = self._scene.segments[part.at]
        texts = {
            result: join([(b.text, b.glued) if b.alive else None for b in kept])
            for result, kept in part.results.items()
            if not all(b.alive for b in kept)
        }
        shorter = self._masked(segment, texts)
        if shorter is not None:
            yield Proposal((part.at,), Action.TRIM, reason, shorter)

    def _reason(self, blocks: list[Block]) -> str:
        """Say what is lost with these blocks, before they go."""
        lost = [atom for block in blocks for atom in self._index.sole(block)]
        if not lost:
            lines = sum(block.text.count("\n") + 1 for block in blocks)
            return f"what its {lines} lines say stands in other messages"
        used = sum(1 for atom in lost if self._index.acted_on(atom))
        if used:
            return f"least likely needed: last copy of {_names(used)} the agent used before"
        return f"last copy of {_names(len(lost))}, none of which the agent used"


def _parts(count: int) -> str:
    return "1 part of it" if count == 1 else f"{count} parts of it"


def _names(count: int) -> str:
    return "1 name" if count == 1 else f"{count} names"
