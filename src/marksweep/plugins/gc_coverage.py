"""gc_coverage: keeps one copy of all that is likely to be needed again; the least worth goes.

Parts of bulky results before whole messages, each dropped run marked by one line; a call goes only
when nothing else of it and its results is left.
"""

from __future__ import annotations

from marksweep.core.strategy import Strategy
from marksweep.plugins.history import HistoryPlugin, Task
from marksweep.plugins.options import ECONOMY, QUALITY
from marksweep.strategies.registry import strategy_of

NAME = "gc_coverage"

STRATEGIES = {ECONOMY: "coverage", QUALITY: "coverage_quality"}


def create_plugin() -> HistoryPlugin:
    """Make the plugin. `setting` is economy or quality."""
    return HistoryPlugin(NAME, _strategy, options=frozenset({"setting"}), learns=True)


def _strategy(task: Task) -> Strategy:
    """Continue with the last one, which knows the old messages, unless the setting changed."""
    made = strategy_of(STRATEGIES[task.options.setting], task.tools)
    return task.last if task.last and task.last.name == made.name else made
