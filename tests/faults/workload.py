"""Work that a child process does on a store, with a log that lets others check it.

The log is a file of lines. Segments are logged before they are added, and again when that is done.
So the log shows what the store must hold, and what it may hold.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import msgspec

from marksweep.errors import BadInput, NotFound, Refused
from marksweep.model import Event, Hold, Link, Segment
from marksweep.segments import Segments
from marksweep.stores.base import Store
from marksweep.stores.json_file import JsonStore
from marksweep.stores.redis import RedisStore
from marksweep.stores.sqlite import SqliteStore
from marksweep.strategies.scored import Disposal
from marksweep.testing.builders import NOW, Clock

WORKSPACE = "default"
LIMIT = 3_000
"""Limit of the heap, a token per character: low enough for steps and full collections."""

LEASE_SECONDS = 0.3
"""Lease of a Redis store, in seconds: short, because there are many kills."""


def redis_store(path: Path) -> Store:
    """Open a store on the server that a file names; each file has its own keys."""
    return RedisStore(path.read_text(), prefix=str(path), lease_seconds=LEASE_SECONDS)


FILES: dict[str, Callable[[Path], Store]] = {"sqlite": SqliteStore, "json": JsonStore}
KINDS = {**FILES, "redis": redis_store}


def open_heap(store: Store, clock: Clock | None = None) -> Segments:
    """Open the heap of a store as every test here does."""
    return Segments(
        store, workspace=WORKSPACE, limit=LIMIT, count_tokens=len, clock=clock or Clock()
    )


def essence(segment: Segment) -> str:
    """Return what must never change about a segment."""
    parts = (segment.type, segment.created_at.isoformat(), *segment.tags, segment.text)
    return "|".join(parts)


class Note:
    """A log of what a child did, written before its next step. A kill loses none of it."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def adding(self, segments: list[Segment]) -> None:
        """Log what is about to be added."""
        self._write({"adding": {segment.segment_id: essence(segment) for segment in segments}})

    def done(self) -> None:
        """Log that it was added."""
        self._write({"done": True})

    def _write(self, line: object) -> None:
        os.write(self._handle, json.dumps(line).encode() + b"\n")


class Added(msgspec.Struct):
    """What a log says: what was certainly added, and the last batch if that is uncertain."""

    certain: dict[str, str]
    open: dict[str, str]


def read_note(path: Path) -> Added:
    """Read the log of a child."""
    added = Added({}, {})
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        noted = json.loads(line)
        if "adding" in noted:
            added.open = noted["adding"]
        else:
            added.certain |= added.open
            added.open = {}
    return added


class Worker:
    """Does random operations on a heap."""

    def __init__(self, heap: Segments, clock: Clock, note: Note, name: str) -> None:
        self._heap = heap
        self._clock = clock
        self._note = note
        self._name = name
        self._random = random.Random(name)
        self._added = 0
        self.doing = ""

    def work(self) -> Iterator[None]:
        """Do operations forever: each kind once, then at random."""
        operations = {
            self.add: 6,
            self.link: 2,
            self.pin: 1,
            self.collect: 3,
            self.restore: 2,
            self.compress: 1,
            self.undo: 2,
            self.delete: 1,
            self.purge: 1,
            self.touch: 1,
        }
        for operation in (self.add, self.add, *operations):
            self._do(operation)
            yield
        while True:
            (operation,) = self._random.choices(list(operations), list(operations.values()))
            self._do(operation)
            yield

    def _do(self, operation: Callable[[], None]) -> None:
        self.doing = operation.__name__
        self._clock.advance(minutes=self._random.randint(1, 90))
        with contextlib.suppress(BadInput, NotFound, Refused):
            operation()

    def add(self) -> None:
        """Add a few segments that refer to live ones."""
        live = [segment.segment_id for segment in self._heap.list()]
        segments = []
        for _ in range(self._random.randint(1, 4)):
            self._added += 1
            name = f"{self._name}/{self._added}"
            text = f"{name} é中\n" * self._random.randint(1, 12)
            known = self._random.sample(live, min(len(live), self._random.randint(0, 2)))
            segments.append(
                Segment(
                    segment_id=name,
                    type=self._random.choice(("message", "code", "log", "note", "decision")),
                    created_at=self._clock(),
                    text=text,
                    references=tuple(known),  # type: ignore[arg-type]
                    tags=self._random.choice(((), ("topic",))),
                )
            )
        self._note.adding(segments)
        self._heap.add(*segments)
        self._note.done()

    def touch(self) -> None:
        """Touch a segment."""
        self._heap.touch(self._live())

    def link(self) -> None:
        """Link two segments."""
        self._heap.link(
            self._live(), self._live(), Link.REFERS, self._random.choice((Hold.WEAK, Hold.PAIRED))
        )

    def pin(self) -> None:
        """Pin or unpin a segment."""
        name = self._live()
        if self._random.random() < 0.3:
            self._heap.pin(name, by="the worker")
        else:
            self._heap.unpin(name)

    def collect(self) -> None:
        """Sweep a share of the heap."""
        target = int(self._heap.tokens * self._random.uniform(0.3, 0.9))
        self._heap.collect(self._heap.plan(target_tokens=target))

    def delete(self) -> None:
        """Delete a share of the heap, with confirmation."""
        target = int(self._heap.tokens * 0.8)
        plan = self._heap.plan(target_tokens=target, disposal=Disposal.DELETE)
        self._heap.collect(plan, confirm=plan.plan_id)

    def compress(self) -> None:
        """Shorten a segment."""
        self._heap.compress(self._live(), "short")

    def restore(self) -> None:
        """Restore a few segments, perhaps of several sweeps."""
        stashed = [hit.found.segment.segment_id for hit in self._heap.search_stash(limit=50)]
        self._heap.restore(*self._random.sample(stashed, min(len(stashed), 3)))

    def undo(self) -> None:
        """Undo a sweep."""
        swept = [entry.plan_id for entry in self._heap.history() if entry.event is Event.SWEPT]
        if swept:
            self._heap.undo(self._random.choice(swept[:5]))

    def purge(self) -> None:
        """Let time pass, and purge what was deleted."""
        self._clock.advance(hours=24 * self._random.uniform(4, 12))
        self._heap.purge()

    def _live(self) -> str:
        live = [segment.segment_id for segment in self._heap.list()]
        if not live:
            raise NotFound("nothing is live")
        return self._random.choice(live)


def clock_of(run: int) -> Clock:
    """Return a clock for a run on a store, later than those of the runs before."""
    return Clock(NOW + run * timedelta(days=365))
