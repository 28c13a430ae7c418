"""The three heaps as the page sees them: list, read, plan, collect, undo, restore, pin."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from marksweep.conversation import Conversation
from marksweep.core.budget import Budget
from marksweep.core.context import PlanningContext
from marksweep.core.mark import Mark
from marksweep.errors import NotFound
from marksweep.graph.memory import KnowledgeGraph
from marksweep.graph.roots import Root
from marksweep.graph.strategies import PruneStrategy
from marksweep.heaps.graph import GraphRules, nodes_of, ref, refs_of
from marksweep.heaps.stash_search import search_stash
from marksweep.messages import Message, with_outcomes
from marksweep.model import Action, Entry, Event, Plan, Report, Segment, Stashed, Unit
from marksweep.reading import DEAD, QUICK_DEAD
from marksweep.segments import Segments
from marksweep.stores.base import Query
from marksweep.stores.graph.base import GraphQuery, MemoryRow
from marksweep.stores.graph.nouns import CODE_INDEXER, Kind, Record
from marksweep.web.tiles import State, Tile, label

ACTOR = "the page"
"""The actor in the journal and in pins."""

THOROUGH_TOKENS = 200_000
"""Tokens of a conversation up to which every text is read to find dead weight: about a second."""

_REASONS = {
    Mark.REACHED: (State.REACHED, "what must stay refers to it"),
    Mark.RELATED: (State.RELATED, "only shares a file, symbol, topic or tag with what stays"),
    Mark.GARBAGE: (State.GARBAGE, "nothing that must stay refers to it"),
}


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """A heap at one moment."""

    tiles: tuple[Tile, ...]
    unit: Unit = Unit.TOKENS
    budget: Budget | None = None
    roots: tuple[Root, ...] = ()
    """The folders that a memory was indexed from."""


class Detail(msgspec.Struct, frozen=True):
    """One whole segment, and what keeps it or why it was swept."""

    segment: Segment
    why: str
    is_live: bool = True
    """False: it was swept, and can be restored."""


class _Stored:
    """What the working set and a conversation share: their operations and their store."""

    face: Segments | Conversation

    def live(self, name: str) -> Segment | None:
        """Fetch what is live under a name."""
        raise NotImplementedError

    def version(self, since: int) -> int:
        """Return a number that grows with every change; `since` is the last one returned."""
        return self.face.store.segments.changes(self.face.workspace, since).version

    def read(self, name: str) -> Detail:
        """Return one item with its whole text."""
        live, why = self.live(name), self.face.why(name)
        return Detail(live or self._swept_segment(name), why, live is not None)

    def find(self, words: str, limit: int) -> tuple[str, ...]:
        """List live items with these words, best first."""
        query = Query(words=words, limit=limit)
        hits = self.face.store.segments.search(self.face.workspace, query)
        return tuple(hit.found.segment_id for hit in hits)

    def swept(self, words: str, limit: int) -> tuple[Stashed, ...]:
        """Return what can be restored: best first, or newest first without words."""
        query = Query(words=words, limit=limit)
        hits = search_stash(self.face.store.stash, self.face.workspace, query)
        return tuple(hit.found for hit in hits)

    def swept_count(self) -> int:
        """Count what was swept and can be restored."""
        return self.face.store.stash.count(self.face.workspace)

    def journal(self, events: tuple[Event, ...], limit: int) -> tuple[Entry, ...]:
        """Return what was done, newest first."""
        return self.face.store.journal.read(self.face.workspace, events=events, limit=limit)

    def plan(self, target: int | None) -> Plan:
        """Make a plan, and save it."""
        plan = self.face.plan(target_tokens=target)
        self.face.save(plan)
        return plan

    def saved(self, plan_id: str) -> Plan:
        """Fetch a plan."""
        return self.face.saved(plan_id)

    def undo(self, plan_id: str) -> tuple[str, ...]:
        """Reverse a whole sweep."""
        return self.face.undo(plan_id)

    def restore(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Restore some of what was swept."""
        return self.face.restore(*names)

    def pin(self, names: tuple[str, ...]) -> None:
        """Protect something from every collection."""
        for name in names:
            self.face.pin(name, by=ACTOR)

    def unpin(self, names: tuple[str, ...]) -> None:
        """Remove the protection."""
        for name in names:
            self.face.unpin(name)

    def _swept_segment(self, name: str) -> Segment:
        for entry in self.face.store.stash.get(self.face.workspace, [name]):
            return entry.segment
        raise NotFound(f"{name!r} is neither live nor in the stash. Reload the page.")


class WorkingSet(_Stored):
    """The working set of a workspace."""

    def __init__(self, segments: Segments) -> None:
        self.face = self._segments = segments

    def live(self, name: str) -> Segment | None:
        """Fetch a segment."""
        return self._segments.get(name)

    def look(self) -> Look:
        """Mark from the roots; what is not reached is garbage."""
        context = self._segments.context()
        marks = context.marks
        tiles = []
        for i, segment in enumerate(context.segments):
            held = context.reason_to_keep((i,))
            state, reason = (State.ROOT, held) if held else _REASONS[Mark(marks[i])]
            tiles.append(_tile(segment, About(segment.type), state, reason))
        return Look(tiles=tuple(tiles), budget=self._segments.budget)

    def collect(self, plan_id: str) -> Report:
        """Collect; naming the plan on the page confirms its deletions."""
        return self._segments.collect(plan_id, confirm=plan_id)


class Talk(_Stored):
    """A conversation."""

    def __init__(self, conversation: Conversation) -> None:
        self.face = self._talk = conversation

    def live(self, name: str) -> Segment | None:
        """Fetch a message."""
        return {each.segment_id: each for each in self._talk.context().segments}.get(name)

    def look(self) -> Look:
        """Find dead weight; the rest is in use."""
        talk = self._talk
        context = talk.context()
        about = dict(_about(talk.history))
        dead = _dead(talk)
        tiles = []
        for i, segment in enumerate(context.segments):
            name = segment.segment_id
            state, reason = _state(context, i, dead.get(name, ""))
            tiles.append(_tile(segment, about.get(name, About(segment.type)), state, reason))
        return Look(tiles=tuple(tiles), budget=talk.budget)

    def collect(self, plan_id: str) -> Report:
        """Collect."""
        return self._talk.collect(self._talk.saved(plan_id))


class About(NamedTuple):
    """The speaker of a message, its tool and its file."""

    kind: str
    tool: str = ""
    file: str = ""
    what: str = ""
    """A title for people: a file, or a call."""


def _about(history: list[Message]) -> Iterator[tuple[str, About]]:
    for message, found in with_outcomes(history):
        tools = [each.name for each in found] or [call.name for call in message.function_calls]
        file = next((each.path for each in found if each.path), "")
        what = file.rpartition("/")[2] if file else found[0].said if found else ""
        tool = tools[0] if tools else ""
        yield message.message_id, About(message.role.value, tool, file or "", what)


def _dead(talk: Conversation) -> dict[str, str]:
    """Return the messages that are no longer needed, with the reasons."""
    plan = talk.plan(0, DEAD if talk.tokens <= THOROUGH_TOKENS else QUICK_DEAD)
    return {
        name: step.reason
        for step in plan.steps
        if step.action is not Action.RECALL
        for name in step.segments
    }


def _state(context: PlanningContext, i: int, dead: str) -> tuple[State, str]:
    held = context.reason_to_keep((i,))
    if held:
        return State.ROOT, held
    return (State.GARBAGE, dead) if dead else (State.REACHED, "neither superseded nor unreachable")


def _tile(segment: Segment, about: About, state: State, reason: str) -> Tile:
    return Tile(
        segment.segment_id,
        about.kind,
        segment.tokens,
        state,
        reason,
        about.what or label(segment.text),
        about.tool,
        about.file or segment.file_path or "",
        segment.pinned,
    )


class Remembered:
    """The long-term memory of a workspace, in nodes."""

    def __init__(self, memory: KnowledgeGraph, workspace: str) -> None:
        self._memory = memory
        self._workspace = workspace

    def version(self, since: int) -> int:  # noqa: ARG002
        """Return the store's version."""
        return self._memory.graph.version(self._workspace)

    def look(self) -> Look:
        """Find what is stale, orphaned, expired or duplicate; the rest is kept."""
        memory, workspace = self._memory, self._workspace
        said = memory.settings
        rules = GraphRules(recently_read=said.recently_read, ttl=said.ttl)
        context = memory.heap(workspace).context(rules, memory.now())
        most = sys.maxsize
        shown = memory.plan(workspace, PruneStrategy.ALL, limit=most, preview=most)
        garbage = {row.memory_id: row.reason for row in shown.rows}
        tiles = []
        for i, row in context.live:
            dead = garbage.get(row.memory_id)
            held = context.reason_to_keep((i,))
            state = State.GARBAGE if dead else State.ROOT if held else State.REACHED
            reason = dead or held or "remembered"
            tiles.append(_memory_tile(row, context.sizes[i], state, reason))
        rest = Counter(step.reason for step in shown.plan.steps if _is_loose(step.segments[:1]))
        tiles += [
            Tile("", "orphans", number, State.GARBAGE, reason, reason)
            for reason, number in sorted(rest.items())
        ]
        left = context.size - sum(tile.size for tile in tiles)
        if left > 0:
            tiles.append(Tile("", "entities", left, State.REACHED, "mentioned", "entities"))
        return Look(tiles=tuple(tiles), unit=Unit.NODES, roots=memory.roots(workspace_id=workspace))

    def read(self, name: str) -> Detail:
        """Return a memory."""
        found = self._memory.graph.fetch(self._workspace, _memories(name))
        if not found:
            raise NotFound(f"memory {name!r} does not exist any more. Reload the page.")
        memory = found[0].memory
        why = f"pinned by {memory.pinned_by}" if memory.pinned else ""
        why = why or ("its file was missing" if memory.stale else "remembered")
        if memory.deleted_at is not None:
            why = f"deleted at {memory.deleted_at:%Y-%m-%d %H:%M}"
        return Detail(_segment(found[0]), why, memory.deleted_at is None)

    def find(self, words: str, limit: int) -> tuple[str, ...]:
        """Search the memory."""
        answer = self._memory.search_memory(
            words, workspace_id=self._workspace, query=GraphQuery(limit=limit)
        )
        return tuple(dict.fromkeys(ref(Kind.MEMORY, h.memory.memory_id) for h in answer.hits))

    def swept(self, words: str, limit: int) -> tuple[Stashed, ...]:
        """Return deleted memories in their grace period that contain one of the words."""
        graph, grace = self._memory.graph, self._memory.settings.limits.grace
        rows = [row for row in graph.deleted(self._workspace) if row.kind is Kind.MEMORY]
        rows.sort(key=lambda row: (row.deleted_at, row.node_id), reverse=True)
        records = {
            each.memory.memory_id: each
            for each in graph.fetch(self._workspace, [row.node_id for row in rows])
        }
        wanted = words.casefold().split()
        found = []
        for row in rows:
            if row.node_id not in records:
                continue
            segment = _segment(records[row.node_id])
            said = f"{segment.file_path or ''} {segment.text}".casefold()
            if not wanted or any(word in said for word in wanted):
                expires = row.deleted_at + grace
                found.append(Stashed(segment, row.plan_id, row.deleted_at, "deleted", expires))
        return tuple(found[:limit])

    def swept_count(self) -> int:
        """Count deleted nodes."""
        return self._memory.stats(workspace_id=self._workspace).deleted

    def journal(self, events: tuple[Event, ...], limit: int) -> tuple[Entry, ...]:
        """Read the memory's own journal."""
        return self._memory.history(workspace_id=self._workspace, events=events, limit=limit)

    def plan(self, target: int | None) -> Plan:
        """Plan to delete what is garbage; a target limits how many nodes are deleted."""
        memory, workspace = self._memory, self._workspace
        size = memory.heap(workspace).size()
        limit = None if target is None else max(0, size - target)
        plan = memory.plan(workspace, PruneStrategy.ALL, limit=limit).plan
        memory.save(plan)
        return plan

    def saved(self, plan_id: str) -> Plan:
        """Fetch a plan."""
        return self._memory.find_plan(self._workspace, plan_id)

    def collect(self, plan_id: str) -> Report:
        """Delete what a plan names, except what has changed since."""
        plan = self.saved(plan_id)
        done = refs_of(self._memory.collect(plan).deleted)
        return Report(plan_id, plan.size_before, plan.size_before - len(done), done, unit=plan.unit)

    def undo(self, plan_id: str) -> tuple[str, ...]:
        """Restore what a plan deleted."""
        return refs_of(self._memory.undo(plan_id, workspace_id=self._workspace))

    def restore(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Restore memories."""
        memories = _memories(*names)
        return refs_of(self._memory.restore(memory_ids=memories, workspace_id=self._workspace))

    def pin(self, names: tuple[str, ...]) -> None:
        """Pin."""
        self._memory.pin(_memories(*names), by=ACTOR, workspace_id=self._workspace)

    def unpin(self, names: tuple[str, ...]) -> None:
        """Unpin."""
        self._memory.unpin(_memories(*names), workspace_id=self._workspace)


Source = WorkingSet | Talk | Remembered
"""One heap, for one caller at a time."""


def _memories(*names: str) -> tuple[str, ...]:
    """Return the memory ids among names in the form that plans use."""
    return nodes_of(names).memories


def _is_loose(names: tuple[str, ...]) -> bool:
    """Return whether a step deletes a chunk or an entity, and no memory."""
    return not _memories(*names)


def _memory_tile(row: MemoryRow, size: int, state: State, reason: str) -> Tile:
    is_code = row.source == CODE_INDEXER
    kind = row.repository.rstrip("/").rpartition("/")[2] if is_code else row.source
    name = ref(Kind.MEMORY, row.memory_id)
    path, folder = row.relative_path, row.relative_path.rpartition("/")[0]
    return Tile(name, kind, size, state, reason, path, file=folder, pinned=bool(row.pinned))


def _segment(record: Record) -> Segment:
    """Show a memory as a segment."""
    memory = record.memory
    text = memory.text or "\n".join(chunk.text for chunk in record.chunks)
    return Segment(
        segment_id=ref(Kind.MEMORY, memory.memory_id),
        type=memory.source,
        created_at=memory.created_at,
        text=text,
        tokens=1 + len(record.chunks),
        pinned=memory.pinned,
        pinned_by=memory.pinned_by,
        file_path=memory.file_path or None,
        tags=memory.tags,
    )
