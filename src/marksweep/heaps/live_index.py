"""The live index: a heap in memory, with all that is derived from it kept up to date.

Reference counts, the token total, the fingerprint and the last messages change with every put and
drop, in time that does not depend on how many segments there are. `reached` is what the last full
mark reached, extended with every new reference since: it may hold more than a new mark would, never
less, so that what is outside of it is certainly garbage.

The fingerprint is one value for the state of a heap; it ties a plan to the state it was made from.
It protects against accidents, not against forged segments.

ContentFingerprint   equal for equal content, in every process: for a heap that a store keeps. Each
                     segment has a digest, and the fingerprint is their sum, so that a heap of a
                     million segments knows it after every change without reading itself again
ChangeCount          how often it changed: for a heap that nobody else sees, held for one run

Two follow what is put and dropped: `LearningFeed` passes it to a strategy that learns, and `Pace`
measures how much each answer adds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Protocol

import msgspec

from marksweep.core.mark import reach
from marksweep.core.roots import RECENT_MESSAGES, last_messages
from marksweep.core.strategy import Learning
from marksweep.core.units import Graph, Units
from marksweep.heaps.stash_search import GAP, RECALLED
from marksweep.model import Hold, Link, Segment, packed
from marksweep.tokens import detached_copy

_MODULUS = 1 << 128


class Fingerprint(Protocol):
    """Kept up to date with the segments of one heap."""

    def put(self, segment: Segment) -> None:
        """Record that a segment was added, or replaced the one with its id."""
        ...

    def drop(self, segments: Iterable[Segment]) -> None:
        """Record that segments were removed."""
        ...

    def clear(self) -> None:
        """Record that all were removed."""
        ...

    def __str__(self) -> str:
        """Write it as plans carry it."""
        ...


class ContentFingerprint:
    """The sum of the digests of all segments."""

    def __init__(self) -> None:
        self._sum = 0
        self._digests: dict[str, int] = {}
        """By id, so that a removed segment is not digested again."""

    def put(self, segment: Segment) -> None:
        """Add the digest of a segment, replacing that of the one with its id."""
        made = digest(segment)
        self._sum += made - self._digests.get(segment.segment_id, 0)
        self._digests[segment.segment_id] = made

    def drop(self, segments: Iterable[Segment]) -> None:
        """Subtract the digests of segments."""
        self._sum -= sum(self._digests.pop(segment.segment_id) for segment in segments)

    def clear(self) -> None:
        """Start from nothing."""
        self._sum = 0
        self._digests.clear()

    def __str__(self) -> str:
        """Write the sum."""
        return as_text(self._sum)


class ChangeCount:
    """The number of changes so far."""

    def __init__(self) -> None:
        self._count = 0

    def put(self, segment: Segment) -> None:  # noqa: ARG002
        """Count a change."""
        self._count += 1

    def drop(self, segments: Iterable[Segment]) -> None:  # noqa: ARG002
        """Count a change."""
        self._count += 1

    def clear(self) -> None:
        """Count a change."""
        self._count += 1

    def __str__(self) -> str:
        """Write the number."""
        return f"v{self._count}"


def digest(segment: Segment) -> int:
    """Digest all of a segment except its reference count, which is derived."""
    if segment.refcount or not segment.text.isascii():
        segment = msgspec.structs.replace(segment, refcount=0, text=detached_copy(segment.text))
    return int.from_bytes(blake2b(packed(segment), digest_size=16).digest())


def fingerprint_of(segments: Iterable[Segment]) -> str:
    """Fingerprint segments from scratch."""
    return as_text(sum(digest(segment) for segment in segments))


def as_text(total: int) -> str:
    """Write a sum of digests as plans carry it."""
    return f"{total % _MODULUS:032x}"


class LiveIndex:
    """Live segments by id, and what is derived from them."""

    def __init__(
        self, recent_messages: int = RECENT_MESSAGES, fingerprint: Fingerprint | None = None
    ) -> None:
        self.live: dict[str, Segment] = {}
        self.tokens = 0
        self.reached: set[str] = set()
        self._fingerprint = fingerprint or ContentFingerprint()
        self._references: dict[str, int] = {}
        """How many live segments refer to each id that is not live."""
        self._pairs: PairIndex | None = None
        """Computed when first needed, and kept up to date from then on."""
        self._recent_size = recent_messages
        self._recent: list[tuple[int, str]] = []
        self._recent_is_known = True
        self._last = -1
        """The highest position so far."""
        self._is_sorted = True
        """Whether the live segments are in order of position: always, unless one was restored."""

    def put(self, segment: Segment) -> Segment:
        """Add a segment, or replace the one with its id; return it with its count."""
        name = segment.segment_id
        old = self.live.get(name)
        if old is not None:
            stands_there = old.position == segment.position and old.type == segment.type
            if stands_there and old.references == segment.references and old.tags == segment.tags:
                return self._swap(old, segment)
            self._let_go([self.live.pop(name)])
            if (old.position, name) in self._recent and not stands_there:
                self._recent_is_known = False
        for target in targets_of(segment):
            self._count(target, 1)
        if self._pairs is not None:
            self._pairs.add(segment)
        segment = _counted(segment, self._references.pop(name, 0))
        self.live[name] = segment
        self._is_sorted = self._is_sorted and segment.position > self._last
        self._last = max(self._last, segment.position)
        self.tokens += segment.tokens
        self._fingerprint.put(segment)
        if segment.type == "message" and self._recent_size and self._recent_is_known:
            messages = {*self._recent, (segment.position, name)}
            self._recent = sorted(messages, reverse=True)[: self._recent_size]
        return segment

    def _swap(self, old: Segment, new: Segment) -> Segment:
        """Replace a segment by one with the same references: only content changes."""
        new = _counted(new, old.refcount)
        self.live[new.segment_id] = new
        self.tokens += new.tokens - old.tokens
        self._fingerprint.put(new)
        return new

    def drop(self, segment_ids: Iterable[str]) -> list[Segment]:
        """Remove segments and return them; those that are not there are ignored."""
        popped = [self.live.pop(name, None) for name in segment_ids]
        found = [segment for segment in popped if segment is not None]
        self._let_go(found)
        if self.reached:
            self.reached.difference_update([segment.segment_id for segment in found])
        if any(name not in self.live for _, name in self._recent):
            self._recent_is_known = False
        return found

    def _let_go(self, segments: Sequence[Segment]) -> None:
        """Update what was derived from segments that are no longer live."""
        tokens = 0
        counts: dict[str, int] = {}  # References among the segments cancel each other out.
        for segment in segments:
            tokens += segment.tokens
            if segment.refcount:
                counts[segment.segment_id] = counts.get(segment.segment_id, 0) + segment.refcount
            for target in targets_of(segment):
                left = counts.pop(target, 0) - 1
                if left:
                    counts[target] = left
            if self._pairs is not None:
                self._pairs.remove(segment)
        for target, change in counts.items():
            self._count(target, change)
        self.tokens -= tokens
        self._fingerprint.drop(segments)

    def in_order(self) -> tuple[Segment, ...]:
        """Return the live segments in order."""
        if not self._is_sorted:
            ordered = sorted(self.live.values(), key=_place)
            self.live = {segment.segment_id: segment for segment in ordered}
            places = {segment.position for segment in ordered}
            self._is_sorted = len(places) == len(ordered)
        return tuple(self.live.values())

    def fingerprint(self) -> str:
        """Fingerprint the state."""
        return str(self._fingerprint)

    def recent_messages(self) -> frozenset[str]:
        """Return the ids of the last messages."""
        if not self._recent_is_known:
            names = last_messages(self.in_order(), self._recent_size)
            self._recent = [(self.live[name].position, name) for name in names]
            self._recent_is_known = True
        return frozenset(name for _, name in self._recent)

    def unit(self, segment_id: str) -> tuple[str, ...]:
        """Return the live members of a segment's unit, sorted."""
        unit = {segment_id}
        stack = [segment_id]
        while stack:
            for mate in self._mates_of(stack.pop()):
                if mate in self.live and mate not in unit:
                    unit.add(mate)
                    stack.append(mate)
        return tuple(sorted(unit))

    def part(self, segment_ids: Iterable[str]) -> tuple[Segment, ...]:
        """Return the units of those segments that are live, by position."""
        live = self.live
        names = {mate for name in segment_ids if name in live for mate in self.unit(name)}
        return tuple(sorted([live[name] for name in names], key=_place))

    def mark_all(self, roots: Collection[str]) -> None:
        """Recompute `reached` from scratch. The only thing here whose time grows with the heap."""
        segments = self.in_order()
        graph = Graph(segments)
        marks = reach(graph, Units(graph), [graph.index[root] for root in roots])
        self.reached = {s.segment_id for s, mark in zip(segments, marks, strict=True) if mark}

    def mark_from(self, segment_id: str, *, is_root: bool) -> None:
        """Update the mark after a segment was put, became a root or stopped being one.

        A segment that others refer to counts as reached, without checking who they are. One that
        nothing refers to does not; what it referred to keeps its mark until the next full mark.
        """
        self.reached.discard(segment_id)
        if is_root or self._is_referred_to(self.live[segment_id]):
            self._spread(segment_id)

    def _is_referred_to(self, segment: Segment) -> bool:
        """Return whether anything refers to a segment or pairs with it, or may do so.

        A segment derived from another stands in for it, now or later, for all references to it.
        """
        return (
            segment.refcount > 0
            or any(mate in self.reached for mate in self._mates_of(segment.segment_id))
            or any(reference.link == Link.DERIVED for reference in segment.references)
        )

    def _spread(self, segment_id: str) -> None:
        stack = [segment_id]
        while stack:
            name = stack.pop()
            segment = self.live.get(name)
            if segment is None:
                stack.extend(self._pair_index().stand_ins(name))
            elif name not in self.reached:
                self.reached.add(name)
                stack.extend(r.target for r in segment.all_references if r.hold == Hold.STRONG)
                stack.extend(mate for mate in self._mates_of(name) if mate in self.live)

    def _mates_of(self, segment_id: str) -> Iterator[str]:
        yield from self._pair_index().mates(segment_id)
        segment = self.live.get(segment_id)
        if segment is not None:
            yield from (r.target for r in segment.all_references if r.hold == Hold.PAIRED)

    def _pair_index(self) -> PairIndex:
        if self._pairs is None:
            self._pairs = PairIndex(self.live.values())
        return self._pairs

    def _count(self, target: str, change: int) -> None:
        """Count a reference to a target, live or not."""
        segment = self.live.get(target)
        if segment is not None:
            self.live[target] = _counted(segment, segment.refcount + change)
            return
        count = self._references.get(target, 0) + change
        if count:
            self._references[target] = count
        else:
            self._references.pop(target, None)


class LearningFeed:
    """Keeps a learning strategy in step with one heap."""

    def __init__(self, strategy: Learning) -> None:
        self._strategy = strategy
        self._live: dict[str, None] = {}

    def observe(self, segments: Sequence[Segment]) -> None:
        """Forward segments as they arrive, except those that the strategy knows already."""
        new = [segment for segment in segments if segment.segment_id not in self._live]
        if new:
            self._live.update(dict.fromkeys(segment.segment_id for segment in new))
            self._strategy.observe(new)

    def follow(self, segments: Sequence[Segment]) -> None:
        """Forward what was added and removed up to the current state of the heap."""
        self.observe(segments)
        present = {segment.segment_id for segment in segments}
        gone = [segment_id for segment_id in self._live if segment_id not in present]
        if gone:
            for segment_id in gone:
                del self._live[segment_id]
            self._strategy.forget(gone)


class Pace(msgspec.Struct, frozen=True):
    """The tokens that each answer of an agent adds, for a strategy that learns."""

    answers: int = 0
    tokens: int = 0

    def after(self, answers: int, segments: Iterable[Segment]) -> Pace:
        """Count added segments, except pinned ones."""
        tokens = sum(segment.tokens for segment in segments if not segment.pinned)
        return Pace(self.answers + answers, self.tokens + tokens)

    @property
    def mean(self) -> float:
        """The tokens that an answer adds; 0 before the first."""
        return self.tokens / self.answers if self.answers else 0.0


class PairIndex:
    """Who is paired with whom, and who stands in for whom, by id; the targets need not be live."""

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._mates: dict[str, tuple[str, ...]] = {}
        self._stand_ins: dict[str, tuple[str, ...]] = {}
        for segment in segments:
            self.add(segment)

    def add(self, segment: Segment) -> None:
        """Record what a segment refers to."""
        for ties, target in self._of(segment):
            known = ties.get(target, ())
            if segment.segment_id not in known:
                ties[target] = (*known, segment.segment_id)

    def remove(self, segment: Segment) -> None:
        """Forget what a segment refers to."""
        for ties, target in self._of(segment):
            left = [name for name in ties.pop(target, ()) if name != segment.segment_id]
            if left:
                ties[target] = tuple(left)

    def _of(self, segment: Segment) -> Iterator[tuple[dict[str, tuple[str, ...]], str]]:
        for reference in segment.all_references:
            if reference.hold == Hold.PAIRED:
                yield self._mates, reference.target
            if reference.link == Link.DERIVED:
                yield self._stand_ins, reference.target

    def mates(self, segment_id: str) -> tuple[str, ...]:
        """Return those that refer to a segment as their mate."""
        return self._mates.get(segment_id, ())

    def stand_ins(self, segment_id: str) -> tuple[str, ...]:
        """Return those that were derived from a segment."""
        return self._stand_ins.get(segment_id, ())


_AT_ONE_POSITION = {GAP: 0, RECALLED: 2}
"""Order of what shares a position: the line for a run is there before its first message, in case an
undo returns that; a note is behind the message before it (`ConversationHeap.note`)."""


def _place(segment: Segment) -> tuple[int, int, str]:
    return segment.position, _AT_ONE_POSITION.get(segment.type, 1), segment.segment_id


def targets_of(segment: Segment) -> Collection[str]:
    """Return the others that a segment refers to, each once.

    Without its mates: they are part of the same unit.
    """
    if not segment.references and not segment.tags:
        return ()
    targets = [r.target for r in segment.all_references if r.hold is not Hold.PAIRED]
    if len(targets) > 1:
        targets = list(dict.fromkeys(targets))
    return [target for target in targets if target != segment.segment_id]


def _counted(segment: Segment, refcount: int) -> Segment:
    if segment.refcount == refcount:
        return segment
    return msgspec.structs.replace(segment, refcount=refcount)
