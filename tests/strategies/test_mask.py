"""Masking replaces bulky results, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.messages import Outcome
from marksweep.model import Segment, Snapshot
from marksweep.sections import Sections
from marksweep.strategies.mask import BULKY_CHARS, Mask
from marksweep.testing.builders import segment

BULKY_TEXT = "x" * BULKY_CHARS


class Heap:
    """A heap as far as masking needs one; it records which segments were requested."""

    def __init__(self, spare: int = 0) -> None:
        self.trimmed_ids: list[str] = []
        self.mask = Mask(self.outcomes, self.trimmed, spare=spare)

    def outcomes(self, of: Segment) -> Sequence[Outcome]:
        return (Outcome(0, "read", None, of.text),) if of.type == "message" else ()

    def trimmed(self, of: Segment, texts: Mapping[int, Sections]) -> Segment:
        self.trimmed_ids.append(of.segment_id)
        return msgspec.structs.replace(of, text=f"{len(texts)} left out", tokens=1)

    def rank(self, *segments: Segment) -> list[Proposal]:
        now = datetime(2026, 6, 1, tzinfo=UTC)
        return list(self.mask.rank(PlanningContext(Snapshot(segments, ""), {}, now)))


def bulky(*names: str) -> list[Segment]:
    return [segment(name, type="message", text=BULKY_TEXT, tokens=100) for name in names]


def test_bulky_results_are_masked_the_oldest_first() -> None:
    heap, segments = Heap(), bulky("one", "other")
    assert [proposal.members for proposal in heap.rank(*segments)] == [(0,), (1,)]
    assert heap.trimmed_ids == ["one", "other"]


def test_what_is_not_bulky_or_carries_no_result_is_left_alone() -> None:
    heap = Heap()
    short, note = segment("short", type="message", text="x"), segment("note", text=BULKY_TEXT)
    assert heap.rank(short, note) == []
    assert heap.trimmed_ids == []


def test_where_there_are_fewer_results_than_are_spared_all_are_left_alone() -> None:
    assert Heap(spare=3).rank(*bulky("one", "other")) == []
    assert [p.members for p in Heap(spare=1).rank(*bulky("one", "other"))] == [(0,)]
