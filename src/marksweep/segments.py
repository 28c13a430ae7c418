"""Segments: an agent's working set, collected as it grows.

    context = Segments("project.db", limit=32_000)
    context.write("ruff found 3 errors …", type="log")
    plan = context.plan()          # what would go, and why
    context.collect(plan)          # exactly that
    context.undo(plan.plan_id)     # and back

Every change is followed by a small step whose time does not depend on the heap's size: above the
soft limit it stashes a few of the least valuable segments; above the hard limit, or on request, the
whole heap is examined.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count as numbered
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec

from marksweep.collector import Collector, Watch, decide
from marksweep.core.budget import Budget, Due, Line, tally
from marksweep.core.context import PlanningContext
from marksweep.core.plan import make_plan
from marksweep.core.roots import BY_NAME, Focus
from marksweep.core.why import held_because, why
from marksweep.errors import BadInput, NotFound, Refused, StoreError
from marksweep.heaps.segments import SegmentHeap
from marksweep.heaps.stash_search import search_stash
from marksweep.increment import Increment
from marksweep.model import (
    Action,
    Candidate,
    Entry,
    GCPolicy,
    Hold,
    Link,
    Plan,
    Pressure,
    Reference,
    Report,
    Segment,
    Stashed,
    utc_now,
)
from marksweep.settings import Settings
from marksweep.stores.base import Hit, Query, Store
from marksweep.stores.open import open_store
from marksweep.strategies.chosen import Chosen
from marksweep.strategies.registry import SEGMENT_TOOLS, Choice, strategy_of
from marksweep.strategies.scored import Disposal, Scored
from marksweep.tokens import count, in_whole

_log = logging.getLogger(__name__)

_NUMBERED = re.compile(r"(.*)~([1-9]\d*)", re.DOTALL)

Taken = Callable[[str], bool]
"""Whether an id is in use, live or in the stash."""


class FocusArgs(NamedTuple):
    """What an agent says it works on: the arguments of `Segments.focus`."""

    task: str | None = None
    file: str | None = None
    lines: tuple[int, int] | None = None
    open_files: tuple[str, ...] = ()
    breakpoints: tuple[tuple[str, int], ...] = ()


class Segments:
    """The working set of one workspace: add, link, pin, search, collect, restore, undo."""

    def __init__(
        self,
        store: Store | str | Path | None = None,
        *,
        workspace: str | None = None,
        limit: int | None = None,
        budget: Budget | None = None,
        settings: Settings | None = None,
        shorten: Callable[[str], str] | None = None,
        count_tokens: Callable[[str], float] = count,
        clock: Callable[[], datetime] = utc_now,
        actor: str = "",
        watch: Watch | None = None,
    ) -> None:
        """Open the working set. The settings provide what is not passed.

        `shorten` turns a long text into a shorter one; without it only `compress` compresses.
        `watch` observes each collection, such as `telemetry.Telemetry().watch`.
        """
        self.settings = settings = settings or Settings()
        where = settings.store.location if store is None else store
        kept = settings.store.retention
        self.store = open_store(where, kept) if isinstance(where, str | Path) else where
        self.workspace = settings.store.workspace if workspace is None else workspace
        self.budget = budget or settings.window.budget(limit)
        self._scorer = settings.scoring.build()
        self._count_tokens = count if count_tokens is count else in_whole(count_tokens)
        self._clock = clock
        self._opened: dict[str, datetime] = {}
        self._cited: Mapping[str, str] = {}
        self._heap = SegmentHeap(
            self.store,
            self.workspace,
            count_tokens=self._count_tokens,
            recent_messages=settings.roots.last_messages,
            grace=settings.retention.grace,
        )
        self._shorten = shorten and _shortening(shorten, self._count_tokens, self._heap.is_taken)
        self._collector = Collector(self._heap, self.store.journal, actor=actor, watch=watch)
        self._increment = Increment(
            self._heap,
            self._collector,
            self.budget,
            self._scorer,
            clock,
            batch=settings.steps.batch,
            sample=settings.steps.sample,
        )
        self._collector.recover(now=clock())
        self._heap.count()
        self.focus()

    def get(self, segment_id: str) -> Segment | None:
        """Look a live segment up without touching it."""
        return self._heap.live().get(segment_id)

    def read(self, segment_id: str) -> Segment:
        """Return a live segment, and note that it was used."""
        return self.touch(segment_id)[0]

    def list(self) -> tuple[Segment, ...]:
        """Return all live segments in order."""
        return self._heap.snapshot().segments

    def search(self, words: str = "", **filters: object) -> tuple[Hit[Segment], ...]:
        """Find live segments, best first; filters as in `Query`."""
        return self.store.segments.search(self.workspace, Query.of(words, filters))

    def search_stash(self, words: str = "", **filters: object) -> tuple[Hit[Stashed], ...]:
        """Find swept segments, best first; filters as in `Query`."""
        return search_stash(self.store.stash, self.workspace, Query.of(words, filters))

    @property
    def tokens(self) -> int:
        """Tokens in the working set."""
        self._heap.refresh()
        return self._heap.size()

    def ledger(self) -> tuple[Line, ...]:
        """Tokens per type, heaviest first."""
        return tally(self._heap.snapshot().segments)

    def history(self, limit: int | None = None) -> tuple[Entry, ...]:
        """Return what the journal records, newest first."""
        return self.store.journal.read(self.workspace, limit=limit)

    def why(self, segment_id: str) -> str:
        """Say what keeps a segment alive, or why it is gone."""
        if segment_id in self._heap.live():
            return why(self.context(), segment_id)
        return self._heap.why_swept(segment_id)

    def write(
        self,
        text: str,
        *,
        type: str = "note",
        segment_id: str | None = None,
        file_path: str | None = None,
        line_range: tuple[int, int] | None = None,
        symbol: str | None = None,
        tags: Sequence[str] = (),
        topic_id: str | None = None,
        task_id: str | None = None,
        references: Sequence[str] = (),
        policy: GCPolicy = GCPolicy.PARTIAL,
    ) -> Segment:
        """Add a new segment, made now."""
        return self.add(
            Segment(
                segment_id=segment_id or str(uuid4()),
                type=type,
                text=text,
                created_at=self._clock(),
                file_path=file_path,
                line_range=line_range,
                symbol=symbol,
                tags=tags,  # type: ignore[arg-type]
                topic_id=topic_id,
                task_id=task_id,
                references=references,  # type: ignore[arg-type]
                policy=policy,
            )
        )[0]

    def add(self, *segments: Segment) -> tuple[Segment, ...]:
        """Add new segments, all or none.

        Their positions follow the clock, so that none is used twice: the last position so far may
        be that of a segment in the stash.
        """
        added = self._heap.add(segments, after=int(1e6 * self._clock().timestamp()))
        self._step()
        return added

    def touch(self, *segment_ids: str) -> tuple[Segment, ...]:
        """Note that segments were used, and return them."""
        touched = self._heap.touch(segment_ids, self._clock())
        self._step()
        return touched

    def link(
        self, source: str, target: str, link: Link = Link.REFERS, hold: Hold = Hold.STRONG
    ) -> None:
        """Add a reference from one segment to another."""
        self._heap.link(source, target, link, hold)
        self._step()

    def unlink(self, source: str, target: str) -> None:
        """Drop the references from one segment to another."""
        self._heap.unlink(source, target)
        self._step()

    def pin(self, segment_id: str, *, by: str, why: str = "") -> None:
        """Protect a segment from every collection, and record who did it and why."""
        self._heap.pin(segment_id, f"{by}: {why}" if why else by)
        self._step()

    def unpin(self, segment_id: str) -> None:
        """Remove the protection."""
        self._heap.unpin(segment_id)
        self._step()

    def focus(
        self,
        *,
        task: str | None = None,
        file: str | None = None,
        lines: tuple[int, int] | None = None,
        open_files: Sequence[str] = (),
        breakpoints: Collection[tuple[str, int]] = (),
    ) -> None:
        """Set what the agent is working on; segments that belong to it become roots.

        `breakpoints` are files with a line.

        A file named here stays a root for a while after the focus has moved on.
        """
        roots = self.settings.roots
        now = self._clock()
        self._focus = Focus(
            now=now,
            task_id=task,
            active_file=file,
            active_lines=lines,
            breakpoints=frozenset(breakpoints),
            recent_decisions=timedelta(hours=roots.decision_hours),
            invariant_tags=frozenset(roots.invariant_tags),
        )
        self._opened.update(dict.fromkeys((file, *open_files) if file else open_files, now))
        self._increment.mark_all(self.current_focus())

    def keep(self, cited: Mapping[str, str]) -> None:
        """Keep segments that something elsewhere refers to, with a reason, until called again."""
        if cited != self._cited:
            self._cited = dict(cited)
            self._increment.mark_all(self.current_focus())

    def plan(
        self,
        *,
        target_tokens: int | None = None,
        disposal: Disposal = Disposal.STASH,
        strategy: Choice | None = None,
        among: Sequence[str] | None = None,
    ) -> Plan:
        """Decide what would go, and why. Nothing is touched.

        `among` restricts it to these segments: the time then does not depend on the number of
        others. Without a target, all that the strategy offers goes.
        """
        chosen = strategy_of(strategy, SEGMENT_TOOLS) if strategy else self._scored(disposal)
        target = target_tokens
        if target is None and among is None:
            target = self.budget.target
        snapshot = self._heap.snapshot() if among is None else self._heap.part(among)
        return decide(
            snapshot,
            chosen,
            target,
            self.current_focus(),
            pressure=self._pressure(),
            prices=self.settings.prices,
        )

    def plan_for(self, segment_ids: Sequence[str], disposal: Disposal = Disposal.STASH) -> Plan:
        """Plan to sweep exactly these segments, current work included; see `kept_because`."""
        live = self._heap.live()
        names = list(dict.fromkeys(segment_ids))
        unknown = [name for name in names if name not in live]
        if unknown:
            raise NotFound(
                f"not live: {', '.join(unknown)}. They were swept, or never added: look in the "
                "stash, or check the ids."
            )
        return self._plan_by_name(Chosen(names, self._scored(disposal).action), names)

    def kept_because(self, segment_ids: Sequence[str]) -> dict[str, str]:
        """Say why `plan_for` leaves live segments out: a pin, a lock, a memory that cites it, an
        owner who has not released it, or such a hold on what it is paired with."""
        context = self._named_context(segment_ids)
        index = context.graph.index
        held = {name: held_because(context, index[name]) for name in segment_ids if name in index}
        return {name: reason for name, reason in held.items() if reason is not None}

    def candidates(self, plan: Plan) -> tuple[Candidate, ...]:
        """Return the live segments that a plan takes, first to go first, with their scores."""
        live = self._heap.live()
        return tuple(
            self._candidate(live[name], step.action, step.reason, plan.made_at)
            for step in plan.steps
            for name in step.segments
            if name in live
        )

    def cold_but_important(self) -> tuple[Candidate, ...]:
        """Return what is reachable, long and untouched, with a reason: worth compressing."""
        context = self.context()
        return tuple(
            self._candidate(segment, Action.COMPRESS, reason, context.now)
            for segment, reason in self._scored(Disposal.STASH).cold_but_important(context)
        )

    def _candidate(self, segment: Segment, action: Action, reason: str, now: datetime) -> Candidate:
        score = round(self._scorer(segment, now), 4)
        return Candidate(segment.segment_id, segment.type, segment.tokens, action, reason, score)

    def save(self, plan: Plan) -> None:
        """Keep a plan in the journal, so that it can be collected by its id."""
        self._collector.save(plan, now=self._clock())

    def saved(self, plan_id: str) -> Plan:
        """Fetch a plan that was saved or carried out."""
        return self._collector.saved(plan_id)

    def collect(self, plan: Plan | str | None = None, *, confirm: str = "") -> Report:
        """Do exactly what a plan says; without one, what `plan()` would."""
        now = self._clock()
        with self._collector.holding(now):
            if plan is None:
                plan = self.plan()
            elif isinstance(plan, str):
                plan = self.saved(plan)
            report = self._collector.collect(plan, now=now, confirm=confirm)
        if report.swept and plan.strategy != Chosen.name:  # of named ones, nothing survived
            with contextlib.suppress(StoreError):  # the sweep is done; survivals are only counts
                self._heap.survive()
            self._increment.mark_all(self.current_focus())
        return report

    def compress(self, segment_id: str, text: str) -> Report:
        """Replace a segment by a shorter text; the original goes to the stash.

        One that is paired is refused: the text would replace the whole unit.
        """
        segment = self._heap.live().get(segment_id)
        if segment is None:
            raise NotFound(f"no live segment {segment_id!r}.")
        mates = [name for name in self._heap.index.unit(segment_id) if name != segment_id]
        if mates:
            raise Refused(
                f"{segment_id!r} is one unit with {', '.join(map(repr, mates))}, which would go "
                "with it. Unlink them first, or stash the unit."
            )
        shorter = _shortened(segment, text, self._count_tokens(text), self._heap.is_taken)
        if shorter.tokens >= segment.tokens:
            raise BadInput(
                f"the text for {segment_id!r} has {shorter.tokens} tokens, the original "
                f"{segment.tokens}: it must be shorter. Nothing was changed."
            )
        chosen = Chosen([segment_id], Action.COMPRESS, replacements={segment_id: shorter})
        plan = self._plan_by_name(chosen, [segment_id])
        if not plan.steps:
            reason = self.kept_because([segment_id])[segment_id]
            raise Refused(f"{segment_id!r} may not be changed: {reason}.")
        return self.collect(plan)

    def restore(self, *segment_ids: str) -> tuple[str, ...]:
        """Bring segments back from the stash, each to where it was, with its links."""
        return self._collector.restore(segment_ids, now=self._clock())

    def undo(self, plan_id: str) -> tuple[str, ...]:
        """Reverse a whole sweep."""
        return self._collector.undo(plan_id, now=self._clock())

    def latest(self) -> str | None:
        """Name the newest plan of which something can be undone."""
        return self._collector.latest()

    def purge(self) -> tuple[str, ...]:
        """Erase deleted segments whose grace period is over."""
        return self._collector.purge(now=self._clock())

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def _step(self) -> None:
        """Follow a change with a small step, or a full collection if the step asks for it.

        The change itself is done by then, so an error of the store now is not an error of the
        change: what is due stays due, and is retried later.
        """
        try:
            if self._increment.step(self.current_focus()) is Due.FULL:
                self._increment.record_pass(self.collect().tokens_freed)
        except StoreError:
            self._increment.record_pass(0)

    def current_focus(self) -> Focus:
        """Return what the agent is working on, as the rules see it now."""
        now = self._clock()
        since = now - timedelta(hours=self.settings.roots.recent_file_hours)
        active = self._focus.active_file
        self._opened = {path: at for path, at in self._opened.items() if at >= since}
        return msgspec.structs.replace(
            self._focus,
            now=now,
            open_files=frozenset(path for path in self._opened if path != active),
            recent_messages=self._heap.index.recent_messages(),
            cited=self._cited,
        )

    def context(self) -> PlanningContext:
        """Return what a strategy may look at, as it is now."""
        snapshot, focus = self._heap.snapshot(), self.current_focus()
        return PlanningContext.of(snapshot, focus, pressure=self._pressure())

    def _pressure(self) -> Pressure:
        return max(Pressure.SOFT, self.budget.pressure_at(self._heap.size()))

    def _named_context(self, segment_ids: Sequence[str]) -> PlanningContext:
        part, focus = self._heap.part(segment_ids), self.current_focus()
        return PlanningContext.of(part, focus, pressure=Pressure.HARD, rules=BY_NAME)

    def _plan_by_name(self, chosen: Chosen, segment_ids: Sequence[str]) -> Plan:
        """Plan to sweep what was named: only what is pinned, locked or held is left out."""
        return make_plan(self._named_context(segment_ids), chosen, self.settings.prices)

    def _scored(self, disposal: Disposal) -> Scored:
        retention = self.settings.retention
        return Scored(
            self._scorer,
            disposal=disposal,
            shorten=self._shorten,
            delete_after_hours=retention.delete_after_hours,
            cold_hours=retention.cold_hours,
            verbose_tokens=retention.verbose_tokens,
        )


def _shortened(segment: Segment, text: str, tokens: int, taken: Taken) -> Segment:
    """Make the segment that replaces a longer one: derived from it, with all its links."""
    return msgspec.structs.replace(
        segment,
        segment_id=_free_id(segment.segment_id, taken),
        text=text,
        tokens=tokens,
        references=(*segment.references, Reference(segment.segment_id, Link.DERIVED)),
        refcount=0,
        policy=GCPolicy.PARTIAL,
    )


def _free_id(segment_id: str, taken: Taken) -> str:
    """Number the versions of a segment: `a`, `a~1`, `a~2`; if that id is taken: `a~1~`, `a~2~`.

    No two segments get the same id, so that all segments of a plan may be shortened at once.
    """
    match = _NUMBERED.fullmatch(segment_id)
    name = f"{match[1]}~{int(match[2]) + 1}" if match else f"{segment_id}~1"
    numbers = numbered(1)
    while taken(name):
        name = f"{segment_id}~{next(numbers)}~"
    return name


def _shortening(
    shorten: Callable[[str], str], weigh: Callable[[str], int], taken: Taken
) -> Callable[[Segment], Segment | None]:
    """Turn a function that shortens texts into one that shortens segments.

    If it fails or returns nothing, the segment stays unchanged.
    """

    def shorter(segment: Segment) -> Segment | None:
        try:
            text = shorten(segment.text)
        except Exception:  # noqa: BLE001  whatever a third-party function raises
            _log.exception("%s could not be shortened", segment.segment_id)
            return None
        if not isinstance(text, str) or not text.strip():
            return None
        return _shortened(segment, text, weigh(text), taken)

    return shorter
