"""Masking: what is made when a message arrives, and when it is made anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.messages import Outcome, Place
from marksweep.model import Segment, Snapshot
from marksweep.strategies.mask import BULKY, Mask
from marksweep.testing.builders import segment

BULKY_TEXT = "x" * BULKY


class Desk:
    """A heap as far as masking needs one; it notes for which segments it was asked."""

    def __init__(self) -> None:
        self.trimmed_ids: list[str] = []
        self.mask = Mask(self.outcomes, self.trimmed, spare=0)

    def outcomes(self, of: Segment) -> Sequence[Outcome]:
        return (Outcome(0, "read", None, of.text),) if of.type == "message" else ()

    def trimmed(self, of: Segment, texts: Mapping[Place, str]) -> Segment:
        self.trimmed_ids.append(of.segment_id)
        return msgspec.structs.replace(of, text="".join(texts.values()), tokens=1)

    def rank(self, *segments: Segment) -> list[Proposal]:
        now = datetime(2026, 6, 1, tzinfo=UTC)
        return list(self.mask.rank(PlanningContext(Snapshot(segments, ""), {}, now)))


def bulky(*names: str) -> list[Segment]:
    return [segment(name, type="message", text=BULKY_TEXT, tokens=100) for name in names]


def test_what_arrived_is_masked_once_and_proposed_as_often_as_asked() -> None:
    desk, (one, other) = Desk(), bulky("one", "other")
    desk.mask.arrive([one, other])
    assert desk.rank(one, other) == desk.rank(one, other)
    assert desk.trimmed_ids == ["one", "other"]


def test_what_is_not_bulky_or_carries_no_result_is_left_alone() -> None:
    desk = Desk()
    short, note = segment("short", type="message", text="x"), segment("note", text=BULKY_TEXT)
    desk.mask.arrive([short, note])
    assert desk.rank(short, note) == []
    assert desk.trimmed_ids == []


def test_a_segment_that_changed_since_it_arrived_is_masked_anew() -> None:
    desk, (one,) = Desk(), bulky("one")
    desk.mask.arrive([one])
    changed = msgspec.structs.replace(one, task_id="another")
    (proposal,) = desk.rank(changed)
    assert proposal.replacement is not None
    assert proposal.replacement.task_id == "another"


def test_what_has_changed_since_it_arrived_is_not_held_any_longer() -> None:
    desk, (one,) = Desk(), bulky("one")
    desk.mask.arrive([one])
    desk.rank(msgspec.structs.replace(one, text="masked", tokens=1))
    desk.trimmed_ids.clear()
    desk.rank(one)
    assert desk.trimmed_ids == ["one"]


def test_messages_that_have_left_are_forgotten() -> None:
    desk, segments = Desk(), bulky("one", "two", "three")
    desk.mask.arrive(segments)
    desk.rank(segments[0])
    desk.trimmed_ids.clear()
    assert len(desk.rank(*segments)) == 3
    assert desk.trimmed_ids == ["two", "three"]
