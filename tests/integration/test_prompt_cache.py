"""The cost of a long run with a prompt cache: what waiting, and cutting late, saves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from marksweep.conversation import Conversation
from marksweep.core.budget import PAYS_WITHIN_TURNS, Budget
from marksweep.core.plan import Prices
from marksweep.errors import BadInput
from marksweep.messages import Message
from marksweep.settings import load_settings
from marksweep.strategies.registry import Choice

LIMIT = 20_000
TURNS = 400
PRICES = Prices()
AT_ONCE = 1e9
"""Turns within which every sweep pays: nothing is delayed."""
TIERS = ("superseded", "mask", "truncate")

Request = list[dict[str, Any]]


def size(message: dict[str, Any]) -> int:
    return 4 + len(str(message)) // 4


def count(message: Message) -> int:
    return size(message.raw)


def turn(n: int) -> Request:
    """Make one step of an agent, which reads the same files again and again."""
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
    """Price a request as providers do: the unchanged prefix is cached, the rest is written."""
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


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_minutes(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)


CLOCK = Clock()
READ = [{"role": "assistant", "content": "I have read it."}, {"role": "user", "content": "Go on."}]


def four_fifths(**given: Any) -> Conversation:
    """Make a conversation over the cold limit whose last request just filled the cache."""
    talk = Conversation(limit=LIMIT, counter=count, clock=CLOCK, **given)
    talk.extend([{"role": "user", "content": "Mend the parser."}])
    assert talk.messages
    for n in range(TURNS):
        talk.extend(turn(n))
        if talk.tokens > 0.8 * LIMIT:
            break
    assert talk.tokens < 0.9 * LIMIT
    assert len(talk.messages) == len(talk.history)
    assert talk.journal() == ()
    return talk


def is_collected(talk: Conversation) -> bool:
    talk.extend(READ)
    before = talk.tokens
    assert talk.messages
    return talk.tokens < before


def test_a_warm_cache_is_left_alone_up_to_the_soft_limit() -> None:
    talk = four_fifths()
    CLOCK.pass_minutes(4)
    assert not is_collected(talk)


def test_after_its_lifetime_the_cache_is_cold_and_a_collection_costs_nothing() -> None:
    talk = four_fifths()
    CLOCK.pass_minutes(6)
    assert is_collected(talk)
    assert talk.tokens <= 0.65 * LIMIT


def test_the_lifetime_of_the_cache_is_a_setting() -> None:
    hour = load_settings(explicit={"window": {"cache_minutes": 60, "limit_tokens": LIMIT}})
    talk = four_fifths(cache_minutes=60)
    again = Conversation.from_settings(hour, counter=count, clock=CLOCK)
    for messages in (talk.messages[:1], talk.messages[1:]):
        again.extend(messages)
        assert again.messages
    CLOCK.pass_minutes(59)
    assert not is_collected(talk)
    assert not is_collected(again)
    CLOCK.pass_minutes(61)
    assert is_collected(talk)
    assert is_collected(again)


@pytest.mark.parametrize(("minutes", "is_cold"), [(4, False), (6, True)])
def test_a_resumed_conversation_finds_a_cold_cache_once_its_lifetime_has_passed(
    tmp_path: Path, minutes: int, is_cold: bool
) -> None:
    talk = four_fifths(store=tmp_path / "talk.db")
    talk.close()
    CLOCK.pass_minutes(minutes)
    again = Conversation(limit=LIMIT, counter=count, clock=CLOCK, store=tmp_path / "talk.db")
    assert is_collected(again) is is_cold
    again.close()


@pytest.mark.parametrize(("minutes", "is_cold"), [(4, False), (6, True)])
def test_a_host_that_checkpoints_rarely_says_when_it_made_its_last_request(
    minutes: int, is_cold: bool
) -> None:
    talk = four_fifths()
    CLOCK.pass_minutes(60)
    again = Conversation.from_state(talk.state(), limit=LIMIT, counter=count, clock=CLOCK)
    again.note_request(CLOCK.now)
    again.note_request(CLOCK.now - timedelta(minutes=30))
    CLOCK.pass_minutes(minutes)
    assert is_collected(again) is is_cold


def test_another_model_finds_a_cold_cache() -> None:
    talk = four_fifths()
    talk.note_cold_cache()
    assert is_collected(talk)


@pytest.mark.parametrize(("reads", "is_cold"), [(0, True), (500, False), (None, False)])
def test_reported_cache_reads_say_whether_the_cache_is_cold(
    reads: int | None, is_cold: bool
) -> None:
    talk = four_fifths()
    talk.observe(talk.tokens, cached_tokens=reads)
    assert is_collected(talk) is is_cold


def test_reported_usage_calibrates_the_limit_to_the_count_of_the_provider() -> None:
    talk = four_fifths()
    talk.observe(round(1.25 * talk.tokens), cached_tokens=500)
    assert is_collected(talk)
    assert 1.25 * talk.tokens <= 0.65 * LIMIT


@pytest.mark.parametrize("usage", [(-1, None), (1.5, None), (10, -1), ("10", 0)])
def test_impossible_usage_is_refused(usage: tuple[Any, Any]) -> None:
    with pytest.raises(BadInput, match=r"_tokens is .*; expected a number of tokens"):
        Conversation(limit=LIMIT).observe(*usage)


@pytest.mark.parametrize("strategy", ["coverage", "truncate", TIERS], ids=str)
def test_a_large_system_prompt_leaves_a_collection_something_to_keep(strategy: Choice) -> None:
    talk = Conversation(limit=LIMIT, strategy=strategy, counter=count)
    talk.extend([{"role": "system", "content": "x" * int(4 * 0.7 * LIMIT)}], pin=True)
    fixed = talk.tokens
    for n in range(TURNS):
        talk.extend(turn(n))
        size_before = talk.tokens
        assert talk.messages
        if talk.tokens < size_before:
            assert talk.tokens - fixed > 0.5 * (LIMIT - fixed)
            return
    raise AssertionError("nothing was collected")
