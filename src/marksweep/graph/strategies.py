"""What a collection of the graph deletes. Strategies only rank; the planner protects the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from itertools import compress

from marksweep.core.strategy import Proposal
from marksweep.errors import member
from marksweep.heaps.graph import MICROSECOND, GraphContext
from marksweep.model import Action
from marksweep.stores.graph.base import EPOCH, MemoryRow
from marksweep.stores.graph.nouns import CODE_INDEXER


class PruneStrategy(StrEnum):
    """What a collection deletes."""

    STALE_CODE = "stale_code"
    """Memories of missing files and roots, with their chunks."""
    ORPHANED_CHUNKS = "orphaned_chunks"
    """Chunks that belong to no memory."""
    ORPHANED_ENTITIES = "orphaned_entities"
    """Entities that no chunk of any memory mentions."""
    EXPIRED = "expired"
    """Notes past their own or their source's time to live, with their chunks."""
    DUPLICATES = "duplicates"
    """Notes with the same content as another that is valid as long, with their chunks."""
    ALL = "all"
    """All of these, and whatever only they keep."""

    @classmethod
    def named(cls, name: str) -> PruneStrategy:
        """Return the strategy of that name."""
        return member(cls, name, "no prune strategy named")

    def rank(self, context: GraphContext) -> Iterator[Proposal]:
        """Propose memories first, then chunks, then entities, each with its first reason."""
        proposed: dict[int, str] = {}
        for part in _PARTS if self is PruneStrategy.ALL else (self,):
            if (memories := _MEMORIES.get(part)) is not None:
                for i, reason in memories(context):
                    proposed.setdefault(i, reason)
        for i, reason in sorted(proposed.items()):
            yield Proposal((i,), Action.DELETE, reason)
        if self in (PruneStrategy.ORPHANED_CHUNKS, PruneStrategy.ALL):
            for i in range(context.first_orphan, context.first_entity):
                yield Proposal((i,), Action.DELETE, "orphaned: no memory has this chunk")
        if self in (PruneStrategy.ORPHANED_ENTITIES, PruneStrategy.ALL):
            for i in _unmentioned(context, proposed.keys()):
                reason = "orphaned: no memory that stays mentions this entity"
                yield Proposal((i,), Action.DELETE, reason)


Reasons = Iterator[tuple[int, str]]
"""Indices of memories that may be deleted, and why."""


def _stale(context: GraphContext) -> Reasons:
    lost = context.rules.lost
    for i, row in context.live:
        if row.stale:
            where = f"{row.relative_path} was not there when {row.repository} was indexed"
            yield i, f"stale: {where}"
        elif row.source == CODE_INDEXER and row.repository in lost:
            yield i, f"stale: {lost[row.repository]}"


def _expired(context: GraphContext) -> Reasons:
    lives = context.rules.ttl
    for i, row in context.live:
        if _end_of_life(row, lives) > context.now_us:
            continue
        if row.expires_us is not None:
            end = EPOCH + timedelta(microseconds=row.expires_us)
            yield i, f"expired: its time to live ended on {end:%Y-%m-%d %H:%M} UTC"
        else:
            yield i, f"expired: memories of {row.source} live for {in_days(lives[row.source])}"


def _duplicates(context: GraphContext) -> Reasons:
    """Propose notes that repeat another's content.

    The one that lives longest is kept; of several, a protected one, else the oldest. A note that
    was replaced is no longer valid, so one that says the same again is no duplicate of it.
    """
    lives = context.rules.ttl
    groups: dict[str, list[tuple[int, MemoryRow]]] = {}
    for i, row in context.live:
        if row.source != CODE_INDEXER and row.content_hash and row.superseded_us is None:
            groups.setdefault(row.content_hash, []).append((i, row))
    for group in groups.values():
        if len(group) > 1:
            group.sort(
                key=lambda each: (
                    -_end_of_life(each[1], lives),
                    context.may_go((each[0],)),
                    each[1].created_us,
                    each[1].memory_id,
                )
            )
            for i, _ in group[1:]:
                yield i, f"duplicate: says what {group[0][1].memory_id} says"


_MEMORIES: dict[PruneStrategy, Callable[[GraphContext], Reasons]] = {
    PruneStrategy.STALE_CODE: _stale,
    PruneStrategy.EXPIRED: _expired,
    PruneStrategy.DUPLICATES: _duplicates,
}
_PARTS = tuple(_MEMORIES)


def _unmentioned(context: GraphContext, proposed: Iterable[int]) -> Iterator[int]:
    """Mark from the memories that stay; return the entities that are not reached.

    HAS_CHUNK and MENTIONS are strong; RELATED_TO is weak and keeps nothing, so entities that only
    point at each other are not reached. No strong path is longer than memory → chunk → entity, so
    two passes over whole columns mark everything: five times as fast as a walk.
    """
    survey = context.survey
    going = {i for i in proposed if context.may_go((i,))}
    staying = {row.key for i, row in context.live if i not in going}
    had = map(staying.__contains__, survey.chunk_owners)
    chunks = set(compress(survey.chunks, had))
    mentioned = map(chunks.__contains__, survey.mention_chunks)
    kept = set(compress(survey.mention_entities, mentioned)) | survey.deleted_entities
    for i, key in enumerate(survey.entities, context.first_entity):
        if key not in kept:
            yield i


def _end_of_life(row: MemoryRow, lives: Mapping[str, timedelta]) -> float:
    """Return when a note expires, in microseconds; infinity if it does not."""
    if row.expires_us is not None:
        return row.expires_us
    life = lives.get(row.source)
    return math.inf if life is None else _last_sign_of_life(row) + life // MICROSECOND


def _last_sign_of_life(row: MemoryRow) -> int:
    return max(row.created_us, row.last_seen_us or 0, row.read_us or 0)


def in_days(life: timedelta) -> str:
    """Write a time as days."""
    days = life / timedelta(days=1)
    return f"{days:g} day" if days == 1 else f"{days:g} days"
