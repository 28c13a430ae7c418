"""gc_budget: by policy, as the instruction budget says. Without a budget, the oldest turns go."""

from __future__ import annotations

from marksweep.core.strategy import Strategy
from marksweep.plugins.history import HistoryPlugin, Task
from marksweep.strategies.budget import ByPolicy
from marksweep.strategies.turns import OldestTurns

NAME = "gc_budget"


def create_plugin() -> HistoryPlugin:
    """Make the plugin. `ask_owner` decides about CONDITIONAL entries."""
    return HistoryPlugin(NAME, _strategy, options=frozenset({"ask_owner"}))


def _strategy(task: Task) -> Strategy:
    return ByPolicy() if task.budget is not None else OldestTurns()
