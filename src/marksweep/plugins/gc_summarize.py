"""gc_summarize: the oldest turns become a summary. Keeps what they said, in fewer tokens."""

from __future__ import annotations

from marksweep.plugins.history import HistoryPlugin
from marksweep.strategies.summarize import Summarize

NAME = "gc_summarize"


def create_plugin() -> HistoryPlugin:
    """Make the plugin. Without a `summarizer` it summarises offline."""
    return HistoryPlugin(
        NAME,
        lambda task: Summarize(task.tools.digest),
        options=frozenset({"summarizer"}),
    )
