"""Law 9 on conversations: cost grows linearly; one more message costs the same at any size.

Counted in function calls, which do not depend on the load of the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from marksweep.conversation import Conversation
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
