"""Each root rule keeps what it should, and says why."""

from __future__ import annotations

from datetime import timedelta

import pytest

from marksweep.core.roots import Focus, find_roots, last_messages
from marksweep.model import GCPolicy, Segment
from marksweep.testing.builders import NOW, segment


def reasons(focus: Focus, *segments: Segment) -> dict[str, str]:
    return {segments[i].segment_id: why for i, why in find_roots(segments, focus).items()}


def test_segments_of_the_current_task_are_roots() -> None:
    found = reasons(
        Focus(now=NOW, task_id="t1"), segment("a", task_id="t1"), segment("b", task_id="t2")
    )
    assert found == {"a": "part of the current task t1"}


def test_without_a_current_task_no_task_is_a_root() -> None:
    assert reasons(Focus(now=NOW), segment("a", task_id=None)) == {}


def test_the_active_file_is_a_root() -> None:
    focus = Focus(now=NOW, active_file="app.py")
    found = reasons(focus, segment("a", file_path="app.py"), segment("b", file_path="b.py"))
    assert found == {"a": "in the active file app.py"}


@pytest.mark.parametrize(
    ("lines", "kept"), [((1, 9), False), ((5, 10), True), ((20, 30), True), ((21, 30), False)]
)
def test_with_active_lines_only_what_overlaps_them_is_a_root(
    lines: tuple[int, int], kept: bool
) -> None:
    focus = Focus(now=NOW, active_file="app.py", active_lines=(10, 20))
    found = reasons(focus, segment("a", file_path="app.py", line_range=lines))
    assert ("a" in found) is kept
    if kept:
        assert found["a"] == "in the active lines 10-20 of app.py"


def test_a_piece_of_the_active_file_without_lines_is_a_root_whatever_the_lines() -> None:
    focus = Focus(now=NOW, active_file="app.py", active_lines=(10, 20))
    assert "a" in reasons(focus, segment("a", file_path="app.py"))


def test_active_lines_may_be_given_in_either_order() -> None:
    focus = Focus(now=NOW, active_file="a.py", active_lines=(9, 2))
    assert focus == Focus(now=NOW, active_file="a.py", active_lines=(2, 9))


def test_files_opened_or_edited_recently_are_roots() -> None:
    focus = Focus(now=NOW, open_files=frozenset({"open.py"}))
    found = reasons(focus, segment("a", file_path="open.py"), segment("b", file_path="shut.py"))
    assert found == {"a": "in open.py, opened or edited recently"}


def test_the_last_messages_are_roots_and_ten_by_default() -> None:
    talk = [segment(f"m{n}", type="message") for n in range(12)]
    noise = segment("log", type="log")
    recent = last_messages([*talk, noise])
    assert recent == {f"m{n}" for n in range(2, 12)}
    found = reasons(Focus(now=NOW, recent_messages=recent), *talk, noise)
    assert set(found) == recent
    assert set(found.values()) == {"one of the last 10 messages"}


def test_a_pinned_segment_is_a_root_and_names_who_pinned_it() -> None:
    found = reasons(
        Focus(now=NOW),
        segment("a", pinned=True, pinned_by="ana: for the release"),
        segment("b", pinned=True),
    )
    assert found == {"a": "pinned by ana: for the release", "b": "pinned"}


def test_a_locked_segment_is_a_root() -> None:
    found = reasons(Focus(now=NOW), segment("a", policy=GCPolicy.LOCKED))
    assert found == {"a": "locked by its policy"}


def test_decisions_of_the_last_hour_are_roots() -> None:
    found = reasons(
        Focus(now=NOW),
        segment("new", type="decision", hours_old=0.9),
        segment("edge", type="decision", hours_old=1.0),
        segment("old", type="decision", hours_old=1.1),
        segment("note", type="note", hours_old=0.1),
    )
    assert set(found) == {"new", "edge"}


def test_how_long_a_decision_is_a_root_is_a_setting() -> None:
    focus = Focus(now=NOW, recent_decisions=timedelta(hours=3))
    assert "old" in reasons(focus, segment("old", type="decision", hours_old=2))


@pytest.mark.parametrize("tag", ["invariant", "overview", "constraint"])
def test_session_invariants_are_roots(tag: str) -> None:
    found = reasons(Focus(now=NOW), segment("a", tags=("x", tag)), segment("b", tags=("x",)))
    assert found == {"a": f"holds for the whole session ({tag})"}
