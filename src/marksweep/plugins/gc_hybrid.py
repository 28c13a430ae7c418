"""gc_hybrid: by generation. Recent turns stay, middle ones become a summary, ancient ones go."""

from __future__ import annotations

from marksweep.plugins.history import HistoryPlugin
from marksweep.strategies.hybrid import Hybrid

NAME = "gc_hybrid"


def create_plugin() -> HistoryPlugin:
    """Make the plugin. Without a `summarizer` it summarises offline."""
    return HistoryPlugin(
        NAME,
        lambda task: Hybrid(task.tools.digest, task.options.summarize_middle_turns),
        options=frozenset({"summarizer", "summarize_middle_turns"}),
    )
