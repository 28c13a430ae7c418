"""Runs a plugin, also a third party's: calls it safely and checks what it returns.

A plugin that raises, or returns anything but a history and a result, has failed. One that
fails in `should_collect` has not asked for a collection. What went wrong is in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from marksweep.errors import BadInput, MarksweepError
from marksweep.ledger import InstructionBudget
from marksweep.messages import Message
from marksweep.plugins.base import (
    PLUGIN_NEEDS,
    ContextUsage,
    GCConfig,
    GCPlugin,
    GCResult,
    GCTriggerReason,
    takes_budget,
)

_log = logging.getLogger(__name__)


Returned = tuple[tuple[Message, ...], GCResult]
"""The history and the result that a plugin returned."""


def check_plugin(plugin: object, config: object) -> None:
    """Refuse what is not a plugin or a configuration, where it is set and not at its first use."""
    if plugin is not None and not isinstance(plugin, GCPlugin):
        raise BadInput(
            f"a {type(plugin).__name__} is not a GCPlugin: {PLUGIN_NEEDS}. `load_gc_plugin` makes "
            "one by its name."
        )
    if config is not None and not isinstance(config, GCConfig):
        raise BadInput(f"the configuration is a {type(config).__name__}; expected a GCConfig.")


def ask_plugin(plugin: GCPlugin, usage: ContextUsage, config: GCConfig) -> GCTriggerReason | None:
    """Ask a plugin whether a collection is due, and why; None if it is not."""
    try:
        is_due, reason = plugin.should_collect(usage, config)
    except Exception:  # noqa: BLE001  whatever a third-party plugin raises
        _log.exception("GC plugin %s could not say whether it is time", plugin.name)
        return None
    return (reason or GCTriggerReason.THRESHOLD) if is_due else None


def shut_down(plugin: GCPlugin) -> None:
    """Shut down a plugin. One that fails to do so is dropped anyway."""
    try:
        plugin.shutdown()
    except Exception:  # noqa: BLE001  whatever a third-party plugin raises
        _log.exception("GC plugin %s failed to shut down", plugin.name)


def run_plugin(
    plugin: GCPlugin,
    history: tuple[Message, ...],
    usage: ContextUsage,
    config: GCConfig,
    reason: GCTriggerReason,
    *,
    budget: InstructionBudget,
) -> Returned:
    """Let a plugin collect. If it fails, return the unchanged history."""
    arguments: dict[str, Any] = {"budget": budget} if takes_budget(plugin) else {}
    try:
        return _checked(plugin.collect(list(history), usage, config, reason, **arguments))
    except Exception as error:  # noqa: BLE001  whatever a third-party plugin raises
        _log.exception("GC plugin %s failed", plugin.name)
        tokens = usage.get("total_tokens", 0)
        result = GCResult(True, 0, tokens, tokens, plugin.name, reason)
        return history, failed(result, error)


def _checked(returned: object) -> Returned:
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise TypeError(f"collect returned a {type(returned).__name__}; expected (history, result)")
    kept, result = returned
    if not isinstance(result, GCResult):
        raise TypeError(f"collect returned a {type(result).__name__}; expected a GCResult")
    if not isinstance(kept, Sequence) or not all(isinstance(m, Message) for m in kept):
        raise TypeError("collect returned a history that is not a list of messages")
    return tuple(kept), result


def failed(result: GCResult, error: Exception) -> GCResult:
    """Report a failed collection."""
    if isinstance(error, MarksweepError):
        _log.warning("GC plugin %s: %s", result.plugin_name, error)
    return msgspec.structs.replace(
        result,
        success=False,
        items_collected=0,
        tokens_after=result.tokens_before,
        notification=None,
        error=f"{type(error).__name__}: {error}",
        removal_list=[],
    )
