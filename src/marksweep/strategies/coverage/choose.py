"""Which blocks a sweep drops: where it cuts into the prompt, and in which order.

A provider's cache holds the prompt up to the first change; everything after it is read again. So a
sweep at the front is expensive, and one near the end is cheap. Each choice is judged by one number:
what is lost plus what is read again.

What goes first is worth least per token that is free without it: the line that would stand for a
small part may take as much as the part.

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
from marksweep.strategies.coverage.index import Block, BlockIndex, MessageBlocks
from marksweep.strategies.mask import Trimmed

FRONTS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.17, 0.12, 0.08, 0.05, 0.03)
"""Shares of the old context, counted from its end, within which a sweep may stay."""
FIRST_GAP_TOKENS = 22
"""Tokens of the line that stands for the first gap of a text. Each further gap takes about one."""
NEXT_ROUND_SHARE = 0.01
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
    """Per token that is free without it."""
    number: int
    """The number of the block."""
    at: int
    """The index of its message in the heap."""
    tokens: int
    """How many that are."""


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
        tokens = offer.tokens
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
    half = sum([offer.tokens for offer in order]) / 2
    seen = 0
    for offer in order:
        seen += offer.tokens
        if seen >= half:
            return offer.worth
    return 0.0


class Freed:
    """Counts what dropping blocks frees: their tokens, less those of the lines for gaps.

    What goes last of a unit takes the lines of the rest along, and what the messages take beside
    their blocks.
    """

    def __init__(self, context: PlanningContext, messages: Sequence[MessageBlocks]) -> None:
        self._context = context
        self._messages = messages
        self._tokens: dict[int, int] = {}
        """Tokens freed of a message so far, by its index."""

    def without(self, i: int, block: Block) -> int:
        """Return how many tokens dropping a kept block of message `i` frees."""
        if not self._is_last(i):
            return block.tokens - _line_tokens(block)
        members = self._context.units.members(i)
        freed = sum([self._tokens.get(mate, 0) for mate in members])
        return sum([self._context.sizes[mate] for mate in members]) - freed

    def add(self, i: int, block: Block) -> None:
        """Count a block that is about to be dropped."""
        self._tokens[i] = self._tokens.get(i, 0) + block.tokens - _line_tokens(block)

    def remove(self, i: int, block: Block) -> None:
        """Stop counting a block that was dropped and is kept again."""
        self._tokens[i] -= block.tokens - _line_tokens(block)

    def _is_last(self, i: int) -> bool:
        """Return whether a message has one block left, and nothing else of its unit is kept."""
        message = self._messages[i]
        is_framed = message.frame is not None and message.frame.is_kept
        if message.parts_kept + is_framed > 1:
            return False
        members = self._context.units.members(i)
        return not any(self._messages[mate].is_kept for mate in members if mate != i)


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
        self._freed = Freed(context, messages)
        self._deferred: set[int] = set()
        """The numbers of blocks that were worth more than they were offered at."""
        self.fixed = context.size - sum([context.sizes[i] for i in self._free])
        """Tokens that must stay."""
        self._blocks: dict[int, Block] = {}
        """The blocks that may go, by number."""
        self._offers = sorted(self._all_offers(), key=attrgetter("worth"))
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

        The first round frees what must go, from the message at `first` on if that is enough. The
        others offer a little more.
        """
        try:
            for start in dict.fromkeys((first, 0)):
                order = [offer for offer in reversed(self._offers) if offer.at >= start]
                again: list[Offer] = []
                gone, freed = self._drop(order, again, must)
                for offer in self._kept_after_all(gone, freed - must):
                    heapq.heappush(again, offer)
                yield from self._proposals(gone, trimmed)
                while order or again:
                    amount = max(NEXT_ROUND_TOKENS, int(must * NEXT_ROUND_SHARE))
                    gone, _ = self._drop(order, again, amount)
                    yield from self._proposals(gone, trimmed)
        finally:
            while self._dropped:
                self._index.undrop(self._dropped.popitem()[1])

    def _proposals(self, gone: Iterable[Offer], trimmed: Trimmed) -> Iterator[Proposal]:
        """Propose what happens to the messages of dropped blocks."""
        for i in sorted({offer.at for offer in gone}):
            proposal = self._proposal(i, trimmed)
            if proposal is not None:
                yield proposal

    def _all_offers(self) -> Iterator[Offer]:
        """Offer every block that may be dropped now: frames only where nothing else is left.

        Of many parts each is offered as if others went before it: it may be worth more.
        """
        worth = self._index.worth
        for i in self._free:
            message = self._messages[i]
            if message.parts_kept > 1:
                for block in message.parts():
                    if block.is_kept:
                        self._blocks[block.number] = block
                        yield Offer(worth(block), block.number, i, block.tokens)
            elif message.parts_kept:
                yield self._offer(i, next(block for block in message.parts() if block.is_kept))
            elif (frame := message.frame) is not None and frame.is_kept and self._is_bare(i):
                yield self._offer(i, frame)

    def _offer(self, i: int, block: Block) -> Offer:
        """Offer a block at what it is worth now."""
        self._blocks[block.number] = block
        freed = self._freed.without(i, block)
        worth = self._index.worth(block) * block.tokens / max(1, freed)
        return Offer(worth, block.number, i, freed)

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

    def _drop(self, order: list[Offer], again: list[Offer], amount: int) -> tuple[list[Offer], int]:
        """Drop the lowest worth first, which is the last of `order`; return what went, and tokens.

        Blocks that are offered again are in the heap `again`: those that are worth more now, as
        last holders, or per token that would be free without them.
        """
        gone: list[Offer] = []
        freed = 0
        while freed < amount and (order or again):
            is_new = not again or (order and order[-1] < again[0])
            offer = order.pop() if is_new else heapq.heappop(again)
            block, i = self._blocks[offer.number], offer.at
            if not block.is_kept:
                continue
            offer = self._offer(i, block)
            if (order and offer.worth > order[-1].worth) or (
                again and offer.worth > again[0].worth
            ):
                heapq.heappush(again, offer)
                self._deferred.add(block.number)
                continue
            block.value = offer.worth
            freed += offer.tokens
            self._let_go(i, block)
            gone.append(offer)
            for other in self._offers_after(i, block):
                heapq.heappush(again, other)
        return gone, freed

    def _offers_after(self, i: int, block: Block) -> Iterator[Offer]:
        """Offer what may go without a block, or frees more than before."""
        if block.is_frame:
            return
        for at, frame in self._bare_frames(i):
            yield self._offer(at, frame)
        if block.cut.gaps == 1:  # its line is paid for
            for other in block.cut.blocks():
                if other.is_kept and other.number in self._deferred:
                    yield Offer(self._index.worth(other), other.number, i, other.tokens)

    def _kept_after_all(self, gone: Iterable[Offer], surplus: int) -> Iterator[Offer]:
        """Keep what fits the tokens freed beyond need, the highest worth first.

        The last block may free far more than was left to free: smaller ones before it can stay.
        """
        for together in sorted(self._together(gone), key=_mean_worth, reverse=True):
            if sum([offer.tokens - FIRST_GAP_TOKENS for offer in together]) > surplus:
                continue  # Even if a line for each goes with it.
            blocks = [(offer.at, self._blocks[offer.number]) for offer in together]
            freed = sum([self._take_back(i, block) for i, block in reversed(blocks)])
            if freed > surplus:
                for i, block in blocks:
                    self._let_go(i, block)
                continue
            surplus -= freed
            for offer, (i, block) in zip(together, blocks, strict=True):
                # Calls are offered once nothing else of their unit is left.
                if not block.is_frame or self._is_bare(i):
                    yield offer

    def _together(self, gone: Iterable[Offer]) -> Iterable[list[Offer]]:
        """Group what may stay after all: a block of a unit that stays, or all of a unit that went.

        Of a unit of which only the calls are left, nothing else stays: they may go next.
        """
        groups: dict[tuple[bool, int], list[Offer]] = {}
        for offer in gone:
            calls = self._bare_frames(offer.at)
            if not any(frame.is_kept for _, frame in calls):
                home = calls[0][0] if calls else offer.number
                groups.setdefault((bool(calls), home), []).append(offer)
        return groups.values()

    def _let_go(self, i: int, block: Block) -> None:
        """Drop a block."""
        self._freed.add(i, block)
        self._index.drop(block)
        self._dropped[block.number] = block

    def _take_back(self, i: int, block: Block) -> int:
        """Keep a dropped block after all; return how many tokens it had freed."""
        self._index.undrop(self._dropped.pop(block.number))
        self._freed.remove(i, block)
        return self._freed.without(i, block)

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


def _mean_worth(offers: Sequence[Offer]) -> float:
    """Return the worth per token of several blocks."""
    lost = sum([offer.worth * offer.tokens for offer in offers])
    return lost / max(1, sum([offer.tokens for offer in offers]))


def _line_tokens(block: Block) -> int:
    """Return the tokens of the lines that stand for a kept block if it goes.

    None stands there in a note: it only repeats what others say.
    """
    if block.is_frame or block.cut.is_note:
        return 0
    return block.cut.gaps_made(block.at) if block.cut.gaps else FIRST_GAP_TOKENS


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
