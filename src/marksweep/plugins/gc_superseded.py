"""gc_superseded: results that later ones made worthless become one line; then the oldest turns go.

A file read again or written since, a command run again, an error after which the same call
succeeded, the same output twice. Messages and calls stay, so the model still knows what it did.
"""

from __future__ import annotations

from marksweep.plugins.history import HistoryPlugin
from marksweep.strategies.superseded import Superseded
from marksweep.strategies.tiers import Tiers
from marksweep.strategies.turns import OldestTurns

NAME = "gc_superseded"


def create_plugin() -> HistoryPlugin:
    """Make the plugin."""
    return HistoryPlugin(
        NAME,
        lambda task: Tiers(Superseded(task.tools.outcomes, task.tools.trimmed), OldestTurns()),
    )
