"""What a plan would do, as shown to users."""

from __future__ import annotations

from marksweep.conversation import Conversation
from marksweep.preview import MAX_LINES, excerpt, largest_changes, likely_missed
from tests.cli.support import history


def test_the_largest_steps_are_shown_before_and_after_in_order() -> None:
    talk = Conversation(limit=10**6)
    talk.extend(history(12))
    before, plan = talk.history, talk.plan(3_000)
    talk.collect(plan)
    found = largest_changes(plan, before, talk.history)
    assert [change.tokens for change in found] == sorted(s.size for s in plan.steps)[-3:][::-1]
    for change in found:
        assert change.before.startswith("line ")
        assert "[marksweep: " in change.after
        assert change.reason


def test_of_what_went_whole_what_stands_in_its_place_is_shown_or_nothing() -> None:
    talk = Conversation(limit=10**6, strategy="truncate")
    talk.extend(history(12))
    before, plan = talk.history, talk.plan(3_000)
    talk.collect(plan)
    ids = {message.message_id for message in before}
    made = [message.text for message in talk.history if message.message_id not in ids]
    for change in largest_changes(plan, before, talk.history):
        assert "read_file" in change.before
        assert change.after == "" or any(change.after in text for text in made)


def test_names_that_the_agent_used_and_that_are_gone_are_listed_most_used_first() -> None:
    said = [
        {"role": "user", "content": "Look at order_77, order_88 and order_99."},
        {"role": "assistant", "content": "I look up order_77 and order_88 and mine_1."},
        {"role": "assistant", "content": "order_77 and order_88 and mine_1 are open."},
        {"role": "assistant", "content": "order_77 it is, as order_99 is closed."},
    ]
    talk = Conversation(limit=10**6)
    ids = talk.extend(said)
    kept = [message for message in talk.history if message.message_id == ids[2]]
    gone = likely_missed(talk.history, [])
    assert [(each.name, each.uses) for each in gone] == [("order_77", 3), ("order_88", 2)]
    assert gone[0].message == ids[0]
    assert likely_missed(talk.history, kept) == ()


def test_an_excerpt_of_a_text_with_a_gap_is_around_the_gap() -> None:
    lines = [f"line {n}" for n in range(100)]
    assert excerpt("\n".join(lines)).splitlines()[0] == "line 0"
    lines[50] = '[marksweep: 3 of 100 lines left out, 9 tokens; recall("m6")]'
    shown = excerpt("\n".join(lines)).splitlines()
    assert lines[50] in shown
    assert len(shown) == MAX_LINES + 1
    assert shown[-1].startswith("(and ")
