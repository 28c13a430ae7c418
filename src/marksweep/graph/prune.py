"""The life of what may go: planned, soft-deleted, and after its grace purged; or restored.

    plan      survey → roots → mark → choose             decides, touches nothing
    apply     journal → soft delete → journal            hides exactly what the plan names
    restore   journal → soft delete undone → journal
    purge     backup → journal → erase                   only what is past its grace

A plan is kept in the journal under its id. What changed since it was made is left alone: the store
compares versions in the same step in which it hides. One process at a time works on a workspace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path

from marksweep.core.plan import with_id
from marksweep.errors import BadInput, NotFound, Refused
from marksweep.graph.backup import new_backup, write_backup
from marksweep.graph.outcomes import Limits, Preview, PreviewRow, Purged, Swept
from marksweep.graph.refs import journal_name, nodes_of, planned, ref, refs_of, without
from marksweep.heaps.graph import Chosen, GraphRules, MarkedGraph, PruneStrategy
from marksweep.model import Action, Entry, Event, Plan, Report, Step, Unit
from marksweep.stores.base import Journal
from marksweep.stores.graph.base import DeletedRow, GraphStore, MemoryRow, Nodes, Survey
from marksweep.stores.graph.leases import CHANGE, Lease, hold
from marksweep.stores.graph.nouns import Kind

FINGERPRINT = "graph-v"
"""What the fingerprint of a plan on the graph begins with; the workspace's version follows."""


class Pruner:
    """Plans, applies, restores and purges on one graph store."""

    def __init__(
        self,
        store: GraphStore,
        journal: Journal,
        *,
        backups: Path,
        limits: Limits | None = None,
        actor: str = "",
    ) -> None:
        self.store = store
        self.limits = limits or Limits()
        self.backups = backups
        self._journal = journal
        self._actor = actor

    def plan(
        self,
        workspace_id: str,
        strategy: PruneStrategy,
        rules: GraphRules,
        now: datetime,
        *,
        preview: int = 20,
    ) -> Preview:
        """Say what a strategy would take, and keep that in the journal."""
        survey = self.store.survey(workspace_id)
        marked, chosen = _chosen(survey, strategy, rules, now)
        names = self._names(workspace_id, marked, chosen)
        steps = tuple(_step(each, names) for each in chosen if names[each.place])
        plan = self.keep_plan(
            workspace_id, strategy, steps, version=survey.version, live=marked.live, now=now
        )
        rows = [
            _preview(survey.memories[each.place], each)
            for each in chosen
            if each.place < len(survey.memories)
        ]
        rows.sort(key=lambda row: (row.created_at, row.memory_id), reverse=True)
        return Preview(plan, tuple(rows[:preview]))

    def keep_plan(
        self,
        workspace_id: str,
        strategy: str,
        steps: tuple[Step, ...],
        *,
        version: int,
        live: int,
        now: datetime,
    ) -> Plan:
        """Make a plan on the graph at a version with so many live nodes, and keep it.

        It sets out to take all that the steps name.
        """
        left = live - sum(step.size for step in steps)
        plan = with_id(
            Plan(
                plan_id="",
                fingerprint=f"{FINGERPRINT}{version}",
                made_at=now,
                strategy=strategy,
                size_before=live,
                size_after=left,
                target_size=left,
                steps=steps,
                workspace=workspace_id,
                heap="graph",
                unit=Unit.NODES,
            )
        )
        self.record(workspace_id, Event.PLANNED, now, plan=plan)
        return plan

    def apply(
        self,
        workspace_id: str,
        plan: Plan,
        now: datetime,
        *,
        most: int | None = None,
        spared: Collection[str] = (),
    ) -> Swept:
        """Hide what a plan names, as far as it has not changed; `most` overrides the cap.

        `spared` are memories that something outside the graph holds since the plan was made.
        """
        if plan.workspace != workspace_id or plan.heap != "graph":
            raise BadInput(
                f"plan {plan.plan_id} is for {plan.heap} workspace {plan.workspace!r}, not for the "
                f"graph of {workspace_id!r}. Apply it where it was made."
            )
        if plan.steps and not plan.deletes:
            raise BadInput(
                f"plan {plan.plan_id} of {plan.strategy} deletes nothing; apply it by the call "
                "that made it."
            )
        allowed = most if most is not None else self.limits.cap_of(plan)
        if plan.freed > allowed:
            raise Refused(
                f"plan {plan.plan_id} takes {plan.freed} of {plan.size_before} nodes; the "
                f"cap allows {allowed}. Look at the preview, and if that is what you want, pass "
                f"limit={plan.freed}."
            )
        with self.alone(workspace_id) as lease:
            self.record(workspace_id, Event.SWEEPING, now, plan_id=plan.plan_id)
            lease.check()
            wanted = planned(plan)
            done = self.store.soft_delete(
                workspace_id,
                without(wanted, Nodes(memories=tuple(spared))),
                version=int(plan.fingerprint.removeprefix(FINGERPRINT)),
                plan_id=plan.plan_id,
                at=now,
            )
            report = Report(
                plan.plan_id,
                plan.size_before,
                plan.size_before - len(done),
                refs_of(done),
                unit=Unit.NODES,
            )
            self.record(
                workspace_id, Event.SWEPT, now, plan_id=plan.plan_id, nodes=done, report=report
            )
        return Swept(plan, done, without(wanted, done), now + self.limits.grace)

    def recover(self, workspace_id: str, now: datetime) -> tuple[str, ...]:
        """Finish deletions that were cut off, and name their plans.

        A merge that was cut off is whole as far as it came, and the next plan finds the rest.
        """
        entries = self.history(workspace_id, (Event.SWEEPING, Event.SWEPT), limit=100)
        settled = {entry.plan_id for entry in entries if entry.event is Event.SWEPT}
        begun = {entry.plan_id for entry in entries if entry.event is Event.SWEEPING}
        finished = []
        for plan_id in sorted(begun - settled):
            plan = self.find_plan(workspace_id, plan_id)
            if plan.deletes:
                self.apply(workspace_id, plan, now, most=plan.freed)
                finished.append(plan_id)
        return tuple(finished)

    def restore(self, workspace_id: str, memory_ids: Collection[str], now: datetime) -> Nodes:
        """Take soft-deleted memories back with what they hold."""
        wanted = set(memory_ids)
        with self.alone(workspace_id):
            rows = self.store.deleted(workspace_id)
            return self._restore(
                workspace_id,
                [row for row in rows if row.kind is Kind.MEMORY and row.node_id in wanted],
                now,
            )

    def restore_plan(self, workspace_id: str, plan_id: str, now: datetime) -> Nodes:
        """Take back all that a plan hid and that was not purged."""
        with self.alone(workspace_id):
            rows = self.store.deleted(workspace_id, plan_id=plan_id)
            if not rows:
                raise NotFound(
                    f"nothing that plan {plan_id} deleted is left in {workspace_id!r}: it was "
                    "restored or purged before, or never applied. Backups hold what was purged."
                )
            return self._restore(workspace_id, rows, now)

    def _restore(self, workspace_id: str, rows: Sequence[DeletedRow], now: datetime) -> Nodes:
        """Take rows back, those of one plan at a time."""
        back = Nodes()
        for plan_id, nodes in _by_plan(rows).items():
            self.record(workspace_id, Event.RESTORING, now, plan_id=plan_id, nodes=nodes)
            some = self.store.restore(workspace_id, nodes)
            self.record(workspace_id, Event.RESTORED, now, plan_id=plan_id, nodes=some)
            back += some
        return back

    def purge(self, workspace_id: str, now: datetime) -> Purged:
        """Erase what is past its grace, after a backup of it."""
        before = now - self.limits.grace
        with self.alone(workspace_id) as lease:
            rows = self.store.deleted(workspace_id, before=before)
            if not rows:
                return Purged()
            nodes = _nodes_of_rows(rows)
            path = new_backup(self.backups, now)
            backup = write_backup(self.store, workspace_id, path, now, nodes=nodes)
            lease.check()
            for plan_id, of_plan in _by_plan(rows).items():
                self.record(workspace_id, Event.PURGED, now, plan_id=plan_id, nodes=of_plan)
            gone = self.store.purge(workspace_id, nodes, before=before)
            if len(left := without(nodes, gone)):
                self.record(workspace_id, Event.ROLLED_BACK, now, nodes=left)
        return Purged(gone, backup)

    def find_plan(self, workspace_id: str, plan_id: str) -> Plan:
        """Look a plan up in the journal."""
        entries = self.history(workspace_id, (Event.PLANNED,), plan_id, limit=1)
        if not entries or entries[0].plan is None:
            raise NotFound(
                f"no plan {plan_id!r} for workspace {workspace_id!r} in the journal. Make one with "
                "a dry run, and pass the plan id that it returns."
            )
        return entries[0].plan

    def history(
        self,
        workspace_id: str,
        events: Collection[Event] = (),
        plan_id: str | None = None,
        limit: int | None = None,
    ) -> tuple[Entry, ...]:
        """Tell what was previewed, deleted, restored and purged, newest first."""
        return self._journal.read(
            journal_name(workspace_id),
            events=events,
            plan_id=plan_id,
            limit=limit,
        )

    def record(
        self,
        workspace_id: str,
        event: Event,
        now: datetime,
        *,
        plan_id: str = "",
        plan: Plan | None = None,
        nodes: Nodes | None = None,
        report: Report | None = None,
    ) -> None:
        """Write an entry of the journal."""
        entry = Entry(
            event,
            now,
            plan_id or (plan.plan_id if plan else ""),
            self._actor,
            refs_of(nodes) if nodes else (),
            plan,
            report,
        )
        self._journal.append(journal_name(workspace_id), entry)

    def alone(self, workspace_id: str) -> AbstractContextManager[Lease]:
        """Hold the workspace against other collections and the indexer."""
        return hold(self.store, workspace_id, CHANGE, wait_seconds=self.limits.wait_seconds)

    def _names(
        self, workspace_id: str, marked: MarkedGraph, chosen: Sequence[Chosen]
    ) -> dict[int, str]:
        """Turn places into references; a node that is gone meanwhile gets none."""
        places: dict[Kind, list[int]] = {kind: [] for kind in Kind}
        for each in chosen:
            places[marked.kind_of(each.place)].append(each.place)
            places[Kind.CHUNK] += each.chunks
        names: dict[int, str] = {}
        for kind, of_kind in places.items():
            keys = [marked.key_of(place) for place in of_kind]
            ids = self.store.ids(workspace_id, kind, keys)
            for place, node_id in zip(of_kind, ids, strict=True):
                names[place] = ref(kind, node_id) if node_id else ""
        return names


def _chosen(
    survey: Survey, strategy: PruneStrategy, rules: GraphRules, now: datetime
) -> tuple[MarkedGraph, tuple[Chosen, ...]]:
    """Mark and choose; on a large graph this takes a second."""
    marked = MarkedGraph(survey, rules, now)
    return marked, tuple(marked.choose(strategy))


def _by_plan(rows: Sequence[DeletedRow]) -> dict[str, Nodes]:
    """Sort soft-deleted rows by the plan that hid them."""
    found: defaultdict[str, list[DeletedRow]] = defaultdict(list)
    for row in rows:
        found[row.plan_id].append(row)
    return {plan_id: _nodes_of_rows(of_plan) for plan_id, of_plan in found.items()}


def _nodes_of_rows(rows: Iterable[DeletedRow]) -> Nodes:
    return nodes_of(ref(row.kind, row.node_id) for row in rows)


def _step(chosen: Chosen, names: Mapping[int, str]) -> Step:
    """Name what goes, but for what is gone already."""
    named = tuple(filter(None, (names[place] for place in (chosen.place, *chosen.chunks))))
    return Step(named, Action.DELETE, len(named), chosen.reason)


def _preview(row: MemoryRow, chosen: Chosen) -> PreviewRow:
    return PreviewRow(
        row.memory_id,
        row.file_path,
        row.relative_path,
        row.created_at,
        row.lines,
        len(chosen.chunks),
        chosen.reason,
    )
