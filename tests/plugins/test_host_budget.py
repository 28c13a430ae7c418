"""A budget that its host maintains: what it declares counts, and stays consistent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep.ledger import InstructionBudget, InstructionSource
from marksweep.messages import FunctionCall, Message, Part, Role, ToolResult
from marksweep.model import GCPolicy
from marksweep.plugins import (
    GCConfig,
    GCRemovalItem,
    GCResult,
    GCTriggerReason,
    apply_result,
    load_gc_plugin,
)
from tests.plugins.histories import ids, say, talk, unpaired

SYSTEM, PLUGIN, ENRICHMENT, CONVERSATION, THINKING = InstructionSource
LIMIT = 10_000


def declared(turns: int, tokens: int = 900) -> tuple[list[Message], InstructionBudget]:
    """Make a history, and a budget that declares the tokens of each turn, whatever its words."""
    history = talk(turns, size=3)
    budget = InstructionBudget.create_default(LIMIT)
    budget.add_child(SYSTEM, "base", 360, GCPolicy.LOCKED)
    for n in range(turns):
        budget.add_child(
            CONVERSATION,
            f"turn_{n}",
            tokens,
            GCPolicy.PARTIAL,
            created_at=float(n + 1),
            message_ids=[f"u{n}", f"m{n}"],
        )
    return history, budget


def collect(
    history: list[Message],
    budget: InstructionBudget,
    plugin: str = "gc_budget",
    **config: object,
) -> tuple[list[Message], GCResult]:
    settings = {"preserve_recent_turns": 2, **config}
    return load_gc_plugin(plugin, {"notify_on_gc": False}).collect(
        history,
        {"percent_used": budget.utilization_percent()},
        GCConfig(**settings),  # type: ignore[arg-type]
        GCTriggerReason.THRESHOLD,
        budget,
    )


def test_what_the_budget_declares_is_what_a_collection_counts() -> None:
    history, budget = declared(10)
    assert budget.utilization_percent() == 93.6
    kept, result = collect(history, budget)
    assert (result.success, result.tokens_before) == (True, 9_360)
    assert 6_000 - 900 <= result.tokens_after <= 6_000
    assert len(kept) < len(history)
    assert result.tokens_freed == sum(item.tokens_freed for item in result.removal_list)


def test_the_budget_is_in_step_after_the_result_was_applied() -> None:
    history, budget = declared(10)
    kept, result = collect(history, budget)
    apply_result(budget, result, kept)
    assert budget.total_tokens() == result.tokens_after
    again, second = collect(kept, budget)
    assert (again, second.items_collected) == (kept, 0)
    assert second.tokens_before == result.tokens_after


def test_an_entry_of_which_messages_are_left_stays_with_the_rest_of_its_tokens() -> None:
    history, budget = declared(10)
    kept, result = collect(history, budget)
    assert "u0" in ids(kept), "the first request stays"
    apply_result(budget, result, kept)
    child = budget.get_child(CONVERSATION, "turn_0")
    assert child is not None
    assert child.message_ids == ["u0"]
    assert 0 < child.tokens < 900


def test_messages_that_the_budget_does_not_count_stay() -> None:
    history, budget = declared(10)
    budget.remove_child(CONVERSATION, "turn_3")
    kept, _ = collect(history, budget, target_percent=10.0)
    assert {"u3", "m3"} <= set(ids(kept))
    assert "m4" not in ids(kept)


def test_a_call_that_is_counted_takes_its_result_along() -> None:
    history, budget = declared(4)
    call = FunctionCall("c", "run", {})
    history[3:3] = [
        Message(Role.MODEL, (Part(function_call=call),), "call"),
        Message(Role.TOOL, (Part(function_response=ToolResult("c", "run", "out")),), "result"),
        say(Role.MODEL, "after", 2),
    ]
    budget.add_child(CONVERSATION, "work", 6_000, GCPolicy.EPHEMERAL, message_ids=["call"])
    kept, result = collect(history, budget)
    assert [(item.child_key, item.reason) for item in result.removal_list] == [
        ("work", "ephemeral")
    ]
    assert unpaired(kept) == set()
    assert "result" not in ids(kept)


def test_what_the_host_calls_ephemeral_goes_oldest_first_also_in_recent_turns() -> None:
    history, budget = declared(3, tokens=1_000)
    for n in (2, 1, 0):
        budget.remove_child(CONVERSATION, f"turn_{n}")
        budget.add_child(
            CONVERSATION,
            f"work_{n}",
            2_600,
            GCPolicy.EPHEMERAL,
            created_at=float(n + 1),
            message_ids=[f"m{n}"],
        )
    kept, result = collect(history, budget, preserve_recent_turns=5)
    assert [item.child_key for item in result.removal_list] == ["work_0"]
    assert result.tokens_after == 5_560
    assert "m0" not in ids(kept)


def test_turns_of_which_only_the_tokens_are_known_go_from_the_budget() -> None:
    history = talk(2)
    budget = InstructionBudget(LIMIT)
    for n in range(10):
        budget.add_child(CONVERSATION, f"turn_{n}", 900, GCPolicy.PARTIAL)
    kept, result = collect(history, budget, pinned_turn_indices=[1], target_percent=20.0)
    assert kept == history
    assert [item.child_key for item in result.removal_list] == [
        f"turn_{n}" for n in (0, 2, 3, 4, 5, 6, 7)
    ], "the pinned and the newest stay"
    assert {item.reason for item in result.removal_list} == {"partial_turn"}
    apply_result(budget, result, kept)
    assert budget.total_tokens() == result.tokens_after == 2_700


def test_a_source_without_children_is_shared_out_among_all_messages() -> None:
    history = talk(10, size=3)
    budget = InstructionBudget(LIMIT)
    budget.set_entry(CONVERSATION, 9_000)
    kept, result = collect(history, budget)
    assert result.tokens_before == 9_000
    assert result.tokens_after <= 6_000
    assert len(kept) < len(history)


def test_the_phases_of_a_budget_that_its_host_keeps() -> None:
    history, budget = declared(10, tokens=500)
    budget.add_child(ENRICHMENT, "memory", 700)
    budget.add_child(PLUGIN, "browse", 800, GCPolicy.EPHEMERAL, created_at=2.0)
    budget.add_child(THINKING, "turn_1", 600, created_at=1.0)
    budget.add_child(CONVERSATION, "q", 1_600, GCPolicy.PRESERVABLE, message_ids=["gone"])
    _, result = collect(history, budget, target_percent=5.0)
    words = [(item.reason, item.source) for item in result.removal_list]
    assert words[:3] == [
        ("enrichment_bulk_clear", ENRICHMENT),
        ("ephemeral", THINKING),
        ("ephemeral", PLUGIN),
    ]
    assert words[-1] == ("preservable_under_pressure", CONVERSATION)
    assert result.details["enrichment_cleared"] is True
    assert result.details["ephemeral_removed"] == 2
    assert result.details["preservable_removed"] == 1


def test_a_summary_becomes_an_entry_under_the_name_of_who_made_it() -> None:
    history, budget = declared(12, tokens=750)
    kept, result = collect(history, budget, "gc_summarize")
    apply_result(budget, result, kept)
    child = budget.get_child(CONVERSATION, "gc_summary_1")
    assert child is not None
    assert (child.label, child.gc_policy) == ("Context Summary", GCPolicy.PRESERVABLE)
    assert child.metadata["created_by"] == "gc_summarize"
    assert child.tokens == result.details["summary_tokens"]
    assert budget.total_tokens() == result.tokens_after


def test_a_summary_of_a_foreign_plugin_gets_the_next_number() -> None:
    budget = InstructionBudget()
    result = GCResult(
        success=True,
        items_collected=1,
        tokens_before=9,
        tokens_after=5,
        plugin_name="gc_mine",
        trigger_reason=GCTriggerReason.MANUAL,
        details={"summary_tokens": 5},
        removal_list=[GCRemovalItem(CONVERSATION)],
    )
    budget.add_child(CONVERSATION, "turn_0", 9)
    for _ in range(2):
        apply_result(budget, result, [])
    entry = budget.get_entry(CONVERSATION)
    assert entry is not None
    assert {key: child.tokens for key, child in entry.children.items()} == {"gc_summary_2": 5}


def test_without_a_percentage_the_budget_says_how_full_it_is() -> None:
    history, budget = declared(4)
    budget.add_child(CONVERSATION, "q", 6_000, GCPolicy.PRESERVABLE, message_ids=["gone"])
    plugin = load_gc_plugin("gc_budget")
    _, result = plugin.collect(history, {}, GCConfig(), GCTriggerReason.THRESHOLD, budget)
    assert result.details["preservable_removed"] == 1


@pytest.mark.parametrize("plugin", ["gc_truncate", "gc_summarize", "gc_hybrid", "gc_coverage"])
@given(tokens=st.lists(st.integers(0, 2_000), min_size=3, max_size=9))
def test_freed_tokens_are_those_of_the_budget_whatever_the_plugin(
    plugin: str, tokens: list[int]
) -> None:
    history = talk(len(tokens), size=4)
    budget = InstructionBudget(LIMIT)
    for n, size in enumerate(tokens):
        budget.add_child(CONVERSATION, f"turn_{n}", size, message_ids=[f"u{n}", f"m{n}"])
    if not sum(tokens):
        return
    kept, result = collect(history, budget, plugin, preserve_recent_turns=0)
    assert result.tokens_before == sum(tokens)
    apply_result(budget, result, kept)
    assert budget.total_tokens() == result.tokens_after


@st.composite
def kept_budgets(draw: st.DrawFn) -> tuple[list[Message], InstructionBudget]:
    """Draw a history with tools, and a budget that names some of its messages, in any grouping."""
    history = talk(draw(st.integers(1, 6)), size=3, tools=draw(st.integers(0, 2)), output=5)
    budget = InstructionBudget(draw(st.sampled_from([500, 3_000])))
    names = draw(st.permutations(ids(history)))
    policies = st.sampled_from([p for p in GCPolicy if p is not GCPolicy.CONDITIONAL])
    while names:
        size = draw(st.integers(1, 4))
        taken, names = names[:size], names[size:]
        if draw(st.booleans()):
            budget.add_child(
                CONVERSATION,
                f"entry.{len(names)}",
                draw(st.integers(0, 400)),
                draw(policies),
                message_ids=[*taken, *(["gone"] if draw(st.booleans()) else [])],
            )
    for source in (SYSTEM, PLUGIN, ENRICHMENT):
        budget.add_child(source, "x", draw(st.integers(0, 300)), draw(policies))
    return history, budget


@given(given=kept_budgets(), recent=st.integers(0, 3), target=st.integers(0, 80))
def test_whatever_a_host_declares_the_laws_hold(
    given: tuple[list[Message], InstructionBudget], recent: int, target: int
) -> None:
    history, budget = given
    entry = budget.get_entry(CONVERSATION)
    declared_tokens = entry.total_tokens() if entry else 0
    before = budget.total_tokens()
    children = budget.declared(CONVERSATION)
    kept, result = collect(
        history, budget, preserve_recent_turns=recent, target_percent=float(target)
    )
    assert unpaired(kept) == set()
    assert ids(kept) == [name for name in ids(history) if name in set(ids(kept))]
    for child in children.values():
        if child.gc_policy is GCPolicy.LOCKED:
            assert set(child.message_ids) - {"gone"} <= set(ids(kept))
    if not declared_tokens:
        return
    assert result.tokens_before == before
    assert result.tokens_freed == sum(item.tokens_freed for item in result.removal_list)
    named = {name for child in children.values() for name in child.message_ids}
    lost = set(ids(history)) - set(ids(kept))
    assert not {n for n in lost - named if n.startswith(("u", "m", "system"))}
    apply_result(budget, result, kept)
    assert budget.total_tokens() == result.tokens_after
    goal = budget.context_limit * target // 100
    if result.tokens_after > goal:
        assert "cannot_reach_target" in result.details
    entry = budget.get_entry(CONVERSATION)
    if not entry or not entry.total_tokens():
        return  # Nothing is declared any more: the next collection counts the messages itself.
    again, second = collect(
        kept, budget, preserve_recent_turns=recent, target_percent=float(target)
    )
    assert ids(again) == ids(kept)
    assert second.tokens_freed == 0
