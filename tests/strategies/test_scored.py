"""The scored strategy: unreachable first, then related, then reached of low value."""

from __future__ import annotations

import msgspec

from marksweep.core.context import PlanningContext
from marksweep.core.roots import Focus
from marksweep.core.strategy import Proposal
from marksweep.model import Action, Hold, Link, Reference, Segment
from marksweep.strategies.garbage import Garbage
from marksweep.strategies.scored import Disposal, Scored
from marksweep.testing.builders import NOW, segment, snapshot

ROOT = segment("root", task_id="t", references=("reached", "cold"), topic_id="auth")
HEAP = (
    ROOT,
    segment("reached", hours_old=100, type="log"),
    segment("cold", hours_old=50, type="code", tokens=900),
    segment("related", hours_old=200, type="log", topic_id="auth"),
    segment("old log", hours_old=300, type="log"),
    segment("new note", hours_old=1),
)


def rank(strategy: Scored | Garbage, *segments: Segment) -> list[tuple[str, Proposal]]:
    context = PlanningContext.of(snapshot(*segments), Focus(now=NOW, task_id="t"))
    return [(segments[p.members[0]].segment_id, p) for p in strategy.rank(context)]


def test_unreachable_goes_before_related_before_reached() -> None:
    names = [name for name, _ in rank(Scored(), *HEAP)]
    assert names == ["old log", "new note", "related", "reached", "cold"]


def test_every_proposal_has_a_reason_that_says_age_references_and_score() -> None:
    reasons = {name: p.reason for name, p in rank(Scored(), *HEAP)}
    assert reasons["old log"] == (
        "unreachable: log, untouched for 12 days, no references, score 0.90"
    )
    assert reasons["related"].startswith("unreachable, only related to what is in use: ")
    assert reasons["reached"].startswith("in reach, but of low value: ")


def test_swept_segments_are_stashed_unless_deletion_was_allowed() -> None:
    actions = {p.action for _, p in rank(Scored(), *HEAP)}
    assert actions == {Action.STASH}


def test_auto_deletes_only_old_logs_and_notes_that_nothing_refers_to() -> None:
    segments = (
        segment("old log", hours_old=24 * 8, type="log"),
        segment("old note", hours_old=24 * 8),
        segment("cited log", hours_old=24 * 8, type="log", refcount=1),
        segment("old code", hours_old=24 * 8, type="code"),
        segment("new log", hours_old=24 * 6, type="log"),
    )
    found = {name: p.action for name, p in rank(Scored(disposal=Disposal.AUTO), *segments)}
    deleted = {name for name, action in found.items() if action is Action.DELETE}
    assert deleted == {"old log", "old note"}


def test_delete_deletes_all_as_was_asked() -> None:
    found = rank(Scored(disposal=Disposal.DELETE), *HEAP)
    assert {p.action for _, p in found} == {Action.DELETE}


def test_cold_but_important_segments_are_compressed_before_any_reached_one_is_stashed() -> None:
    def shorten(long: Segment) -> Segment:
        return msgspec.structs.replace(long, segment_id=long.segment_id + "~1", tokens=100)

    found = rank(Scored(shorten=shorten), *HEAP)
    assert [(name, p.action) for name, p in found][3:] == [
        ("cold", Action.COMPRESS),
        ("reached", Action.STASH),
        ("cold", Action.STASH),
    ]
    assert "cold but important" in found[3][1].reason


def test_what_was_shortened_once_is_not_shortened_again() -> None:
    short = segment(
        "c~1", hours_old=50, tokens=900, task_id=None, references=(Reference("c", Link.DERIVED),)
    )
    root = segment("root", task_id="t", references=("c~1",))
    found = rank(Scored(shorten=lambda s: s), root, short)
    assert [p.action for _, p in found] == [Action.STASH]


def test_a_unit_is_worth_as_much_as_its_best_member() -> None:
    pair = (Reference("fresh", Link.ANSWERS, Hold.PAIRED),)
    segments = (
        segment("fresh", hours_old=0.5, type="decision"),
        segment("stale", hours_old=500, type="log", references=pair),
        segment("middle", hours_old=5, type="code"),
    )
    context = PlanningContext.of(snapshot(*segments), Focus(now=NOW, recent_decisions=NOW - NOW))
    ranked = [context.units.members(p.members[0]) for p in Scored().rank(context)]
    assert ranked == [(2,), (0, 1)]


def test_garbage_offers_only_the_unreachable_the_newest_first() -> None:
    assert [name for name, _ in rank(Garbage(), *HEAP)] == ["new note", "old log", "related"]
