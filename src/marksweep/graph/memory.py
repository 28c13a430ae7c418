"""Long-term memory: a graph of notes and code. Remember, search, forget, restore.

`KnowledgeGraph` has the calls; `GraphMemory` has the same ones for programs in an event loop.

memory = GraphMemory.open()        # of the project in the current folder
memory.add_memory("Ada owns the parser in src/parse.py", tags=["people"])
answer = memory.search_memory("parser")
shown = memory.prune_memory(strategy="stale_code")
memory.prune_memory(workspace_id="default", dry_run=False, confirm=True,
                          plan_id=shown.plan_id)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import msgspec

from marksweep.collector import Collector, Watch
from marksweep.core.plan import plan_from
from marksweep.core.roots import Focus
from marksweep.core.strategy import Proposal
from marksweep.errors import BadInput, NotConfirmed, Refused, member
from marksweep.graph import pruning
from marksweep.graph.backup import (
    Backup,
    BackupInfo,
    check_backup,
    kept_in,
    load_backup,
    new_backup,
    write_backup,
)
from marksweep.graph.call_graph import MAX_DEPTH, MAX_LINKS, Ask, Linked, linked
from marksweep.graph.cross_references import CrossMarker, KeptAcross
from marksweep.graph.erasure import Eraser, Forgotten, hide
from marksweep.graph.notes import check_replaceable, known_note, memories_of, note_record
from marksweep.graph.place import place_of
from marksweep.graph.roots import Root, code_of, gone_since, lost_roots, named_root, roots_of
from marksweep.graph.strategies import PruneStrategy
from marksweep.heaps.graph import (
    GraphHeap,
    GraphRules,
    NamedUnits,
    journal_name,
    nodes_of,
    planned,
    ref,
    without,
)
from marksweep.model import Action, Entry, Event, Plan, Report, listed, utc_now
from marksweep.settings import Settings, load_settings
from marksweep.stores.base import DEFAULT_WORKSPACE, Store
from marksweep.stores.graph import nouns
from marksweep.stores.graph.base import Counts, GraphHit, GraphQuery, GraphStore, MemoryRow, Nodes
from marksweep.stores.graph.nouns import Kind, Memory, Record
from marksweep.stores.graph.open import open_graph
from marksweep.stores.open import open_store

Given = ParamSpec("Given")
Result = TypeVar("Result")

ACTOR = "library"
"""The default actor in the journal."""

MERGE = "merge_entities"
"""The strategy name of plans that merge entities."""

NOT_CONFIRMED = (
    "Deletion requires explicit confirmation. Set confirm=true to proceed. "
    "Run with dry_run=true first to preview."
)


class Answer(msgspec.Struct, frozen=True):
    """What a search found, best first."""

    hits: tuple[GraphHit, ...] = ()


class KnowledgeGraph:
    """The memory of any number of workspaces on one graph store. Thread-safe."""

    def __init__(
        self,
        graph: GraphStore,
        store: Store,
        *,
        backups: str | Path,
        settings: pruning.MemorySettings | None = None,
        actor: str = ACTOR,
        clock: Callable[[], datetime] = utc_now,
        focus: Callable[[str, datetime], Focus] = lambda _, now: Focus(now=now),
        watch: Watch | None = None,
    ) -> None:
        """Take the stores. `focus` returns what a workspace's agent works on; `watch` observes."""
        self.graph = graph
        self.store = store
        self.backups = Path(backups)
        self.settings = settings or pruning.MemorySettings()
        self.actor = actor
        self.now = clock
        self.focus = focus
        self.watch = watch
        self._cross_marker = CrossMarker(graph, store.segments, self._rules)

    @classmethod
    def open(
        cls,
        project: str | Path = ".",
        *,
        settings: Settings | None = None,
        actor: str = ACTOR,
    ) -> KnowledgeGraph:
        """Open the memory of the project in a folder, where its settings say."""
        found = load_settings(project) if settings is None else settings
        place = place_of(found, project)
        return cls(
            open_graph(place.graph),
            open_store(place.store, found.store.retention),
            backups=place.backups,
            settings=pruning.MemorySettings.of(found),
            actor=actor,
        )

    def acting_as(self, actor: str) -> KnowledgeGraph:
        """Return this memory with another actor in the journal."""
        other = copy(self)
        other.actor = actor
        return other

    def close(self) -> None:
        """Release the stores."""
        self.graph.close()
        self.store.close()

    def add_memory(
        self,
        text: str,
        *,
        tags: Sequence[str] = (),
        source: str = "user",
        metadata: dict[str, nouns.Scalar] | None = None,
        replaces: Sequence[str] = (),
        ttl: timedelta | None = None,
        pinned_by: str = "",
        workspace_id: str = DEFAULT_WORKSPACE,
    ) -> Memory:
        """Remember a text, with a time to live if given. A source's equal texts are stored once.

        `pinned_by` pins it, and says who did so and why. All is one write.
        Without tags or metadata, those of the known text stay. Notes that it replaces stop being
        valid now: searches find them only as of earlier times. A text that was valid once and is
        remembered again becomes a new memory, so that its earlier times stay known.
        """
        tags, replaces = listed("tags", tags), listed("replaces", replaces)
        check_replaceable(self.graph, workspace_id, replaces)
        known, memory_id = known_note(self.graph, workspace_id, source, text, self.now())
        record = note_record(
            workspace_id,
            text,
            now=self.now(),
            source=source,
            tags=tags or (known.tags if known else ()),
            metadata=metadata or (known.metadata if known else None),
            ttl=ttl,
            pinned_by=pinned_by,
            memory_id=memory_id,
        )
        self.graph.put(workspace_id, [msgspec.structs.replace(record, replaces=replaces)])
        return record.memory

    def search_memory(
        self, words: str, *, workspace_id: str = DEFAULT_WORKSPACE, query: GraphQuery | None = None
    ) -> Answer:
        """Find live chunks, best first; a note whose time to live has ended is not found."""
        wanted = msgspec.structs.replace(query or GraphQuery(), words=words, now=self.now())
        return Answer(self.graph.search(workspace_id, wanted))

    def call_graph(
        self,
        name: str,
        ask: str = Ask.CALLERS,
        *,
        workspace_id: str = DEFAULT_WORKSPACE,
        limit: int = MAX_LINKS,
        depth: int = MAX_DEPTH,
    ) -> Linked:
        """Return who calls a symbol, what it calls, imports or inherits, or what a change reaches.

        `name` is a function, class, module or file; `depth` is the number of steps of an impact.
        """
        asked = member(Ask, ask, "cannot ask for")
        return linked(self.graph, workspace_id, name, asked, limit=limit, depth=depth)

    def read_memory(
        self, memory_ids: Sequence[str], *, workspace_id: str = DEFAULT_WORKSPACE
    ) -> tuple[Record, ...]:
        """Fetch whole memories, and record that they were read."""
        self.touch(memory_ids, workspace_id=workspace_id)
        return self.graph.fetch(workspace_id, memory_ids)

    def pin(
        self, memory_ids: Sequence[str], *, by: str, workspace_id: str = DEFAULT_WORKSPACE
    ) -> int:
        """Protect memories from every collection; record who did it and why."""
        return self.graph.pin(workspace_id, listed("memory_ids", memory_ids), by)

    def unpin(self, memory_ids: Sequence[str], *, workspace_id: str = DEFAULT_WORKSPACE) -> int:
        """Remove the protection."""
        return self.graph.unpin(workspace_id, listed("memory_ids", memory_ids))

    def touch(self, memory_ids: Sequence[str], *, workspace_id: str = DEFAULT_WORKSPACE) -> int:
        """Record that memories were read: that protects them for a while."""
        return self.graph.touch(workspace_id, listed("memory_ids", memory_ids), self.now())

    def heap(
        self, workspace_id: str, backup: Callable[[Nodes, datetime], object] | None = None
    ) -> GraphHeap:
        """Return a workspace as the collector sees it."""
        return GraphHeap(
            self.graph,
            workspace_id,
            limits=self.settings.limits,
            cited=lambda: self._crossed(workspace_id, PruneStrategy.ALL).memories,
            backup=backup or (lambda nodes, now: self._back_up(workspace_id, nodes, now)),
        )

    def collector(self, workspace_id: str) -> Collector:
        """Return the object that plans, sweeps, undoes and recovers a workspace."""
        return self._collector(self.heap(workspace_id))

    def _collector(self, heap: GraphHeap) -> Collector:
        return Collector(heap, self.store.journal, actor=self.actor, watch=self.watch)

    def forget(
        self,
        memory_ids: Sequence[str],
        *,
        workspace_id: str = DEFAULT_WORKSPACE,
        everywhere: bool = False,
    ) -> Forgotten:
        """Delete memories, restorable for the grace period; everywhere: permanently and at once.

        Everywhere means the graph, the stash and our backups, and every time a note's text was
        valid; the answer says what could not be reached.
        """
        memory_ids = listed("memory_ids", memory_ids)
        now = self.now()
        heap = self.heap(workspace_id)
        collector = self._collector(heap)
        if not everywhere:
            return hide(self.graph, heap, collector, memory_ids, now)
        notes = self.graph.find(workspace_id, Nodes(memory_ids))
        lives = [
            each.memory_id
            for note in notes
            if isinstance(note, Memory)
            for each in memories_of(self.graph, workspace_id, note.source, note.text)
        ]
        eraser = Eraser(self.graph, self.store, self.backups, collector)
        return eraser.erase(workspace_id, [*dict.fromkeys((*memory_ids, *lives))], now)

    def roots(self, *, workspace_id: str = DEFAULT_WORKSPACE) -> tuple[Root, ...]:
        """List what was indexed: from where, when, how large, and whether it is still there."""
        rows = self.graph.survey_memories(workspace_id).memories
        return roots_of(rows, self._gone(workspace_id, rows))

    def _gone(self, workspace_id: str, rows: Iterable[MemoryRow]) -> dict[str, datetime]:
        seen = Event.VANISHED, Event.RETURNED
        history = self.store.journal.read(journal_name(workspace_id), events=seen)
        runs = self.graph.runs(workspace_id)
        return gone_since(self.collector(workspace_id), history, runs, rows, self.now())

    def drop_root(self, root: str | Path, *, workspace_id: str = DEFAULT_WORKSPACE) -> Forgotten:
        """Delete all that was indexed from a folder or under a name; it can be restored."""
        survey = self.graph.survey_memories(workspace_id)
        name = named_root(survey.memories, root)
        rows = [row.memory_id for row in code_of(survey.memories) if row.repository == name]
        return self.forget(rows, workspace_id=workspace_id)

    def plan_merge_entities(self, *, workspace_id: str = DEFAULT_WORKSPACE) -> Plan:
        """Find entities that are one thing under several spellings; save a plan to merge them."""
        now = self.now()
        heap = self.heap(workspace_id)
        groups = nouns.duplicates(self.graph.entities(workspace_id))
        snapshot = heap.snapshot()
        units = NamedUnits(
            [tuple(ref(Kind.ENTITY, entity.entity_id) for entity in group) for group in groups],
            now,
            snapshot=snapshot,
            sizes=[len(group) - 1 for group in groups],
        )
        proposals = (
            Proposal(
                (number,),
                Action.COMPRESS,
                f"the {group[0].kind} {group[0].name!r} is also written "
                + ", ".join(repr(entity.name) for entity in group[1:]),
            )
            for number, group in enumerate(groups)
        )
        plan = plan_from(units, MERGE, proposals)
        self.collector(workspace_id).save(plan, now=now)
        return plan

    def merge_entities(self, plan_id: str, *, workspace_id: str = DEFAULT_WORKSPACE) -> Report:
        """Merge what a plan of `plan_merge_entities` names."""
        collector = self.collector(workspace_id)
        plan = collector.saved(plan_id)
        if plan.strategy != MERGE:
            raise BadInput(
                f"plan {plan_id} is one of {plan.strategy}, not of {MERGE}. Apply it with the call "
                "that made it."
            )
        return collector.collect(plan, now=self.now())

    def prune_memory(
        self,
        workspace_id: str = "",
        dry_run: bool = True,
        confirm: bool = False,
        strategy: str = PruneStrategy.STALE_CODE,
        *,
        plan_id: str = "",
        limit: int | None = None,
    ) -> pruning.PruneResult:
        """Show what a strategy would delete; with `dry_run=False` and `confirm=True`, delete it.

        A dry run returns a plan id; passed back, exactly that plan is applied, and what changed
        meanwhile is left alone. A plan deletes up to `limit` nodes, by default as many as the cap
        allows, and says what is left for the next one. Deleting needs `confirm`, and in the default
        workspace its name as `workspace_id`.
        """
        workspace = workspace_id or DEFAULT_WORKSPACE
        chosen = PruneStrategy.named(strategy)
        if dry_run:
            shown = self.plan(workspace, chosen, limit=limit)
            self.save(shown.plan)
            return pruning.PruneResult(
                plan=shown.plan, rows=shown.rows, planned=planned(shown.plan)
            )
        if not confirm:
            raise NotConfirmed(NOT_CONFIRMED)
        if not workspace_id:
            raise Refused(
                "Deleting in the default workspace needs its name. Pass "
                f"workspace_id={DEFAULT_WORKSPACE!r}."
            )
        if plan_id:
            plan = self.find_plan(workspace, plan_id)
        else:
            plan = self.plan(workspace, chosen, limit=limit).plan
            self.save(plan)
        return self.collect(plan, limit=limit)

    def save(self, plan: Plan) -> None:
        """Save a plan in the journal, so that it can be looked up by its id."""
        self.collector(plan.workspace).save(plan, now=self.now())

    def find_plan(self, workspace_id: str, plan_id: str) -> Plan:
        """Look up a saved plan."""
        return self.collector(workspace_id).saved(plan_id)

    def plan(
        self,
        workspace_id: str,
        strategy: PruneStrategy,
        *,
        limit: int | None = None,
        preview: int = 20,
    ) -> pruning.Preview:
        """Plan what a strategy would delete, and why. Nothing is changed.

        The plan deletes up to `limit` nodes, by default as many as the cap allows.
        """
        now = self.now()
        crossed = self._crossed(workspace_id, strategy)
        rules = msgspec.structs.replace(self._rules, cited=crossed.memories)
        context = self.heap(workspace_id).context(rules, now)
        found = context.survey.memories
        lost = lost_roots(self._gone(workspace_id, found), found, now, self.settings.limits.grace)
        context.rules = msgspec.structs.replace(rules, lost=lost)
        proposals = tuple(strategy.rank(context))
        most = self.settings.limits.cap(context.size) if limit is None else limit
        capped = context.within(most, proposals)
        plan = plan_from(capped, strategy, proposals)
        reasons = {step.segments[0]: step.reason for step in plan.steps if step.segments}
        rows = [
            pruning.PreviewRow.of(row, context.sizes[i] - 1, reasons[name])
            for i, row in enumerate(found)
            if (name := ref(Kind.MEMORY, row.memory_id)) in reasons
        ]
        rows.sort(key=lambda row: (row.created_at, row.memory_id), reverse=True)
        return pruning.Preview(plan, tuple(rows[:preview]))

    def collect(self, plan: Plan, *, limit: int | None = None) -> pruning.PruneResult:
        """Delete what a plan names, except what has changed since.

        Refused if that is more than the cap allows, or `limit` if given.
        """
        if plan.steps and not plan.deletes:
            raise BadInput(
                f"plan {plan.plan_id} of {plan.strategy} deletes nothing; apply it with the call "
                "that made it."
            )
        most = self.settings.limits.cap(plan.size_before) if limit is None else limit
        if plan.freed > most:
            raise Refused(
                f"plan {plan.plan_id} takes {plan.freed} of {plan.size_before} nodes; at most "
                f"{most} may go at once. Look at the preview, and if that is what you want, pass "
                f"limit={plan.freed}."
            )
        now = self.now()
        collector = self.collector(plan.workspace)
        done = nodes_of(collector.collect(plan, now=now, confirm=plan.plan_id).swept)
        return pruning.PruneResult(
            plan=plan,
            deleted=done,
            left_alone=without(planned(plan), done),
            restorable_until=now + self.settings.limits.grace,
        )

    def cited_segments(self, *, workspace_id: str = DEFAULT_WORKSPACE) -> Mapping[str, str]:
        """Return which segments memories keep, and why: for `Segments.keep`. None if disabled."""
        return self._crossed(workspace_id, PruneStrategy.ALL).segments

    @property
    def _rules(self) -> GraphRules:
        return GraphRules(recently_read=self.settings.recently_read, ttl=self.settings.ttl)

    def _crossed(self, workspace_id: str, strategy: PruneStrategy) -> KeptAcross:
        """Mark segments and memories together, if the settings let them keep each other."""
        if not self.settings.keeps_segments:
            return KeptAcross()
        find = self._cross_marker.find
        return find(workspace_id, strategy, self.focus(workspace_id, self.now()))

    def undo(self, plan_id: str, *, workspace_id: str = DEFAULT_WORKSPACE) -> Nodes:
        """Restore all that a plan deleted and that was not purged."""
        return nodes_of(self.collector(workspace_id).undo(plan_id, now=self.now()))

    def restore(
        self,
        *,
        plan_id: str = "",
        memory_ids: Sequence[str] = (),
        workspace_id: str = DEFAULT_WORKSPACE,
    ) -> Nodes:
        """Restore what a plan deleted, or some memories with what they hold."""
        if plan_id:
            return self.undo(plan_id, workspace_id=workspace_id)
        names = [ref(Kind.MEMORY, each) for each in listed("memory_ids", memory_ids)]
        return nodes_of(self.collector(workspace_id).restore(names, now=self.now()))

    def purge(self, *, workspace_id: str = DEFAULT_WORKSPACE) -> pruning.Purged:
        """Erase what is past its grace period, after backing it up."""
        made: list[Backup] = []

        def back_up(nodes: Nodes, now: datetime) -> None:
            made.append(self._back_up(workspace_id, nodes, now))

        heap = self.heap(workspace_id, back_up)
        collector = self._collector(heap)
        gone = nodes_of(collector.purge(now=self.now()))
        return pruning.Purged(gone, made[0] if made else None)

    def recover(self, *, workspace_id: str = DEFAULT_WORKSPACE) -> None:
        """Finish or roll back what a crash interrupted. Every operation does so first."""
        self.collector(workspace_id).recover(now=self.now())

    def _back_up(self, workspace_id: str, nodes: Nodes, now: datetime) -> Backup:
        path = new_backup(self.backups, now)
        return write_backup(self.graph, workspace_id, path, now, nodes=nodes)

    def export_backup(
        self, path: str | Path | None = None, *, workspace_id: str = DEFAULT_WORKSPACE
    ) -> Backup:
        """Write a backup of a whole workspace to a new file, or beside the other backups."""
        now = self.now()
        place = new_backup(self.backups, now) if path is None else Path(path)
        return write_backup(self.graph, workspace_id, place, now)

    def list_backups(self) -> tuple[BackupInfo, ...]:
        """List what each of our backups holds, oldest first, or why it cannot be used."""
        return tuple(kept_in(self.backups))

    def import_backup(self, path: str | Path, *, workspace_id: str | None = None) -> int:
        """Restore what a backup holds; count its nodes and edges."""
        backup = check_backup(Path(path))
        target = workspace_id or backup.workspace_id
        collector = self.collector(target)
        now = self.now()
        with collector.holding(now):
            memories = load_backup(self.graph, backup, target)
            names = tuple(ref(Kind.MEMORY, each) for each in memories)
            collector.record(Event.RESTORED, now=now, segments=names)
        return backup.items

    def history(
        self,
        *,
        workspace_id: str = DEFAULT_WORKSPACE,
        events: Collection[Event] = (),
        plan_id: str | None = None,
        limit: int = 50,
    ) -> tuple[Entry, ...]:
        """Return what was previewed and done, newest first: all, some events, or one plan."""
        read, name = self.store.journal.read, journal_name(workspace_id)
        return read(name, events=events, plan_id=plan_id, limit=limit)

    def stats(self, *, workspace_id: str = DEFAULT_WORKSPACE) -> Counts:
        """Count what a workspace holds."""
        return self.graph.counts(workspace_id)


def in_thread(work: Callable[Given, Result]) -> Callable[Given, Coroutine[object, object, Result]]:
    """Make a blocking call awaitable: it runs in the event loop's thread pool."""

    @wraps(work)
    async def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        return await asyncio.to_thread(work, *args, **kwargs)

    return call


def _as_async(
    work: Callable[Concatenate[KnowledgeGraph, Given], Result],
) -> Callable[Concatenate[GraphMemory, Given], Coroutine[object, object, Result]]:
    """Turn a method of `KnowledgeGraph` into one of `GraphMemory`."""

    @wraps(work)
    async def call(memory: GraphMemory, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return await asyncio.to_thread(work, memory.sync, *args, **kwargs)

    return call


class GraphMemory:
    """A knowledge graph for programs in an event loop: the same calls, none of them blocking.

    A call whose task is cancelled still completes: half a deletion would be worse.
    """

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.sync = graph
        """The same calls for programs without an event loop."""

    @classmethod
    def open(cls, project: str | Path = ".", *, settings: Settings | None = None) -> GraphMemory:
        """Open the memory of the project in a folder, as `KnowledgeGraph.open` does."""
        return cls(KnowledgeGraph.open(project, settings=settings))

    @property
    def graph(self) -> GraphStore:
        """The store, as `index_codebase` takes it."""
        return self.sync.graph

    @property
    def settings(self) -> pruning.MemorySettings:
        """How long memories live and what protects them."""
        return self.sync.settings

    add_memory = _as_async(KnowledgeGraph.add_memory)
    search_memory = _as_async(KnowledgeGraph.search_memory)
    call_graph = _as_async(KnowledgeGraph.call_graph)
    read_memory = _as_async(KnowledgeGraph.read_memory)
    pin = _as_async(KnowledgeGraph.pin)
    unpin = _as_async(KnowledgeGraph.unpin)
    touch = _as_async(KnowledgeGraph.touch)
    forget = _as_async(KnowledgeGraph.forget)
    roots = _as_async(KnowledgeGraph.roots)
    drop_root = _as_async(KnowledgeGraph.drop_root)
    plan_merge_entities = _as_async(KnowledgeGraph.plan_merge_entities)
    merge_entities = _as_async(KnowledgeGraph.merge_entities)
    prune_memory = _as_async(KnowledgeGraph.prune_memory)
    plan = _as_async(KnowledgeGraph.plan)
    save = _as_async(KnowledgeGraph.save)
    find_plan = _as_async(KnowledgeGraph.find_plan)
    cited_segments = _as_async(KnowledgeGraph.cited_segments)
    collect = _as_async(KnowledgeGraph.collect)
    undo = _as_async(KnowledgeGraph.undo)
    restore = _as_async(KnowledgeGraph.restore)
    recover = _as_async(KnowledgeGraph.recover)
    purge = _as_async(KnowledgeGraph.purge)
    export_backup = _as_async(KnowledgeGraph.export_backup)
    list_backups = _as_async(KnowledgeGraph.list_backups)
    import_backup = _as_async(KnowledgeGraph.import_backup)
    history = _as_async(KnowledgeGraph.history)
    stats = _as_async(KnowledgeGraph.stats)
    close = _as_async(KnowledgeGraph.close)
