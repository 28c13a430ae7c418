"""Coverage: keep at least one copy of everything that is likely to be needed again.

    observe, forget   follow which messages are there, in blocks (state.py, index.py, text.py)
    recall            bring back what the agent speaks of again, if it is worth more than what goes
    target            choose how deep to sweep: what is lost against what the prompt cache must
                      read again (choose.py)
    rank              the least worth per token first: parts of messages before whole ones

A block is worth only what no other kept block holds. What comes back is in a note in front of
the newest messages, where it costs its own tokens and no cached prefix.

The strategy learns each message once, in order; the same stream gives the same state, and ranking
leaves the state as it was.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.model import Action, Hold, Segment, Snapshot
from marksweep.strategies.coverage.choose import ECONOMY, QUALITY, Setting, Sweep
from marksweep.strategies.coverage.index import Block
from marksweep.strategies.coverage.state import CoverageState, Texts
from marksweep.strategies.coverage.text import join
from marksweep.strategies.mask import Trimmed

__all__ = ["ECONOMY", "QUALITY", "RECALLED", "Coverage", "Note", "Setting", "Texts"]

REFILL = 0.5
"""Share of the budget that may come back after one big result had emptied the context."""
MAX_REFILL_BLOCKS = 4096
"""Dropped blocks that are looked at when there is room again, the last to go first."""
SMALLEST_ROOM = 8
"""Tokens below which nothing comes back."""
SMALLEST_WORTH = 1e-4
"""Worth of a block below which it does not come back."""
RECALLED = "[recalled]"
"""How a note begins."""
MAX_NAMES = 3
"""How many names a reason lists."""

Note = Callable[[str, Segment], Segment]
"""Make a note that comes right before a message."""


class _Landing(NamedTuple):
    """Where a sweep of a snapshot lands, and from which message on it cuts."""

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
    ) -> None:
        """Begin. Without `note`, nothing comes back by itself."""
        self._state = CoverageState(texts)
        self._trimmed = trimmed
        self._note = note
        self._setting = setting
        self._landing: _Landing | None = None
        self._emptied = False

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return f"coverage ({self._setting.name})"

    def observe(self, segments: Iterable[Segment]) -> None:
        """Learn new messages. Those it did not observe are learnt when it ranks."""
        self._state.observe(segments)

    def forget(self, segment_ids: Iterable[str]) -> None:
        """Note that messages have left. What they held can still come back."""
        self._state.forget(segment_ids)

    def target(self, context: PlanningContext, wanted: int) -> int:
        """Choose how deep to sweep, at most at the target: rare and deep, or often and shallow.

        What the prompt cache would have to read again is weighed against what would be lost.
        """
        if context.size <= wanted:
            return wanted
        sweep = Sweep(context, self._state)
        self._emptied = sweep.fixed > wanted
        first, free = sweep.choose(wanted, self._setting)
        self._landing = _Landing(context.snapshot, context.size - free, first, sweep)
        return self._landing.target

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
            sweep = Sweep(context, self._state)
            first = sweep.choose(context.target or 0, self._setting).first
        yield from sweep.rank(first, max(1, context.needed), self._trimmed)

    def recall(self, context: PlanningContext) -> Proposal | None:
        """Propose a note in front of the newest messages: what they speak of and is gone."""
        before, limit = context.unanswered, context.target
        if self._note is None or before is None or limit is None:
            return None
        self._state.follow(context.segments)
        blocks = self._state.index.recallable()
        if not (blocks or self._emptied) or not _may_precede(context.segments[before]):
            return None
        held = [0 if context.may_go((i,)) else size for i, size in enumerate(context.sizes)]
        if sum(held) > limit:
            return None
        share, bar = self._setting.recall, self._state.level
        if self._emptied:
            blocks += [*self._state.index.remembered.values()][-MAX_REFILL_BLOCKS:]
            share, bar = max(share, REFILL), 0.0
        taken = self._pick(blocks, int(share * (limit - sum(held[:before]))), bar)
        if not taken:
            return None
        note = self._note(_written(taken), context.segments[before])
        if note.segment_id in self._state.messages:
            return None
        self._state.announce(note, taken)
        return Proposal((before,), Action.RECALL, self._why_back(taken), note)

    def _pick(self, blocks: Iterable[Block], room: int, bar: float) -> list[Block]:
        """Take back the best blocks that fit, while they are worth more than what goes."""
        index = self._state.index
        taken: dict[int, Block] = {}
        heap = [(-index.worth_if_restored(block, ()), block.number, block) for block in blocks]
        heapq.heapify(heap)
        with index.hypothetically() as take:
            while heap and room > SMALLEST_ROOM:
                _, number, block = heapq.heappop(heap)
                if number in taken:
                    continue
                worth = index.worth_if_restored(block, taken)
                if heap and -worth > heap[0][0]:
                    heapq.heappush(heap, (-worth, number, block))
                elif worth <= bar or worth * block.tokens < SMALLEST_WORTH:
                    break
                elif block.tokens + 1 <= room:
                    room -= block.tokens + 1
                    take(block, taken)
                    taken[number] = block
        return [taken[number] for number in sorted(taken)]

    def _why_back(self, blocks: list[Block]) -> str:
        """Say what comes back."""
        if self._emptied:
            return f"{len(blocks)} parts come back: there is room again after one big message"
        names = self._state.index.spoken_of(blocks)
        listed = ", ".join(names[:MAX_NAMES])
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        return f"{len(blocks)} parts come back: the newest messages mention {listed}{more}"


def _may_precede(message: Segment) -> bool:
    """Whether a note may come before a message: not between a call and its result."""
    return not any(reference.hold is Hold.PAIRED for reference in message.references)


def _written(blocks: list[Block]) -> str:
    """Write blocks that come back as one text."""
    text: list[tuple[str, bool]] = []
    before = -2
    for block in blocks:
        text.append((block.text, block.glued and block.number == before + 1))
        before = block.number
    return f"{RECALLED}\n{join(text)}"
