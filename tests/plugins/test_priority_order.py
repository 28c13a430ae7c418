"""Each line of gc_budget's priority order, one by one: what goes when, and what never goes."""

from __future__ import annotations

from marksweep.ledger import InstructionSource
from marksweep.messages import Message, Part, Role
from marksweep.plugins import GCResult
from tests.plugins.histories import ids, talk
from tests.plugins.test_gc_budget import collect, furnished

CALM, TIGHT, IMPOSSIBLE = 2500, 2100, 500


def swept(limit: int, target: float, **config: object) -> tuple[list[str], GCResult]:
    history = talk(8, tools=1)
    kept, result = collect(history, furnished(history, limit), target, **config)
    return ids(kept), result


def keys(result: GCResult, reason: str) -> list[str | None]:
    return [item.child_key for item in result.removal_list if item.reason == reason]


def test_1a_all_enrichment_is_removed_at_once() -> None:
    _, result = swept(CALM, 80)
    assert keys(result, "enrichment_bulk_clear") == [None]
    assert result.removal_list[0].source is InstructionSource.ENRICHMENT


def test_1b_working_output_in_the_conversation_goes_before_any_turn() -> None:
    kept, result = swept(2300, 70)
    assert "turn_1.working_0" in keys(result, "ephemeral")
    assert not keys(result, "partial_turn")
    assert "result1.0" not in kept
    assert "u2" in kept


def test_1b_discoverable_tool_schemas_go_before_any_turn() -> None:
    _, result = swept(2300, 70)
    assert "browse" in keys(result, "ephemeral")
    assert not keys(result, "partial_turn")


def test_2_partial_turns_respect_preserve_recent_turns_and_pins() -> None:
    kept, result = swept(2200, 0, preserve_recent_turns=3, pinned_turn_indices=(2,))
    assert {"u2", "m2", "u5", "u6", "u7"} <= set(kept)
    assert "turn_3" in keys(result, "partial_turn")


def test_3_a_clarification_goes_only_under_pressure() -> None:
    assert {"u1", "m1"} <= set(swept(CALM, 0)[0])
    assert "m1" not in swept(TIGHT, 0)[0]


def test_3_a_turn_summary_goes_only_under_pressure() -> None:
    summary = Message(
        Role.USER, (Part(text="[gc_summary_1] Summary:\nit was long"),), "gc_summary_1"
    )

    def left(limit: int) -> list[str]:
        history = talk(8, tools=1)
        history.insert(4, summary)
        return ids(collect(history, furnished(history, limit), 0)[0])

    assert "gc_summary_1" in left(CALM)
    assert "gc_summary_1" not in left(TIGHT)


def test_4_system_instructions_are_never_touched() -> None:
    kept, result = swept(IMPOSSIBLE, 0, preserve_recent_turns=0)
    assert kept[0] == "system"
    assert InstructionSource.SYSTEM not in {item.source for item in result.removal_list}


def test_4_the_original_user_request_is_never_touched() -> None:
    assert "u0" in swept(IMPOSSIBLE, 0, preserve_recent_turns=0)[0]


def test_4_core_tool_schemas_are_never_touched() -> None:
    _, result = swept(IMPOSSIBLE, 0, preserve_recent_turns=0)
    assert "grep" not in {item.child_key for item in result.removal_list}
