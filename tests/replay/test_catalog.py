"""Strategies by name, with options, as the lab drives them through a Conversation."""

from __future__ import annotations

import pytest

from marksweep.errors import BadInput
from marksweep.heaps import gaps
from marksweep.replay.atoms import names
from marksweep.replay.catalog import canonical, is_usable, maker, settings_for, settings_of
from marksweep.replay.collectors import ConversationCollector
from marksweep.replay.drive import Pricer, drive
from marksweep.replay.hits import Reader, proofs
from marksweep.replay.needs import study
from marksweep.replay.records import Trajectory
from marksweep.replay.references import Truncate
from tests.replay.stories import by_words, history, user
from tests.replay.test_conversation_collector import long_history

SOUND = (
    "coverage",
    "coverage_quality",
    "truncate:target_percent=60",
    "superseded+mask+truncate:spare=1",
    "mask+truncate",
)
"""Strategies that can always get to the limit."""


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("seed", range(4))
def test_no_rule_is_broken_on_random_histories(name: str, seed: int) -> None:
    for story in (history(seed), long_history(seed)):
        found = study(story, names)
        for limit in (80, 400, 2000):
            collector = maker(name)(by_words)
            steps = drive(
                found, proofs(found), collector, limit, tokens=Pricer(by_words), reader=Reader()
            )
            assert {step.violation for step in steps} == {None}, (limit, steps)


@pytest.mark.parametrize("seed", range(4))
def test_the_reference_truncate_is_what_its_settings_give(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gaps, "LINE_SHARE", 0.0)  # the reference leaves no line for what was swept
    given = settings_for("truncate")
    assert given is not None
    story = _with_one_request(long_history(seed))
    messages = list(story.messages)
    for limit in (80, 400, 2000):
        both = (Truncate(by_words), ConversationCollector(by_words, settings_of(given)))
        for collector in both:
            collector.start(messages[: story.pinned], limit)
        for step in study(story, names).steps:
            for collector in both:
                collector.add(messages[step.tail : step.at])
            assert both[0].context() == both[1].context()


def _with_one_request(story: Trajectory) -> Trajectory:
    """Remove later user messages: a conversation keeps them, the reference does not."""
    work = [m for m in story.messages[1:] if m["role"] == "tool" or m.get("tool_calls")]
    messages = [story.messages[0], *work]
    return Trajectory(id=story.id, messages=tuple(messages), pinned=story.pinned)


def test_it_recalls_what_it_swept() -> None:
    collector = maker("truncate:target_percent=60")(by_words)
    assert isinstance(collector, ConversationCollector)
    collector.start([user("the task")], 60)
    for n in range(12):
        collector.add([user(f"berth_{n} has the number {n * 37}")])
        context = collector.context()
    assert not any("berth_1 " in str(message) for message in context)
    (passage,) = collector.recall("which number has berth_1", 20)
    assert "berth_1 has the number 37" in passage


def test_impossible_options_are_refused_by_name() -> None:
    for name, expected in (
        ("mask:colour=3", "colour"),
        ("coverage:spare=3", "spare"),
        ("mask:spare=-1", "spare"),
        ("coverage_quality:target_percent=50", "no deeper"),
        ("mask:spare=1,many", "key=value"),
        ("truncate:target_percent=140", "target_percent"),
        ("mask:preserve_recent_turns=-2", "preserve_recent_turns"),
    ):
        with pytest.raises(BadInput, match=expected):
            canonical(name)


def test_only_what_a_program_can_have_is_usable() -> None:
    assert is_usable("coverage")
    assert is_usable("truncate")
    assert is_usable("gc_hybrid")
    assert not any(map(is_usable, ("GDSF", "random", "mask last 10", "clairvoyant")))
