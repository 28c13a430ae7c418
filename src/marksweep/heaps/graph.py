"""The knowledge graph as a heap: nodes, and tombstones of swept nodes.

A plan names nodes by kind and id, `memory:m1…`. A memory is swept with all its chunks, so together
they are one unit, sized by the number of nodes. What is swept gets a tombstone: hidden, restorable
for its grace period, then erased after a backup.

The snapshot is columns (`Survey`): half a million nodes are too many for an object each. The
planner sees them through `GraphContext`, by index: memories first, then chunks that no memory has,
then entities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from datetime import datetime, timedelta
from functools import cached_property
from itertools import compress
from threading import RLock

import msgspec

from marksweep.core.strategy import Proposal
from marksweep.core.units import Singles
from marksweep.errors import BadInput, NotFound, PlanOutdated
from marksweep.model import Action, Entry, Event, Plan, Report, Snapshot, Unit
from marksweep.stores.graph.base import EPOCH, DeletedRow, GraphStore, MemoryRow, Nodes, Survey
from marksweep.stores.graph.nouns import Chunk, Entity, Kind, duplicates
from marksweep.stores.leases import CHANGE, Lease, hold

HEAP = "graph"
"""The heap name of plans on the graph."""

FINGERPRINT = "graph-v"
"""Prefix of the fingerprint of a plan on the graph; the workspace's version follows."""

RECENTLY_READ = timedelta(days=1)
"""How long reading a memory protects it. Longer keeps stale memories that are still read."""

GRACE = timedelta(days=7)
"""How long what was deleted can be restored. Longer keeps more in the store."""

CAP_PERCENT = 20.0
"""Share of a workspace's nodes that one plan may take. Higher lets a mistake delete more."""

CAP_FLOOR = 100
"""Nodes that a plan may always take: in a small workspace one file may be more than the cap."""

WAIT_SECONDS = 10.0
"""How long to wait for another process that works on the workspace."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps a collection from going too far."""

    grace: timedelta = GRACE
    cap_percent: float = CAP_PERCENT
    cap_floor: int = CAP_FLOOR
    wait_seconds: float = WAIT_SECONDS

    def cap(self, size: int) -> int:
        """Count the nodes that one plan may take of so many."""
        return max(self.cap_floor, int(size * self.cap_percent / 100))


class GraphRules(msgspec.Struct, frozen=True, kw_only=True):
    """What protects a memory, and when it expires."""

    recently_read: timedelta = RECENTLY_READ
    ttl: Mapping[str, timedelta] = {}
    """Time to live of memories by source, counted from the last write, sighting or read."""
    cited: Mapping[str, str] = {}
    """Memories that something outside the graph refers to, with the reason they stay."""
    lost: Mapping[str, str] = {}
    """Repositories whose root was missing for longer than the grace period, with the reason."""


class GraphContext:
    """A survey as the planner and the strategies see it."""

    def __init__(
        self,
        survey: Survey,
        rules: GraphRules,
        now: datetime,
        *,
        workspace: str = "",
        ids: Callable[[Kind, Sequence[int]], Sequence[str]] = lambda _, keys: [""] * len(keys),
    ) -> None:
        """Take a survey; `ids` turns its keys into ids."""
        self.survey = survey
        self.rules = rules
        self.now = now
        self.now_us = (now - EPOCH) // MICROSECOND
        self.snapshot = Snapshot(
            (), f"{FINGERPRINT}{survey.version}", workspace, HEAP, unit=Unit.NODES
        )
        self.target: int | None = None
        self._ids = ids
        self.first_orphan = len(survey.memories)
        self.first_entity = self.first_orphan + len(self.orphans)
        self.over_cap: Mapping[int, str] = {}
        """What this plan may no longer take, with the reason."""

    @cached_property
    def orphans(self) -> Sequence[int]:
        """The keys of live chunks that belong to no memory."""
        survey = self.survey
        ownerless = compress(survey.chunks, map((0).__gt__, survey.chunk_owners))
        return [key for key in ownerless if key not in survey.deleted_chunks]

    @cached_property
    def sizes(self) -> Sequence[int]:
        """Nodes that go with each index: a memory and its chunks; 0 for what is deleted."""
        survey = self.survey
        owners: Iterable[int] = survey.chunk_owners
        if survey.deleted_chunks:
            owners = (
                owner
                for key, owner in zip(survey.chunks, survey.chunk_owners, strict=True)
                if key not in survey.deleted_chunks
            )
        chunks = Counter(owners)
        hidden = survey.deleted_entities
        return [
            *(1 + chunks[row.key] if row.deleted_us is None else 0 for row in survey.memories),
            *([1] * len(self.orphans)),
            *(1 if key not in hidden else 0 for key in survey.entities),
        ]

    @cached_property
    def size(self) -> int:
        """Live nodes."""
        return sum(self.sizes)

    @cached_property
    def units(self) -> Singles:
        """Single indices: what must go together already has one index."""
        return Singles(len(self.sizes))

    @cached_property
    def live(self) -> tuple[tuple[int, MemoryRow], ...]:
        """The memories that are not deleted, by index."""
        rows = enumerate(self.survey.memories)
        return tuple((i, row) for i, row in rows if row.deleted_us is None)

    def may_go(self, members: tuple[int, ...]) -> bool:
        """Say whether these may be swept, all of them."""
        return self.reason_to_keep(members) is None

    def reason_to_keep(self, members: tuple[int, ...]) -> str | None:
        """Return what makes one of these a root, or exceeds what this plan may take."""
        for i in members:
            reason = self._root(self.survey.memories[i]) if i < self.first_orphan else None
            reason = reason or self.over_cap.get(i)
            if reason is not None:
                return reason
        return None

    def _root(self, row: MemoryRow) -> str | None:
        """Return the reason that makes a memory a root, whatever its age; None if there is none."""
        if row.pinned:
            return f"pinned by {row.pinned_by}" if row.pinned_by else "pinned"
        if row.read_us is not None and self.now_us - row.read_us < self._protected_us:
            return "read recently"
        return self.rules.cited.get(row.memory_id)

    @cached_property
    def _protected_us(self) -> int:
        return self.rules.recently_read // MICROSECOND

    def within(self, limit: int, proposals: Sequence[Proposal]) -> GraphContext:
        """Return the same context, with a limit on the nodes that a plan of these may take.

        The first that fit are taken, and the next plan continues.
        A unit larger than the limit is skipped, so that it blocks nothing else.
        """
        over: dict[int, str] = {}
        left = limit
        for proposal in proposals:
            if not self.may_go(proposal.members):
                continue
            size = sum(self.sizes[i] for i in proposal.members)
            if size > limit:
                reason = f"more than the {limit:,} nodes that one plan may take; raise the limit"
            elif size > left:
                left = 0
                reason = f"over the {limit:,} nodes that one plan may take; the next one goes on"
            else:
                left -= size
                continue
            over.update(dict.fromkeys(proposal.members, reason))
        capped = copy(self)
        capped.over_cap = over
        return capped

    def ids_of(self, steps: Sequence[tuple[int, ...]]) -> Sequence[tuple[str, ...]]:
        """Return the node names of each step; those deleted meanwhile have no name."""
        chosen = [i for members in steps for i in members]
        chunks = self._chunks_of({i for i in chosen if i < self.first_orphan})
        keys: dict[Kind, list[int]] = {kind: [] for kind in Kind}
        for i in chosen:
            kind, key = self._node(i)
            keys[kind].append(key)
            keys[Kind.CHUNK] += chunks.get(i, ())
        names = {
            kind: dict(zip(of_kind, self._ids(kind, of_kind), strict=True))
            for kind, of_kind in keys.items()
        }

        def named(i: int) -> Iterator[str]:
            kind, key = self._node(i)
            yield ref(kind, names[kind][key]) if names[kind][key] else ""
            for chunk in chunks.get(i, ()):
                yield ref(Kind.CHUNK, names[Kind.CHUNK][chunk]) if names[Kind.CHUNK][chunk] else ""

        return [tuple(filter(None, (name for i in step for name in named(i)))) for step in steps]

    def _node(self, i: int) -> tuple[Kind, int]:
        """Return the kind and the survey's key of the node at an index."""
        if i < self.first_orphan:
            return Kind.MEMORY, self.survey.memories[i].key
        if i < self.first_entity:
            return Kind.CHUNK, self.orphans[i - self.first_orphan]
        return Kind.ENTITY, self.survey.entities[i - self.first_entity]

    def _chunks_of(self, memories: Collection[int]) -> dict[int, list[int]]:
        """Return the keys of the live chunks of memories, by the memories' indices."""
        survey = self.survey
        index = {survey.memories[i].key: i for i in memories}
        owned = list(map(index.__contains__, survey.chunk_owners))
        found: dict[int, list[int]] = {}
        for key, owner in zip(
            compress(survey.chunks, owned), compress(survey.chunk_owners, owned), strict=True
        ):
            if key not in survey.deleted_chunks:
                found.setdefault(index[owner], []).append(key)
        return found


class NamedUnits:
    """A few named units of the graph, as the planner sees them."""

    def __init__(
        self,
        units: Sequence[tuple[str, ...]],
        now: datetime,
        *,
        snapshot: Snapshot,
        sizes: Sequence[int] = (),
        roots: Mapping[int, str] | None = None,
    ) -> None:
        """Take each unit's nodes, and how many of them are swept if not all.

        `snapshot` has the size of the heap as its rest.
        """
        self._names = units
        self._roots = roots or {}
        self.snapshot = snapshot
        self.now = now
        self.target: int | None = None
        self.size = snapshot.rest_size or 0
        self.sizes = sizes or [len(unit) for unit in units]
        self.units = Singles(len(units))

    def may_go(self, members: tuple[int, ...]) -> bool:
        """Say whether these may be swept, all of them."""
        return not any(i in self._roots for i in members)

    def reason_to_keep(self, members: tuple[int, ...]) -> str | None:
        """Return what makes one of these a root."""
        return next((self._roots[i] for i in members if i in self._roots), None)

    def ids_of(self, steps: Sequence[tuple[int, ...]]) -> Sequence[tuple[str, ...]]:
        """Return the node names of each step."""
        return [tuple(name for i in members for name in self._names[i]) for members in steps]


class GraphHeap:
    """One workspace of a graph store."""

    def __init__(
        self,
        store: GraphStore,
        workspace: str,
        *,
        limits: Limits | None = None,
        cited: Callable[[], Collection[str]] = tuple,
        backup: Callable[[Nodes, datetime], object] = lambda nodes, now: None,  # noqa: ARG005
    ) -> None:
        """Take the store.

        `cited` returns the memories that something outside the graph holds now: a sweep leaves them
        alone. `backup` is called with what a purge is about to erase.
        """
        self.workspace = workspace
        self.journal_name = journal_name(workspace)
        self._store = store
        self._limits = limits or Limits()
        self._cited = cited
        self._backup = backup
        self._guard = RLock()
        self._lease: Lease | None = None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the workspace against other collections, here and on other machines."""
        with self._guard:
            if self._lease is not None:
                yield
                return
            with hold(
                self._store, self.workspace, CHANGE, wait_seconds=self._limits.wait_seconds
            ) as lease:
                self._lease = lease
                try:
                    yield
                finally:
                    self._lease = None

    def snapshot(self) -> Snapshot:
        """Return the workspace's version and size."""
        return Snapshot(
            (),
            f"{FINGERPRINT}{self._store.version(self.workspace)}",
            self.workspace,
            HEAP,
            rest_size=self.size(),
            unit=Unit.NODES,
        )

    def context(self, rules: GraphRules, now: datetime) -> GraphContext:
        """Return the columns that plans are made from."""
        return GraphContext(
            self._store.survey(self.workspace),
            rules,
            now,
            workspace=self.workspace,
            ids=lambda kind, keys: self._store.ids(self.workspace, kind, keys),
        )

    def size(self) -> int:
        """Count the live nodes."""
        counts = self._store.counts(self.workspace)
        return counts.memories + counts.chunks + counts.entities

    def check(self, plan: Plan) -> None:
        """Refuse a plan of another heap, and one that was already applied.

        What changed since a plan was made does not outdate it: the sweep leaves that alone.
        """
        if plan.workspace != self.workspace or plan.heap != HEAP:
            raise BadInput(
                f"plan {plan.plan_id} is for {plan.heap} workspace {plan.workspace!r}, not for the "
                f"graph of {self.workspace!r}. Apply it where it was made."
            )
        if self.kept_of(plan.plan_id):
            raise PlanOutdated(
                f"{plan.plan_id} was applied already. Nothing was done. Plan again, or undo it."
            )

    def sweep(self, plan: Plan, now: datetime) -> Report:
        """Hide what the plan names, or merge it, except what has changed since."""
        self._still_held()
        before = self.size()
        merging = [step for step in plan.steps if step.action is Action.COMPRESS]
        done = Nodes(
            entities=tuple(gone for step in merging for gone in self._merge(step.segments))
        )
        if len(merging) < len(plan.steps):
            wanted = without(planned(plan), Nodes(memories=tuple(self._cited())))
            done += self._store.soft_delete(
                self.workspace,
                wanted,
                version=int(plan.fingerprint.removeprefix(FINGERPRINT)),
                plan_id=plan.plan_id,
                at=now,
            )
        return Report(plan.plan_id, before, before - len(done), refs_of(done), unit=Unit.NODES)

    def _merge(self, names: Sequence[str]) -> Iterator[str]:
        """Merge entities that still exist and are still one thing; return the merged ones."""
        self._still_held()
        found = self._store.find(self.workspace, nodes_of(names))
        live = [node for node in found if isinstance(node, Entity) and node.deleted_at is None]
        for keep, *others in duplicates(live):
            gone = [entity.entity_id for entity in others]
            self._store.merge(self.workspace, keep.entity_id, gone)
            yield from gone

    def kept_of(self, plan_id: str) -> tuple[str, ...]:
        """Return what a plan hid and that still exists."""
        return _names(self._store.deleted(self.workspace, plan_id=plan_id))

    def kept_with(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Return these and the memories of chunks among them; a memory brings all it holds."""
        hidden = set(_names(self._store.deleted(self.workspace)))
        missing = [each for each in ids if each not in hidden]
        if missing:
            raise NotFound(
                f"not deleted, or purged already: {', '.join(missing)}. Nothing was restored. "
                "Backups hold what was purged."
            )
        chunks = self._store.find(self.workspace, Nodes(chunks=nodes_of(ids).chunks))
        owners = [ref(Kind.MEMORY, node.memory_id) for node in chunks if isinstance(node, Chunk)]
        return tuple(dict.fromkeys((*ids, *(owner for owner in owners if owner in hidden))))

    def bring_back(
        self, ids: Sequence[str], *, plan_id: str = "", now: datetime
    ) -> tuple[str, ...]:
        """Restore hidden nodes with what they hold."""
        del plan_id, now
        return refs_of(self._store.restore(self.workspace, nodes_of(ids)))

    def settle(self, intent: Entry, now: datetime) -> Event:
        """Finish an interrupted sweep that has hidden something, and an interrupted restore."""
        if intent.event is Event.RESTORING:
            wanted = set(intent.segments)
            left = [each for each in _names(self._store.deleted(self.workspace)) if each in wanted]
            if left:
                self._store.restore(self.workspace, nodes_of(left))
            return Event.RESTORED
        if intent.plan is None or not self._has_begun(intent.plan):
            return Event.ROLLED_BACK
        self.sweep(intent.plan, now)
        return Event.SWEPT

    def _has_begun(self, plan: Plan) -> bool:
        """Return whether something that a plan takes is gone. A partial merge is consistent."""
        if plan.deletes:
            return bool(self.kept_of(plan.plan_id))
        named = planned(plan)
        return len(self._store.find(self.workspace, named)) < len(named)

    def expired(self, now: datetime) -> tuple[str, ...]:
        """Return what was deleted and is past its grace period."""
        before = now - self._limits.grace
        return _names(self._store.deleted(self.workspace, before=before))

    def purge(self, now: datetime) -> tuple[str, ...]:
        """Erase it permanently, after backing it up."""
        nodes = nodes_of(self.expired(now))
        self._backup(nodes, now)
        self._still_held()
        gone = self._store.purge(self.workspace, nodes, before=now - self._limits.grace)
        return refs_of(gone)

    def _still_held(self) -> None:
        if self._lease is not None:
            self._lease.check()


MICROSECOND = timedelta(microseconds=1)


def journal_name(workspace_id: str) -> str:
    """Return the journal name of a workspace's graph, which differs from that of its segments."""
    return f"graph:{workspace_id}"


ROOT = "root"
"""The kind of an indexed folder in the journal."""


def ref(kind: Kind | str, node_id: str) -> str:
    """Name a node in a plan: its kind and its id."""
    return f"{kind}:{node_id}"


def nodes_of(refs: Iterable[str]) -> Nodes:
    """Parse the nodes that a plan names; a root is not a node."""
    found: dict[Kind, list[str]] = {kind: [] for kind in Kind}
    for each in refs:
        kind, _, node_id = each.partition(":")
        if kind != ROOT:
            found[Kind(kind)].append(node_id)
    return Nodes(*(tuple(found[kind]) for kind in Kind))


def planned(plan: Plan) -> Nodes:
    """Parse all the nodes that a plan names."""
    return nodes_of(each for step in plan.steps for each in step.segments)


def refs_of(nodes: Nodes) -> tuple[str, ...]:
    """Name nodes as plans do."""
    return tuple(ref(kind, node_id) for kind in Kind for node_id in nodes.of(kind))


def without(nodes: Nodes, done: Nodes) -> Nodes:
    """Leave out nodes that are done."""
    return Nodes(*(tuple(sorted(set(nodes.of(kind)) - set(done.of(kind)))) for kind in Kind))


def _names(rows: Iterable[DeletedRow]) -> tuple[str, ...]:
    return tuple(ref(row.kind, row.node_id) for row in rows)
