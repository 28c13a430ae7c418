"""The view: a working set in memory, with all that is derived from it kept up to date.

Reference counts, the token total, the fingerprint and the last messages change with every put and
drop, in time that does not depend on how many segments there are. `reached` is what the last full
mark reached, grown with every new reference since: it may hold more than a fresh mark would, never
less, so that what is outside of it is garbage for certain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from operator import attrgetter

import msgspec

from marksweep.core.fingerprint import as_text, combine, digest
from marksweep.core.graph import Graph
from marksweep.core.mark import reach
from marksweep.core.roots import RECENT_MESSAGES, last_messages
from marksweep.model import Hold, Link, Segment


class View:
    """Live segments by id, and what follows from them."""

    def __init__(self, recent_messages: int = RECENT_MESSAGES) -> None:
        self.live: dict[str, Segment] = {}
        self.tokens = 0
        self.reached: set[str] = set()
        self._fingerprint = 0
        self._digests: dict[str, int] = {}
        """Of the live segments, so that one that goes is not digested again."""
        self._references: Counter[str] = Counter()
        self._mates: dict[str, set[str]] = {}
        self._stand_ins: dict[str, set[str]] = {}
        self._recent_size = recent_messages
        self._recent: list[tuple[int, str]] = []
        self._recent_is_known = True
        self._last = -1
        """The highest position so far."""
        self._is_sorted = True
        """Whether the live segments lie by position, as they do unless one came back."""

    def put(self, segment: Segment) -> Segment:
        """Take a segment in, or replace the one with its id; return it with its count."""
        name = segment.segment_id
        old = self.live.get(name)
        if old is not None:
            if _stands_alike(old, segment):
                return self._swap(old, segment)
            self._remove(old)
            if (old.type, old.position) != (segment.type, segment.position):
                self._forget_message(old)
        for reference in segment.all_references:
            self._count(reference.target, 1)
            if reference.hold == Hold.PAIRED:
                self._mates.setdefault(reference.target, set()).add(name)
            if reference.link == Link.DERIVED:
                self._stand_ins.setdefault(reference.target, set()).add(name)
        segment = _counted(segment, self._references[name])
        self.live[name] = segment
        self._is_sorted = self._is_sorted and segment.position > self._last
        self._last = max(self._last, segment.position)
        self.tokens += segment.tokens
        self._fingerprint = combine(self._fingerprint, added=self._digest(segment))
        if segment.type == "message" and self._recent_is_known:
            messages = {*self._recent, (segment.position, name)}
            self._recent = sorted(messages, reverse=True)[: self._recent_size]
        return segment

    def _swap(self, old: Segment, new: Segment) -> Segment:
        """Put a segment in the place of one that refers to the same: only content changes."""
        new = _counted(new, old.refcount)
        self.live[new.segment_id] = new
        self.tokens += new.tokens - old.tokens
        gone = self._digests[new.segment_id]
        self._fingerprint = combine(self._fingerprint, added=self._digest(new), removed=gone)
        return new

    def _digest(self, segment: Segment) -> int:
        found = self._digests[segment.segment_id] = digest(segment)
        return found

    def drop(self, segment_id: str) -> None:
        """Let go of a segment; nothing happens if it is not there."""
        segment = self.live.get(segment_id)
        if segment is not None:
            self._remove(segment)
            self._forget_message(segment)
            self.reached.discard(segment_id)

    def _remove(self, segment: Segment) -> None:
        del self.live[segment.segment_id]
        self.tokens -= segment.tokens
        gone = self._digests.pop(segment.segment_id)
        self._fingerprint = combine(self._fingerprint, removed=gone)
        for reference in segment.all_references:
            self._count(reference.target, -1)
            if reference.hold == Hold.PAIRED:
                self._mates[reference.target].discard(segment.segment_id)
            if reference.link == Link.DERIVED:
                self._stand_ins[reference.target].discard(segment.segment_id)

    def _forget_message(self, segment: Segment) -> None:
        if (segment.position, segment.segment_id) in self._recent:
            self._recent_is_known = False

    def in_order(self) -> tuple[Segment, ...]:
        """Give the live segments by position, ties broken by id."""
        if not self._is_sorted:
            ordered = sorted(self.live.values(), key=_place)
            self.live = {segment.segment_id: segment for segment in ordered}
            places = {segment.position for segment in ordered}
            self._is_sorted = len(places) == len(ordered)
        return tuple(self.live.values())

    def fingerprint(self) -> str:
        """Fingerprint the content."""
        return as_text(self._fingerprint)

    def recent_messages(self) -> frozenset[str]:
        """Name the last messages."""
        if not self._recent_is_known:
            names = last_messages(self.in_order(), self._recent_size)
            self._recent = [(self.live[name].position, name) for name in names]
            self._recent_is_known = True
        return frozenset(name for _, name in self._recent)

    def unit(self, segment_id: str) -> tuple[str, ...]:
        """Give the live members of a segment's unit, sorted."""
        unit = {segment_id}
        stack = [segment_id]
        while stack:
            for mate in self._mates_of(stack.pop()):
                if mate in self.live and mate not in unit:
                    unit.add(mate)
                    stack.append(mate)
        return tuple(sorted(unit))

    def part(self, segment_ids: Iterable[str]) -> tuple[Segment, ...]:
        """Give the units of those segments that are live, by position."""
        live = self.live
        names = {mate for name in segment_ids if name in live for mate in self.unit(name)}
        return tuple(sorted([live[name] for name in names], key=_place))

    def mark_all(self, roots: Collection[str]) -> None:
        """Work `reached` out afresh. The only thing here whose time grows with the heap."""
        segments = self.in_order()
        graph = Graph(segments)
        marks = reach(graph, [graph.index[root] for root in roots], len(segments))
        self.reached = {s.segment_id for s, mark in zip(segments, marks, strict=True) if mark}

    def mark_from(self, segment_id: str, *, is_root: bool) -> None:
        """Carry the mark on after a segment was put, became a root or is one no more.

        A segment that others refer to counts as reached: who they are is not looked up. One that
        nothing refers to does not; what it referred to keeps its mark until the next full one.
        """
        self.reached.discard(segment_id)
        if is_root or self._is_referred_to(self.live[segment_id]):
            self._spread(segment_id)

    def _is_referred_to(self, segment: Segment) -> bool:
        """Say whether anything refers to a segment, to what it stands in for, or pairs with it."""
        return (
            segment.refcount > 0
            or any(mate in self.reached for mate in self._mates_of(segment.segment_id))
            or any(
                self._references[reference.target]
                for reference in segment.references
                if reference.link == Link.DERIVED
            )
        )

    def _spread(self, segment_id: str) -> None:
        stack = [segment_id]
        while stack:
            name = stack.pop()
            segment = self.live.get(name)
            if segment is None:
                stack.extend(self._stand_ins.get(name, ()))
            elif name not in self.reached:
                self.reached.add(name)
                stack.extend(r.target for r in segment.all_references if r.hold == Hold.STRONG)
                stack.extend(mate for mate in self._mates_of(name) if mate in self.live)

    def _mates_of(self, segment_id: str) -> Iterator[str]:
        yield from self._mates.get(segment_id, ())
        segment = self.live.get(segment_id)
        if segment is not None:
            yield from (r.target for r in segment.all_references if r.hold == Hold.PAIRED)

    def _count(self, target: str, change: int) -> None:
        """Count a reference to a target, live or not."""
        count = self._references[target] + change
        if count:
            self._references[target] = count
        else:
            del self._references[target]
        segment = self.live.get(target)
        if segment is not None:
            self.live[target] = _counted(segment, count)


_place = attrgetter("position", "segment_id")


def _stands_alike(old: Segment, new: Segment) -> bool:
    """Whether two segments of one id stand in the same place and refer to the same."""
    return (
        old.position == new.position
        and old.type == new.type
        and old.references == new.references
        and old.tags == new.tags
    )


def _counted(segment: Segment, refcount: int) -> Segment:
    if segment.refcount == refcount:
        return segment
    return msgspec.structs.replace(segment, refcount=refcount)
