"""Summaries of segments, and a conversation that they keep short."""

from __future__ import annotations

from datetime import UTC, datetime

from marksweep.conversation import Conversation
from marksweep.dialects import validate
from marksweep.model import GCPolicy, Link, Segment
from marksweep.strategies.hybrid import Hybrid
from marksweep.strategies.summarize import Summarize
from marksweep.summarizers.digesting import Digester, weight

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SAID = "We decided to skip empty rows in importer.py because upstream sends them. " * 3


def segment(n: int, text: str) -> Segment:
    return Segment(
        segment_id=f"m{n}",
        type="message",
        created_at=NOW,
        text=text,
        tokens=weight(text),
        position=n,
    )


def test_a_digest_stands_for_its_segments_and_is_lighter() -> None:
    segments = [segment(n, f"{SAID} Step {n}.") for n in range(10)]
    made = Digester()(segments, ())
    assert made is not None
    assert made.tokens < sum(s.tokens for s in segments)
    assert "skip empty rows" in made.text
    assert made.policy is GCPolicy.PRESERVABLE
    assert [r.target for r in made.references if r.link is Link.DERIVED] == [
        f"m{n}" for n in range(10)
    ]
    again = Digester()(segments, ())
    assert again == made


def test_what_would_not_shrink_is_left_alone() -> None:
    assert Digester()([segment(0, "ok")], ()) is None


def talk(turns: int) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = [{"role": "user", "content": "Mend the importer."}]
    for n in range(turns):
        messages.append({"role": "assistant", "content": f"{SAID} Step {n} took {n} ms."})
        messages.append({"role": "user", "content": f"Go on with part {n}."})
    return messages


def test_a_conversation_is_kept_short_by_summaries_and_can_be_undone() -> None:
    for strategy in (Summarize(Digester()), Hybrid(Digester(), middle=38)):
        chat = Conversation(limit=1500, strategy=strategy)
        chat.extend(talk(40))
        before = list(chat._heap.messages())
        plan = chat.plan()
        chat.collect(plan)
        messages = chat.messages
        assert validate(messages) == []
        assert "Summary of" in str(messages)
        assert plan.short_by == 0
        chat.undo()
        assert list(chat._heap.messages()) == before
