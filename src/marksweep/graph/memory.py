"""Long-term memory: a graph of notes and code that remembers, finds, forgets and can take it back.

memory = GraphMemory.open()        # of the project in the current folder
await memory.add_memory("Ada owns the parser in src/parse.py", tags=["people"])
answer = await memory.search_memory("parser")
shown = await memory.prune_memory(strategy="stale_code")
await memory.prune_memory(workspace_id="default", dry_run=False, confirm=True,
                          plan_id=shown.plan_id)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from marksweep.clock import utc_now
from marksweep.core.roots import Focus
from marksweep.errors import Refused
from marksweep.graph import texts
from marksweep.graph.backup import Kept, kept_in, load_backup, new_backup, write_backup
from marksweep.graph.backup_file import Backup, check_backup
from marksweep.graph.crossing import Crossed, Crossing
from marksweep.graph.erasure import Forgotten, erase_everywhere, hide
from marksweep.graph.merging import apply_merge, plan_merge
from marksweep.graph.notes import note_record
from marksweep.graph.outcomes import MemorySettings, Preview, Purged
from marksweep.graph.place import place_of
from marksweep.graph.prune import Pruner
from marksweep.heaps.graph import GraphRules, PruneStrategy
from marksweep.model import Entry, Event, Plan, Report
from marksweep.settings import Settings, load_settings
from marksweep.stores.base import Store
from marksweep.stores.graph.base import Counts, GraphHit, GraphQuery, GraphStore, Nodes
from marksweep.stores.graph.nouns import DEFAULT_WORKSPACE, Entity, Memory, Record, Scalar
from marksweep.stores.graph.open import open_graph
from marksweep.stores.open import open_store

ACTOR = "library"
"""Who the journal says it was, if nobody says otherwise."""


class Answer(msgspec.Struct, frozen=True):
    """What a search found, and the entities next to it."""

    hits: tuple[GraphHit, ...] = ()
    neighbours: tuple[Entity, ...] = ()


def _no_focus(workspace_id: str, now: datetime) -> Focus:  # noqa: ARG001
    return Focus(now=now)


class GraphMemory:
    """The memory of any number of workspaces, on one graph store."""

    def __init__(
        self,
        graph: GraphStore,
        store: Store,
        *,
        backups: str | Path,
        settings: MemorySettings | None = None,
        actor: str = ACTOR,
        clock: Callable[[], datetime] = utc_now,
        focus: Callable[[str, datetime], Focus] = _no_focus,
    ) -> None:
        """Take the stores. `focus` tells what the agent in a workspace is at, if somebody knows."""
        self.graph = graph
        self.store = store
        self.settings = settings or MemorySettings()
        self.pruner = Pruner(
            graph,
            store.journal,
            backups=Path(backups),
            limits=self.settings.limits,
            actor=actor,
        )
        self.now = clock
        self.focus = focus
        self._crossing = Crossing(graph, store.segments, self._rules)

    @classmethod
    def open(
        cls,
        project: str | Path = ".",
        *,
        settings: Settings | None = None,
        store: str = "",
        actor: str = ACTOR,
    ) -> GraphMemory:
        """Open the memory of the project in a folder, where its settings say.

        `store` takes the place of the store that the settings name.
        """
        found = load_settings(project) if settings is None else settings
        place = place_of(found, project, store=store)
        return cls(
            open_graph(place.graph),
            open_store(place.store),
            backups=place.backups,
            settings=MemorySettings.of(found),
            actor=actor,
        )

    def acting_as(self, actor: str) -> GraphMemory:
        """Give this memory with another name in the journal."""
        return GraphMemory(
            self.graph,
            self.store,
            backups=self.pruner.backups,
            settings=self.settings,
            actor=actor,
            clock=self.now,
            focus=self.focus,
        )

    async def close(self) -> None:
        """Let go of the stores."""
        await self.graph.close()
        self.store.close()

    async def add_memory(
        self,
        text: str,
        *,
        tags: Sequence[str] = (),
        source: str = "user",
        metadata: dict[str, Scalar] | None = None,
        workspace_id: str = DEFAULT_WORKSPACE,
    ) -> Memory:
        """Remember a text. The same words from the same source are one memory."""
        record = note_record(
            workspace_id, text, now=self.now(), source=source, tags=tags, metadata=metadata
        )
        await self.graph.put(workspace_id, [record])
        return record.memory

    async def search_memory(
        self, words: str, *, workspace_id: str = DEFAULT_WORKSPACE, query: GraphQuery | None = None
    ) -> Answer:
        """Find live chunks, best first, and the entities next to what they mention."""
        wanted = msgspec.structs.replace(query or GraphQuery(), words=words)
        hits = await self.graph.search(workspace_id, wanted)
        mentioned = dict.fromkeys(e.entity_id for hit in hits for e in hit.entities)
        if not mentioned:
            return Answer(hits)
        return Answer(hits, await self.graph.neighbours(workspace_id, list(mentioned)))

    async def read_memory(
        self, memory_ids: Sequence[str], *, workspace_id: str = DEFAULT_WORKSPACE
    ) -> tuple[Record, ...]:
        """Fetch memories whole, and note that they were read."""
        await self.touch(memory_ids, workspace_id=workspace_id)
        return await self.graph.fetch(workspace_id, memory_ids)

    async def pin(
        self, memory_ids: Sequence[str], *, by: str, workspace_id: str = DEFAULT_WORKSPACE
    ) -> int:
        """Protect memories from every collection; say who and why."""
        return await self.graph.pin(workspace_id, memory_ids, by)

    async def unpin(
        self, memory_ids: Sequence[str], *, workspace_id: str = DEFAULT_WORKSPACE
    ) -> int:
        """Take the protection off."""
        return await self.graph.unpin(workspace_id, memory_ids)

    async def touch(
        self, memory_ids: Sequence[str], *, workspace_id: str = DEFAULT_WORKSPACE
    ) -> int:
        """Note that memories were read: that protects them for a while."""
        return await self.graph.touch(workspace_id, memory_ids, self.now())

    async def forget(
        self,
        memory_ids: Sequence[str],
        *,
        workspace_id: str = DEFAULT_WORKSPACE,
        everywhere: bool = False,
    ) -> Forgotten:
        """Delete memories, restorable for the grace period; everywhere: at once and for good.

        Everywhere means the graph, the stash and our backups; the answer says what could not be
        reached.
        """
        work = erase_everywhere if everywhere else hide
        return await work(self.pruner, self.store, workspace_id, memory_ids, self.now())

    async def plan_merge_entities(self, *, workspace_id: str = DEFAULT_WORKSPACE) -> Plan:
        """Say which entities are one thing under several spellings."""
        return await plan_merge(self.pruner, workspace_id, self.now())

    async def merge_entities(
        self, plan_id: str, *, workspace_id: str = DEFAULT_WORKSPACE
    ) -> Report:
        """Merge what a plan of `plan_merge_entities` names."""
        plan = await self.pruner.find_plan(workspace_id, plan_id)
        return await apply_merge(self.pruner, workspace_id, plan, self.now())

    async def prune_memory(
        self,
        workspace_id: str = "",
        dry_run: bool = True,
        confirm: bool = False,
        strategy: str = PruneStrategy.STALE_CODE,
        *,
        plan_id: str = "",
        limit: int | None = None,
    ) -> texts.PruneResponse:
        """Show what a strategy would delete; with `dry_run=False` and `confirm=True`, delete it.

        A dry run returns a plan id; passed back, exactly that plan is applied, and what changed
        meanwhile is left alone. Deleting in the default workspace needs its name as
        `workspace_id`. `limit` names the number of nodes that may go when that is over the cap.
        """
        workspace = workspace_id or DEFAULT_WORKSPACE
        chosen = PruneStrategy.named(strategy)
        now = self.now()
        if dry_run:
            return texts.previewed(await self.plan(workspace, chosen), self.settings.limits)
        if not confirm:
            return texts.PruneResponse(text=texts.NOT_CONFIRMED, is_error=True)
        if not workspace_id:
            return texts.PruneResponse(
                text=f"Error: Deleting in the default workspace needs its name. Pass "
                f"workspace_id={DEFAULT_WORKSPACE!r}.",
                is_error=True,
            )
        await self.pruner.recover(workspace, now)
        if plan_id:
            plan = await self.pruner.find_plan(workspace, plan_id)
        else:
            plan = (await self.plan(workspace, chosen)).plan
        try:
            cited = (await self._crossed(workspace, chosen)).memories
            result = await self.pruner.apply(workspace, plan, now, most=limit, spared=cited)
        except Refused as refusal:
            return texts.PruneResponse(text=f"Error: {refusal}", is_error=True, plan=plan)
        return texts.swept(result)

    async def plan(
        self, workspace_id: str, strategy: PruneStrategy, *, preview: int = 20
    ) -> Preview:
        """Say what a strategy would take, and keep that plan in the journal."""
        crossed = await self._crossed(workspace_id, strategy)
        rules = msgspec.structs.replace(self._rules, cited=crossed.memories)
        return await self.pruner.plan(workspace_id, strategy, rules, self.now(), preview=preview)

    async def cited_segments(self, *, workspace_id: str = DEFAULT_WORKSPACE) -> Mapping[str, str]:
        """Say which segments memories keep, and why: for `Segments.keep`. None if not so set."""
        return (await self._crossed(workspace_id, PruneStrategy.ALL)).segments

    @property
    def _rules(self) -> GraphRules:
        return GraphRules(recently_read=self.settings.recently_read, ttl=self.settings.ttl)

    async def _crossed(self, workspace_id: str, strategy: PruneStrategy) -> Crossed:
        """Mark segments and memories together, if the settings say that they keep each other."""
        if not self.settings.keeps_segments:
            return Crossed()
        focus = self.focus(workspace_id, self.now())
        return await self._crossing.find(workspace_id, strategy, focus)

    async def restore(
        self,
        *,
        plan_id: str = "",
        memory_ids: Sequence[str] = (),
        workspace_id: str = DEFAULT_WORKSPACE,
    ) -> Nodes:
        """Take back what a plan deleted, or some memories, within their grace."""
        if plan_id:
            return await self.pruner.restore_plan(workspace_id, plan_id, self.now())
        return await self.pruner.restore(workspace_id, memory_ids, self.now())

    async def purge(self, *, workspace_id: str = DEFAULT_WORKSPACE) -> Purged:
        """Erase what is past its grace, after a backup of it."""
        return await self.pruner.purge(workspace_id, self.now())

    async def export_backup(
        self, path: str | Path | None = None, *, workspace_id: str = DEFAULT_WORKSPACE
    ) -> Backup:
        """Write a backup of a whole workspace to a new file, or beside the other backups."""
        now = self.now()
        place = new_backup(self.pruner.backups, now) if path is None else Path(path)
        return await write_backup(self.graph, workspace_id, place, now)

    async def list_backups(self) -> tuple[Kept, ...]:
        """Say what each of our backups holds, oldest first, or why it cannot be used."""
        return await asyncio.to_thread(lambda: tuple(kept_in(self.pruner.backups)))

    async def import_backup(self, path: str | Path, *, workspace_id: str | None = None) -> int:
        """Bring back what a backup holds; count its nodes and edges."""
        backup = await asyncio.to_thread(check_backup, Path(path))
        target = workspace_id or backup.workspace_id
        async with self.pruner.alone(target):
            memories = await load_backup(self.graph, backup, target)
            nodes = Nodes(memories=memories)
            await self.pruner.record(target, Event.RESTORED, self.now(), nodes=nodes)
        return backup.items

    async def history(
        self,
        *,
        workspace_id: str = DEFAULT_WORKSPACE,
        events: Collection[Event] = (),
        plan_id: str | None = None,
        limit: int = 50,
    ) -> tuple[Entry, ...]:
        """Tell what was previewed, deleted, restored and purged, newest first.

        Of all, or of some events or one plan.
        """
        return await self.pruner.history(workspace_id, events, plan_id, limit)

    async def stats(self, *, workspace_id: str = DEFAULT_WORKSPACE) -> Counts:
        """Count what a workspace holds."""
        return await self.graph.counts(workspace_id)
