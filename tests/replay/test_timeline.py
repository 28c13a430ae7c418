"""The timeline of a transcript small enough to follow by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from marksweep.replay.atoms import names
from marksweep.replay.cases import Case
from marksweep.replay.counting import exact
from marksweep.replay.drive import Pricer
from marksweep.replay.needs import study
from marksweep.replay.records import Trajectory, price
from marksweep.replay.references import Truncate
from marksweep.replay.timeline import Span, State, Timeline, trace

Wire = dict[str, Any]


def call(name: str, command: str) -> Wire:
    function = {"name": "shell", "arguments": json.dumps({"command": command})}
    calls = [{"id": name, "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def answer(name: str, text: str) -> Wire:
    return {"role": "tool", "tool_call_id": name, "content": text}


MESSAGES: tuple[Wire, ...] = (
    {"role": "user", "content": "Mend it."},
    call("a", "ls"),
    answer("a", "the port is port_4711"),
    call("b", "look at it"),
    answer("b", "nothing of note here " * 30),
    call("c", "connect to port_4711"),
    answer("c", "connected"),
    call("d", "again port_4711"),
    answer("d", "nothing of note here " * 30),
    call("e", "close port_4711"),
)


@pytest.fixture(scope="module")
def case() -> Case:
    run = Trajectory("by hand", MESSAGES, 1)
    count = exact()
    return Case(study(run, names), tuple(price(message, count) for message in MESSAGES))


def traced(case: Case, limit: int) -> Timeline:
    count = exact()
    return trace(case, Truncate(count), Pricer(count), strategy="truncate", budget="", limit=limit)


def test_with_room_for_all_nothing_goes_and_nothing_is_missed(case: Case) -> None:
    line = traced(case, 10_000)
    assert len(line.moments) == 5
    assert all(moment.missed == () and moment.dropped == () for moment in line.moments)
    assert line.lives[1].spans == (Span(1, 4, State.WHOLE),)
    assert line.lives[-1].spans == ()


def test_what_went_is_reported_at_the_step_it_went_and_when_it_was_last_there(case: Case) -> None:
    tail = case.prices[3] + case.prices[4]
    line = traced(case, case.prices[0] + tail + 10)
    gone = line.moments[2]
    assert gone.dropped == (1, 2)
    (miss,) = gone.missed
    assert miss.atoms == ("port_4711",)
    assert (miss.source, miss.last_seen) == (2, 1)
    assert gone.recall == 0.0
    assert line.lives[1].spans == (Span(1, 1, State.WHOLE),)


def test_tokens_are_those_of_the_context(case: Case) -> None:
    line = traced(case, 10_000)
    assert [moment.tokens for moment in line.moments] == [
        sum(case.prices[: moment.at]) for moment in line.moments
    ]


class Shortening(Truncate):
    """Keeps half of the lines of each old result, and leaves a note."""

    def context(self) -> list[Wire]:
        """Return the context, shortened."""
        kept = super().context()
        old = [
            {**m, "content": m["content"][: len(m["content"]) // 2]} if m["role"] == "tool" else m
            for m in kept[1:-2]
        ]
        return [kept[0], *old, {"role": "user", "content": "note: see above"}, *kept[-2:]]


def test_a_shortened_message_is_partly_in_context_and_a_note_is_not_a_message(case: Case) -> None:
    count = exact()
    line = trace(case, Shortening(count), Pricer(count), strategy="half", budget="", limit=10_000)
    assert line.lives[1].spans[0] == Span(1, 1, State.WHOLE)
    assert line.lives[1].spans[1].state is State.PART
    assert line.moments[2].dropped == (2,)
    assert line.moments[2].notes > 0
