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
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from marksweep.core.atoms import shown
from marksweep.core.blocks import join
from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.model import Action, Hold, Segment
from marksweep.strategies.coverage_held import Shelf, Texts
from marksweep.strategies.coverage_index import Block
from marksweep.strategies.coverage_price import ECONOMY, Setting
from marksweep.strategies.coverage_sweep import Sweep
from marksweep.strategies.mask import Trimmed

REFILL = 0.5
"""Share of the budget that may come back after one big result had emptied the context."""
FORGOTTEN = 4096
"""Dropped blocks that are looked at when there is room again, the last to go first."""
RECALLED = "[recalled]"
"""How a note begins."""
NAMED = 3
"""How many names a reason tells."""

Note = Callable[[str, Segment], Segment]
"""Make a note that stands right in front of a message."""


class Landing(NamedTuple):
    """Where a sweep of a context lands, and from where on it cuts."""

    context: PlanningContext
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
    ) -> None:
        """Begin. Without `note`, nothing comes back by itself."""
        self._shelf = Shelf(texts)
        self._index = self._shelf.index
        self._trimmed = trimmed
        self._note = note
        self._setting = setting
        self._landing: Landing | None = None
        self._emptied = False

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return f"coverage ({self._setting.name})"

    def arrive(self, segments: Iterable[Segment]) -> None:
        """Learn of new messages. Those it was not told of are learnt when it ranks."""
        self._shelf.arrive(segments)

    def catch_up(self, said: Iterable[Segment], live: Iterable[Segment]) -> None:
        """Learn what was said before the program started, and what is left of it."""
        self._shelf.arrive(said)
        self._shelf.follow(live)

    @property
    def is_missing(self) -> bool:
        """Whether something may have to come back. Looks at the newest messages only."""
        return self._note is not None and (self._emptied or bool(self._index.missing()))

    def recall(self, context: PlanningContext, before: int, limit_tokens: int) -> Proposal | None:
        """Propose a note in front of a message: what it speaks of, and is no longer there."""
        self._shelf.follow(context.segments)
        first = context.segments[before]
        fixed = sum(size for i, size in enumerate(context.sizes) if not context.may_go((i,)))
        if self._note is None or fixed > limit_tokens or not _may_precede(context, before):
            return None
        blocks, share, bar = self._index.missing(), self._setting.recall, self._shelf.level
        if self._emptied:
            blocks += self._shelf.gone[-FORGOTTEN:]
            share, bar = max(share, REFILL), 0.0
        front = sum(
            size for i, size in enumerate(context.sizes[:before]) if not context.may_go((i,))
        )
        taken = self._pick(blocks, int(share * (limit_tokens - front)), bar)
        if not taken:
            return None
        note = self._note(_told(taken), first)
        if note.segment_id in self._shelf.held:
            return None
        self._shelf.announce(note, taken)
        return Proposal((before,), Action.RECALL, self._why_back(taken), note)

    def landing(self, context: PlanningContext, target_tokens: int) -> int:
        """Choose how deep to sweep, at most at the target: rare and deep, or often and shallow.

        What the prompt cache would have to read again is weighed against what would be lost.
        """
        if context.size <= target_tokens:
            return target_tokens
        sweep = Sweep(context, self._shelf)
        self._emptied = sweep.fixed > target_tokens
        choice = sweep.choose(target_tokens, self._setting)
        self._landing = Landing(context, context.size - choice.free, choice.first, sweep)
        return self._landing.target

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose to trim messages, or to stash units of which nothing is left."""
        known, self._landing = self._landing, None
        if (
            known is None
            or known.context.snapshot is not context.snapshot
            or known.target != context.target
        ):
            sweep = Sweep(context, self._shelf)
            first = sweep.choose(context.target or 0, self._setting).first
        else:
            sweep, first = known.sweep, known.first
        yield from sweep.rank(first, self._trimmed)

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

    def _why_back(self, blocks: list[Block]) -> str:
        """Say what comes back."""
        if self._emptied:
            return f"{len(blocks)} parts come back: there is room again after one big message"
        names = self._index.missed(blocks)
        told = ", ".join(map(shown, names[:NAMED]))
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return f"{len(blocks)} parts come back: the newest messages speak of {told}{more}"


def _may_precede(context: PlanningContext, before: int) -> bool:
    """Whether a note may stand in front of a message: not between a call and its result."""
    first = context.segments[before]
    return not any(reference.hold is Hold.PAIRED for reference in first.references)


def _told(blocks: list[Block]) -> str:
    """Write blocks that come back as one text."""
    text: list[tuple[str, bool]] = []
    before = -2
    for block in blocks:
        text.append((block.text, block.glued and block.seq == before + 1))
        before = block.seq
    return f"{RECALLED}\n{join(text)}"
