"""Which blocks a sweep drops: where it cuts into the prompt, and in which order.

A provider's cache holds the prompt up to the first change; everything after it is read again. So a
sweep at the front is expensive, and one near the end is cheap. Each choice is judged by one number:
what is lost plus what is read again.

Blocks are dropped in the index while a sweep is ranked, so that each next one is judged by what is
left; the drops are rolled back at the end. Rounds are lazy: the planner stops when it has enough.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import attrgetter, neg

import msgspec

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.model import Action
from marksweep.strategies.coverage.index import Block, BlockIndex, CutText, MessageBlocks
from marksweep.strategies.mask import Trimmed

FRONTS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.17, 0.12, 0.08, 0.05, 0.03)
"""Shares of the old context, counted from its end, within which a sweep may stay."""
FIRST_GAP_TOKENS = 22
"""Tokens of the line that stands for the first gap of a text. Each further gap takes about one."""
NEXT_ROUND_SHARE = 0.05
"""Share of what must be freed that each further round offers, if the last one freed too little."""
NEXT_ROUND_TOKENS = 32
"""Minimum tokens that each further round offers."""


class Setting(msgspec.Struct, frozen=True):
    """How a collector weighs what it keeps against what it costs."""

    name: str
    reread: float
    """What reading a token again costs, in multiples of the median token's worth. 0: nothing.

    Higher makes sweeps stay nearer to the end of the prompt.
    """
    recall: float = 0.2
    """Share of the budget that may come back at a step because the agent mentions it again."""


ECONOMY = Setting("economy", reread=1.0)
QUALITY = Setting("quality", reread=0.0)


class Offer(msgspec.Struct, frozen=True, order=True, gc=False):
    """A block that may go, ordered by its worth."""

    worth: float
    """Per token."""
    number: int
    at: int
    """The index of its message in the heap."""
    block: Block


_BY_WORTH = attrgetter("worth", "number")


def choose(
    offers: Sequence[Offer],
    sizes: Sequence[int],
    span: tuple[int, int],
    *,
    must: int,
    reread: float,
) -> int:
    """Choose the first message of the cheapest sweep. `offers` are in order of worth, lowest first.

    `sizes` are the tokens of all messages in order; those in `span` may go. `must` is how many
    to free, `reread` what reading a token again costs (see `Setting`).
    """
    start, end = span
    if not reread or not offers:
        return start
    behind = [*accumulate(reversed(sizes[start:end]), initial=0)][::-1]
    order = offers
    toll = reread * _median_worth(order)
    best: tuple[float, int] | None = None
    for share in FRONTS:
        first = start + bisect_left(behind, -share * behind[0], key=neg)
        order = [offer for offer in order if offer.at >= first]
        sweep = _sweep(order, must)
        if sweep is None:
            break
        freed, lost, edge = sweep
        price = lost + toll * (behind[edge - start] - freed)
        if best is None or price < best[0]:
            best = price, first
    return best[1] if best else start


def _sweep(order: Sequence[Offer], must: int) -> tuple[int, float, int] | None:
    """Return what is freed and lost, and the first message cut; None if too little can go."""
    freed, lost = 0, 0.0
    edge = order[0].at if order else 0
    for offer in order:
        tokens = offer.block.tokens
        freed += tokens
        lost += offer.worth * tokens
        edge = min(edge, offer.at)
        if freed >= must:
            return freed, lost, edge
    return None


def _median_worth(order: Sequence[Offer]) -> float:
    """Return the median worth of the tokens. `order` is by worth.

    A few names that the agent used often are worth a hundred times the rest; a mean would follow
    them.
    """
    half = sum([offer.block.tokens for offer in order]) / 2
    seen = 0
    for offer in order:
        seen += offer.block.tokens
        if seen >= half:
            return offer.worth
    return 0.0


class Sweep:
    """A heap as blocks that may be dropped."""

    def __init__(
        self, context: PlanningContext, index: BlockIndex, messages: Sequence[MessageBlocks]
    ) -> None:
        self._context = context
        self._index = index
        self._messages = messages
        self._free = context.free()
        self._dropped: dict[int, Block] = {}
        """What this ranking dropped so far, by number, in order."""
        self._gaps: dict[int, int] = {}
        """How many gaps a text has, by its identity, once something of it is dropped."""
        self.fixed = context.size - sum([context.sizes[i] for i in self._free])
        """Tokens that must stay."""
        self._offers = sorted(self._all_offers(), key=_BY_WORTH)
        """What may be dropped, lowest worth first."""

    def choose(self, target_tokens: int, setting: Setting) -> int:
        """Choose where the cut starts: near the end is cheap for the prompt cache.

        Anywhere is as cheap if the cache is cold. It also is the choice if the target is the limit,
        that is in a window with room for few steps (`Budget.beside`): nearly every request is cut
        there, and what the cut takes matters more than reading a few thousand tokens again.
        """
        context = self._context
        must = max(1, context.size - target_tokens)
        if not self._free or self.fixed > target_tokens:
            return 0
        span = self._free[0], self._free[-1] + 1
        is_free = context.is_cache_cold or target_tokens == context.limit
        reread = 0.0 if is_free else setting.reread
        return choose(self._offers, context.sizes, span, must=must, reread=reread)

    def rank(self, first: int, must: int, trimmed: Trimmed) -> Iterator[Proposal]:
        """Drop in rounds; after each, propose the new forms of the messages it touched.

        The first round frees what must go, from the message at `first` on if that is enough.
        """
        try:
            for start in dict.fromkeys((first, 0)):
                order = [offer for offer in reversed(self._offers) if offer.at >= start]
                again: list[Offer] = []
                amount = must
                while order or again:
                    for i in sorted(self._drop(order, again, amount)):
                        proposal = self._proposal(i, trimmed)
                        if proposal is not None:
                            yield proposal
                    amount = max(NEXT_ROUND_TOKENS, int(must * NEXT_ROUND_SHARE))
        finally:
            while self._dropped:
                self._index.undrop(self._dropped.popitem()[1])

    def _all_offers(self) -> Iterator[Offer]:
        """Offer every block that may be dropped now: frames only where nothing else is left."""
        worth = self._index.worth
        for i in self._free:
            message = self._messages[i]
            if message.parts_kept:
                for block in message.parts():
                    if block.is_kept:
                        yield Offer(worth(block), block.number, i, block)
            elif (frame := message.frame) is not None and frame.is_kept and self._is_bare(i):
                yield Offer(worth(frame), frame.number, i, frame)

    def _is_bare(self, i: int) -> bool:
        """Return whether only frames are left of a unit, and all of it may go."""
        if self._messages[i].parts_kept:
            return False
        members = self._context.units.members(i)
        for mate in members:
            if self._messages[mate].parts_kept:
                return False
        return self._context.may_go(members)

    def _bare_frames(self, i: int) -> list[tuple[int, Block]]:
        """Return the frames of a unit, by their messages, once they may go."""
        if not self._is_bare(i):
            return []
        frames = ((mate, self._messages[mate].frame) for mate in self._context.units.members(i))
        return [(mate, frame) for mate, frame in frames if frame is not None]

    def _drop(self, order: list[Offer], again: list[Offer], amount: int) -> set[int]:
        """Drop the lowest worth first, which is the last of `order`; return the messages touched.

        Blocks that are offered again are in the heap `again`: those that have become last holders,
        and those that stay after all.
        """
        gone: list[Offer] = []
        while amount > 0 and (order or again):
            is_new = not again or (order and order[-1] < again[0])
            offer = order.pop() if is_new else heapq.heappop(again)
            block = offer.block
            if not block.is_kept:
                continue
            worth = self._index.worth(block)
            if (order and worth > order[-1].worth) or (again and worth > again[0].worth):
                heapq.heappush(again, Offer(worth, offer.number, offer.at, block))
                continue
            block.value = worth
            amount -= self._freed_by(offer.at, block)
            self._change_gaps(block, 1)
            self._index.drop(block)
            self._dropped[block.number] = block
            gone.append(Offer(worth, offer.number, offer.at, block))
            if not block.is_frame:
                for mate, frame in self._bare_frames(offer.at):
                    worth = self._index.worth(frame)
                    heapq.heappush(again, Offer(worth, frame.number, mate, frame))
        for offer in self._kept_after_all(gone, -amount):
            heapq.heappush(again, offer)
        return {offer.at for offer in gone}

    def _kept_after_all(self, gone: Iterable[Offer], surplus: int) -> Iterator[Offer]:
        """Keep what fits the tokens freed beyond need, the highest worth first.

        The last block may free far more than was left to free: smaller ones before it can stay.
        """
        for offer in sorted(gone, reverse=True):
            block = offer.block
            if block.is_frame or self._bare_frames(offer.at):
                continue
            freed = self._freed_by(offer.at, block)
            if freed <= surplus:
                surplus -= freed
                self._change_gaps(block, -1)
                self._index.undrop(self._dropped.pop(block.number))
                yield offer

    def _freed_by(self, i: int, block: Block) -> int:
        """Return the tokens that dropping a block frees, or freed: its gap costs a line.

        A message of which nothing is left has no such line, unless the rest of its unit stays.
        """
        if block.is_frame or block.cut.is_note:
            return block.tokens
        before = self._gaps_of(block.cut) - (0 if block.is_kept else _gaps_made(block))
        is_last = block.message.parts_kept == int(block.is_kept)
        if is_last and len(self._context.units.members(i)) == 1:
            return block.tokens + _gap_tokens(before)
        return block.tokens + _gap_tokens(before) - _gap_tokens(before + _gaps_made(block))

    def _gaps_of(self, text: CutText) -> int:
        gaps = self._gaps.get(id(text))
        return text.gaps if gaps is None else gaps

    def _change_gaps(self, block: Block, change: int) -> None:
        """Count the gap of a block that is dropped; with -1, of one that is not after all."""
        if not block.is_frame:
            text = block.cut
            self._gaps[id(text)] = self._gaps_of(text) + change * _gaps_made(block)

    def _proposal(self, i: int, trimmed: Trimmed) -> Proposal | None:
        """Propose what happens to a message."""
        message = self._messages[i]
        if not message.is_kept:
            members = self._context.units.members(i)
            is_empty = not any(self._messages[mate].is_kept for mate in members)
            if is_empty and self._context.may_go(members):
                gone = [block for mate in members for block in self._messages[mate].blocks()]
                return Proposal((i,), Action.STASH, self._reason(gone, len(gone)))
        cut = {text.part: shown for text in message.texts if (shown := text.shown()) is not None}
        shorter = trimmed(self._context.segments[i], cut)
        if shorter is None:
            return None
        blocks = message.blocks()
        message.know_form(shorter.raw, [b for b in blocks if b.is_kept or self._is_uncut(b, cut)])
        reason = self._reason([block for block in blocks if not block.is_kept], len(blocks))
        return Proposal((i,), Action.TRIM, reason, shorter)

    def _is_uncut(self, block: Block, cut: Collection[int]) -> bool:
        """Return whether a block that was dropped now stays, since nothing else would be left."""
        is_new = block.number in self._dropped and not block.is_frame
        return is_new and block.cut.part not in cut

    def _reason(self, gone: list[Block], count: int) -> str:
        """Explain what is lost with these blocks."""
        is_whole = len(gone) == count
        what = "all of it" if is_whole else f"{len(gone)} of its {count} parts"
        verb = "goes" if is_whole or len(gone) == 1 else "go"
        lost, used = _lost_atoms(gone)
        if not lost:
            return f"{what} {verb}: {self._covered(gone)}"
        names = _counted(used or lost, "name or line", "names and lines")
        use = "the agent used before" if used else "the agent never used"
        return f"{what} {verb}: worth least per token; last copy of {names} {use}"

    def _covered(self, gone: list[Block]) -> str:
        """Say where else the text of redundant dropped blocks is."""
        lines = sum([block.text.count("\n") + 1 for block in gone])
        where = "newer messages" if all(map(_is_newer_elsewhere, gone)) else "other messages"
        return f"{_counted(lines, 'line', 'lines')} of it are in {where}"


def _gaps_made(block: Block) -> int:
    """Return how many gaps more its text has without a block: a gap beside it grows."""
    text, at = block.cut, block.at
    return 1 - text.is_gap(at - 1) - text.is_gap(at + 1)


def _gap_tokens(gaps: int) -> int:
    """Return the tokens of the lines that stand for the gaps of a text."""
    return FIRST_GAP_TOKENS + gaps - 1 if gaps else 0


def _counted(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def _lost_atoms(blocks: Iterable[Block]) -> tuple[int, int]:
    """Count the atoms of dropped blocks that no kept block holds, and those that were used."""
    lost = {atom.key: atom for block in blocks for atom in block.atoms if not atom.holders}
    return len(lost), len([atom for atom in lost.values() if atom.uses])


def _is_newer_elsewhere(block: Block) -> bool:
    """Return whether a later message holds something of this block."""
    for atom in block.atoms:
        new = atom.newest
        if new is not None and new.number > block.number and new.message is not block.message:
            return True
    return False
