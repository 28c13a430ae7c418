"""Third-party strategies: they run in separate processes, get only the past, and are judged."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from marksweep.cli.demo import recorded
from marksweep.errors import BadInput, UnknownName
from marksweep.replay import sandbox
from marksweep.replay.atoms import names
from marksweep.replay.catalog import canonical, maker
from marksweep.replay.counting import exact
from marksweep.replay.drive import Collector, Pricer, StepResult, drive
from marksweep.replay.guards import Violation
from marksweep.replay.hits import Reader, proofs
from marksweep.replay.measures import Outcome, figures
from marksweep.replay.needs import study
from marksweep.replay.sandbox import SandboxedStrategy, StrategyFailed
from tests.replay.stories import BASH, by_words

HERE = "tests.replay.third_party"
ENOUGH = 10_000


@pytest.fixture(autouse=True)
def _no_process_left() -> Iterator[None]:
    yield
    sandbox._end_all()


def driven(collector: Collector) -> list[StepResult]:
    found = study(BASH, names)
    return drive(found, proofs(found), collector, ENOUGH, tokens=Pricer(by_words), reader=Reader())


def broken(name: str, patience: float = 30.0) -> list[Violation | None]:
    return [step.violation for step in driven(SandboxedStrategy(f"{HERE}:{name}", patience))]


def test_an_honest_one_breaks_no_rule_and_has_its_own_process() -> None:
    assert broken("Recent") == [None] * 4
    assert sandbox._sandboxes[f"{HERE}:Recent"].pid != os.getpid()


@pytest.mark.parametrize(
    ("name", "violation"),
    [
        ("EditsPrefix", Violation.PINNED),
        ("SplitsPair", Violation.PAIRING),
        ("Raises", Violation.ERROR),
        ("GivesNonsense", Violation.ERROR),
        ("GivesBrokenCalls", Violation.MALFORMED),
    ],
)
def test_a_broken_rule_costs_that_step_and_is_named(name: str, violation: Violation) -> None:
    steps = driven(SandboxedStrategy(f"{HERE}:{name}:at=3"))
    assert [step.violation for step in steps] == [None, None, violation, None]
    assert steps[2].any == 0.0
    assert all(step.cost >= 0 for step in steps)


def test_one_that_reads_ahead_in_the_transcript_is_caught(tmp_path: Path) -> None:
    path = tmp_path / "transcript.json"
    path.write_text(json.dumps(BASH.messages))
    steps = driven(SandboxedStrategy(f"{HERE}:Peeks:at=2,path={path}"))
    assert [step.violation for step in steps] == [None, Violation.PEEKED, None, None]


def test_one_that_hangs_is_ended_named_and_not_asked_again() -> None:
    steps = driven(SandboxedStrategy(f"{HERE}:Hangs:at=2", patience=1.0))
    assert [step.violation for step in steps] == [None, *[Violation.ERROR] * 3]
    assert "Hangs:at=2 did not answer within 1 seconds" in steps[1].said
    assert sum(step.seconds for step in steps) < 20
    failures = figures([Outcome("bash", tuple(steps))]).failures
    assert failures == (f"bash, step 2: {steps[1].said}",)


def test_one_that_dies_is_named_and_is_restarted_for_the_next_transcript() -> None:
    collector = SandboxedStrategy(f"{HERE}:Dies:at=2")
    for _ in range(2):
        steps = driven(collector)
        assert [step.violation for step in steps] == [None, *[Violation.ERROR] * 3]
        assert "Dies:at=2 died (exit code 7)" in steps[1].said


def test_one_that_fails_at_its_start_fails_every_step() -> None:
    steps = driven(SandboxedStrategy(f"{HERE}:FailsAtStart"))
    assert {step.violation for step in steps} == {Violation.ERROR}
    assert "not today" in steps[0].said


def test_what_it_prints_and_reads_disturbs_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    assert broken("Chatters") == [None] * 4
    assert capfd.readouterr().out == ""


def test_a_killed_process_is_reported_by_its_signal() -> None:
    collector = maker("gc_truncate")(exact())
    messages = recorded()
    collector.start(messages[:2], 3_000)
    collector.add(messages[2:12])
    assert collector.context()[:2] == messages[:2]
    os.kill(sandbox._sandboxes["gc_truncate"].pid, signal.SIGKILL)
    with pytest.raises(StrategyFailed, match="gc_truncate died"):
        collector.context()
    collector.start(messages[:2], 3_000)
    collector.add(messages[2:4])
    assert len(collector.context()) == 4


def test_a_strategy_of_the_shared_core_is_driven_through_a_conversation() -> None:
    collector = SandboxedStrategy(f"{HERE}:Oldest")
    messages = recorded()
    collector.start(messages[:2], 3_000)
    for at in range(2, 40, 2):
        collector.add(messages[at : at + 2])
        context = collector.context()
    assert context[:2] == messages[:2]
    assert context[-2:] == messages[38:40]
    assert len(context) < 40


def test_recall_is_asked_of_those_that_have_it() -> None:
    recall = SandboxedStrategy(f"{HERE}:Remembers").recall
    assert recall
    assert recall("ports", 100) == ["about ports"]
    assert SandboxedStrategy(f"{HERE}:Recent").recall is None


def test_one_that_cannot_be_loaded_is_refused_before_any_work() -> None:
    assert canonical(f"{HERE}:Recent:at=2") == f"{HERE}:Recent:at=2"
    for name, expected in (
        ("nowhere.to.be:Found", "cannot be imported"),
        (f"{HERE}:Nobody", "cannot be imported"),
        (f"{HERE}:NUMBER", "expected a strategy"),
        (f"{HERE}:Recent:colour=3", "colour"),
        (f"{HERE}:DiesAtOnce", "exit code 4"),
        ("gc_magic", "gc_magic"),
        ("gc_hybrid:preserve_recent_turns=lots", "preserve_recent_turns"),
    ):
        with pytest.raises(BadInput, match=expected):
            canonical(name)
    with pytest.raises(UnknownName, match="of your own"):
        canonical("magic")
