"""One sweep of coverage: which blocks go, and what becomes of the messages they stood in.

Blocks are dropped in the index while a sweep is ranked, so that each next one is judged by what is
left; in the end that is taken back. The planner stops when it has enough, so what comes late is
lazy.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from marksweep.core.blocks import join
from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.messages import Place
from marksweep.model import Action
from marksweep.strategies.coverage_held import Shelf
from marksweep.strategies.coverage_index import Block
from marksweep.strategies.coverage_price import Choice, Offer, Setting, choose
from marksweep.strategies.mask import Trimmed

MORE = 0.05
"""Share of what must be freed that each further round offers, if markers ate up the last one."""
LEAST = 32
"""Tokens that each further round offers at least."""


class Sweep:
    """A context, seen as blocks that may go."""

    def __init__(self, context: PlanningContext, shelf: Shelf) -> None:
        self._context = context
        self._shelf = shelf
        self._held = shelf.follow(context.segments)
        self._free = context.free()
        self._dropped: list[Block] = []
        self.fixed = context.size - sum(context.sizes[i] for i in self._free)
        """Tokens that must stay."""
        self._offers = sorted(self._all_offers())
        """What may go, the least worth first."""

    def choose(self, target_tokens: int, setting: Setting) -> Choice:
        """Choose from where on to cut, and how deep: near the end is cheap for the prompt cache."""
        context = self._context
        must = max(1, context.size - target_tokens)
        if not self._free or self.fixed > target_tokens:
            return Choice(0, must)
        start, end = self._free[0], self._free[-1] + 1
        budget = max(1, target_tokens - sum(context.sizes[:start]))
        return choose(
            self._offers, context.sizes, (start, end), must=must, budget=budget, setting=setting
        )

    def rank(self, first: int, trimmed: Trimmed) -> Iterator[Proposal]:
        """Drop in rounds; after each, propose what became of the messages it touched."""
        must = max(1, self._context.needed)
        counts = self._shelf.index.counts()
        try:
            for start in dict.fromkeys((first, 0)):
                order = [offer for offer in reversed(self._offers) if offer[2] >= start]
                again: list[Offer] = []
                amount = must
                while order or again:
                    for i in sorted(self._drop(order, again, amount)):
                        proposal = self._proposal(i, trimmed)
                        if proposal is not None:
                            yield proposal
                    amount = max(LEAST, int(must * MORE))
        finally:
            self._shelf.put_back(counts, self._dropped)
            self._dropped.clear()

    def _all_offers(self) -> list[Offer]:
        """Offer every block that may go now: frames only where nothing else is left."""
        worth, held, offers = self._shelf.index.worth_about, self._held, list[Offer]()
        for i in self._free:
            if held[i].left:
                for block in held[i].parts:
                    if block.alive:
                        offers.append((worth(block), block.seq, i, block.tokens))
                continue
            frame = held[i].frame
            if frame is not None and frame.alive and self._is_bare(i):
                offers.append((worth(frame), frame.seq, i, frame.tokens))
        return offers

    def _is_bare(self, i: int) -> bool:
        """Whether nothing but frames is left of a unit, and all of it may go."""
        members = self._context.units.members(i)
        for mate in members:
            if self._held[mate].left:
                return False
        return self._context.may_go(members)

    def _drop(self, order: list[Offer], again: list[Offer], amount: int) -> set[int]:
        """Drop the least worth first, which is the last of `order`.

        A block may have become a last holder by now: it is offered `again`, which is a heap.
        """
        shelf, worth_of, touched = self._shelf, self._shelf.index.worth, set()
        while amount > 0 and (order or again):
            is_new = not again or (order and order[-1] < again[0])
            _, seq, i, tokens = order.pop() if is_new else heapq.heappop(again)
            block = shelf.index.blocks[seq]
            if not block.alive:
                continue
            worth = worth_of(block)
            if (order and worth > order[-1][0]) or (again and worth > again[0][0]):
                heapq.heappush(again, (worth, seq, i, tokens))
                continue
            block.value = worth
            held = shelf.drop(block)
            self._dropped.append(block)
            amount -= max(1, tokens - 1)
            touched.add(i)
            if not held.left and block is not held.frame and self._is_bare(i):
                for mate in self._context.units.members(i):
                    frame = self._held[mate].frame
                    if frame is not None and frame.alive:
                        offer = worth_of(frame), frame.seq, mate, frame.tokens
                        heapq.heappush(again, offer)
        return touched

    def _proposal(self, i: int, trimmed: Trimmed) -> Proposal | None:
        """Say what became of a message."""
        held = self._held[i]
        if not held.stands:
            members = self._context.units.members(i)
            if self._context.may_go(members) and not any(self._held[m].stands for m in members):
                gone = [block for mate in members for block in self._held[mate].blocks()]
                return Proposal((i,), Action.STASH, self._reason(gone, len(gone)))
        texts: dict[Place, str] = {}
        for place, field in held.texts():
            if False in [block.alive for block in field]:
                left = [(block.text, block.glued) if block.alive else None for block in field]
                texts[place] = join(left)
        shorter = trimmed(self._context.segments[i], texts)
        if shorter is None:
            return None
        blocks = held.blocks()
        self._shelf.propose(held, shorter.raw, [block for block in blocks if block.alive])
        reason = self._reason([block for block in blocks if not block.alive], len(blocks))
        return Proposal((i,), Action.TRIM, reason, shorter)

    def _reason(self, gone: list[Block], count: int) -> str:
        """Say what goes with these of so many blocks."""
        index = self._shelf.index
        is_whole = len(gone) == count
        what = "all of it" if is_whole else f"{len(gone)} of its {count} parts"
        verb = "goes" if is_whole or len(gone) == 1 else "go"
        lost, used = index.lost(gone)
        if not lost:
            return f"{what} {verb}: {self._covered(gone)}"
        names = _counted(used or lost, "name or line", "names and lines")
        told = "the agent used before" if used else "the agent never used"
        return f"{what} {verb}: worth least per token; last copy of {names} {told}"

    def _covered(self, gone: list[Block]) -> str:
        """Say where dropped blocks stand that nothing is lost with."""
        lines = sum([block.text.count("\n") + 1 for block in gone])
        is_newer = self._shelf.index.are_newer_elsewhere(gone)
        where = "newer messages" if is_newer else "other messages"
        return f"{_counted(lines, 'line', 'lines')} of it stand in {where}"


def _counted(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"
