"""The guard rules, each by its name."""

from __future__ import annotations

import pytest

from marksweep.replay.atoms import names
from marksweep.replay.drive import Pricer, drive
from marksweep.replay.guards import Violation, check, is_paired
from marksweep.replay.hits import Reader, proofs
from marksweep.replay.needs import study
from marksweep.replay.records import Wire
from tests.replay.stories import BASH, answers, by_words, calls, says, user

PINNED = [user("task")]
TAIL = [says("new"), user("out")]


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ([*PINNED, says("old"), *TAIL], None),
        ([*PINNED, *TAIL], None),
        ([*TAIL], Violation.PINNED),
        ([user("Task"), *TAIL], Violation.PINNED),
        ([*PINNED, says("new"), user("ou")], Violation.TAIL),
        ([*PINNED, *TAIL, user("more")], Violation.TAIL),
        ([*PINNED, calls({}), *TAIL], Violation.PAIRING),
        ([*PINNED, answers("x"), *TAIL], Violation.PAIRING),
        ("nothing", Violation.MALFORMED),
        ([*PINNED, {"role": "friend", "content": ""}, *TAIL], Violation.MALFORMED),
    ],
)
def test_each_rule_has_its_name(context: object, expected: Violation | None) -> None:
    assert check(context, PINNED, TAIL) is expected


def test_results_follow_their_call_in_order() -> None:
    both = calls({}, {})
    assert is_paired([both, answers("a", 0), answers("b", 1)])
    assert not is_paired([both, answers("b", 1), answers("a", 0)])
    assert not is_paired([both, answers("a", 0)])
    assert not is_paired([both, answers("a", 0), user("x"), answers("b", 1)])


class Scripted:
    """A collector that returns fixed contexts."""

    def __init__(self, extra: list[Wire]) -> None:
        self._extra = extra

    def start(self, pinned: list[Wire], limit: int) -> None:
        self._pinned = pinned

    def add(self, messages: list[Wire]) -> None:
        self._tail = messages

    def context(self) -> list[Wire]:
        if self._extra and self._extra[0].get("content") == "raise":
            raise RuntimeError
        return [*self._pinned, *self._extra, *self._tail]


def steps_with(extra: list[Wire], limit: int) -> list[tuple[float | None, Violation | None]]:
    found = study(BASH, names)
    ran = drive(
        found, proofs(found), Scripted(extra), limit, tokens=Pricer(by_words), reader=Reader()
    )
    return [(step.any, step.violation) for step in ran]


def test_a_step_over_the_limit_scores_nothing() -> None:
    # prefix 7 + 10, tail 9 + 10, source 5
    source = user("lib/tools/lexer_two.py")
    assert steps_with([source], 41)[2] == (1.0, None)
    assert steps_with([source], 40)[2] == (0.0, Violation.BUDGET)


def test_a_step_that_cannot_fit_is_left_out_and_must_hold_nothing_else() -> None:
    assert steps_with([], 20)[2] == (None, None)
    assert steps_with([user("x")], 20)[2] == (None, Violation.BUDGET)


def test_a_collector_that_raises_scores_nothing() -> None:
    assert steps_with([user("raise")], 1000)[2] == (0.0, Violation.ERROR)
