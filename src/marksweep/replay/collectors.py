"""Coverage as a collector: told of messages as they come, asked for the next context.

    add      cut new messages into blocks, tell the index
    context  bring back what the agent speaks of again, if it is worth more than what would go
             over the limit: choose where and how deep to cut, drop the least worth per token

What comes back stands in a note in front of the newest messages, where it costs its own tokens and
no cached prefix. The pinned prefix and the newest messages are never touched.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence

from marksweep.core.atoms import atoms_of
from marksweep.core.blocks import join
from marksweep.recall import Recall
from marksweep.replay.counting import exact
from marksweep.replay.held import Field, Held, hold, write
from marksweep.replay.records import Count, Wire, calls_of, content_of, leaves, price, text_of
from marksweep.strategies.coverage_index import Block, Index
from marksweep.strategies.coverage_price import ECONOMY, QUALITY, Offer, Setting, choose

_FENCED = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)

REFILL = 0.5
"""Share of the budget that may come back after one big result had emptied the context."""
FORGOTTEN = 4096
"""Dropped blocks that are looked at when there is room again, the last to go first."""


class Coverage:
    """Keep the blocks that no other kept block stands in for."""

    def __init__(self, count: Count | None = None, setting: Setting = ECONOMY) -> None:
        self._count = count or exact()
        self._setting = setting

    def start(self, pinned: list[Wire], limit: int) -> None:
        """Begin a run with the messages that must stay and the budget in tokens."""
        self._pinned = pinned
        self._limit = limit
        self._fixed = sum(price(message, self._count) for message in pinned)
        self._index = Index()
        for message in pinned:
            self._index.know(atoms_of(text_of(message)))
        self._held: list[Held] = []
        self._told: list[Held] = []
        self._recall = Recall()
        self._tail = 0
        self._tokens = self._fixed
        self._level = 0.0
        self._dropped: list[Block] = []
        self._emptied = False

    def add(self, messages: list[Wire]) -> None:
        """Take the new messages since the last call."""
        self._index.step()
        self._tail = len(self._held)
        caller: Held | None = None
        for message in messages:
            held = hold(message, self._index, self._count)
            if message["role"] == "tool" and caller is not None:
                held.unit = caller.unit
                held.unit.append(held)
            else:
                caller = held if held.frame else None
            self._held.append(held)
            self._told.append(held)
            self._tokens += held.tokens
            if message["role"] == "assistant":
                self._index.act(atoms_of(action_of(message)))

    def context(self) -> list[Wire]:
        """The full context for the next request."""
        fits = self._fixed + self._tail_tokens() <= self._limit
        if fits:
            self._bring_back(self._index.missing(), self._setting.recall)
        if self._tokens > self._limit:
            self._collect()
        if fits and self._emptied:
            self._emptied = False
            self._dropped = [b for b in self._dropped if not b.alive][-FORGOTTEN:]
            self._bring_back(self._dropped, REFILL)
            if self._tokens > self._limit:
                self._collect()
        return [*self._pinned, *(held.shown for held in self._held if held.shown is not None)]

    def recall(self, query: str, limit: int) -> list[str]:
        """Passages that answer a query and are not whole in context, within a limit in tokens."""
        for held in self._told[len(self._recall) :]:
            self._recall.add(content_of(held.wire))
        whole = {n for n, held in enumerate(self._told) if held.shown is held.wire}
        found = self._recall.find(query, limit, self._count, whole)
        return self._recall.passages(found)

    def _tail_tokens(self) -> int:
        return sum(held.tokens for held in self._held[self._tail :])

    def _bring_back(self, blocks: Iterable[Block], share: float) -> None:
        """Page in the best of these blocks, up to a share of the budget, in a note of their own."""
        note = Held({"role": "user", "content": ""}, 0)
        back = self._take(blocks, int(share * (self._limit - self._fixed)), note)
        if not back:
            return
        back.sort(key=_order)
        for before, block in zip([None, *back], back, strict=False):
            follows = before is not None and before.seq == block.seq - 1
            block.glued = block.glued and follows
        note.fields.append(Field(back))
        note.wire["content"] = join([(block.text, block.glued) for block in back])
        note.tokens = price(note.wire, self._count)
        self._held.insert(self._tail, note)
        self._tail += 1
        self._tokens += note.tokens

    def _take(self, blocks: Iterable[Block], room: int, note: Held) -> list[Block]:
        """Bring back the best blocks that fit, while they are worth more than what goes."""
        index, taken = self._index, []
        heap = [(-index.worth_back(block, note), block.seq, block) for block in blocks]
        heapq.heapify(heap)
        while heap and room > 8:
            _, seq, block = heapq.heappop(heap)
            worth = index.worth_back(block, note)
            if heap and -worth > heap[0][0]:
                heapq.heappush(heap, (-worth, seq, block))
            elif worth <= self._level or worth * block.tokens < 1e-4:
                break
            elif not block.alive and block.tokens + 1 <= room:
                room -= block.tokens + 1
                index.bring_back(block, note)
                taken.append(block)
        return taken

    def _collect(self) -> None:
        """Drop until the context fits."""
        old = [held for held in self._held[: self._tail] if held.shown is not None]
        fits = self._fixed + self._tail_tokens() <= self._limit
        blocks = [(block, at) for at, held in enumerate(old) for block in _droppable(held)]
        offers = [Offer(self._index.worth_about(b), b.tokens, at) for b, at in blocks]
        must = self._tokens - self._limit
        sizes = [held.tokens for held in old]
        choice = choose(
            offers, sizes, must, self._limit - self._fixed, self._setting if fits else QUALITY
        )
        goal = self._tokens - choice.free
        chosen = zip(blocks, offers, strict=True)
        level = self._sweep([(o.worth, b) for (b, at), o in chosen if at >= choice.first], goal)
        if self._tokens > self._limit:
            left = [block for held in old for block in _droppable(held)]
            self._sweep([(self._index.worth(block), block) for block in left], self._limit)
        if fits:
            self._level = level
        else:
            self._emptied = True

    def _sweep(self, candidates: Sequence[tuple[float, Block]], goal: int) -> float:
        """Drop the least worth first until the goal is met; give the worth of the last to go.

        A block may have become a last holder since it was offered, so its worth is looked up again.
        """
        heap = [(worth, block.seq, block) for worth, block in candidates]
        heapq.heapify(heap)
        level = 0.0
        while self._tokens > goal and heap:
            changed: dict[int, Held] = {}
            about = self._tokens
            while about > goal and heap:
                _, seq, block = heapq.heappop(heap)
                worth = self._index.worth(block)
                if heap and worth > heap[0][0]:
                    heapq.heappush(heap, (worth, seq, block))
                    continue
                level = worth
                about -= block.tokens - 1
                for held in self._drop(block):
                    changed[id(held)] = held
                    frame = held.head.frame
                    if frame is not None and frame.alive and held.head.may_lose_frame():
                        heapq.heappush(heap, (self._index.worth(frame), frame.seq, frame))
            for held in changed.values():
                self._show(held)
        return level

    def _drop(self, block: Block) -> list[Held]:
        """Give a block up; the messages that look different now."""
        self._index.drop(block)
        self._dropped.append(block)
        held: Held = block.home  # type: ignore[assignment]  # this collector gave it its home
        return held.unit if block is held.frame else [held]

    def _show(self, held: Held) -> None:
        """Write a message anew and count it."""
        self._tokens -= held.tokens
        held.shown = write(held)
        held.tokens = 0 if held.shown is None else price(held.shown, self._count)
        self._tokens += held.tokens


def economy(count: Count | None = None) -> Coverage:
    """Coverage in its default setting: sweeps wait until they pay, and leave the front alone."""
    return Coverage(count, ECONOMY)


def quality(count: Count | None = None) -> Coverage:
    """Coverage that sweeps whenever it must, wherever the least is lost."""
    return Coverage(count, QUALITY)


def action_of(message: Wire) -> str:
    """What the agent does in a message: its calls' arguments, else its code blocks, else its text.

    Of plain text only words with a digit count: ids, amounts and dates are what an answer acts on.
    """
    calls = calls_of(message)
    if calls:
        return "\n".join(leaf for _, arguments in calls for leaf in leaves(arguments))
    text = content_of(message)
    blocks = _FENCED.findall(text)
    if blocks:
        return "\n".join(blocks)
    return "\n".join(word for word in text.split() if any(map(str.isdigit, word)))


def _droppable(held: Held) -> list[Block]:
    """The blocks that may go now."""
    if held.frame is not None and held.frame.alive and held.may_lose_frame():
        return [held.frame]
    return list(held.blocks())


def _order(block: Block) -> int:
    return block.seq
