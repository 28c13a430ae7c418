"""The collector: the whole algorithm in order. Start reading here.

A heap gives a **snapshot**. **Roots** are named, **references** are followed, a strategy **ranks**
what could go, the planner takes from that ranking until the budget is met, and the heap **sweeps**
exactly that plan.

    plan     snapshot → roots → mark → units → rank → plan         decides, touches nothing
    collect  lock → settle → journal → heap sweeps → journal       does exactly that
    undo     lock → settle → journal → heap brings back → journal  reverses a whole sweep

Only the first and the last step have side effects. A heap keeps what it sweeps (`core.heap`), so
one collector serves all of them: the working set, conversations and the knowledge graph. The intent
is in the journal before the heap changes, and the outcome after. The heap settles an interrupted
operation before anything else happens: a crash leaves an extra copy and loses nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from marksweep.core.context import PlanningContext
from marksweep.core.heap import Heap
from marksweep.core.plan import Prices, make_plan
from marksweep.core.roots import RULES, Focus, Rule
from marksweep.core.strategy import Strategy
from marksweep.errors import BadInput, MarksweepError, NotConfirmed, NotFound, StoreError
from marksweep.model import Entry, Event, Plan, Pressure, Report, Snapshot
from marksweep.stores.base import Journal

OPERATIONS = (
    Event.SWEEPING,
    Event.SWEPT,
    Event.RESTORING,
    Event.RESTORED,
    Event.UNDONE,
    Event.ROLLED_BACK,
)
"""The events between which a crash can happen."""

INTENTS = (Event.SWEEPING, Event.RESTORING)
"""Events that announce an operation; the outcome follows."""

Notify = Callable[[Report], None]

Watch = Callable[[Plan, str], contextlib.AbstractContextManager[Notify]]
"""Observes each collection, with what triggered it; see `telemetry`. It must not raise."""


@contextlib.contextmanager
def unwatched(plan: Plan, trigger: str) -> Iterator[Notify]:  # noqa: ARG001
    """Observe nothing."""
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
    """Carries out plans on a heap. Nothing is lost if the process dies at any moment."""

    def __init__(
        self, heap: Heap, journal: Journal, *, actor: str = "", watch: Watch | None = None
    ) -> None:
        self._heap = heap
        self._journal = journal
        self._actor = actor
        self._watch = watch or unwatched

    def save(self, plan: Plan, *, now: datetime) -> None:
        """Save a plan in the journal, so that it can be collected by its id."""
        self._log(Event.PLANNED, now, plan_id=plan.plan_id, plan=plan)

    def saved(self, plan_id: str) -> Plan:
        """Fetch a plan that was saved or carried out."""
        for entry in self._journal.read(self._heap.journal_name, plan_id=plan_id):
            if entry.plan is not None:
                return entry.plan
        raise NotFound(
            f"no plan {plan_id!r} for workspace {self._heap.workspace!r} in the journal. Plan "
            "again, and pass the id of that plan."
        )

    def collect(
        self, plan: Plan, *, now: datetime, confirm: str = "", trigger: str = "manual"
    ) -> Report:
        """Do exactly what the plan says.

        Refused if the heap has moved since the plan was made, or if the plan deletes and `confirm`
        is not its id.
        """
        if not isinstance(plan, Plan):
            raise BadInput(f"{plan!r} is not a plan. Pass what `plan` returned.")
        with self._watch(plan, trigger) as notify:
            report = self._collect(plan, now, confirm)
            notify(report)
            return report

    def _collect(self, plan: Plan, now: datetime, confirm: str) -> Report:
        if plan.deletes and confirm != plan.plan_id:
            raise NotConfirmed(
                f"{plan.plan_id} deletes and was not confirmed. Pass its id as `confirm`, or plan "
                "again without deletion: then what goes can be restored without limit of time."
            )
        with self.holding(now):
            self._heap.check(plan)
            if not plan.steps:
                return Report(plan.plan_id, plan.size_before, plan.size_before, unit=plan.unit)
            with self._intending(Event.SWEEPING, now, plan_id=plan.plan_id, plan=plan):
                report = self._heap.sweep(plan, now)
            with _done_but_for_settling():
                self._log(Event.SWEPT, now, plan_id=plan.plan_id, report=report)
            return report

    def undo(self, plan_id: str, *, now: datetime) -> tuple[str, ...]:
        """Reverse a whole sweep: everything it took that is still kept comes back."""
        with self.holding(now):
            ids = self._heap.kept_of(plan_id)
            if not ids:
                raise NotFound(
                    f"nothing that {plan_id!r} swept is left to bring back: it was undone, "
                    "restored or purged already, or there is no such plan. The journal lists the "
                    "sweeps."
                )
            return self._bring_back(ids, Event.UNDONE, now, plan_id)

    def restore(self, ids: Sequence[str], *, now: datetime) -> tuple[str, ...]:
        """Bring single segments back to where they were, each with its whole unit."""
        with self.holding(now):
            return self._bring_back(self._heap.kept_with(ids), Event.RESTORED, now)

    def _bring_back(
        self, ids: tuple[str, ...], outcome: Event, now: datetime, plan_id: str = ""
    ) -> tuple[str, ...]:
        with self._intending(Event.RESTORING, now, plan_id=plan_id, segments=ids) as intent:
            back = self._heap.bring_back(ids, plan_id=plan_id, now=now)
        with _done_but_for_settling():
            self._heap.settle(intent, now)
            self._log(outcome, now, plan_id=plan_id, segments=back)
        return back

    def latest(self) -> str | None:
        """Return the newest plan of which something can be undone."""
        for entry in self._journal.read(self._heap.journal_name, events=(Event.SWEPT,)):
            if self._heap.kept_of(entry.plan_id):
                return entry.plan_id
        return None

    def purge(self, *, now: datetime) -> tuple[str, ...]:
        """Permanently erase what was deleted and is past its grace period."""
        with self.holding(now):
            ids = self._heap.expired(now)
            if not ids:
                return ()
            self._log(Event.PURGED, now, segments=ids)
            try:
                gone = self._heap.purge(now)
            except MarksweepError:
                with contextlib.suppress(StoreError):
                    self._log(Event.ROLLED_BACK, now, segments=self._heap.expired(now))
                raise
            if back := tuple(sorted(set(ids) - set(gone))):
                self._log(Event.ROLLED_BACK, now, segments=back)
            return gone

    def record(self, event: Event, *, now: datetime, segments: tuple[str, ...]) -> None:
        """Record an event that is not a plan: an erasure, a missing root."""
        self._log(event, now, segments=segments)

    def recover(self, *, now: datetime) -> None:
        """Settle what a crash interrupted. Every operation does this first; it is idempotent."""
        with self.holding(now):
            pass

    @contextlib.contextmanager
    def holding(self, now: datetime) -> Iterator[None]:
        """Lock the heap, and settle what a crash interrupted."""
        with self._heap.lock():
            self._settle(now)
            yield

    def _settle(self, now: datetime) -> None:
        """Settle the last operation if it was interrupted.

        Operations on a heap run one at a time under its lock, so only the last can be interrupted.
        """
        for last in self._journal.read(self._heap.journal_name, events=OPERATIONS, limit=1):
            if last.event in INTENTS:
                outcome = self._heap.settle(last, now)
                self._log(outcome, now, plan_id=last.plan_id, segments=last.segments)

    @contextlib.contextmanager
    def _intending(
        self,
        event: Event,
        now: datetime,
        *,
        plan_id: str,
        segments: tuple[str, ...] = (),
        plan: Plan | None = None,
    ) -> Iterator[Entry]:
        """Announce an operation; if it fails, settle it now, or leave that to the next one."""
        try:
            yield self._log(event, now, plan_id=plan_id, segments=segments, plan=plan)
        except MarksweepError:
            with contextlib.suppress(StoreError):
                self._settle(now)
            raise

    def _log(
        self,
        event: Event,
        now: datetime,
        *,
        plan_id: str = "",
        segments: tuple[str, ...] = (),
        plan: Plan | None = None,
        report: Report | None = None,
    ) -> Entry:
        entry = Entry(
            event,
            now,
            plan_id=plan_id,
            actor=self._actor,
            segments=segments,
            plan=plan,
            report=report,
        )
        return self._journal.append(self._heap.journal_name, entry)


def _done_but_for_settling() -> contextlib.AbstractContextManager[None]:
    """Suppress errors after the heap's change, such as a full disk: the operation is done.

    An error would claim otherwise. The next operation settles this one first, as after a crash.
    """
    return contextlib.suppress(StoreError)
