"""Law 9 on conversations: cost grows linearly; one more message costs the same at any size.

Counted in function calls, which do not depend on the load of the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from marksweep.conversation import Conversation
from marksweep.heaps.gaps import Gaps
from marksweep.model import Segment
from marksweep.testing.histories import Answered, Call, Raw, Said, Script, render_script
from tests.laws.talking import each_strategy

SMALL, LARGE = 200, 2_000


def history(messages: int) -> list[Raw]:
    steps = (
        Answered(f"step {n}", calls=(Call("read", {"path": f"{n % 7}.py"}, f"row {n}\n" * 60),))
        for n in range(messages // 2)
    )
    return render_script(Script((Said("fix it"), *steps)), "openai_chat")


def calls_of(work: Callable[[], object]) -> int:
    """Count the function calls of some work, Python and built-in."""
    called = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal called
        called += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return called


def holding(messages: int, strategy: Any) -> Conversation:
    talk = Conversation(limit=10**9, strategy=strategy, counter=lambda m: len(str(m)))
    talk.extend(history(messages))
    return talk


@each_strategy
def test_ten_times_the_messages_cost_at_most_twelve_times_the_work(strategy: Any) -> None:
    small, large = (
        calls_of(lambda talk=talk: talk.collect(talk.plan(talk.tokens // 2)))  # type: ignore[misc]
        for talk in (holding(SMALL, strategy), holding(LARGE, strategy))
    )
    assert large <= 12 * small


def test_each_line_for_swept_messages_is_made_once_while_the_plan_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lines take room, so more has to go, which changes few of them."""
    made: list[tuple[str, ...]] = []
    make = Gaps.line

    def line(self: Gaps, run: Sequence[Segment]) -> Segment | None:
        made.append(tuple(segment.segment_id for segment in run))
        return make(self, run)

    monkeypatch.setattr(Gaps, "line", line)
    beats = [beat for n in range(60) for beat in turn(n)]
    talk = Conversation(limit=10**9, strategy="truncate")
    talk.extend(render_script(Script(tuple(beats)), "openai_chat"))
    plan = talk.plan(talk.tokens // 2)
    lines = [s for s in plan.steps if s.replacement is not None]
    assert len(lines) < len(set(made))  # The plan grew: not all that were made are used.
    assert len(made) == len(set(made))


def turn(number: int) -> list[Said | Answered]:
    """A question, and six calls with long results."""
    result = f"row of {number}\n" * 60
    calls = [Call("read", {"path": f"{n}.py"}, result) for n in range(6)]
    return [Said(f"question {number}"), *[Answered("", calls=(call,)) for call in calls]]


@each_strategy
def test_one_more_message_and_a_check_of_the_trigger_cost_the_same_at_any_size(
    strategy: Any,
) -> None:
    def look(talk: Conversation) -> None:
        talk.extend([{"role": "user", "content": "and?"}])
        assert not talk.is_due

    small, large = (
        calls_of(lambda talk=talk: look(talk))  # type: ignore[misc]
        for talk in (holding(SMALL, strategy), holding(LARGE, strategy))
    )
    assert large <= small + 5
