"""The working set and conversations pass the contract of heaps, on real files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from marksweep.collector import decide
from marksweep.conversation import Conversation
from marksweep.core.heap import Heap
from marksweep.core.roots import Focus
from marksweep.dialects import validate
from marksweep.heaps.segments import GRACE, SegmentHeap
from marksweep.model import Action, Hold, Link, Plan, Reference
from marksweep.stores.base import Journal
from marksweep.stores.open import open_store
from marksweep.strategies.chosen import Chosen
from marksweep.strategies.scored import Scored
from marksweep.testing.builders import NOW, Clock, segment
from marksweep.testing.contracts.heap import HeapContract, NewPlace, nothing_happens
from marksweep.testing.faults import FaultyStore
from marksweep.testing.histories import Answered, Call, Said, Script, render_script

SIZE = 12
PAIRED = 3
"""Every third segment is paired with the one before it."""


class SegmentsPlace:
    """A working set with pairs, in a SQLite file."""

    grace: timedelta = GRACE

    def __init__(self, path: Path) -> None:
        self._store = open_store(path)
        self.close = self._store.close
        self._heap = SegmentHeap(self._store, "project", count_tokens=len)
        self._heap.add(
            [
                segment(
                    f"s{n:02}",
                    hours_old=SIZE - n,
                    references=(Reference(f"s{n - 1:02}", Link.ANSWERS, Hold.PAIRED),)
                    if n % PAIRED == 1
                    else (),
                )
                for n in range(SIZE)
            ]
        )

    def open(self, moment: Callable[[], None] = nothing_happens) -> tuple[Heap, Journal]:
        store = FaultyStore(self._store, moment)
        return SegmentHeap(store, "project", count_tokens=len), store.journal

    def plan(self, heap: Heap) -> Plan:
        snapshot = heap.snapshot()
        return decide(snapshot, Scored(), heap.size() * 2 // 3, Focus(now=NOW))

    def deletion(self, heap: Heap) -> Plan:
        chosen = Chosen(["s00", "s01"], Action.DELETE)
        return decide(heap.snapshot(), chosen, None, Focus(now=NOW))

    def content(self) -> object:
        live = self._heap.snapshot().segments
        return [(s.segment_id, s.text, s.references, s.position) for s in live]

    def problems(self) -> list[str]:
        live = self._heap.live()
        return [
            f"{name} without its pair"
            for n in range(SIZE)
            if n % PAIRED == 1
            for name, mate in [(f"s{n:02}", f"s{n - 1:02}")]
            if (name in live) != (mate in live)
        ]


class TestSegments(HeapContract):
    @pytest.fixture
    def new_place(self, tmp_path: Path) -> Iterator[NewPlace]:
        numbers = count()
        with ExitStack() as places:
            yield lambda: places.enter_context(
                closing(SegmentsPlace(tmp_path / f"{next(numbers)}.db"))
            )


STORY = Script(
    (
        Said("fix it"),
        *(
            Answered(thought="hm", calls=(Call("read", {"path": f"{n}.py"}, f"row {n}\n" * 20),))
            for n in range(8)
        ),
        Answered("done"),
        Said("thanks"),
    )
)


class ConversationPlace:
    """A conversation with calls and results, in a SQLite file."""

    grace: timedelta = GRACE

    def __init__(self, path: Path, dialect: str) -> None:
        self._store = open_store(path)
        self.close = self._store.close
        self._dialect = dialect
        self._talk = self._open(self._store)
        self._talk.extend(render_script(STORY, dialect))
        self._opened = self._talk

    def _open(self, store: object) -> Conversation:
        return Conversation(
            limit=10**9,
            dialect=self._dialect,
            strategy=("mask", "truncate"),
            store=store,  # type: ignore[arg-type]
            clock=Clock(),
        )

    def open(self, moment: Callable[[], None] = nothing_happens) -> tuple[Heap, Journal]:
        store = FaultyStore(self._store, moment)
        self._opened = self._open(store)
        return self._opened._heap, store.journal

    def plan(self, heap: Heap) -> Plan:
        assert heap is self._opened._heap
        return self._opened.plan(heap.size() * 2 // 3)

    def deletion(self, heap: Heap) -> Plan:
        chosen = Chosen(["m2", "m3", "m4"], Action.DELETE)
        return decide(heap.snapshot(), chosen, None, Focus(now=NOW))

    def content(self) -> object:
        return [message.raw for message in self._talk.history]

    def problems(self) -> list[str]:
        return [str(finding) for finding in validate(self.content(), self._dialect)]


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini"])
class TestConversations(HeapContract):
    @pytest.fixture
    def new_place(self, tmp_path: Path, dialect: str) -> Iterator[NewPlace]:
        numbers = count()
        with ExitStack() as places:
            yield lambda: places.enter_context(
                closing(ConversationPlace(tmp_path / f"{next(numbers)}.db", dialect))
            )
