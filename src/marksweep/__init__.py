"""One garbage collector for everything an agent remembers.

The names below are the public surface. They are loaded when first used, so that importing marksweep
is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from marksweep.async_conversation import AsyncConversation
    from marksweep.conversation import Conversation
    from marksweep.core.budget import Budget
    from marksweep.core.context import PlanningContext
    from marksweep.core.heap import Heap
    from marksweep.core.roots import Focus
    from marksweep.core.score import seed_age, seed_retention
    from marksweep.core.strategy import Learning, Proposal, Strategy
    from marksweep.dialects import repair, validate
    from marksweep.engine import GCEngine, IGCEngine, PruningCandidate, PruningPlan
    from marksweep.errors import (
        BadInput,
        ContextOverflow,
        MarksweepError,
        ModelError,
        NotConfirmed,
        NotFound,
        PlanOutdated,
        Refused,
        StoreBusy,
        StoreCorrupt,
        StoreError,
        StoreTooNew,
        UnknownName,
    )
    from marksweep.fit import Fit
    from marksweep.following import Kept
    from marksweep.graph.agent_memory import AgentMemory
    from marksweep.graph.client import GraphClient
    from marksweep.graph.memory import GraphMemory, KnowledgeGraph
    from marksweep.indexing.indexer import index_codebase
    from marksweep.ledger import InstructionBudget, InstructionSource, SourceEntry
    from marksweep.messages import FunctionCall, Message, Part, Role, ToolResult
    from marksweep.model import (
        Action,
        Blocker,
        Candidate,
        ContextSegment,
        GCPolicy,
        Hold,
        Link,
        Plan,
        Pressure,
        Reference,
        Report,
        Segment,
        Snapshot,
        Step,
        Unit,
    )
    from marksweep.plugins import discover_gc_plugins, load_gc_from_file, load_gc_plugin
    from marksweep.plugins.base import GCConfig, GCPlugin, GCRemovalItem, GCResult, GCTriggerReason
    from marksweep.reading import tidy
    from marksweep.segments import Segments
    from marksweep.session import Session
    from marksweep.settings import Settings
    from marksweep.stores.open import open_store

_HOMES = {
    "Action": "model",
    "AgentMemory": "graph.agent_memory",
    "AsyncConversation": "async_conversation",
    "BadInput": "errors",
    "Blocker": "model",
    "Candidate": "model",
    "Budget": "core.budget",
    "ContextOverflow": "errors",
    "ContextSegment": "model",
    "Conversation": "conversation",
    "Fit": "fit",
    "Focus": "core.roots",
    "FunctionCall": "messages",
    "GCConfig": "plugins.base",
    "GCEngine": "engine",
    "GCPlugin": "plugins.base",
    "GCPolicy": "model",
    "GCRemovalItem": "plugins.base",
    "GCResult": "plugins.base",
    "GCTriggerReason": "plugins.base",
    "GraphClient": "graph.client",
    "GraphMemory": "graph.memory",
    "Heap": "core.heap",
    "Hold": "model",
    "IGCEngine": "engine",
    "InstructionBudget": "ledger",
    "InstructionSource": "ledger",
    "Kept": "following",
    "KnowledgeGraph": "graph.memory",
    "Learning": "core.strategy",
    "Link": "model",
    "MarksweepError": "errors",
    "Message": "messages",
    "ModelError": "errors",
    "NotConfirmed": "errors",
    "NotFound": "errors",
    "Part": "messages",
    "Plan": "model",
    "PlanOutdated": "errors",
    "PlanningContext": "core.context",
    "Pressure": "model",
    "Proposal": "core.strategy",
    "PruningCandidate": "engine",
    "PruningPlan": "engine",
    "Reference": "model",
    "Refused": "errors",
    "Report": "model",
    "Role": "messages",
    "Segment": "model",
    "Segments": "segments",
    "Session": "session",
    "Settings": "settings",
    "Snapshot": "model",
    "SourceEntry": "ledger",
    "Step": "model",
    "StoreBusy": "errors",
    "StoreCorrupt": "errors",
    "StoreError": "errors",
    "StoreTooNew": "errors",
    "Strategy": "core.strategy",
    "ToolResult": "messages",
    "Unit": "model",
    "UnknownName": "errors",
    "discover_gc_plugins": "plugins",
    "index_codebase": "indexing.indexer",
    "load_gc_from_file": "plugins",
    "load_gc_plugin": "plugins",
    "open_store": "stores.open",
    "repair": "dialects",
    "seed_age": "core.score",
    "seed_retention": "core.score",
    "tidy": "reading",
    "validate": "dialects",
}

__all__ = [
    "Action",
    "AgentMemory",
    "AsyncConversation",
    "BadInput",
    "Blocker",
    "Budget",
    "Candidate",
    "ContextOverflow",
    "ContextSegment",
    "Conversation",
    "Fit",
    "Focus",
    "FunctionCall",
    "GCConfig",
    "GCEngine",
    "GCPlugin",
    "GCPolicy",
    "GCRemovalItem",
    "GCResult",
    "GCTriggerReason",
    "GraphClient",
    "GraphMemory",
    "Heap",
    "Hold",
    "IGCEngine",
    "InstructionBudget",
    "InstructionSource",
    "Kept",
    "KnowledgeGraph",
    "Learning",
    "Link",
    "MarksweepError",
    "Message",
    "ModelError",
    "NotConfirmed",
    "NotFound",
    "Part",
    "Plan",
    "PlanOutdated",
    "PlanningContext",
    "Pressure",
    "Proposal",
    "PruningCandidate",
    "PruningPlan",
    "Reference",
    "Refused",
    "Report",
    "Role",
    "Segment",
    "Segments",
    "Session",
    "Settings",
    "Snapshot",
    "SourceEntry",
    "Step",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreTooNew",
    "Strategy",
    "ToolResult",
    "Unit",
    "UnknownName",
    "discover_gc_plugins",
    "index_codebase",
    "load_gc_from_file",
    "load_gc_plugin",
    "open_store",
    "repair",
    "seed_age",
    "seed_retention",
    "tidy",
    "validate",
]
__version__ = "0.2.0"


def __getattr__(name: str) -> object:
    """Load a public name from its module."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'marksweep' has no attribute {name!r}")
    value: object = getattr(import_module(f"marksweep.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted([*globals(), *_HOMES])
