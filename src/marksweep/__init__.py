"""One garbage collector for everything an agent remembers.

The names below are the public surface. They are loaded when first used, so that importing marksweep
costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from marksweep.core.budget import Budget
    from marksweep.core.roots import Focus
    from marksweep.core.score import seed_age, seed_retention
    from marksweep.engine import GCEngine, IGCEngine, PruningCandidate, PruningPlan
    from marksweep.errors import MarksweepError
    from marksweep.ledger import InstructionBudget, InstructionSource, SourceEntry
    from marksweep.model import ContextSegment, GCPolicy, Plan, Reference, Report, Segment
    from marksweep.plugins import (
        GCConfig,
        GCPlugin,
        GCRemovalItem,
        GCResult,
        GCTriggerReason,
        discover_gc_plugins,
        load_gc_from_file,
        load_gc_plugin,
    )
    from marksweep.segments import Segments
    from marksweep.session import Session
    from marksweep.stores.open import open_store

_HOMES = {
    "Budget": "core.budget",
    "ContextSegment": "model",
    "Focus": "core.roots",
    "GCConfig": "plugins.base",
    "GCEngine": "engine",
    "GCPlugin": "plugins.base",
    "GCPolicy": "model",
    "GCRemovalItem": "plugins.base",
    "GCResult": "plugins.base",
    "GCTriggerReason": "plugins.base",
    "IGCEngine": "engine",
    "InstructionBudget": "ledger",
    "InstructionSource": "ledger",
    "MarksweepError": "errors",
    "Plan": "model",
    "PruningCandidate": "engine",
    "PruningPlan": "engine",
    "Reference": "model",
    "Report": "model",
    "Segment": "model",
    "Segments": "segments",
    "Session": "session",
    "SourceEntry": "ledger",
    "discover_gc_plugins": "plugins",
    "load_gc_from_file": "plugins",
    "load_gc_plugin": "plugins",
    "open_store": "stores.open",
    "seed_age": "core.score",
    "seed_retention": "core.score",
}

__all__ = [
    "Budget",
    "ContextSegment",
    "Focus",
    "GCConfig",
    "GCEngine",
    "GCPlugin",
    "GCPolicy",
    "GCRemovalItem",
    "GCResult",
    "GCTriggerReason",
    "IGCEngine",
    "InstructionBudget",
    "InstructionSource",
    "MarksweepError",
    "Plan",
    "PruningCandidate",
    "PruningPlan",
    "Reference",
    "Report",
    "Segment",
    "Segments",
    "Session",
    "SourceEntry",
    "discover_gc_plugins",
    "load_gc_from_file",
    "load_gc_plugin",
    "open_store",
    "seed_age",
    "seed_retention",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Load a public name from where it lives."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'marksweep' has no attribute {name!r}")
    value: object = getattr(import_module(f"marksweep.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Name what can be imported from here."""
    return sorted([*globals(), *_HOMES])
