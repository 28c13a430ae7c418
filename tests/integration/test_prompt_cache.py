"""The bill of a long run under a prompt cache: what waiting, and cutting late, is worth."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from marksweep.conversation import Conversation
from marksweep.core.budget import PAYS_WITHIN_TURNS, Budget
from marksweep.core.plan import Prices
from marksweep.messages import Message
from marksweep.strategies.registry import Choice

LIMIT = 20_000
TURNS = 400
PRICES = Prices()
AT_ONCE = 1e9
"""Turns within which every sweep pays: nothing is put off."""
TIERS = ("superseded", "mask", "truncate")

Request = list[dict[str, Any]]


def size(message: dict[str, Any]) -> int:
    return 4 + len(str(message)) // 4


def count(message: Message) -> int:
    return size(message.raw)


def turn(n: int) -> Request:
    """One step of an agent: it reads a file, and comes back to the same files again and again."""
    call = {"name": "read_file", "arguments": f'{{"path": "src/{n * 7 % 41}.py"}}'}
    said = f"line {n} of the file, as it is now\n" * (10 + n % 23)
    return [
        {
            "role": "assistant",
            "content": f"Step {n}.",
            "tool_calls": [{"id": f"call_{n}", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": f"call_{n}", "content": said},
    ]


def bill(request: Request, before: Request) -> float:
    """Price a request as providers do: what stands as it stood is cached, the rest is written."""
    same = 0
    for new, old in zip(request, before, strict=False):
        if new != old:
            break
        same += 1
    cached, written = request[:same], request[same:]
    return PRICES.cached * sum(map(size, cached)) + PRICES.write * sum(map(size, written))


class Run:
    """An agent's run with one policy: what it cost, and the largest request it made."""

    def __init__(self, strategy: Choice, budget: Budget, pays_within_turns: float) -> None:
        talk = Conversation(
            limit=LIMIT,
            strategy=strategy,
            counter=count,
            budget=budget,
            prices=PRICES,
            pays_within_turns=pays_within_turns,
        )
        talk.extend([{"role": "user", "content": "Mend the parser."}])
        self.cost = 0.0
        self.largest = 0
        self.sweeps = 0
        before: Request = []
        for n in range(TURNS):
            talk.extend(turn(n))
            request = talk.messages
            self.cost += bill(request, before)
            self.sweeps += request[: len(before)] != before
            self.largest = max(self.largest, sum(map(size, request)))
            before = request


def waiting(strategy: Choice) -> Run:
    return Run(strategy, Budget.of(LIMIT), PAYS_WITHIN_TURNS)


def never_waiting(strategy: Choice) -> Run:
    return Run(strategy, Budget.of(LIMIT), AT_ONCE)


def at_the_limit() -> Run:
    lines = {"threshold_percent": 100.0, "target_percent": 100.0, "pressure_percent": 100.0}
    return Run("truncate", Budget.of(LIMIT, **lines), AT_ONCE)


@pytest.mark.parametrize("strategy", ["truncate", TIERS], ids=str)
def test_waiting_costs_less_than_never_waiting_and_than_truncating_at_the_limit(
    strategy: Choice,
) -> None:
    patient = waiting(strategy)
    assert patient.cost < never_waiting(strategy).cost
    assert patient.cost < at_the_limit().cost
    assert 0 < patient.largest <= LIMIT
    assert patient.sweeps > 0


def test_of_what_is_equally_worthless_the_newest_goes_and_the_longest_prefix_stays() -> None:
    talk = Conversation(limit=LIMIT, strategy="superseded", counter=count)
    talk.extend([{"role": "user", "content": "Mend the parser."}])
    for n in range(100):
        talk.extend(turn(n))
    everything = talk.plan(0)
    a_little = talk.plan(talk.tokens - 1)
    assert len(a_little.steps) == 1
    assert a_little.cost.edits_from is not None
    assert everything.cost.edits_from is not None
    assert a_little.cost.edits_from > 10 * everything.cost.edits_from


@pytest.mark.parametrize("strategy", ["garbage", "scored", "superseded"])
def test_a_small_cut_among_equals_is_made_near_the_end(strategy: str) -> None:
    talk = Conversation(
        limit=LIMIT,
        strategy=strategy,
        counter=count,
        clock=lambda: datetime(2026, 1, 1, tzinfo=UTC),
    )
    talk.extend([{"role": "user", "content": "Mend the parser."}])
    for n in range(100):
        talk.extend(turn(n % 30))
    plan = talk.plan(talk.tokens - 1)
    assert plan.cost.edits_from is not None
    assert plan.cost.edits_from > 100
