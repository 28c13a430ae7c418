"""Unreachable sweeps what nothing in use refers to, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from marksweep.conversation import Conversation
from marksweep.core.strategy import Strategy
from marksweep.messages import Outcome
from marksweep.model import Segment
from marksweep.strategies.superseded import Superseded
from marksweep.strategies.unreachable import Unreachable

BULK = "some output " * 60


def talk(*turns: tuple[str, str, str]) -> Conversation:
    """Make a conversation: what the agent says, its calls, and their results.

    The last results are always in use, so some empty ones follow.
    """
    conversation = Conversation(limit=10**9, strategy="unreachable", dialect="openai_chat")
    conversation.extend([{"role": "user", "content": "Mend the parser."}])
    for n, (said, asked, result) in enumerate([*turns, *[("on", "x", "y")] * 3]):
        function = {"name": "run", "arguments": f'{{"command": "{asked}"}}'}
        call = {"id": f"c{n}", "type": "function", "function": function}
        conversation.extend(
            [
                {"role": "assistant", "content": said, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{n}", "content": result},
            ]
        )
    conversation.extend([{"role": "assistant", "content": "It is src/parse_table.py:40."}])
    return conversation


def taken(conversation: Conversation) -> list[str]:
    plan = conversation.plan(0)
    assert all(step.reason.startswith("unreachable: ") for step in plan.steps)
    return [name for step in plan.steps for name in step.segments]


def test_what_is_named_again_stays_and_what_is_not_goes() -> None:
    conversation = talk(
        ("look", "ls", f"src/parse_table.py:40 {BULK}"),
        ("look", "ls", f"src/other_file.py {BULK}"),
    )
    assert taken(conversation) == ["m5"]


def test_a_search_that_led_nowhere_goes_with_what_only_it_had_used() -> None:
    conversation = talk(
        ("look", "ls", f"src/dead_end.py {BULK}"),
        ("look", "cat src/dead_end.py", f"def dead_function(): {BULK}"),
    )
    assert taken(conversation) == ["m5", "m3"]


def test_a_chain_of_calls_that_led_to_the_answer_stays_whole() -> None:
    conversation = talk(
        ("look", "ls", f"src/first_hint.py {BULK}"),
        ("look", "cat src/first_hint.py", f"see src/parse_table.py:40 {BULK}"),
    )
    assert taken(conversation) == []


def test_a_result_is_referred_to_by_the_names_in_its_call() -> None:
    assert taken(talk(("look", "cat src/parse_table.py:40", f"first line {BULK}"))) == []


def test_what_the_agent_says_about_a_result_keeps_it() -> None:
    conversation = talk(
        ("look", "ls", f"src/dead_end.py {BULK}"),
        ("src/dead_end.py may matter", "pwd", BULK),
    )
    assert taken(conversation) == ["m5"]


def test_only_the_latest_holder_of_a_name_is_referred_to() -> None:
    conversation = talk(
        ("look", "ls", f"src/parse_table.py:40 {BULK}"),
        ("look", "ls -l", f"src/parse_table.py:40 {BULK}"),
    )
    assert taken(conversation) == ["m3"]


def test_what_is_superseded_too_is_reported_as_that() -> None:
    conversation = talk(
        ("look", "ls", f"src/unused_file.py {BULK}"), ("look", "ls", f"src/unused_file.py {BULK}")
    )
    reasons = {
        step.segments: step.reason.partition(":")[0]
        for step in conversation.plan(0, strategy="dead").steps
    }
    assert reasons == {("m3",): "superseded", ("m5",): "unreachable"}


def test_the_latest_results_and_short_ones_are_left_alone() -> None:
    assert taken(talk()) == []
    assert taken(talk(("look", "ls", "src/unused_file.py"))) == []


@pytest.mark.parametrize("made", [Superseded, Unreachable])
def test_a_plan_that_has_enough_does_not_read_older_results(made: Callable[..., Strategy]) -> None:
    conversation = talk(*[("look", "ls", f"src/unused_file.py {BULK}")] * 5)
    heap = conversation._heap
    read: list[str] = []

    def outcomes(segment: Segment) -> Sequence[Outcome]:
        read.append(segment.segment_id)
        return heap.outcomes(segment)

    needs = (outcomes, heap.trimmed) if made is Superseded else (outcomes, heap.texts, heap.trimmed)
    proposal = next(made(*needs).rank(conversation.context(0)))
    assert proposal.replacement is not None
    assert "m3" not in read
    assert proposal.replacement.segment_id in read
