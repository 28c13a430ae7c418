"""One reachability over context segments and memories.

A segment that is in use and refers to a memory by its id keeps that memory; a memory that stays and
carries a tag `ref:<segment id>` keeps that segment. Both are marked together, so a segment and a
memory that refer only to each other are both garbage.

The result is cached until either store or the agent's focus changes, for a minute at most: time
alone only ever releases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from marksweep.core.mark import reach
from marksweep.core.roots import Focus, find_roots, last_messages
from marksweep.core.units import Graph, Units
from marksweep.graph.strategies import PruneStrategy
from marksweep.heaps.graph import GraphContext, GraphRules
from marksweep.model import Segment
from marksweep.stores.base import SegmentStore
from marksweep.stores.graph.base import EPOCH, GraphStore, MemoryRow, Survey

CACHED_FOR = timedelta(minutes=1)
"""How long a result is used if nothing changes. Longer reads the memories less often, and keeps
what time has released for longer."""

Key = tuple[str, PruneStrategy]
"""A workspace, and the strategy whose choice is assumed to be deleted."""


class KeptAcross(msgspec.Struct, frozen=True):
    """What each heap keeps in the other, with the reasons."""

    memories: Mapping[str, str] = {}
    """Memories that would be deleted, but that a segment in use refers to."""
    segments: Mapping[str, str] = {}
    """Segments that a kept memory refers to: for the focus of the segments' heap."""


class Memories(msgspec.Struct, frozen=True, kw_only=True):
    """The memories of a workspace that matter to segments."""

    live: frozenset[str]
    going: frozenset[str]
    citing: tuple[Segment, ...]
    """Memories with references: only these can keep a segment."""
    version: int = 0
    """Of the graph."""
    read_at: datetime = EPOCH

    @classmethod
    def of(cls, rows: Iterable[MemoryRow], going: Collection[str]) -> Memories:
        """Build from rows, and the ids of those that a strategy would delete."""
        there = [row for row in rows if row.deleted_us is None]
        as_segments = (_as_segment(row) for row in there if row.tags_json != "[]")
        return cls(
            live=frozenset(row.memory_id for row in there),
            going=frozenset(going),
            citing=tuple(each for each in as_segments if each.all_references),
        )

    @classmethod
    def surveyed(
        cls, survey: Survey, strategy: PruneStrategy, rules: GraphRules, now: datetime
    ) -> Memories:
        """Return what a strategy would delete now."""
        context = GraphContext(survey, rules, now)
        going = {
            survey.memories[i].memory_id
            for proposal in strategy.rank(context)
            for i in proposal.members
            if i < context.first_orphan and context.may_go((i,))
        }
        found = cls.of(survey.memories, going)
        return msgspec.structs.replace(found, version=survey.version, read_at=now)


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """The last result, and what it was computed from."""

    crossed: KeptAcross
    memories: Memories
    version: int
    """Of the segments."""
    focus: Focus


class CrossMarker:
    """Marks segments and memories of workspaces together; recomputes only what changed."""

    def __init__(self, graph: GraphStore, segments: SegmentStore, rules: GraphRules) -> None:
        self._graph = graph
        self._segments = segments
        self._rules = rules
        self._memories: dict[Key, Memories] = {}
        self._known: dict[Key, _Known] = {}

    def find(self, workspace_id: str, strategy: PruneStrategy, focus: Focus) -> KeptAcross:
        """Mark a workspace's segments and memories together, with a strategy's choice deleted.

        What memories kept in an earlier result is not a root: this call decides it again.
        """
        key = (workspace_id, strategy)
        focus = msgspec.structs.replace(focus, cited={})
        memories = self._remembered(key, focus.now)
        return self._marked(key, memories, focus)

    def _remembered(self, key: Key, now: datetime) -> Memories:
        workspace_id, strategy = key
        known = self._memories.get(key)
        is_new = known is not None and known.read_at <= now < known.read_at + CACHED_FOR
        if known and is_new and known.version == self._graph.version(workspace_id):
            return known
        survey = self._graph.survey_memories(workspace_id)
        found = Memories.surveyed(survey, strategy, self._rules, now)
        self._memories[key] = found
        return found

    def _marked(self, key: Key, memories: Memories, focus: Focus) -> KeptAcross:
        workspace_id, _ = key
        known = self._known.get(key)
        same_time = msgspec.structs.replace(focus, now=memories.read_at)
        if known is not None and known.memories is memories and known.focus == same_time:
            changes = self._segments.changes(workspace_id, known.version)
            if changes.version == known.version and not changes.complete:
                return known.crossed
        live = self._segments.changes(workspace_id)
        crossed = mark_together(live.put, memories, focus)
        self._known[key] = _Known(
            crossed=crossed, memories=memories, version=live.version, focus=same_time
        )
        return crossed


def mark_together(segments: Sequence[Segment], memories: Memories, focus: Focus) -> KeptAcross:
    """Mark from the roots of both heaps over the references of both."""
    if not focus.recent_messages:
        in_order = sorted(segments, key=lambda segment: segment.position)
        focus = msgspec.structs.replace(focus, recent_messages=last_messages(in_order))
    nodes = [*segments, *memories.citing, *_only_cited(segments, memories)]
    roots = set(find_roots(segments, focus))
    roots |= {
        place
        for place, node in enumerate(nodes[len(segments) :], len(segments))
        if node.segment_id not in memories.going
    }
    graph = Graph(nodes)
    marks = reach(graph, Units(graph), roots)
    segment_ids = {segment.segment_id for segment in segments}
    kept_memories: dict[str, str] = {}
    kept_segments: dict[str, str] = {}
    for place, node in enumerate(nodes):
        if not marks[place]:
            continue
        for reference in node.all_references:
            if place < len(segments) and reference.target in memories.live:
                kept_memories.setdefault(reference.target, f"cited by segment {node.segment_id}")
            elif place >= len(segments) and reference.target in segment_ids:
                kept_segments.setdefault(reference.target, f"cited by memory {node.segment_id}")
    return KeptAcross(kept_memories, kept_segments)


def _only_cited(segments: Sequence[Segment], memories: Memories) -> list[Segment]:
    """Return the memories that are referred to and refer to nothing."""
    citing = {node.segment_id for node in memories.citing}
    targets = {
        reference.target
        for node in (*segments, *memories.citing)
        for reference in node.all_references
    }
    return [
        Segment(segment_id=memory_id, type="memory", created_at=EPOCH)
        for memory_id in sorted((targets & memories.live) - citing)
    ]


def _as_segment(row: MemoryRow) -> Segment:
    return Segment(
        segment_id=row.memory_id, type="memory", created_at=row.created_at, tags=row.tags
    )
