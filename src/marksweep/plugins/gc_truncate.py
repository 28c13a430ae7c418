"""gc_truncate: the oldest turns go, whole. Fast; for when old context is not worth keeping."""

from __future__ import annotations

from marksweep.plugins.history import HistoryPlugin
from marksweep.strategies.turns import OldestTurns

NAME = "gc_truncate"


def create_plugin() -> HistoryPlugin:
    """Make the plugin."""
    return HistoryPlugin(NAME, lambda _: OldestTurns())
