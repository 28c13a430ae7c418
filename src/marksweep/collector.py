"""The collector: the whole algorithm in order. Start reading here.

A heap gives a **snapshot**. **Roots** are named, **references** are followed, a strategy **ranks**
what could go, the planner takes from that ranking until the budget is met, and the heap **sweeps**
exactly that plan.

    plan     snapshot → roots → mark → units → rank → plan        decides, touches nothing
    collect  stash → journal → sweep → journal                    does exactly that
    undo     journal → heap takes back → stash lets go → journal  reverses a whole sweep

Only the first and the last step touch the world. The order of `collect` is what makes it safe: the
content is in the stash and the intent in the journal before the heap lets go. A crash leaves an
extra copy, never a hole, and `recover` clears it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from marksweep.core.context import PlanningContext
from marksweep.core.cost import Prices
from marksweep.core.plan import make_plan
from marksweep.core.roots import RULES, Focus, Rule
from marksweep.core.strategy import Strategy
from marksweep.errors import BadInput, NotConfirmed, NotFound, PlanOutdated, StoreError
from marksweep.model import (
    Action,
    Entry,
    Event,
    Plan,
    Pressure,
    Report,
    Segment,
    Snapshot,
    Stashed,
)
from marksweep.stores.base import Store
from marksweep.stores.versions import later_versions

GRACE = timedelta(days=7)
"""How long a deleted segment can still be restored. Longer keeps more in the stash."""

DEEDS = (
    Event.SWEEPING,
    Event.SWEPT,
    Event.RESTORING,
    Event.RESTORED,
    Event.UNDONE,
    Event.ROLLED_BACK,
)
"""The events between which a crash can fall."""


class Heap(Protocol):
    """Where segments live."""

    @property
    def workspace(self) -> str:
        """Whose segments these are."""
        ...

    def snapshot(self) -> Snapshot:
        """Take the heap as it is now, including what other processes did."""
        ...

    def fingerprint(self) -> str:
        """Fingerprint the content as it is now, including what other processes did."""
        ...

    def tokens(self) -> int:
        """Count the tokens that are live."""
        ...

    def live(self) -> Mapping[str, Segment]:
        """Give the live segments by id, including what other processes did."""
        ...

    def sweep(self, plan: Plan) -> tuple[str, ...]:
        """Let go of what the plan names and put its replacements in place, all or nothing.

        Give the ids of what was let go.
        """
        ...

    def take_back(self, segments: Sequence[Segment], instead_of: Sequence[str]) -> None:
        """Put segments back where they were, for their replacements, all or nothing."""
        ...


Tell = Callable[[Report], None]

Watch = Callable[[Plan, str], contextlib.AbstractContextManager[Tell]]
"""Told of each collection, with what triggered it; see `telemetry`. It must not raise."""


@contextlib.contextmanager
def _unwatched(plan: Plan, trigger: str) -> Iterator[Tell]:  # noqa: ARG001
    yield lambda _: None


def decide(
    snapshot: Snapshot,
    strategy: Strategy,
    target: int | None,
    focus: Focus,
    *,
    pressure: Pressure = Pressure.SOFT,
    rules: Sequence[Rule] = RULES,
    prices: Prices | None = None,
) -> Plan:
    """Decide what would go, and why. Pure: the same input gives the same plan."""
    context = PlanningContext.of(snapshot, focus, target, pressure=pressure, rules=rules)
    return make_plan(context, strategy, prices)


class Collector:
    """Carries plans out on a heap, so that nothing is lost whenever it dies."""

    def __init__(
        self,
        heap: Heap,
        store: Store,
        *,
        actor: str = "",
        grace: timedelta = GRACE,
        watch: Watch | None = None,
    ) -> None:
        self._heap = heap
        self._store = store
        self._actor = actor
        self._grace = grace
        self._watch = watch or _unwatched

    def collect(
        self, plan: Plan, *, now: datetime, confirm: str = "", trigger: str = "manual"
    ) -> Report:
        """Do exactly what the plan says.

        Refused if the heap has moved since the plan was made, or if the plan deletes and `confirm`
        is not its id.
        """
        if not isinstance(plan, Plan):
            raise BadInput(f"{plan!r} is no plan. Pass what `plan` gave.")
        with self._watch(plan, trigger) as tell:
            report = self._collect(plan, now, confirm)
            tell(report)
            return report

    def _collect(self, plan: Plan, now: datetime, confirm: str) -> Report:
        if plan.deletes and confirm != plan.plan_id:
            raise NotConfirmed(
                f"{plan.plan_id} deletes segments and was not confirmed. Pass its id as `confirm`, "
                "or plan again without deletion: then the segments go to the stash."
            )
        with self.holding(now):
            if self._heap.fingerprint() != plan.fingerprint:
                raise PlanOutdated(
                    f"{plan.plan_id} was made from a heap that has changed since. "
                    "Nothing was done. Plan again, look at it, and collect that."
                )
            if not plan.steps:
                return Report(plan.plan_id, plan.size_before, plan.size_before)
            return self._sweep(plan, now)

    def _sweep(self, plan: Plan, now: datetime) -> Report:
        before = self._heap.tokens()
        try:
            self._store.stash.put(plan.workspace, list(self._stashed(plan, now)))
            self._log(Event.SWEEPING, now, plan_id=plan.plan_id, plan=plan)
            taken = self._heap.sweep(plan)
        except StoreError:
            with contextlib.suppress(StoreError):
                self._clear_up(now)
            raise
        report = Report(
            plan.plan_id,
            before,
            self._heap.tokens(),
            taken,
            tuple([step.replacement.segment_id for step in plan.steps if step.replacement]),
        )
        with _done_but_for_tidying():
            self._log(Event.SWEPT, now, plan_id=plan.plan_id, report=report)
        return report

    def _stashed(self, plan: Plan, now: datetime) -> Iterator[Stashed]:
        live = self._heap.live()
        for step in plan.steps:
            expires = now + self._grace if step.action is Action.DELETE else None
            instead = step.replacement.segment_id if step.replacement else None
            for segment_id in step.segments:
                segment = live.get(segment_id)
                if segment is None:
                    raise NotFound(f"{plan.plan_id} names {segment_id!r}, which is not live.")
                yield Stashed(segment, plan.plan_id, now, step.reason, expires, instead)

    def undo(self, plan_id: str, *, now: datetime) -> tuple[str, ...]:
        """Reverse a whole sweep: everything it took that is still in the stash comes back."""
        with self.holding(now):
            entries = self._store.stash.of_plan(self._heap.workspace, plan_id)
            if not entries:
                notes = self._notes_of(plan_id)
                if notes:
                    return self._take_away(notes, plan_id, now)
                raise NotFound(
                    f"nothing in the stash was swept by {plan_id!r}: it was undone, restored or "
                    "purged already, or there is no such plan. `history` lists the sweeps."
                )
            later = later_versions(self._store.stash, self._heap.workspace, entries)
            for swept_by, segment_id in later.stashed:
                self._store.stash.remove(self._heap.workspace, swept_by, [segment_id])
            return self._bring_back(entries, Event.UNDONE, now, later.stand_ins)

    def latest(self) -> str | None:
        """Name the newest plan that can be undone: something of it is swept, or came back."""
        workspace = self._heap.workspace
        for deed in self._store.journal.read(workspace, events=(Event.SWEPT,)):
            if self._store.stash.of_plan(workspace, deed.plan_id) or self._notes_of(deed.plan_id):
                return deed.plan_id
        return self._store.stash.latest_plan(workspace)

    def _notes_of(self, plan_id: str) -> tuple[str, ...]:
        """Name the live notes in which a plan brought something back."""
        live = self._heap.live()
        deeds = self._store.journal.read(
            self._heap.workspace, events=(Event.SWEEPING,), plan_id=plan_id, limit=1
        )
        return tuple(
            step.replacement.segment_id
            for deed in deeds
            for step in (deed.plan.steps if deed.plan else ())
            if step.action is Action.RECALL
            and step.replacement is not None
            and step.replacement.segment_id in live
        )

    def _take_away(self, notes: tuple[str, ...], plan_id: str, now: datetime) -> tuple[str, ...]:
        """Reverse a recall: the notes go; what they say lies in the stash."""
        self._log(Event.RESTORING, now, plan_id=plan_id)
        self._heap.take_back([], notes)
        with _done_but_for_tidying():
            self._log(Event.UNDONE, now, plan_id=plan_id, segments=notes)
        return notes

    def restore(self, segment_ids: Sequence[str], *, now: datetime) -> tuple[str, ...]:
        """Bring single segments back from the stash, each to where it was."""
        with self.holding(now):
            newest: dict[str, Stashed] = {}
            for entry in self._store.stash.get(self._heap.workspace, segment_ids):
                newest.setdefault(entry.segment.segment_id, entry)
            missing = [segment_id for segment_id in segment_ids if segment_id not in newest]
            if missing:
                raise NotFound(f"not in the stash: {', '.join(missing)}. Nothing was restored.")
            return self._bring_back(tuple(newest.values()), Event.RESTORED, now)

    def _bring_back(
        self,
        entries: Sequence[Stashed],
        closing: Event,
        now: datetime,
        stand_ins: Sequence[str] = (),
    ) -> tuple[str, ...]:
        workspace = self._heap.workspace
        by_plan: dict[str, list[str]] = {}
        for entry in entries:
            by_plan.setdefault(entry.plan_id, []).append(entry.segment.segment_id)
        ids = tuple(entry.segment.segment_id for entry in entries)
        plan_id = next(iter(by_plan)) if len(by_plan) == 1 else ""
        self._log(Event.RESTORING, now, plan_id=plan_id, segments=ids)
        self._heap.take_back(
            [entry.segment for entry in entries],
            [*(entry.replaced_by for entry in entries if entry.replaced_by), *stand_ins],
        )
        with _done_but_for_tidying():
            for stashed_by, segment_ids in by_plan.items():
                self._store.stash.remove(workspace, stashed_by, segment_ids)
            self._log(closing, now, plan_id=plan_id, segments=ids)
        return ids

    def purge(self, *, now: datetime) -> tuple[str, ...]:
        """Let go for good of deleted segments whose grace period is over."""
        workspace = self._heap.workspace
        with self.holding(now):
            expired = self._store.stash.expired(workspace, now)
            ids = tuple(entry.segment.segment_id for entry in expired)
            if expired:
                self._log(Event.PURGED, now, segments=ids)
            for entry in expired:
                self._store.stash.remove(workspace, entry.plan_id, [entry.segment.segment_id])
            return ids

    def recover(self, *, now: datetime) -> None:
        """Mend what a crash left half done. Every deed does this first; harmless at any time."""
        with self.holding(now):
            pass

    @contextlib.contextmanager
    def holding(self, now: datetime) -> Iterator[None]:
        """Hold the workspace, in a state that no crash has left half done."""
        with self._store.lock(self._heap.workspace):
            self._clear_up(now)
            yield

    def _clear_up(self, now: datetime) -> None:
        """Drop extra copies from the stash, and close the journal's last deed.

        The deeds of one workspace follow each other under the lock, so only the last one can have
        been cut off.
        """
        workspace = self._heap.workspace
        last = self._store.journal.read(workspace, events=DEEDS, limit=1)
        for entry in self._suspects(last):
            if self._is_live(entry):
                self._store.stash.remove(workspace, entry.plan_id, [entry.segment.segment_id])
        for deed in last:
            if deed.event is Event.SWEEPING:
                stashed = self._store.stash.of_plan(workspace, deed.plan_id)
                happened = stashed or self._notes_of(deed.plan_id)
                self._log(Event.SWEPT if happened else Event.ROLLED_BACK, now, plan_id=deed.plan_id)
            elif deed.event is Event.RESTORING:
                is_back = set(deed.segments) <= self._heap.live().keys()
                event = Event.RESTORED if is_back else Event.ROLLED_BACK
                self._log(event, now, plan_id=deed.plan_id, segments=deed.segments)

    def _suspects(self, last: Sequence[Entry]) -> Iterator[Stashed]:
        """Give the stash entries that a crash may have left beside their live segment."""
        workspace, stash, journal = self._heap.workspace, self._store.stash, self._store.journal
        for deed in last:
            if deed.event is Event.RESTORING:
                yield from stash.get(workspace, deed.segments)
        latest = stash.latest_plan(workspace)
        if latest is not None:
            deeds = last
            if not last or last[0].plan_id != latest:
                deeds = journal.read(workspace, events=DEEDS, plan_id=latest, limit=1)
            if not deeds or deeds[0].event is not Event.SWEPT:
                yield from stash.of_plan(workspace, latest)

    def _is_live(self, entry: Stashed) -> bool:
        live = self._heap.live().get(entry.segment.segment_id)
        return live is not None and live.text == entry.segment.text

    def _log(
        self,
        event: Event,
        now: datetime,
        *,
        plan_id: str = "",
        segments: tuple[str, ...] = (),
        plan: Plan | None = None,
        report: Report | None = None,
    ) -> None:
        entry = Entry(
            event,
            now,
            plan_id=plan_id,
            actor=self._actor,
            segments=segments,
            plan=plan,
            report=report,
        )
        self._store.journal.append(self._heap.workspace, entry)


def _done_but_for_tidying() -> contextlib.AbstractContextManager[None]:
    """Let what follows the heap's change fail, on a full disk say: the deed is done.

    An error would claim otherwise. The next deed tidies up first, as after a crash.
    """
    return contextlib.suppress(StoreError)
