"""gc_summarize and gc_hybrid: turns that become summaries."""

from __future__ import annotations

import pytest

from marksweep.errors import BadInput
from marksweep.ledger import InstructionBudget, InstructionSource
from marksweep.messages import Message, Role
from marksweep.model import GCPolicy
from marksweep.plugins import GCConfig, GCResult, GCTriggerReason, load_gc_plugin
from tests.plugins.histories import budget_for, full, ids, say, talk, turn, unpaired, weigh

HALF = GCConfig(threshold_percent=50, target_percent=50, preserve_recent_turns=2)


def brief(conversation: str) -> str:
    return "they talked about it at length"


def collect(
    name: str,
    history: list[Message],
    limit: int,
    config: GCConfig = HALF,
    budget: InstructionBudget | None = None,
    **options: object,
) -> tuple[list[Message], GCResult]:
    plugin = load_gc_plugin(name, {"notify_on_gc": False, "summarizer": brief, **options})
    budget = budget or budget_for(history, limit)
    return plugin.collect(history, full(history, limit), config, GCTriggerReason.THRESHOLD, budget)


def test_gc_summarize_replaces_the_oldest_turns_by_one_summary() -> None:
    kept, result = collect("gc_summarize", talk(10), 1600)
    assert ids(kept)[:3] == ["system", "u0", "gc_summary_1"]
    assert "they talked about it at length" in kept[2].text
    assert kept[2].role is Role.USER
    assert result.tokens_after == weigh(kept) <= 800
    assert result.details["summary_keys"] == ["gc_summary_1"]
    assert result.details["summarized_by"] == ["brief"]


def test_gc_summarize_removal_list_says_summarized() -> None:
    _, result = collect("gc_summarize", talk(10), 1600)
    items = list(result.removal_list)
    assert {item.reason for item in items} == {"summarized"}
    assert [item.child_key for item in items][:2] == ["turn_0", "turn_1"]
    freed = sum(item.tokens_freed for item in items)
    assert freed - int(str(result.details["summary_tokens"])) == result.tokens_freed


def test_no_more_turns_are_summarised_than_the_budget_asks_for() -> None:
    kept, _ = collect("gc_summarize", talk(20), 3600)
    assert len([id_ for id_ in ids(kept) if id_.startswith("u")]) > 10


def test_the_next_summary_stands_after_the_last_one_and_is_given_it_to_go_on_from() -> None:
    given: list[str] = []

    def anchored(conversation: str, previous: str) -> str:
        given.append(previous)
        return f"chapter {len(given)}"

    history = talk(10)
    budget = budget_for(history, 1600)
    once, _ = collect("gc_summarize", history, 1600, budget=budget, summarizer=anchored)
    more = [*once, *(m for n in range(10, 16) for m in turn(n))]
    budget.follow(lambda: more, lambda message: weigh([message]))
    twice, _ = collect("gc_summarize", more, 1600, budget=budget, summarizer=anchored)
    assert ids(twice)[:3] == ["system", "u0", "gc_summary_1"]
    assert [i for i in ids(twice) if i.startswith("gc_")] == ["gc_summary_1", "gc_summary_2"]
    assert [i for i in ids(twice) if i.startswith("u")] == [f"u{n}" for n in range(16)]
    assert once[2] in twice, "the first summary is not summarised again"
    assert given == ["", "chapter 1"]


def test_summary_numbers_are_never_reused() -> None:
    history = talk(10)
    budget = budget_for(history, 1600)
    once, _ = collect("gc_summarize", history, 1600, budget=budget)
    without = [message for message in once if message.message_id != "gc_summary_1"]
    more = [*without, *(m for n in range(10, 16) for m in turn(n))]
    twice, _ = collect("gc_summarize", more, 1600, budget=budget)
    assert "gc_summary_2" in ids(twice)
    assert "gc_summary_1" not in ids(twice)


def test_a_summary_is_preservable_and_goes_only_under_pressure() -> None:
    plugin = load_gc_plugin("gc_truncate", {"notify_on_gc": False})
    summary = say(Role.USER, "gc_summary_1", 300)
    history = [*talk(1), summary, *turn(1), *turn(2)]
    config = GCConfig(
        threshold_percent=50, target_percent=10, pressure_percent=90, preserve_recent_turns=1
    )
    budget = budget_for(history, 800)
    calm, _ = plugin.collect(history, full(history, 800), config, GCTriggerReason.THRESHOLD, budget)
    assert "gc_summary_1" in ids(calm)
    tight = budget_for(history, 600)
    pressed, result = plugin.collect(
        history, full(history, 600), config, GCTriggerReason.THRESHOLD, tight
    )
    assert "gc_summary_1" not in ids(pressed)
    assert result.details["preservable_removed"] == 1


def test_a_summary_that_does_not_shrink_is_refused_and_nothing_happens() -> None:
    def windbag(conversation: str) -> str:
        return conversation * 2

    history = talk(3, size=2)
    config = GCConfig(threshold_percent=50, target_percent=1, preserve_recent_turns=1)
    kept, result = collect("gc_summarize", history, 30, config, summarizer=windbag)
    assert kept == history
    assert not result.success
    assert "shrink" in str(result.details["summarizer_notes"])


def test_a_summary_of_fewer_letters_and_more_tokens_is_refused() -> None:
    def wordy(conversation: str) -> str:
        return "a " * 60

    history = [*talk(1), *talk(4, size=1)[1:]]
    long = [Message.from_text(m.role, "x" * 400) if m.role is Role.MODEL else m for m in history]
    config = GCConfig(threshold_percent=50, target_percent=1, preserve_recent_turns=1)
    kept, result = collect("gc_summarize", long, 200, config, summarizer=wordy)
    assert kept == long
    assert "it would not shrink" in str(result.details["summarizer_notes"])


def test_a_summarizer_that_fails_is_replaced_by_the_extractive_one_and_the_result_says_so() -> None:
    def broken(conversation: str) -> str:
        raise TimeoutError("no model today")

    kept, result = collect("gc_summarize", talk(10, size=200), 6400, summarizer=broken)
    assert result.success
    assert "gc_summary_1" in ids(kept)
    assert result.details["summarized_by"] == ["extractive"]
    assert "no model today" in str(result.details["summarizer_notes"])


def test_gc_summarize_works_offline_without_a_summarizer() -> None:
    kept, result = collect("gc_summarize", talk(10, size=200), 6400, summarizer=None)
    assert "gc_summary_1" in ids(kept)
    assert result.details["summarized_by"] == ["extractive"]


def test_summarizer_is_an_option_of_summarize_and_hybrid_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    load_gc_plugin("gc_summarize", {"summarizer": brief})
    load_gc_plugin("gc_hybrid", {"summarizer": brief})
    assert not caplog.text
    load_gc_plugin("gc_truncate", {"summarizer": brief})
    assert "gc_truncate has no option 'summarizer'; it is ignored" in caplog.text


class TestHybrid:
    def test_recent_turns_are_preserved_middle_summarised_and_ancient_truncated(self) -> None:
        config = GCConfig(threshold_percent=50, target_percent=10, preserve_recent_turns=2)
        kept, result = collect(
            "gc_hybrid", talk(10), 1200, config, summarize_middle_turns=3, preserve_recent_turns=2
        )
        words = [f"u{n}" for n in range(6)]
        assert ids(kept) == ["system", *words, "gc_summary_1", "u6", "u7", "u8", "m8", "u9", "m9"]
        reasons = {item.child_key: item.reason for item in result.removal_list}
        assert [reasons[f"turn_{n}"] for n in (0, 4)] == ["ancient_truncated"] * 2
        assert [reasons[f"turn_{n}"] for n in (5, 6, 7)] == ["middle_summarized"] * 3

    def test_the_middle_is_left_alone_if_the_ancient_turns_were_enough(self) -> None:
        kept, result = collect("gc_hybrid", talk(10), 1800, summarize_middle_turns=3)
        assert result.details["turns_summarized"] == 0
        assert {"u5", "u6", "u7"} <= set(ids(kept))

    def test_summarize_middle_turns_zero_truncates_everything(self) -> None:
        config = GCConfig(threshold_percent=50, target_percent=10, preserve_recent_turns=2)
        kept, result = collect("gc_hybrid", talk(10), 1200, config, summarize_middle_turns=0)
        assert ids(kept) == ["system", *(f"u{n}" for n in range(9)), "m8", "u9", "m9"]
        assert result.details["turns_summarized"] == 0

    def test_pins_protect_here_too(self) -> None:
        config = GCConfig(
            threshold_percent=50,
            target_percent=0,
            preserve_recent_turns=2,
            pinned_turn_indices=[1, 6],
        )
        kept, _ = collect("gc_hybrid", talk(10), 1200, config, summarize_middle_turns=3)
        assert {"u1", "m1", "u6", "m6"} <= set(ids(kept))

    @pytest.mark.parametrize("turns", [-1, 2.5, "many", True])
    def test_summarize_middle_turns_must_be_a_count(self, turns: object) -> None:
        with pytest.raises(BadInput, match="summarize_middle_turns"):
            load_gc_plugin("gc_hybrid", {"summarize_middle_turns": turns})


@pytest.mark.parametrize("name", ["gc_summarize", "gc_hybrid"])
def test_calls_and_results_stay_together_around_a_summary(name: str) -> None:
    history = talk(8, tools=2)
    for limit in range(700, 5000, 400):
        kept, result = collect(name, history, limit)
        assert unpaired(kept) == set()
        assert result.tokens_after == weigh(kept)


def test_budget_sync_after_summary() -> None:
    history = talk(10)
    budget = budget_for(history, 1600)
    kept, _ = collect("gc_summarize", history, 1600, budget=budget)
    budget.follow(lambda: kept, lambda message: weigh([message]))
    child = budget.get_child(InstructionSource.CONVERSATION, "gc_summary_1")
    assert child is not None
    assert child.gc_policy is GCPolicy.PRESERVABLE
    assert child.message_ids == ["gc_summary_1"]
    assert budget.total_tokens() == weigh(kept)
