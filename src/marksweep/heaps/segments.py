"""The segments heap: the working set of context segments of one workspace.

Everything is written through to the store and kept in a `LiveIndex`; changes by other processes are
applied before each use. Edits hold the store's lock, so that none gets lost between processes.
What is swept is kept in the store's stash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from threading import RLock

import msgspec

from marksweep.core.roots import RECENT_MESSAGES
from marksweep.errors import BadInput, NotFound, PlanOutdated
from marksweep.heaps.live_index import ContentFingerprint, Fingerprint, LiveIndex
from marksweep.heaps.restoring import (
    Returning,
    is_back,
    newest_of,
    obsolete,
    returning,
)
from marksweep.model import (
    OLD_AFTER,
    Action,
    Entry,
    Event,
    Generation,
    Hold,
    Link,
    Plan,
    Reference,
    Report,
    Segment,
    Snapshot,
    Stashed,
)
from marksweep.stores.base import Store, remove_all

replace = msgspec.structs.replace


MAX_TOKENS = 2**53
"""The largest number that every store and JSON reader can hold; far beyond any heap."""

GRACE = timedelta(days=7)
"""How long a deleted segment can still be restored. Longer keeps more in the stash."""


class SegmentHeap:
    """Live segments, written through to a store, with what was swept in its stash."""

    def __init__(
        self,
        store: Store,
        workspace: str,
        *,
        count_tokens: Callable[[str], int],
        recent_messages: int = RECENT_MESSAGES,
        grace: timedelta = GRACE,
        fingerprint: Fingerprint | None = None,
    ) -> None:
        self.workspace = self.journal_name = workspace
        self._grace = grace
        self._store = store
        self._count_tokens = count_tokens
        self._recent_messages = recent_messages
        self._guard = RLock()
        self._version = 0
        self.foreign_changes = 0
        """How often changes by others were applied."""
        self._last_position = 0
        self._fingerprint = fingerprint or ContentFingerprint()
        self.index = LiveIndex(recent_messages, self._fingerprint)
        self.changed: list[str] = []
        """Ids put since the last step, by any process."""
        self.refresh()

    def refresh(self) -> None:
        """Apply changes by other processes."""
        with self._guard:
            changes = self._store.segments.changes(self.workspace, self._version)
            if changes.version == self._version:
                return
            if changes.complete:
                self._reset()
            self._let_go(changes.removed)
            self._take_in(changes.put)
            self._version = changes.version
            self.foreign_changes += 1

    def _reset(self) -> None:
        self._fingerprint.clear()
        self.index = LiveIndex(self._recent_messages, self._fingerprint)

    def snapshot(self) -> Snapshot:
        """Return the current state of the heap."""
        with self._guard:
            self.refresh()
            return Snapshot(self.index.in_order(), self.index.fingerprint(), self.workspace)

    def part(self, segment_ids: Iterable[str]) -> Snapshot:
        """Return a snapshot of these segments and what must go with them; only count the rest."""
        with self._guard:
            self.refresh()
            part = self.index.part(segment_ids)
            rest = self.index.tokens - sum(segment.tokens for segment in part)
            fingerprint = self.index.fingerprint()
            return Snapshot(
                part,
                fingerprint,
                self.workspace,
                rest_size=rest,
                rest_segments=len(self.index.live) - len(part),
            )

    def fingerprint(self) -> str:
        """Fingerprint the heap as it is now."""
        self.refresh()
        return self.index.fingerprint()

    def lock(self) -> AbstractContextManager[None]:
        """Keep other processes from changing the heap."""
        return self._store.lock(self.workspace)

    def size(self) -> int:
        """Count the tokens that are live."""
        return self.index.tokens

    def live(self) -> Mapping[str, Segment]:
        """Return the live segments by id."""
        self.refresh()
        return self.index.live

    def is_taken(self, segment_id: str) -> bool:
        """Return whether an id is in use, live or in the stash."""
        stashed = self._store.stash.get(self.workspace, [segment_id])
        return bool(stashed) or segment_id in self.live()

    def add(self, segments: Sequence[Segment], after: int = 0) -> tuple[Segment, ...]:
        """Add new segments, all or none; count tokens where they are not given.

        Their positions come after the last live one, and after `after`.
        """
        with self._editing():
            segments = validate_segments(segments)
            ids = [segment.segment_id for segment in segments]
            self._refuse_known(ids)
            self._last_position = max(self._last_position, after)
            added = [self._placed(segment) for segment in segments]
            self._write(put=added)
            return tuple(self.index.live[segment_id] for segment_id in ids)

    def touch(self, segment_ids: Sequence[str], now: datetime) -> tuple[Segment, ...]:
        """Record that segments were read or written now; return them."""
        with self._editing():
            found = [self._find(segment_id) for segment_id in segment_ids]
            self._write(put=[replace(segment, last_touched_at=now) for segment in found])
            return tuple(self.index.live[segment_id] for segment_id in segment_ids)

    def link(self, source: str, target: str, link: Link, hold: Hold) -> None:
        """Add a reference from one segment to another; idempotent."""
        with self._editing():
            segment, _ = self._find(source), self._find(target)
            others = tuple(r for r in segment.references if (r.target, r.link) != (target, link))
            references = (*others, Reference(target, link, hold))
            self._write(put=[replace(segment, references=references)])

    def unlink(self, source: str, target: str) -> None:
        """Drop all references from one segment to another; none to drop is not an error."""
        with self._editing():
            segment = self._find(source)
            references = tuple(r for r in segment.references if r.target != target)
            tags = tuple(tag for tag in segment.tags if tag != f"ref:{target}")
            self._write(put=[replace(segment, references=references, tags=tags)])

    def pin(self, segment_id: str, pinned_by: str) -> None:
        """Protect a segment from every collection."""
        with self._editing():
            segment = self._find(segment_id)
            self._write(put=[replace(segment, pinned=True, pinned_by=pinned_by)])

    def unpin(self, segment_id: str) -> None:
        """Remove the protection."""
        with self._editing():
            segment = self._find(segment_id)
            self._write(put=[replace(segment, pinned=False, pinned_by="")])

    def check(self, plan: Plan) -> None:
        """Refuse a plan that was made from another state of the heap."""
        if self.fingerprint() != plan.fingerprint:
            raise PlanOutdated(
                f"{plan.plan_id} was made from a heap that has changed since. "
                "Nothing was done. Plan again, look at it, and collect that."
            )

    def sweep(self, plan: Plan, now: datetime) -> Report:
        """Stash what the plan names, then remove it and insert its replacements, all or none."""
        before = self.index.tokens
        entries = list(self._to_stash(plan, now))
        put = [step.replacement for step in plan.steps if step.replacement is not None]
        swept = tuple([entry.segment.segment_id for entry in entries])
        if entries:
            self._store.stash.put(self.workspace, entries)
        self._write(put=put, remove=swept)
        created = tuple([segment.segment_id for segment in put])
        return Report(plan.plan_id, before, self.index.tokens, swept, created)

    def _to_stash(self, plan: Plan, now: datetime) -> Iterator[Stashed]:
        live = self.index.live
        for step in plan.steps:
            expires = now + self._grace if step.action is Action.DELETE else None
            instead = step.replacement.segment_id if step.replacement else step.stand_in
            for segment_id in step.segments:
                segment = live.get(segment_id)
                if segment is None:
                    raise NotFound(f"{plan.plan_id} names {segment_id!r}, which is not live.")
                yield Stashed(segment, plan.plan_id, now, step.reason, expires, instead)

    def why_swept(self, segment_id: str) -> str:
        """Return when, by which plan and why a segment was last swept."""
        for entry in self._store.stash.get(self.workspace, [segment_id]):
            swept = f"swept at {entry.stashed_at:%Y-%m-%d %H:%M} by {entry.plan_id}"
            return f"{swept}: {entry.reason}"
        raise NotFound(f"{segment_id!r} is neither live nor in the stash.")

    def kept_of(self, plan_id: str) -> tuple[str, ...]:
        """Return what undoing a plan would bring back, and the notes it would remove."""
        entries = self._store.stash.of_plan(self.workspace, plan_id)
        return (*_names(self._returning(entries).entries), *self._notes_of(plan_id))

    def kept_with(self, ids: Sequence[str]) -> tuple[str, ...]:
        """Return what comes back with these: whole units."""
        newest = newest_of(self._store.stash, self.workspace, list(dict.fromkeys(ids)))
        missing = [segment_id for segment_id in ids if segment_id not in newest]
        if missing:
            raise NotFound(f"not in the stash: {', '.join(missing)}. Nothing was restored.")
        return _names(self._returning(tuple(newest.values())).entries)

    def bring_back(
        self, ids: Sequence[str], *, plan_id: str = "", now: datetime
    ) -> tuple[str, ...]:
        """Put segments back where they were, in place of their stand-ins, all or nothing.

        A pin that was set or removed meanwhile stays so. What is obsolete then is removed from the
        stash when the heap settles.
        """
        del now
        self.refresh()
        live, stash = self.index.live, self._store.stash
        notes = self._notes_of(plan_id)
        chosen = newest_of(stash, self.workspace, [name for name in ids if name not in notes])
        of_plan = stash.of_plan(self.workspace, plan_id) if plan_id else ()
        chosen.update({entry.segment.segment_id: entry for entry in of_plan})
        back = self._returning(tuple(chosen.values()))
        remove_all(stash, self.workspace, stash.get(self.workspace, notes))
        self._write(
            put=[_as_pinned(entry.segment, live) for entry in back.entries],
            remove=[name for name in (*sorted(back.stand_ins), *notes) if name in live],
        )
        return (*_names(back.entries), *notes)

    def settle(self, intent: Entry, now: datetime) -> Event:
        """Remove what an operation left in the stash, and return whether it happened."""
        del now
        self.refresh()
        if intent.event is Event.SWEEPING:
            return self._settle_sweep(intent.plan_id)
        return self._settle_return(intent)

    def _settle_sweep(self, plan_id: str) -> Event:
        """Drop copies of what was never swept. A plan is swept in one step, or not at all."""
        live, stash = self.index.live, self._store.stash
        entries = stash.of_plan(self.workspace, plan_id)
        extra = [entry for entry in entries if is_back(entry, live)]
        remove_all(stash, self.workspace, extra)
        if extra:
            return Event.ROLLED_BACK
        happened = entries or any(note in live for note in self._notes_of(plan_id))
        return Event.SWEPT if happened else Event.ROLLED_BACK

    def _settle_return(self, intent: Entry) -> Event:
        """Drop what is obsolete now that segments are back; their own entries go last."""
        live, stash = self.index.live, self._store.stash
        names = list(intent.segments)
        back = [entry for entry in stash.get(self.workspace, names) if is_back(entry, live)]
        remove_all(stash, self.workspace, obsolete(stash, self.workspace, back)[0])
        remove_all(stash, self.workspace, back)
        if intent.plan_id:
            happened = not self.kept_of(intent.plan_id)
        else:
            happened = bool(back) or not stash.get(self.workspace, names)
        return Event.RESTORED if happened else Event.ROLLED_BACK

    def expired(self, now: datetime) -> tuple[str, ...]:
        """Return what was deleted and is past its grace period."""
        return _names(self._store.stash.expired(self.workspace, now))

    def purge(self, now: datetime) -> tuple[str, ...]:
        """Erase what was deleted and is past its grace period."""
        expired = self._store.stash.expired(self.workspace, now)
        remove_all(self._store.stash, self.workspace, expired)
        return _names(expired)

    def _returning(self, chosen: Sequence[Stashed]) -> Returning:
        return returning(self._store.stash, self.workspace, chosen, self.live())

    def _notes_of(self, plan_id: str) -> tuple[str, ...]:
        """Return the notes in which a plan brought something back, live or swept since."""
        if not plan_id:
            return ()
        read = self._store.journal.read
        for intent in read(self.workspace, events=(Event.SWEEPING,), plan_id=plan_id, limit=1):
            steps = intent.plan.steps if intent.plan else ()
            notes = [step.replacement for step in steps if step.action is Action.RECALL]
            names = [note.segment_id for note in notes if note is not None]
            stashed = newest_of(self._store.stash, self.workspace, names)
            return tuple(name for name in names if name in self.index.live or name in stashed)
        return ()

    def count(self) -> None:
        """Count the tokens of segments that have none yet, as other programs write them."""
        with self._editing():
            uncounted = [s for s in self.index.live.values() if s.text and not s.tokens]
            counted = [replace(s, tokens=self._count_tokens(s.text)) for s in uncounted]
            self._write(put=counted)

    def survive(self) -> None:
        """Count a survived collection for each young segment; the count of old ones stays.

        So each segment is written back at most OLD_AFTER times in its life.
        """
        with self._editing():
            young = [s for s in self.index.live.values() if s.generation == Generation.YOUNG]
            self._write(put=[_survivor(segment) for segment in young])

    def _refuse_known(self, ids: Sequence[str]) -> None:
        if len(set(ids)) < len(ids) or not all(ids):
            raise BadInput("segment ids must be unique and not empty. Nothing was added.")
        live = [segment_id for segment_id in ids if segment_id in self.index.live]
        if live:
            raise BadInput(
                f"already live: {', '.join(live)}. Choose other ids, or touch these. "
                "Nothing was added."
            )
        stashed = self._store.stash.get(self.workspace, ids)
        if stashed:
            names = ", ".join(sorted({entry.segment.segment_id for entry in stashed}))
            raise BadInput(
                f"in the stash: {names}. Restore these, or choose other ids. Nothing was added."
            )

    def _placed(self, segment: Segment) -> Segment:
        """Set the position, workspace and tokens of a new segment."""
        self._last_position += 1
        return replace(
            segment,
            position=self._last_position,
            project_id=self.workspace,
            tokens=segment.tokens or self._count_tokens(segment.text),
            refcount=0,
            generation=Generation.YOUNG,
            gc_survival_count=0,
        )

    def _find(self, segment_id: str) -> Segment:
        segment = self.index.live.get(segment_id)
        if segment is None:
            raise NotFound(
                f"no live segment {segment_id!r} in workspace {self.workspace!r}. "
                "It may be in the stash: search there, or restore it."
            )
        return segment

    @contextmanager
    def _editing(self) -> Iterator[None]:
        with self.lock():
            self.refresh()
            yield

    def _write(self, *, put: Sequence[Segment] = (), remove: Sequence[str] = ()) -> None:
        """Write through. What is put stays, even if its id is also removed."""
        kept = {segment.segment_id for segment in put}
        gone = [name for name in remove if name not in kept] if kept else remove
        if not put and not gone:
            return
        with self._guard:
            self._version = self._store.segments.write(self.workspace, put=put, remove=gone)
            self._let_go(gone)
            self._take_in(put)

    def _let_go(self, segment_ids: Sequence[str]) -> list[Segment]:
        return self.index.drop(segment_ids)

    def _take_in(self, segments: Sequence[Segment]) -> None:
        self._put(segments)
        self.changed += [segment.segment_id for segment in segments]

    def _put(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            self.index.put(segment)
        self._last_position = max([self._last_position, *[s.position for s in segments]])


def _names(entries: Iterable[Stashed]) -> tuple[str, ...]:
    return tuple([entry.segment.segment_id for entry in entries])


def _as_pinned(segment: Segment, live: Mapping[str, Segment]) -> Segment:
    """Return a segment with the pin of its live version."""
    now = live.get(segment.segment_id)
    if now is None or now.pinned == segment.pinned:
        return segment
    return replace(segment, pinned=now.pinned, pinned_by=now.pinned_by)


def _survivor(segment: Segment) -> Segment:
    survived = segment.gc_survival_count + 1
    generation = Generation.OLD if survived >= OLD_AFTER else Generation.YOUNG
    return replace(segment, gc_survival_count=survived, generation=generation)


def validate_segments(segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments with all values of the right type, or refuse them all."""
    return [_validated(segment) for segment in segments]


def _validated(segment: Segment) -> Segment:
    try:
        plain = msgspec.to_builtins(segment, builtin_types=(bytes, bytearray))
        sound = msgspec.convert(plain, Segment)
    except (msgspec.ValidationError, TypeError) as error:
        raise BadInput(
            f"segment {segment.segment_id!r} cannot be kept: {error}. Nothing was added."
        ) from error
    if not 0 <= sound.tokens <= MAX_TOKENS:
        raise BadInput(
            f"tokens is {sound.tokens} in segment {segment.segment_id!r}; expected a number from 0 "
            f"to {MAX_TOKENS}, 0 to have them counted. Nothing was added."
        )
    return sound
