"""The covering scorer: what a segment alone holds, per token, and whether the agent used it."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta

import pytest

from marksweep.cli.demo.sample import sample_trajectory
from marksweep.core.context import PlanningContext
from marksweep.core.covering import Covering
from marksweep.core.roots import Focus
from marksweep.model import Hold, Link, Reference, Segment
from marksweep.replay.atoms import names
from marksweep.replay.counting import exact
from marksweep.replay.drive import Pricer, drive
from marksweep.replay.hits import Reader, proofs
from marksweep.replay.measures import Outcome, figures
from marksweep.replay.needs import study
from marksweep.replay.records import Wire, price, text_of
from marksweep.segments import Segments
from marksweep.settings import Roots, Scoring, Settings
from marksweep.stores.memory import MemoryStore
from marksweep.strategies.scored import Scored
from marksweep.testing.builders import NOW, segment, snapshot

READ = "\n".join(f"value_{n} = compute_it({n}) and more" for n in range(12))


def order(*segments: Segment) -> list[str]:
    context = PlanningContext.of(snapshot(*segments), Focus(now=NOW))
    proposals = Scored(Covering()).rank(context)
    return [segments[proposal.members[0]].segment_id for proposal in proposals]


def code(name: str, text: str, tokens: int = 100, hours_old: float = 1.0) -> Segment:
    return segment(name, text=text, type="code", tokens=tokens, hours_old=hours_old)


def test_a_copy_goes_first_and_the_last_copy_late() -> None:
    other = "\n".join(f"other_{n} = something({n}) else" for n in range(12))
    found = order(code("old", READ, hours_old=2), code("other", other), code("new", READ))
    assert found[0] == "old"
    assert found.index("new") > 0


def test_of_two_copies_only_one_is_without_worth() -> None:
    segments = (code("a", READ), code("b", READ), code("thin", "one_name = 1", tokens=100))
    assert order(*segments) == ["b", "thin", "a"]


def test_what_the_agent_wrote_about_stays_longer() -> None:
    plain = code("plain", "alpha_one is here")
    used = code("used", "omega_two is here")
    note = segment("note", text="I need omega_two", type="note", tokens=10, hours_old=1)
    found = order(used, plain, note)
    assert found.index("plain") < found.index("used")


def test_the_agents_echo_only_half_stands_in_for_what_it_was_shown() -> None:
    shown = code("shown", "alpha_one alpha_two")
    again = code("again", "alpha_one alpha_two")
    echo = segment("echo", text="alpha_one alpha_two", type="message", tokens=100, hours_old=1)
    known = Covering().over((shown, again, echo))
    with_a_copy = known(shown, NOW)
    known.forget("again")
    with_an_echo = known(shown, NOW)
    known.forget("echo")
    alone = known(shown, NOW)
    assert alone < with_an_echo < with_a_copy


def test_worth_counts_per_token_and_fades_with_age() -> None:
    score = Covering()
    assert score(code("long", READ, tokens=900), NOW) > score(code("short", READ, tokens=90), NOW)
    assert score(code("old", READ, hours_old=99), NOW) > score(code("new", READ), NOW)
    assert 0 < score(code("any", READ), NOW + timedelta(days=9_999)) <= 1


def test_a_reason_says_what_goes_with_a_segment() -> None:
    context = PlanningContext.of(snapshot(code("a", READ), code("b", READ)), Focus(now=NOW))
    first, second = Scored(Covering()).rank(context)
    assert first.reason.endswith("all of it stands elsewhere")
    assert second.reason.endswith("names and lines go with it")


class Kept:
    """The working set as a collector: each message a segment, each call paired with its results."""

    def __init__(self, scorer: str) -> None:
        self._settings = Settings(scoring=Scoring(scorer=scorer), roots=Roots(last_messages=0))
        self._count = exact()

    def start(self, pinned: list[Wire], limit: int) -> None:
        self._limit = limit - sum(price(message, self._count) for message in pinned)
        self._pinned, self._now = pinned, NOW
        self._told: list[Wire] = []
        self._tail: list[str] = []
        self._call = ""
        self._live = Segments(
            MemoryStore(), limit=10**9, settings=self._settings, clock=lambda: self._now
        )

    def add(self, messages: list[Wire]) -> None:
        for name in self._tail:
            self._live.unpin(name)
        self._tail = []
        for message in messages:
            self._now += timedelta(minutes=1)
            name = str(len(self._told))
            is_result = message["role"] == "tool"
            pair = Reference(self._call, Link.ANSWERS, Hold.PAIRED) if is_result else None
            self._live.add(
                Segment(
                    segment_id=name,
                    type="message" if message["role"] == "assistant" else "code",
                    text=text_of(message),
                    tokens=price(message, self._count),
                    created_at=self._now,
                    references=(pair,) if pair else (),
                )
            )
            self._live.pin(name, by="tail")
            self._tail.append(name)
            self._call = self._call if is_result else name
            self._told.append(message)

    def context(self) -> list[Wire]:
        self._live.collect(self._live.plan(target_tokens=self._limit))
        kept = sorted(int(each.segment_id) for each in self._live.list())
        return [*self._pinned, *(self._told[n] for n in kept)]


def recall_of(scorer: str, share: float) -> float:
    found = study(sample_trajectory(), names)
    tokens = Pricer(exact())
    sizes = [tokens(message) for message in found.trajectory.messages]
    pinned = found.trajectory.pinned
    limit = sum(sizes[:pinned]) + int(share * sum(sizes[pinned:]))
    steps = drive(found, proofs(found), Kept(scorer), limit, tokens=tokens, reader=Reader())
    assert {step.violation for step in steps} == {None}
    return figures([Outcome("sample", tuple(steps))]).nr


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_it_keeps_more_of_what_is_needed_than_age_does(share: float) -> None:
    assert recall_of("covering", share) > recall_of("seed_age", share) + 10


def test_small_steps_know_what_they_have_taken() -> None:
    settings = Settings(scoring=Scoring(scorer="covering"), roots=Roots(last_messages=0))
    now = [NOW]
    context = Segments(MemoryStore(), limit=1_000, settings=settings, clock=lambda: now[0])
    for n in range(40):
        now[0] += timedelta(minutes=1)
        text = READ if n % 2 else f"only_{n} stands here and nowhere_{n} else"
        context.add(
            Segment(segment_id=str(n), type="code", text=text, tokens=50, created_at=now[0])
        )
    left = {each.segment_id for each in context.list()}
    copies = [name for name in left if int(name) % 2]
    assert len(left) < 20
    assert 1 <= len(copies) < len(left) / 2


def test_the_order_is_the_same_whatever_the_hash_seed() -> None:
    program = (
        "from tests.core.test_covering import *\n"
        "print(order(*(code(str(n), READ[n:], tokens=n + 1) for n in range(30))))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(said) == 1
