"""A plugin called by its host, and its result applied: whatever a stranger's plugin does."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from marksweep.ledger import InstructionBudget, InstructionSource
from marksweep.plugins.base import GCPlugin, GCRemovalItem


def takes_budget(plugin: GCPlugin) -> bool:
    """Whether the plugin's `collect` can be given a budget."""
    try:
        parameters = inspect.signature(plugin.collect).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        parameter.name == "budget" or parameter.kind is inspect.Parameter.VAR_KEYWORD
        for parameter in parameters
    )


def apply_removals(budget: InstructionBudget, removed: Sequence[GCRemovalItem]) -> None:
    """Take what left the context out of the budget too.

    Entries of the conversation that are read off a history have gone with their messages.
    """
    for item in removed:
        if item.child_key:
            budget.remove_child(item.source, item.child_key)
        elif item.source is not InstructionSource.CONVERSATION:
            budget.clear(item.source)
