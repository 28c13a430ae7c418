"""The instruction budget, its entries, and what it derives from a history."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep.errors import BadInput
from marksweep.ledger import (
    ChildKind,
    InstructionBudget,
    InstructionSource,
    SourceEntry,
    render,
)
from marksweep.ledger.entries import KIND_POLICY, bar
from marksweep.messages import FunctionCall, Message, Part, Role, ToolResult
from marksweep.model import GCPolicy

SYSTEM, PLUGIN, ENRICHMENT, CONVERSATION, THINKING = InstructionSource


def words(message: Message) -> int:
    """Count ten per part, so that every figure is easy to check."""
    return 10 * len(message.parts)


def user(id_: str, text: str = "do") -> Message:
    return Message(Role.USER, (Part(text=text),), id_)


def model(id_: str, text: str = "done") -> Message:
    return Message(Role.MODEL, (Part(text=text),), id_)


def call(id_: str, *calls: str) -> Message:
    return Message(
        Role.MODEL, tuple(Part(function_call=FunctionCall(name, "run")) for name in calls), id_
    )


def result(id_: str, *calls: str) -> Message:
    parts = tuple(Part(function_response=ToolResult(name, "run", "out")) for name in calls)
    return Message(Role.TOOL, parts, id_)


HISTORY = (
    Message(Role.SYSTEM, (Part(text="be good"),), "s"),
    user("u0"),
    call("c0", "a", "b"),
    result("r0", "a", "b"),
    model("m0"),
    user("u1"),
    model("m1"),
    user("u2"),
    call("c2", "a"),
    result("r2", "a"),
    model("m2"),
)


def following(history: list[Message]) -> InstructionBudget:
    budget = InstructionBudget.create_default(1000)
    budget.follow(lambda: history, words)
    return budget


def test_source_entry_timestamp() -> None:
    before = time.time()
    entry = SourceEntry(PLUGIN, 5, GCPolicy.PARTIAL)
    assert before <= entry.created_at <= time.time()
    again = SourceEntry.from_dict(json.loads(json.dumps(entry.to_dict())))
    assert again == entry
    assert SourceEntry(PLUGIN, 5, GCPolicy.PARTIAL, created_at=12.5).created_at == 12.5


def test_an_entry_with_children_counts_its_children_and_not_itself() -> None:
    budget = InstructionBudget(1000)
    budget.set_entry(PLUGIN, 500)
    budget.add_child(PLUGIN, "grep", 30, kind=ChildKind.CORE_TOOL)
    budget.add_child(PLUGIN, "browse", 50, kind=ChildKind.DISCOVERABLE_TOOL)
    assert budget.total_tokens() == 80


def test_every_token_is_eligible_preservable_or_locked_and_only_one_of_them() -> None:
    budget = InstructionBudget.create_default(1000)
    budget.add_child(PLUGIN, "grep", 30, kind=ChildKind.CORE_TOOL)
    budget.add_child(PLUGIN, "browse", 50, kind=ChildKind.DISCOVERABLE_TOOL)
    budget.add_child(CONVERSATION, "q", 70, kind=ChildKind.CLARIFICATION)
    budget.add_child(ENRICHMENT, "memory", 110, GCPolicy.CONDITIONAL)
    assert budget.locked_tokens() == 30
    assert budget.preservable_tokens() == 70
    assert budget.gc_eligible_tokens() == 160
    assert budget.total_tokens() == 260
    assert budget.utilization_percent() == 26.0
    assert budget.available_tokens() == 740


@pytest.mark.parametrize(
    ("kind", "policy"),
    [
        (ChildKind.BASE, GCPolicy.LOCKED),
        (ChildKind.CLIENT, GCPolicy.LOCKED),
        (ChildKind.FRAMEWORK, GCPolicy.LOCKED),
        (ChildKind.CORE_TOOL, GCPolicy.LOCKED),
        (ChildKind.DISCOVERABLE_TOOL, GCPolicy.EPHEMERAL),
        (ChildKind.ORIGINAL_REQUEST, GCPolicy.LOCKED),
        (ChildKind.CLARIFICATION, GCPolicy.PRESERVABLE),
        (ChildKind.TURN_SUMMARY, GCPolicy.PRESERVABLE),
        (ChildKind.WORKING_OUTPUT, GCPolicy.EPHEMERAL),
    ],
)
def test_each_kind_of_child_has_its_default_policy(kind: ChildKind, policy: GCPolicy) -> None:
    budget = InstructionBudget()
    assert budget.add_child(PLUGIN, "x", 1, kind=kind).gc_policy is policy
    assert budget.add_child(PLUGIN, "x", 1, GCPolicy.PARTIAL, kind=kind).gc_policy is (
        GCPolicy.PARTIAL
    )


def test_every_kind_has_a_policy() -> None:
    assert set(KIND_POLICY) == set(ChildKind)


def test_a_default_budget_has_an_empty_entry_for_each_source() -> None:
    budget = InstructionBudget.create_default(200)
    assert [budget.get_entry(source) is not None for source in InstructionSource] == [True] * 5
    assert budget.total_tokens() == 0
    entry = budget.get_entry(SYSTEM)
    assert entry is not None
    assert entry.gc_policy is GCPolicy.LOCKED


def test_children_are_added_found_replaced_and_removed_by_key() -> None:
    budget = InstructionBudget()
    budget.add_child(PLUGIN, "grep", 30)
    held, shown = budget.get_entry(PLUGIN), budget.snapshot()
    budget.add_child(PLUGIN, "grep", 40)
    child = budget.get_child(PLUGIN, "grep")
    assert child is not None
    assert child.tokens == 40
    assert held is not None
    assert held.total_tokens() == 40
    assert shown.total_tokens == shown.entries[PLUGIN].total_tokens() == 30
    assert budget.remove_child(PLUGIN, "grep") == child
    assert budget.get_child(PLUGIN, "grep") is None
    assert budget.remove_child(PLUGIN, "grep") is None


def test_a_host_changes_its_entries_in_place() -> None:
    budget = InstructionBudget(1000)
    budget.add_child(ENRICHMENT, "files", 30, GCPolicy.EPHEMERAL, "Files", {"by": "host"})
    entry = budget.get_entry(ENRICHMENT)
    assert entry is not None
    entry.children["files"].tokens = 50
    assert budget.total_tokens() == 50
    entry.tokens = 0
    entry.children.clear()
    assert budget.total_tokens() == 0


def test_impossible_figures_are_refused() -> None:
    with pytest.raises(BadInput, match="-1"):
        InstructionBudget().set_entry(SYSTEM, -1)
    with pytest.raises(BadInput, match="context_limit is 0"):
        InstructionBudget(0)
    with pytest.raises(BadInput, match="context_limit is 'many'"):
        InstructionBudget("many")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="tokens is 'few' in grep"):
        InstructionBudget().add_child(PLUGIN, "grep", "few")  # type: ignore[arg-type]


def test_a_source_may_be_given_by_its_name_and_an_unknown_one_is_refused() -> None:
    budget = InstructionBudget()
    budget.add_child("plugin", "grep", 30)  # type: ignore[arg-type]
    assert list(budget.entries()) == [PLUGIN]
    child = budget.get_child(PLUGIN, "grep")
    assert child is not None
    assert child.source is PLUGIN
    with pytest.raises(BadInput, match="no instruction source is called 'zebra'; known are sys"):
        budget.set_entry("zebra", 30)  # type: ignore[arg-type]


def test_a_budget_survives_being_written_and_read() -> None:
    budget = following(list(HISTORY))
    budget.add_child(PLUGIN, "grep", 30, kind=ChildKind.CORE_TOOL, metadata={"server": "fs"})
    budget.total_tokens()
    plain = json.loads(json.dumps(budget.to_dict()))
    again = InstructionBudget.from_dict(plain)
    assert again.to_dict() == budget.to_dict()
    again.follow(lambda: HISTORY, words)
    assert again.snapshot() == budget.snapshot()


def test_a_damaged_budget_is_refused_with_the_place() -> None:
    with pytest.raises(BadInput, match="context_limit"):
        InstructionBudget.from_dict({"context_limit": "many"})
    with pytest.raises(BadInput, match="not an instruction budget"):
        InstructionBudget.from_dict({"context_limit": 100, "arrived": {"u0": 1e18}})


def test_a_history_gives_each_message_to_exactly_one_entry() -> None:
    budget = following(list(HISTORY))
    entry = budget.get_entry(CONVERSATION)
    assert entry is not None
    assert {key: (child.gc_policy, child.message_ids) for key, child in entry.children.items()} == {
        "system_0": (GCPolicy.LOCKED, ["s"]),
        "original_request": (GCPolicy.LOCKED, ["u0"]),
        "turn_0.working_0": (GCPolicy.EPHEMERAL, ["c0", "r0"]),
        "turn_0": (GCPolicy.PARTIAL, ["m0"]),
        "turn_1": (GCPolicy.PARTIAL, ["u1", "m1"]),
        "turn_2": (GCPolicy.PARTIAL, ["u2", "m2"]),
        "turn_2.working_0": (GCPolicy.EPHEMERAL, ["c2", "r2"]),
    }
    assert budget.total_tokens() == sum(map(words, HISTORY))


def test_budget_and_history_cannot_disagree() -> None:
    history = list(HISTORY)
    budget = following(history)
    budget.total_tokens()
    del history[5:7]
    assert budget.total_tokens() == sum(map(words, history))
    assert budget.get_child(CONVERSATION, "turn_1") is None
    child = budget.get_child(CONVERSATION, "turn_2")
    assert child is not None, "turns keep their numbers when others go"


def test_a_declaration_sets_the_policy_of_its_messages_but_not_of_the_first_request() -> None:
    budget = following(list(HISTORY))
    budget.add_child(
        CONVERSATION, "q1", 0, kind=ChildKind.CLARIFICATION, message_ids=("u0", "u1", "m1")
    )
    child = budget.get_child(CONVERSATION, "q1")
    assert child is not None
    assert (child.tokens, child.gc_policy, child.message_ids) == (
        20,
        GCPolicy.PRESERVABLE,
        ["u1", "m1"],
    )
    first = budget.get_child(CONVERSATION, "original_request")
    assert first is not None
    assert first.gc_policy is GCPolicy.LOCKED


def test_a_conversation_entry_without_messages_is_refused_once_a_history_is_followed() -> None:
    with pytest.raises(BadInput, match="message_ids"):
        following(list(HISTORY)).add_child(CONVERSATION, "ghost", 10)


def test_a_conversation_is_saved_and_restored_with_its_messages_and_moments() -> None:
    budget = InstructionBudget()
    budget.add_child(CONVERSATION, "turn_0", 40, created_at=12.5, message_ids=["a", "b"])
    budget.add_child(CONVERSATION, "gc_summary_1", 9, GCPolicy.PRESERVABLE, created_at=13.0)
    saved = json.loads(json.dumps(budget.get_conversation_snapshot()))
    again = InstructionBudget.create_default()
    again.restore_conversation_from_snapshot(saved)
    assert again.get_entry(CONVERSATION) == budget.get_entry(CONVERSATION)
    child = again.get_child(CONVERSATION, "turn_0")
    assert child is not None
    assert (child.created_at, child.message_ids) == (12.5, ["a", "b"])


def test_a_snapshot_of_another_program_may_have_more_and_nothing_changes_nothing() -> None:
    budget = InstructionBudget()
    budget.restore_conversation_from_snapshot({"tokens": 7, "total_tokens": 7, "indicator": "x"})
    budget.restore_conversation_from_snapshot(None)
    budget.restore_conversation_from_snapshot({})
    assert budget.total_tokens() == 7
    with pytest.raises(BadInput, match="not a ledger entry"):
        budget.restore_conversation_from_snapshot({"tokens": "many"})
    assert InstructionBudget().get_conversation_snapshot() is None


def test_restored_entries_declare_the_policies_of_a_history_that_is_followed() -> None:
    declared = InstructionBudget()
    declared.add_child(CONVERSATION, "q", 5, GCPolicy.PRESERVABLE, message_ids=["u1"])
    budget = following(list(HISTORY))
    budget.restore_conversation_from_snapshot(declared.get_conversation_snapshot())
    child = budget.get_child(CONVERSATION, "q")
    assert child is not None
    assert (child.tokens, child.gc_policy) == (10, GCPolicy.PRESERVABLE)


def test_thoughts_are_counted_once_and_under_their_own_source() -> None:
    thinking = Message(Role.MODEL, (Part(thought="hm"), Part(text="so")), "t")
    budget = following([user("u0"), thinking])
    entry = budget.get_entry(THINKING)
    assert entry is not None
    assert entry.total_tokens() == 10
    assert {child.source for child in entry.children.values()} == {THINKING}
    assert budget.total_tokens() == 30


def test_summary_numbers_are_never_reused_not_even_after_deletion_and_serialisation() -> None:
    history = [user("u0"), user("gc_summary_4", "[gc_summary_4] so far")]
    budget = following(history)
    budget.total_tokens()
    del history[1:]
    assert budget.next_summary() == 5
    again = InstructionBudget.from_dict(json.loads(json.dumps(budget.to_dict())))
    assert again.next_summary() == 6


def test_a_summary_is_known_by_its_first_line_when_its_id_was_lost() -> None:
    budget = following([user("u0"), user("x", "[gc_summary_2] so far"), user("u1")])
    child = budget.get_child(CONVERSATION, "gc_summary_2")
    assert child is not None
    assert child.gc_policy is GCPolicy.PRESERVABLE
    turn = budget.get_child(CONVERSATION, "turn_1")
    assert turn is not None, "a summary starts no turn"


def test_what_the_user_says_with_results_starts_no_turn() -> None:
    anthropic_result = Message(
        Role.USER,
        (Part(function_response=ToolResult("a", "run", "out")), Part(text="and")),
        "r",
    )
    history = [model("m"), user("u0"), call("c", "a"), anthropic_result, user("u1")]
    entry = following(history).get_entry(CONVERSATION)
    assert entry is not None
    assert {key: child.message_ids for key, child in entry.children.items()} == {
        "preamble": ["m"],
        "original_request": ["u0"],
        "turn_0.working_0": ["c", "r"],
        "turn_1": ["u1"],
    }


def working(*history: Message) -> dict[str, list[str]]:
    entry = following(list(history)).get_entry(CONVERSATION)
    assert entry is not None
    return {
        key: list(child.message_ids) for key, child in entry.children.items() if "working" in key
    }


def test_a_call_id_used_again_belongs_to_the_latest_call() -> None:
    found = working(
        user("u0"), call("c0", "x"), result("r0", "x"), call("c1", "x"), result("r1", "x")
    )
    assert found == {"turn_0.working_0": ["c0", "r0"], "turn_0.working_1": ["c1", "r1"]}


def test_calls_are_numbered_in_order_whatever_the_order_of_their_results() -> None:
    found = working(
        user("u0"), call("c0", "x"), call("c1", "y"), result("r1", "y"), result("r0", "x")
    )
    assert found == {"turn_0.working_0": ["c0", "r0"], "turn_0.working_1": ["c1", "r1"]}


def test_a_result_that_comes_with_the_next_call_belongs_to_the_call_it_answers() -> None:
    both = Message(Role.MODEL, (*result("", "x").parts, *call("", "y").parts), "both")
    found = working(user("u0"), call("c0", "x"), both, result("r1", "y"))
    assert found == {"turn_0.working_0": ["c0", "both", "r1"]}


@given(st.lists(st.sampled_from("ucrms"), max_size=30), st.data())
def test_the_ledger_weighs_what_the_history_weighs(kinds: list[str], data: st.DataObject) -> None:
    make: dict[str, Callable[[str], Message]] = {
        "u": user,
        "m": model,
        "s": lambda id_: Message(Role.SYSTEM, (Part(text="s"),), id_),
        "c": lambda id_: call(id_, "a", "b"),
        "r": lambda id_: result(id_, data.draw(st.sampled_from(["a", "b", "zz"]))),
    }
    history = [make[kind](f"{kind}{at}") for at, kind in enumerate(kinds)]
    budget = following(history)
    snapshot = budget.snapshot()
    assert snapshot.total_tokens == sum(map(words, history))
    entry = budget.get_entry(CONVERSATION)
    assert entry is not None
    held = [id_ for child in entry.children.values() for id_ in child.message_ids]
    assert sorted(held) == sorted(message.message_id for message in history)
    assert snapshot.total_tokens == (
        snapshot.gc_eligible_tokens + snapshot.preservable_tokens + snapshot.locked_tokens
    )


def test_the_rendered_ledger_shows_bars_sums_and_the_limit() -> None:
    budget = following(list(HISTORY))
    budget.add_child(PLUGIN, "grep", 250, kind=ChildKind.CORE_TOOL)
    lines = render(budget.snapshot(), children=2).splitlines()
    grep = next(line for line in lines if "grep" in line)
    assert "██████ " in grep
    assert "250" in grep
    assert "25.0 %" in grep
    assert any("5 more" in line for line in lines)
    assert lines[-1].startswith("limit 1,000: 620 free")


@pytest.mark.parametrize(
    ("tokens", "drawn"), [(0, "    "), (1, "▏   "), (500, "██  "), (5000, "████")]
)
def test_a_bar_is_as_long_as_its_share_and_never_invisible(tokens: int, drawn: str) -> None:
    assert bar(tokens, 1000, width=4) == drawn
