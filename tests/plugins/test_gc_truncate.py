"""gc_truncate, and what holds for every plugin, tested on the simplest one."""

from __future__ import annotations

import msgspec
import pytest

from marksweep.errors import BadInput
from marksweep.ledger import InstructionSource
from marksweep.messages import Message, Role
from marksweep.plugins import (
    ContextUsage,
    GCConfig,
    GCPlugin,
    GCResult,
    GCTriggerReason,
    load_gc_plugin,
)
from tests.plugins.histories import budget_for, full, ids, say, talk, unpaired, weigh, words

QUIET = {"notify_on_gc": False}
HALF = GCConfig(threshold_percent=50, target_percent=50, preserve_recent_turns=2)


def collect(
    history: list[Message],
    limit: int,
    config: GCConfig = HALF,
    reason: GCTriggerReason = GCTriggerReason.THRESHOLD,
    **options: object,
) -> tuple[list[Message], GCResult]:
    """Collect with a plugin that counts words and adds no notice."""
    plugin = load_gc_plugin("gc_truncate", {**QUIET, **options})
    return plugin.collect(history, full(history, limit), config, reason, budget_for(history, limit))


def test_the_oldest_turns_go_and_the_target_is_met_without_going_further() -> None:
    history = talk(10)
    kept, result = collect(history, limit=1600)
    left = [f"{who}{n}" for n in range(3, 10) for who in "um"]
    assert ids(kept) == ["system", "u0", "u1", "u2", *left], "of a turn the user's words stay"
    assert (result.tokens_before, result.tokens_after) == (1010, weigh(kept))
    assert result.tokens_after <= 800 < result.tokens_after + 100
    assert result.tokens_freed == 1010 - weigh(kept)


def test_gc_truncate_removal_list() -> None:
    history = talk(6, tools=1)
    kept, result = collect(history, limit=1800)
    assert [(item.source, item.child_key, item.reason) for item in result.removal_list] == [
        (InstructionSource.CONVERSATION, "turn_0", "truncated"),
        (InstructionSource.CONVERSATION, "turn_1", "truncated"),
    ]
    assert sum(item.tokens_freed for item in result.removal_list) == result.tokens_freed
    gone = [id_ for item in result.removal_list for id_ in item.message_ids]
    assert sorted(gone) == sorted(set(ids(history)) - set(ids(kept)))
    assert result.items_collected == 2


def test_messages_that_share_an_id_are_distinguished_also_from_one_named_like_that() -> None:
    history = [msgspec.structs.replace(m, message_id="same") for m in talk(6, tools=1)]
    history[1] = msgspec.structs.replace(history[1], message_id="same at 3")
    kept, result = collect(history, limit=1800)
    assert unpaired(kept) == set()
    assert result.tokens_freed == weigh(history) - weigh(kept) > 0


def test_the_input_is_left_alone() -> None:
    history = talk(10)
    before = list(history)
    kept, _ = collect(history, limit=1000)
    assert history == before
    assert kept is not history


def test_the_first_request_and_system_messages_are_never_removed() -> None:
    history = talk(10)
    history.insert(7, Message.from_text(Role.SYSTEM, "from now on be brief"))
    config = GCConfig(threshold_percent=50, target_percent=0, preserve_recent_turns=0)
    kept, result = collect(history, limit=1000, config=config)
    assert [message.role for message in kept if message.role is not Role.USER] == [
        Role.SYSTEM,
        Role.SYSTEM,
        Role.MODEL,
    ]
    assert kept[1].message_id == "u0"
    assert "cannot reach target" in str(result.details["cannot_reach_target"])


def test_a_first_request_that_begins_like_a_notice_stays() -> None:
    history = talk(10)
    typed = Message.from_text(Role.USER, "[gc_notice_3] is what I read: why?")
    history[1] = msgspec.structs.replace(typed, message_id="u0")
    kept, _ = collect(history, limit=1000, notify_on_gc=True)
    assert kept[1] == history[1]
    assert [id_ for id_ in ids(kept) if id_.startswith("gc_")] == ["gc_notice_1"]


def test_pinned_turns_stay_and_keep_their_numbers_through_collections() -> None:
    plugin = load_gc_plugin("gc_truncate", QUIET)
    history = talk(10)
    config = GCConfig(
        threshold_percent=50, target_percent=50, preserve_recent_turns=2, pinned_turn_indices=(4,)
    )
    for limit in (1400, 1000, 600):
        usage = full(history, limit)
        budget = None
        history, result = plugin.collect(history, usage, config, GCTriggerReason.THRESHOLD, budget)
        assert result.tokens_freed > 0
        assert {"u4", "m4"} <= set(ids(history))
    assert "m3" not in ids(history)
    assert "m5" not in ids(history)


def test_a_call_and_its_results_are_never_split() -> None:
    history = talk(8, tools=3)
    for limit in range(600, 6000, 300):
        kept, _ = collect(history, limit=limit)
        assert unpaired(kept) == set()


def test_the_newest_turn_goes_unit_by_unit_when_nothing_protects_it() -> None:
    history = talk(1, tools=10)
    config = GCConfig(threshold_percent=50, target_percent=50, preserve_recent_turns=0)
    kept, result = collect(history, limit=1600, config=config)
    assert unpaired(kept) == set()
    assert ids(kept)[:2] == ["system", "u0"]
    assert ids(kept)[-1] == "m0"
    assert result.tokens_after <= 800 < result.tokens_after + 101


def test_what_the_model_has_not_answered_stays_even_without_recent_turns() -> None:
    history = talk(3)[:-1]
    config = GCConfig(threshold_percent=50, target_percent=0, preserve_recent_turns=0)
    kept, _ = collect(history, limit=100, config=config)
    assert ids(kept) == ["system", "u0", "m1", "u2"]


def test_a_second_collection_right_after_the_first_changes_nothing() -> None:
    plugin = load_gc_plugin("gc_truncate")
    history = talk(20, tools=1)
    usage = full(history, 3000)
    once, first = plugin.collect(history, usage, HALF, GCTriggerReason.THRESHOLD)
    again, second = plugin.collect(once, full(once, 3000), HALF, GCTriggerReason.THRESHOLD)
    assert first.tokens_freed > 0
    assert again == once
    assert second.tokens_freed == 0


def test_nothing_is_collected_below_the_target() -> None:
    history = talk(4)
    kept, result = collect(history, limit=10_000)
    assert kept == history
    assert result.success
    assert (result.items_collected, result.tokens_freed) == (0, 0)


def test_without_any_limit_all_that_is_not_protected_goes() -> None:
    plugin = load_gc_plugin("gc_truncate", QUIET)
    kept, _ = plugin.collect(talk(10), {}, HALF, GCTriggerReason.MANUAL)
    assert ids(kept) == ["system", *(f"u{n}" for n in range(9)), "m8", "u9", "m9"]


def test_a_limit_is_worked_out_from_the_percentage_where_none_is_given() -> None:
    plugin = load_gc_plugin("gc_truncate", QUIET)
    history = talk(10)
    config = GCConfig(threshold_percent=80, target_percent=60, preserve_recent_turns=2)
    usage = {"percent_used": 90.0}
    kept, result = plugin.collect(history, usage, config, GCTriggerReason.THRESHOLD)  # type: ignore[arg-type]
    assert 0 < result.tokens_after <= result.tokens_before * 60 / 90
    assert len(ids(kept)) > 6


def test_tokens_the_host_reports_beyond_the_history_lower_the_target() -> None:
    plugin = load_gc_plugin("gc_truncate", QUIET)
    history = talk(10)
    usage = full(history, 2000)
    alone, _ = plugin.collect(history, usage, HALF, GCTriggerReason.THRESHOLD)
    usage["total_tokens"] = 5000
    beside, _ = plugin.collect(history, usage, HALF, GCTriggerReason.THRESHOLD)
    assert len(beside) < len(alone)


def test_a_futile_pass_says_what_blocks_it() -> None:
    history = talk(3)
    config = GCConfig(threshold_percent=50, target_percent=10, preserve_recent_turns=3)
    kept, result = collect(history, limit=400, config=config)
    assert kept == history
    assert not result.success
    assert result.error is not None
    assert "in one of the last 3 turns" in result.error


def test_a_futile_pass_backs_off_and_the_back_off_ends_by_itself() -> None:
    plugin = load_gc_plugin("gc_truncate")
    config = GCConfig(threshold_percent=50, target_percent=10, preserve_recent_turns=3)
    history = talk(3)
    usage = full(history, 400)
    assert plugin.should_collect(usage, config) == (True, GCTriggerReason.THRESHOLD)
    plugin.collect(history, usage, config, GCTriggerReason.THRESHOLD)
    answers = [plugin.should_collect(usage, config)[0] for _ in range(10)]
    assert not answers[0]
    assert any(answers)


def test_growth_ends_a_back_off_early() -> None:
    plugin = load_gc_plugin("gc_truncate")
    config = GCConfig(threshold_percent=50, target_percent=10, preserve_recent_turns=3)
    history = talk(3)
    plugin.collect(history, full(history, 600), config, GCTriggerReason.THRESHOLD)
    assert plugin.should_collect(full(history, 600), config) == (False, None)
    assert plugin.should_collect(full(history, 500), config)[0]


class TestTriggers:
    @pytest.fixture
    def plugin(self) -> GCPlugin:
        return load_gc_plugin("gc_truncate")

    def test_threshold(self, plugin: GCPlugin) -> None:
        config = GCConfig(threshold_percent=75)
        assert plugin.should_collect({"percent_used": 75.1}, config) == (
            True,
            GCTriggerReason.THRESHOLD,
        )
        assert plugin.should_collect({"percent_used": 75.0}, config) == (False, None)

    def test_max_turns(self, plugin: GCPlugin) -> None:
        config = GCConfig(max_turns=10)
        assert plugin.should_collect({"turns": 11}, config) == (True, GCTriggerReason.TURN_LIMIT)
        assert plugin.should_collect({"turns": 10}, config) == (False, None)

    def test_continuous(self, plugin: GCPlugin) -> None:
        config = GCConfig(target_percent=60, continuous=True)
        assert plugin.should_collect({"percent_used": 61.0}, config) == (
            True,
            GCTriggerReason.CONTINUOUS,
        )
        assert plugin.should_collect({"percent_used": 60.0}, config) == (False, None)

    def test_auto_trigger_off(self, plugin: GCPlugin) -> None:
        config = GCConfig(auto_trigger=False, max_turns=1, continuous=True)
        assert plugin.should_collect({"percent_used": 99.0, "turns": 9}, config) == (False, None)


def test_a_turn_limit_is_met_with_room_to_spare_and_the_rest_is_left_alone() -> None:
    history = talk(25)
    config = GCConfig(max_turns=20, preserve_recent_turns=2)
    kept, _ = collect(history, 100_000, config, GCTriggerReason.TURN_LIMIT)
    assert full(kept, 1)["turns"] == 15
    assert ids(kept)[:3] == ["system", "u0", "u11"]


def test_a_turn_limit_respects_recent_and_pinned_turns() -> None:
    history = talk(25)
    config = GCConfig(max_turns=8, preserve_recent_turns=7, pinned_turn_indices=(3, 5))
    kept, _ = collect(history, 100_000, config, GCTriggerReason.TURN_LIMIT)
    assert [id_ for id_ in ids(kept) if id_.startswith("u")] == [
        "u0",
        "u3",
        "u5",
        *(f"u{n}" for n in range(18, 25)),
    ]


def test_an_overflow_frees_something_even_if_our_count_says_it_fits() -> None:
    history = talk(10)
    kept, result = collect(history, 100_000, HALF, GCTriggerReason.OVERFLOW)
    assert result.tokens_after <= 0.75 * result.tokens_before
    assert unpaired(kept) == set()


def test_an_overflow_may_take_what_is_preservable() -> None:
    summary = say(Role.USER, "gc_summary_1", 900)
    history = [*talk(1), summary, *talk(3)[3:]]
    kept, _ = collect(history, 100_000, HALF, GCTriggerReason.OVERFLOW)
    assert "gc_summary_1" not in ids(kept)


class TestOptionsOfEveryPlugin:
    def test_preserve_recent_turns_overrides_the_configuration(self) -> None:
        config = GCConfig(threshold_percent=50, target_percent=0, preserve_recent_turns=2)
        kept, _ = collect(talk(10), 1150, config, preserve_recent_turns=4)
        assert ids(kept)[7:] == [f"{who}{n}" for n in range(6, 10) for who in "um"]

    def test_notify_on_gc_puts_a_notice_where_the_first_message_went(self) -> None:
        kept, result = collect(talk(10), 1600, notify_on_gc=True)
        assert ids(kept)[:4] == ["system", "u0", "gc_notice_1", "u1"]
        assert result.notification == kept[2].text
        assert kept[2].role is Role.USER
        assert result.tokens_after == weigh(kept)
        assert result.tokens_after <= 800

    def test_there_is_one_notice_however_many_collections_there_were(self) -> None:
        plugin = load_gc_plugin("gc_truncate", {"preserve_recent_turns": 1})
        history = talk(12)
        for limit in (1800, 1400, 1000):
            budget = budget_for(history, limit)
            usage = full(history, limit)
            history, result = plugin.collect(
                history, usage, HALF, GCTriggerReason.THRESHOLD, budget
            )
            assert result.tokens_after == weigh(history)
        assert [id_ for id_ in ids(history) if id_.startswith("gc_")] == ["gc_notice_3"]

    def test_notify_on_gc_off_says_nothing(self) -> None:
        kept, result = collect(talk(10), 1600, notify_on_gc=False)
        assert result.notification is None
        assert not any(id_.startswith("gc_") for id_ in ids(kept))

    def test_notification_template_words_the_notice(self) -> None:
        template = "{items}|{plugin}|{reason}|{percent}|{tokens}"
        _, result = collect(talk(10), 1600, notify_on_gc=True, notification_template=template)
        assert result.notification == "[gc_notice_1] 3|gc_truncate|threshold|28|285"

    def test_a_notice_heavier_than_what_must_be_freed_is_left_out(self) -> None:
        template = " ".join(["blah"] * 500)
        kept, result = collect(talk(10), 1600, notify_on_gc=True, notification_template=template)
        assert result.notification is None
        assert result.tokens_after == weigh(kept)

    @pytest.mark.parametrize(
        "template",
        ["{nobody}", "{", "{0}", 5, "{items:{nobody}}", "{items:foo}", "{plugin:d}", "{items!x}"],
    )
    def test_a_template_that_cannot_be_filled_is_refused_at_once(self, template: object) -> None:
        with pytest.raises(BadInput, match="notification_template"):
            load_gc_plugin("gc_truncate", {"notification_template": template})

    @pytest.mark.parametrize("name", ["gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget"])
    def test_an_unknown_option_is_refused_with_the_known_ones(self, name: str) -> None:
        with pytest.raises(BadInput, match=r"'colour'; known are .*notify_on_gc"):
            load_gc_plugin(name, {"colour": "red"})


def test_the_counter_of_the_budget_counts_everything() -> None:
    history = talk(10)
    _, result = collect(history, 1600)
    assert result.tokens_before == sum(map(words, history))


class TestWaitingForTheBetterMoment:
    """`pays_within_turns`: a cut near the front throws a long cached prefix away."""

    def test_a_collection_that_pays_too_late_is_delayed_and_says_so(self) -> None:
        history = talk(10)
        kept, result = collect(history, limit=1600, pays_within_turns=1.0)
        assert kept == history
        assert result.success
        assert (result.items_collected, result.tokens_freed) == (0, 0)
        assert "better for the prompt cache" in str(result.details["put_off"])
        late = result.details["pays_after_turns"]
        assert isinstance(late, float)
        assert late > 1

    def test_one_that_pays_in_time_is_carried_out(self) -> None:
        kept, result = collect(talk(10), limit=1600, pays_within_turns=1_000.0)
        assert result.tokens_freed > 0
        assert weigh(kept) == result.tokens_after

    def test_over_the_pressure_limit_nothing_is_delayed(self) -> None:
        assert collect(talk(10), limit=1050, pays_within_turns=1.0)[1].tokens_freed > 0

    def test_on_a_cold_cache_a_collection_starts_sooner_and_is_not_delayed(self) -> None:
        history, config = talk(10), GCConfig(preserve_recent_turns=2)
        plugin = load_gc_plugin("gc_truncate", {**QUIET, "pays_within_turns": 1.0})
        warm = full(history, limit=1300)
        cold: ContextUsage = {**warm, "is_cache_cold": True}
        assert 75 < warm["percent_used"] < 80
        assert plugin.should_collect(warm, config) == (False, None)
        assert plugin.should_collect(cold, config) == (True, GCTriggerReason.THRESHOLD)
        for usage, is_collected in ((warm, False), (cold, True)):
            _, result = plugin.collect(history, usage, config, GCTriggerReason.THRESHOLD)
            assert (result.tokens_freed > 0) is is_collected

    def test_a_requested_collection_is_not_delayed(self) -> None:
        by_hand = GCTriggerReason.MANUAL
        _, result = collect(talk(10), limit=1600, reason=by_hand, pays_within_turns=1.0)
        assert result.tokens_freed > 0

    def test_without_the_option_nothing_is_delayed(self) -> None:
        assert collect(talk(10), limit=1600)[1].tokens_freed > 0

    @pytest.mark.parametrize("value", [0, -1, True, "soon"])
    def test_an_impossible_value_is_refused(self, value: object) -> None:
        with pytest.raises(BadInput, match="pays_within_turns"):
            load_gc_plugin("gc_truncate", {"pays_within_turns": value})


def test_messages_that_share_an_id_keep_it() -> None:
    history = [
        msgspec.structs.replace(m, message_id="twin") if m.message_id in ("u8", "m9") else m
        for m in talk(10)
    ]
    kept, _ = collect(history, limit=1600)
    assert len(kept) < len(history)
    assert ids(kept).count("twin") == 2
