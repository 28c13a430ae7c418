"""One reachability over context segments and memories.

A segment that is in use and refers to a memory by its id keeps that memory; a memory that stays and
carries a tag `ref:<segment id>` keeps that segment. Both are marked together, so a segment and a
memory that only keep each other are kept by nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

import msgspec

from marksweep.core.graph import Graph
from marksweep.core.mark import reach
from marksweep.core.roots import Focus, find_roots, last_messages
from marksweep.core.units import Units
from marksweep.heaps.graph import GraphRules, MarkedGraph, PruneStrategy
from marksweep.model import Segment
from marksweep.stores.base import SegmentStore
from marksweep.stores.graph.base import GraphStore, MemoryRow, Survey


class Crossed(msgspec.Struct, frozen=True):
    """What each heap keeps in the other, with the reasons."""

    memories: Mapping[str, str] = {}
    """Memories that would go, but that a segment in use refers to."""
    segments: Mapping[str, str] = {}
    """Segments that a memory that stays refers to: for the focus of the segments' heap."""


async def cross(
    graph: GraphStore,
    segments: SegmentStore,
    workspace_id: str,
    strategy: PruneStrategy,
    *,
    rules: GraphRules,
    focus: Focus,
) -> Crossed:
    """Mark a workspace's segments and memories together, as if a strategy's choice were gone."""
    survey = await graph.survey(workspace_id)
    live = await asyncio.to_thread(segments.changes, workspace_id)
    return await asyncio.to_thread(_crossed, survey, live.put, strategy, rules, focus)


def _crossed(
    survey: Survey,
    segments: Sequence[Segment],
    strategy: PruneStrategy,
    rules: GraphRules,
    focus: Focus,
) -> Crossed:
    marked = MarkedGraph(survey, rules, focus.now)
    going = {
        survey.memories[each.place].memory_id
        for each in marked.choose(strategy)
        if each.place < len(survey.memories)
    }
    if not focus.recent_messages:
        in_order = sorted(segments, key=lambda segment: segment.position)
        focus = msgspec.structs.replace(focus, recent_messages=last_messages(in_order))
    return mark_together(segments, survey.memories, going, focus)


def mark_together(
    segments: Sequence[Segment],
    memories: Sequence[MemoryRow],
    going: Collection[str],
    focus: Focus,
) -> Crossed:
    """Mark from the roots of both heaps over the references of both."""
    there = [row for row in memories if row.deleted_us is None]
    nodes = [*segments, *(_as_segment(row) for row in there)]
    roots = set(find_roots(segments, focus))
    roots |= {place for place, row in enumerate(there, len(segments)) if row.memory_id not in going}
    graph = Graph(nodes)
    marks = reach(graph, Units(graph), roots)
    memory_ids = {row.memory_id for row in there}
    segment_ids = {segment.segment_id for segment in segments}
    kept_memories: dict[str, str] = {}
    kept_segments: dict[str, str] = {}
    for place, node in enumerate(nodes):
        if not marks[place]:
            continue
        for reference in node.all_references:
            if place < len(segments) and reference.target in memory_ids:
                kept_memories.setdefault(reference.target, f"cited by segment {node.segment_id}")
            elif place >= len(segments) and reference.target in segment_ids:
                kept_segments.setdefault(reference.target, f"cited by memory {node.segment_id}")
    return Crossed(kept_memories, kept_segments)


def _as_segment(row: MemoryRow) -> Segment:
    return Segment(
        segment_id=row.memory_id, type="memory", created_at=row.created_at, tags=row.tags
    )
