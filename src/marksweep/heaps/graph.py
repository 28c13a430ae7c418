"""The knowledge graph as a heap: which nodes may go, and why.

1. survey   The store tells all ids, strong edges and light columns at one version.
2. roots    Memories that must stay: files that are there, notes, pins, what was read recently.
3. mark     HAS_CHUNK and MENTIONS are strong, RELATED_TO is weak and keeps nothing: entities that
            only point at each other are not reached.
4. choose   A strategy says which of the rest it takes, each with a reason.

Nothing here touches the store. Nodes are named by their place: memories first, then chunks, then
entities.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import compress

import msgspec

from marksweep.errors import UnknownName
from marksweep.stores.graph.base import EPOCH, MemoryRow, Survey
from marksweep.stores.graph.nouns import CODE_INDEXER, Kind

RECENTLY_READ = timedelta(days=1)
"""How long reading a memory protects it. Longer keeps stale memories that somebody looks at."""

GRACE = timedelta(days=7)
"""How long what was deleted can be restored. Longer keeps more in the store."""

CAP_PERCENT = 20.0
"""Share of a workspace's nodes that one plan may take. Higher lets a mistake take more at once."""


class PruneStrategy(StrEnum):
    """What a collection takes."""

    STALE_CODE = "stale_code"
    """Memories of files that are gone, with their chunks."""
    ORPHANED_CHUNKS = "orphaned_chunks"
    """Chunks that no memory has."""
    ORPHANED_ENTITIES = "orphaned_entities"
    """Entities that no chunk of any memory mentions."""
    EXPIRED = "expired"
    """Memories older than their source may get, with their chunks."""
    DUPLICATES = "duplicates"
    """Notes that say what an older one says, with their chunks."""
    ALL = "all"
    """All of these, and whatever only they keep."""

    @classmethod
    def named(cls, name: str) -> PruneStrategy:
        """Look a strategy up."""
        try:
            return cls(name)
        except ValueError:
            raise UnknownName(
                f"no prune strategy named {name!r}; known are {', '.join(cls)}."
            ) from None


class GraphRules(msgspec.Struct, frozen=True, kw_only=True):
    """What protects a memory, and what ends its life."""

    recently_read: timedelta = RECENTLY_READ
    ttl: Mapping[str, timedelta] = {}
    """Life of memories by their source, from when they were last written, seen or read."""
    cited: Mapping[str, str] = {}
    """Memories that something outside the graph refers to, with the reason they stay."""


class Chosen(msgspec.Struct, frozen=True, gc=False):
    """A node that goes, by its place, with the chunks that go along."""

    place: int
    chunks: tuple[int, ...]
    reason: str


class MarkedGraph:
    """A survey with its roots found and its nodes marked."""

    def __init__(self, survey: Survey, rules: GraphRules, now: datetime) -> None:
        self.survey = survey
        self.rules = rules
        self.now_us = _microseconds(now - EPOCH)
        self.first_chunk = len(survey.memories)
        self.first_entity = self.first_chunk + len(survey.chunks)

    @property
    def live(self) -> int:
        """Count the nodes that are not soft-deleted."""
        hidden = sum(row.deleted_us is not None for row in self.survey.memories)
        hidden += len(self.survey.deleted_chunks) + len(self.survey.deleted_entities)
        return self.first_entity + len(self.survey.entities) - hidden

    def kind_of(self, place: int) -> Kind:
        """Tell what kind of node stands at a place."""
        if place < self.first_chunk:
            return Kind.MEMORY
        return Kind.CHUNK if place < self.first_entity else Kind.ENTITY

    def key_of(self, place: int) -> int:
        """Give the survey's key of the node at a place."""
        if place < self.first_chunk:
            return self.survey.memories[place].key
        if place < self.first_entity:
            return self.survey.chunks[place - self.first_chunk]
        return self.survey.entities[place - self.first_entity]

    def choose(self, strategy: PruneStrategy) -> Iterator[Chosen]:
        """Say what goes, memories first, then chunks, then entities."""
        gone = dict(self._memories(strategy))
        chunks = self._live_chunks(gone)
        for place, reason in gone.items():
            yield Chosen(place, tuple(chunks.get(place, ())), reason)
        if strategy in (PruneStrategy.ORPHANED_CHUNKS, PruneStrategy.ALL):
            yield from self._orphaned_chunks()
        if strategy in (PruneStrategy.ORPHANED_ENTITIES, PruneStrategy.ALL):
            yield from self._orphaned_entities(gone)

    def reason_to_stay(self, row: MemoryRow) -> str | None:
        """Give the reason that makes a memory a root, whatever its age; None if there is none."""
        if row.pinned:
            return f"pinned by {row.pinned_by}" if row.pinned_by else "pinned"
        protected = _microseconds(self.rules.recently_read)
        if row.read_us is not None and self.now_us - row.read_us < protected:
            return "read recently"
        if row.memory_id in self.rules.cited:
            return self.rules.cited[row.memory_id]
        return None

    def holds_until(self) -> datetime | None:
        """Tell when time alone takes a memory's protection or life away; None if never."""
        protected = _microseconds(self.rules.recently_read)
        lives = {source: _microseconds(life) for source, life in self.rules.ttl.items()}
        ends: list[int] = []
        for row in self.survey.memories:
            if row.read_us is not None:
                ends.append(row.read_us + protected)
            if row.source in lives:
                ends.append(_last_sign_of_life(row) + lives[row.source] + 1)
        first = min((end for end in ends if end > self.now_us), default=None)
        return None if first is None else EPOCH + timedelta(microseconds=first)

    def _memories(self, strategy: PruneStrategy) -> Iterator[tuple[int, str]]:
        """Name the memories that a strategy takes, with reasons; the first reason counts."""
        copies: Mapping[str, str] = {}
        if strategy in (PruneStrategy.DUPLICATES, PruneStrategy.ALL):
            copies = self._copies()
        for place, row in enumerate(self.survey.memories):
            if row.deleted_us is not None:
                continue
            reason = self._why(strategy, row, copies)
            if reason is not None and self.reason_to_stay(row) is None:
                yield place, reason

    def _why(
        self, strategy: PruneStrategy, row: MemoryRow, copies: Mapping[str, str]
    ) -> str | None:
        everything = strategy is PruneStrategy.ALL
        if row.stale and (everything or strategy is PruneStrategy.STALE_CODE):
            return f"stale: {row.relative_path} was not there when {row.repository} was indexed"
        if everything or strategy is PruneStrategy.EXPIRED:
            life = self.rules.ttl.get(row.source)
            if life is not None and self.now_us - _last_sign_of_life(row) > _microseconds(life):
                return f"expired: memories of {row.source} live for {_days(life)}"
        if row.memory_id in copies:
            return f"duplicate: says what {copies[row.memory_id]} says"
        return None

    def _copies(self) -> dict[str, str]:
        """Map notes that repeat another's content to the one that stays.

        A note that must stay is kept first, then the oldest.
        """
        groups: dict[str, list[MemoryRow]] = {}
        for row in self.survey.memories:
            if row.source != CODE_INDEXER and row.content_hash and row.deleted_us is None:
                groups.setdefault(row.content_hash, []).append(row)
        copies: dict[str, str] = {}
        for rows in groups.values():
            if len(rows) > 1:
                rows.sort(
                    key=lambda row: (
                        self.reason_to_stay(row) is None,
                        row.created_us,
                        row.memory_id,
                    )
                )
                copies.update((row.memory_id, rows[0].memory_id) for row in rows[1:])
        return copies

    def _orphaned_chunks(self) -> Iterator[Chosen]:
        survey = self.survey
        deleted = survey.deleted_chunks
        for number, (key, owner) in enumerate(zip(survey.chunks, survey.chunk_owners, strict=True)):
            if owner < 0 and key not in deleted:
                yield Chosen(self.first_chunk + number, (), "orphaned: no memory has this chunk")

    def _orphaned_entities(self, gone: Collection[int]) -> Iterator[Chosen]:
        """Mark from the memories that stay; entities that are not reached go.

        No strong path is longer than memory → chunk → entity, so two passes over whole columns
        mark everything: five times as fast as a walk.
        """
        survey = self.survey
        staying = {
            row.key
            for place, row in enumerate(survey.memories)
            if row.deleted_us is None and place not in gone
        }
        had = map(staying.__contains__, survey.chunk_owners)
        chunks = set(compress(survey.chunks, had))
        mentioned = map(chunks.__contains__, survey.mention_chunks)
        kept = set(compress(survey.mention_entities, mentioned)) | survey.deleted_entities
        for place, key in enumerate(survey.entities, self.first_entity):
            if key not in kept:
                yield Chosen(place, (), "orphaned: no memory that stays mentions this entity")

    def _live_chunks(self, memories: Iterable[int]) -> dict[int, list[int]]:
        """Name the chunks that go along with memories, by the memories' places."""
        survey = self.survey
        places = {survey.memories[place].key: place for place in memories}
        found: dict[int, list[int]] = {}
        going = map(places.__contains__, survey.chunk_owners)
        for number in compress(range(len(survey.chunks)), going):
            if survey.chunks[number] not in survey.deleted_chunks:
                owner = places[survey.chunk_owners[number]]
                found.setdefault(owner, []).append(self.first_chunk + number)
        return found


def _last_sign_of_life(row: MemoryRow) -> int:
    return max(row.created_us, row.last_seen_us or 0, row.read_us or 0)


def _microseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def _days(life: timedelta) -> str:
    days = life / timedelta(days=1)
    return f"{days:g} day" if days == 1 else f"{days:g} days"
