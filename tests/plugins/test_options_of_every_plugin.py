"""The options that all plugins share, tested on every one of them."""

from __future__ import annotations

import msgspec
import pytest

from marksweep.errors import BadInput
from marksweep.messages import Message
from marksweep.plugins import GCConfig, GCResult, GCTriggerReason, load_gc_plugin
from marksweep.plugins.discovery import BUILT_IN
from tests.plugins.histories import budget_for, full, ids, talk

LIMIT = 1_150
CONFIG = GCConfig(threshold_percent=50, target_percent=25, preserve_recent_turns=1)

each_plugin = pytest.mark.parametrize("plugin", BUILT_IN)


def collect(
    plugin: str, config: GCConfig = CONFIG, **options: object
) -> tuple[list[Message], GCResult]:
    history = talk(10)
    return load_gc_plugin(plugin, options).collect(
        history, full(history, LIMIT), config, GCTriggerReason.THRESHOLD, budget_for(history, LIMIT)
    )


@each_plugin
def test_preserve_recent_turns_of_the_plugin_overrides_that_of_the_configuration(
    plugin: str,
) -> None:
    kept, _ = collect(plugin, preserve_recent_turns=4)
    assert {f"{who}{n}" for n in (6, 7, 8, 9) for who in "um"} <= set(ids(kept))
    kept, _ = collect(plugin)
    assert "m6" not in ids(kept)


@each_plugin
def test_notify_on_gc_is_on_by_default_and_puts_a_notice_into_the_history(plugin: str) -> None:
    kept, result = collect(plugin)
    assert result.notification is not None
    assert "gc_notice_1" in ids(kept)


@each_plugin
def test_notify_on_gc_off_says_nothing(plugin: str) -> None:
    kept, result = collect(plugin, notify_on_gc=False)
    assert result.notification is None
    assert "gc_notice_1" not in ids(kept)


@each_plugin
def test_notification_template_words_the_notice(plugin: str) -> None:
    _, result = collect(plugin, notification_template="{plugin} took {items} for {reason}")
    assert result.notification is not None
    assert f"{plugin} took" in result.notification
    assert "for threshold" in result.notification


@each_plugin
def test_plugin_config_goes_before_what_the_plugin_was_initialised_with(plugin: str) -> None:
    quiet = msgspec.structs.replace(CONFIG, plugin_config={"notify_on_gc": False})
    assert collect(plugin, quiet, notify_on_gc=True)[1].notification is None
    assert collect(plugin, quiet, preserve_recent_turns=4)[1].notification is None
    odd = msgspec.structs.replace(CONFIG, plugin_config={"colour": "red"})
    with pytest.raises(BadInput, match="unknown key 'colour'; known are"):
        collect(plugin, odd)


@each_plugin
def test_target_percent_of_the_plugin_overrides_that_of_the_configuration(plugin: str) -> None:
    deep = collect(plugin, target_percent=20.0)[1]
    assert deep.details["target_tokens"] <= LIMIT * 0.2  # type: ignore[operator]
    high = collect(plugin, target_percent=95.0)[1]
    assert high.details["target_tokens"] <= LIMIT * 0.5, "the threshold bounds it"  # type: ignore[operator]
    again = msgspec.structs.replace(CONFIG, plugin_config={"target_percent": 20.0})
    assert collect(plugin, again)[1].details["target_tokens"] == deep.details["target_tokens"]


@each_plugin
def test_pressure_percent_of_the_plugin_overrides_that_of_the_configuration(plugin: str) -> None:
    made = load_gc_plugin(plugin, {"pressure_percent": 0})
    assert made.should_collect({"percent_used": 45.0}, CONFIG) == (True, GCTriggerReason.CONTINUOUS)
    assert load_gc_plugin(plugin).should_collect({"percent_used": 45.0}, CONFIG) == (False, None)
    with pytest.raises(BadInput, match="pressure_percent is 101"):
        load_gc_plugin(plugin, {"pressure_percent": 101})


@each_plugin
def test_a_misspelt_option_is_refused_with_a_suggestion(plugin: str) -> None:
    with pytest.raises(BadInput, match=r"unknown key 'target_precent'.*mean 'target_percent'"):
        load_gc_plugin(plugin, {"target_precent": 50})


@each_plugin
def test_pinned_turn_indices_are_never_removed(plugin: str) -> None:
    pinned = GCConfig(threshold_percent=50, target_percent=40, pinned_turn_indices=(3,))
    kept, _ = collect(plugin, pinned)
    assert {"u3", "m3"} <= set(ids(kept))


@each_plugin
def test_every_result_says_what_went_and_how_much(plugin: str) -> None:
    kept, result = collect(plugin)
    assert result.success
    assert result.items_collected == len(result.removal_list) > 0
    assert result.plugin_name == plugin
    assert result.tokens_freed == result.tokens_before - result.tokens_after > 0
    assert len(kept) < len(talk(10))
