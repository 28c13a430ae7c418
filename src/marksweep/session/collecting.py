"""A plugin at work, whoever wrote it: called safely, its history checked, its result told.

A plugin that raises, or returns something else than a history and a result, has failed, and the
history stays as it was. One that leaves half a tool pair has its history mended; one that leaves a
history its provider would refuse all the same has failed too. One that cannot say whether it is
time has not asked for a collection. What went wrong is in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from marksweep.dialects import validate
from marksweep.dialects.pairing import Slot, match
from marksweep.errors import BadInput, Refused
from marksweep.ledger import InstructionBudget
from marksweep.messages import Message
from marksweep.plugins.base import (
    PLUGIN_NEEDS,
    ContextUsage,
    GCConfig,
    GCPlugin,
    GCResult,
    GCTriggerReason,
    apply_removals,
    takes_budget,
)

_log = logging.getLogger(__name__)


class Outcome(msgspec.Struct, frozen=True):
    """What came of a run."""

    history: tuple[Message, ...]
    result: GCResult
    changed: bool
    changes: tuple[str, ...] = ()
    """What had to be mended."""

    def given_up(self, history: tuple[Message, ...], error: Exception) -> Outcome:
        """The same run, but nothing of it is done."""
        result = msgspec.structs.replace(
            self.result,
            success=False,
            items_collected=0,
            tokens_after=self.result.tokens_before,
            notification=None,
            error=f"{type(error).__name__}: {error}",
            removal_list=(),
        )
        return Outcome(history, result, changed=False)

    def apply(self, budget: InstructionBudget) -> None:
        """Take what left the context out of the budget too."""
        apply_removals(budget, self.result.removal_list)


def check_plugin(plugin: object, config: object) -> None:
    """Refuse what is no plugin or no configuration, where it is set and not at its first use."""
    if plugin is not None and not isinstance(plugin, GCPlugin):
        raise BadInput(
            f"a {type(plugin).__name__} is no GCPlugin: {PLUGIN_NEEDS}. `load_gc_plugin` makes one "
            "by its name."
        )
    if config is not None and not isinstance(config, GCConfig):
        raise BadInput(f"the configuration is a {type(config).__name__}; expected a GCConfig.")


def ask_plugin(plugin: GCPlugin, usage: ContextUsage, config: GCConfig) -> GCTriggerReason | None:
    """Ask a plugin whether it is time, and why; None if it is not."""
    try:
        is_due, reason = plugin.should_collect(usage, config)
    except Exception:  # noqa: BLE001  whatever a stranger's plugin raises
        _log.exception("GC plugin %s could not say whether it is time", plugin.name)
        return None
    return (reason or GCTriggerReason.THRESHOLD) if is_due else None


def shut_down(plugin: GCPlugin) -> None:
    """Let a plugin go. One that fails to leave in order is gone all the same."""
    try:
        plugin.shutdown()
    except Exception:  # noqa: BLE001  whatever a stranger's plugin raises
        _log.exception("GC plugin %s failed to shut down", plugin.name)


def run_plugin(
    plugin: GCPlugin,
    history: tuple[Message, ...],
    usage: ContextUsage,
    config: GCConfig,
    reason: GCTriggerReason,
    *,
    budget: InstructionBudget,
    dialect: str,
) -> Outcome:
    """Let a plugin collect, and make sure of what it returns."""
    arguments: dict[str, Any] = {"budget": budget} if takes_budget(plugin) else {}
    try:
        returned = plugin.collect(list(history), usage, config, reason, **arguments)
        kept, result = _checked(returned)
        mended, changes = _valid(history, kept, dialect)
    except Exception as error:  # noqa: BLE001  whatever a stranger's plugin raises
        _log.exception("GC plugin %s failed", plugin.name)
        return Outcome(history, _failed(plugin, reason, usage, error), changed=False)
    if kept == history:
        return Outcome(history, result, changed=False)
    if changes:
        result = msgspec.structs.replace(
            result, details={**result.details, "repaired": list(changes)}
        )
    return Outcome(mended, result, True, changes)


def _checked(returned: object) -> tuple[tuple[Message, ...], GCResult]:
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise TypeError(f"collect returned a {type(returned).__name__}; expected (history, result)")
    kept, result = returned
    if not isinstance(result, GCResult):
        raise TypeError(f"collect returned a {type(result).__name__}; expected a GCResult")
    if not isinstance(kept, Sequence) or not all(isinstance(m, Message) for m in kept):
        raise TypeError("collect returned a history that is no list of messages")
    return tuple(kept), result


def _valid(
    before: tuple[Message, ...], after: tuple[Message, ...], dialect: str
) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """Mend what a plugin broke. What was broken before it came is left alone."""
    known = _faults(before, dialect)
    if not _faults(after, dialect) - known:
        return after, ()
    mended, changes = mend_pairs(after)
    left = _faults(mended, dialect) - known
    if left:
        raise Refused(
            f"its provider would refuse the history it returned: {'; '.join(sorted(left))}"
        )
    return mended, changes


def _faults(messages: tuple[Message, ...], dialect: str) -> set[str]:
    return {f"{finding.rule}: {finding.what}" for finding in validate(list(messages), dialect)}


def mend_pairs(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """Drop results nobody asked for, and calls whose results are gone. Ids stay."""
    found = match(messages)
    lost = {*found.orphans, *found.unanswered}
    mended: list[Message] = []
    changes: list[str] = []
    for at, message in enumerate(messages):
        parts = tuple(part for k, part in enumerate(message.parts) if Slot(at, k) not in lost)
        if len(parts) == len(message.parts):
            mended.append(message)
            continue
        changes.append(f"took half a pair out of {message.message_id}")
        if any(part.thought is None for part in parts):
            mended.append(Message(message.role, parts, message.message_id))
    return tuple(mended), tuple(changes)


def _failed(
    plugin: GCPlugin, reason: GCTriggerReason, usage: ContextUsage, error: Exception
) -> GCResult:
    tokens = usage.get("total_tokens", 0)
    return GCResult(
        success=False,
        items_collected=0,
        tokens_before=tokens,
        tokens_after=tokens,
        plugin_name=plugin.name,
        trigger_reason=reason,
        error=f"{type(error).__name__}: {error}",
    )
