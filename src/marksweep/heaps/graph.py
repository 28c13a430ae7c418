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

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import accumulate, compress, islice, repeat
from operator import le

import msgspec

from marksweep.core.graph import Graph
from marksweep.core.mark import reach
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
        self.size = self.first_entity + len(survey.entities)
        self.graph = _StrongEdges(survey)

    @property
    def live(self) -> int:
        """Count the nodes that are not soft-deleted."""
        hidden = sum(row.deleted_us is not None for row in self.survey.memories)
        hidden += len(self.survey.deleted_chunks) + len(self.survey.deleted_entities)
        return self.size - hidden

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
        for place, reason in gone.items():
            yield Chosen(place, tuple(self._live_chunks(place)), reason)
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
        """Mark from the memories that stay; entities that are not reached go."""
        roots = (
            place
            for place, row in enumerate(self.survey.memories)
            if row.deleted_us is None and place not in gone
        )
        marks = reach(self.graph, roots, self.size)
        deleted = self.survey.deleted_entities
        for number, key in enumerate(self.survey.entities):
            place = self.first_entity + number
            if not marks[place] and key not in deleted:
                yield Chosen(place, (), "orphaned: no memory that stays mentions this entity")

    def _live_chunks(self, memory: int) -> Iterator[int]:
        chunks, deleted = self.survey.chunks, self.survey.deleted_chunks
        for place in self.graph.successors(memory):
            if chunks[place - self.first_chunk] not in deleted:
                yield place


class _StrongEdges(Graph):
    """HAS_CHUNK and MENTIONS as marking walks over them, built from a survey's columns.

    Whole columns are mapped, sorted and counted at once: at a million edges that is three times as
    fast as a loop over them.
    """

    def __init__(self, survey: Survey) -> None:
        super().__init__(())
        memories = {row.key: place for place, row in enumerate(survey.memories)}
        first_chunk = len(memories)
        first_entity = first_chunk + len(survey.chunks)
        size = first_entity + len(survey.entities)
        chunks = dict(zip(survey.chunks, range(first_chunk, first_entity), strict=True))
        entities = dict(zip(survey.entities, range(first_entity, size), strict=True))
        owned = _known(map(memories.get, survey.chunk_owners, repeat(-1)), chunks.values())
        mentions = _known(
            map(chunks.get, survey.mention_chunks, repeat(-1)),
            map(entities.get, survey.mention_entities, repeat(-1)),
        )
        sources, targets = owned[0] + mentions[0], owned[1] + mentions[1]
        if not all(map(le, sources, islice(sources, 1, None))):
            order = sorted(range(len(sources)), key=sources.__getitem__)
            sources = [sources[i] for i in order]
            targets = [targets[i] for i in order]
        degree = Counter(sources)
        self.targets = array("q", targets)
        self.starts = array("q", [0])
        self.starts.extend(accumulate(map(degree.__getitem__, range(size))))


def _known(sources: Iterable[int], targets: Iterable[int]) -> tuple[list[int], list[int]]:
    """Leave out edges with an end that is not there."""
    edges = [*sources], [*targets]
    for end in (0, 1):
        if -1 in edges[end]:
            there = [place >= 0 for place in edges[end]]
            edges = [*compress(edges[0], there)], [*compress(edges[1], there)]
    return edges


def _last_sign_of_life(row: MemoryRow) -> int:
    return max(row.created_us, row.last_seen_us or 0, row.read_us or 0)


def _microseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def _days(life: timedelta) -> str:
    days = life / timedelta(days=1)
    return f"{days:g} day" if days == 1 else f"{days:g} days"
