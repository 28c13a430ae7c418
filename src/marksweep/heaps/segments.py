"""The segments heap: the working set of context segments of one workspace.

Everything is written through to the store and kept in a `View`; what other processes wrote is taken
in before each use. Edits work under the store's lock, so that none gets lost between processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from threading import RLock

import msgspec

from marksweep.core.roots import RECENT_MESSAGES
from marksweep.errors import BadInput, NotFound
from marksweep.heaps.view import View
from marksweep.model import (
    OLD_AFTER,
    Generation,
    Hold,
    Link,
    Plan,
    Reference,
    Segment,
    Snapshot,
)
from marksweep.stores.base import Store

replace = msgspec.structs.replace


class SegmentHeap:
    """Live segments, written through to a store."""

    def __init__(
        self,
        store: Store,
        workspace: str,
        *,
        count_tokens: Callable[[str], int],
        recent_messages: int = RECENT_MESSAGES,
    ) -> None:
        self.workspace = workspace
        self._store = store
        self._count_tokens = count_tokens
        self._recent_messages = recent_messages
        self._guard = RLock()
        self._version = 0
        self._last_position = 0
        self.view = View(recent_messages)
        self.changed: list[str] = []
        """Ids put since a step last looked, by whomever."""
        self.refresh()

    def refresh(self) -> None:
        """Take in what other processes did."""
        with self._guard:
            changes = self._store.segments.changes(self.workspace, self._version)
            if changes.version == self._version:
                return
            if changes.complete:
                self._start_anew()
            self._let_go(changes.removed)
            self._take_in(changes.put)
            self._version = changes.version

    def _start_anew(self) -> None:
        self.view = View(self._recent_messages)

    def snapshot(self) -> Snapshot:
        """Take the heap as it is now."""
        with self._guard:
            self.refresh()
            return Snapshot(self.view.in_order(), self.view.fingerprint(), self.workspace)

    def part(self, segment_ids: Iterable[str]) -> Snapshot:
        """Take these segments and what must go with them; the rest is only counted."""
        with self._guard:
            self.refresh()
            part = self.view.part(segment_ids)
            rest = self.view.tokens - sum(segment.tokens for segment in part)
            fingerprint = self.view.fingerprint()
            return Snapshot(
                part,
                fingerprint,
                self.workspace,
                rest_size=rest,
                rest_segments=len(self.view.live) - len(part),
            )

    def fingerprint(self) -> str:
        """Fingerprint the content as it is now."""
        self.refresh()
        return self.view.fingerprint()

    def tokens(self) -> int:
        """Count the tokens that are live."""
        return self.view.tokens

    def live(self) -> Mapping[str, Segment]:
        """Give the live segments by id."""
        self.refresh()
        return self.view.live

    def add(self, segments: Sequence[Segment], after: int = 0) -> tuple[Segment, ...]:
        """Take new segments in, all or none; tokens are counted where they are not given.

        Their positions come after the last live one, and after `after`.
        """
        with self._editing():
            ids = [segment.segment_id for segment in segments]
            self._refuse_known(ids)
            self._last_position = max(self._last_position, after)
            added = [self._placed(segment) for segment in segments]
            self._write(put=added)
            return tuple(self.view.live[segment_id] for segment_id in ids)

    def touch(self, segment_ids: Sequence[str], now: datetime) -> None:
        """Note that segments were read or written now."""
        with self._editing():
            found = [self._find(segment_id) for segment_id in segment_ids]
            self._write(put=[replace(segment, last_touched_at=now) for segment in found])

    def link(self, source: str, target: str, link: Link, hold: Hold) -> None:
        """Let one segment refer to another; linking twice is the same as once."""
        with self._editing():
            segment, _ = self._find(source), self._find(target)
            others = tuple(r for r in segment.references if (r.target, r.link) != (target, link))
            references = (*others, Reference(target, link, hold))
            self._write(put=[replace(segment, references=references)])

    def unlink(self, source: str, target: str) -> None:
        """Drop all references from one segment to another; none to drop is no error."""
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
        """Take the protection away."""
        with self._editing():
            segment = self._find(segment_id)
            self._write(put=[replace(segment, pinned=False, pinned_by="")])

    def sweep(self, plan: Plan) -> tuple[str, ...]:
        """Let go of what the plan names and put its replacements in place, all or nothing."""
        put: list[Segment] = []
        remove: list[str] = []
        for step in plan.steps:
            remove += step.segments
            if step.replacement is not None:
                put.append(step.replacement)
        self._write(put=put, remove=self._forwards(remove))
        return tuple(remove)

    def _forwards(self, names: list[str]) -> list[str]:
        """Turn names round if they run from the newest segment to the oldest.

        They lie in memory in the order in which they came: of very many, they are found and freed
        more quickly in that order.
        """
        live = self.view.live
        if not names or live[names[0]].position <= live[names[-1]].position:
            return names
        return names[::-1]

    def take_back(self, segments: Sequence[Segment], instead_of: Sequence[str]) -> None:
        """Put segments back where they were, for their replacements, all or nothing."""
        self.refresh()
        self._write(put=segments, remove=instead_of)

    def survive(self) -> None:
        """Count a survived collection for each young segment; the old are not counted on.

        So each segment is written back at most OLD_AFTER times in its life.
        """
        with self._editing():
            young = [s for s in self.view.live.values() if s.generation == Generation.YOUNG]
            self._write(put=[_survivor(segment) for segment in young])

    def _refuse_known(self, ids: Sequence[str]) -> None:
        if len(set(ids)) < len(ids) or not all(ids):
            raise BadInput("segment ids must be unique and not empty. Nothing was added.")
        live = [segment_id for segment_id in ids if segment_id in self.view.live]
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
        """Give a new segment its place, its workspace and its tokens."""
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
        segment = self.view.live.get(segment_id)
        if segment is None:
            raise NotFound(
                f"no live segment {segment_id!r} in workspace {self.workspace!r}. "
                "It may be in the stash: search there, or restore it."
            )
        return segment

    @contextmanager
    def _editing(self) -> Iterator[None]:
        with self._store.lock(self.workspace):
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
        return self.view.drop(segment_ids)

    def _take_in(self, segments: Sequence[Segment]) -> None:
        self._put(segments, {})
        self.changed += [segment.segment_id for segment in segments]

    def _put(self, segments: Sequence[Segment], digests: Mapping[str, int]) -> None:
        """Put segments into the view. Of some the digest may be known."""
        for segment in segments:
            self.view.put(segment, digests.get(segment.segment_id))
        self._last_position = max([self._last_position, *[s.position for s in segments]])


def _survivor(segment: Segment) -> Segment:
    survived = segment.gc_survival_count + 1
    generation = Generation.OLD if survived >= OLD_AFTER else Generation.YOUNG
    return replace(segment, gc_survival_count=survived, generation=generation)
