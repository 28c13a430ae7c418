"""The public surface, pinned: a change here is a change for users."""

from __future__ import annotations

import os
import subprocess
import sys

import marksweep

PUBLIC = {
    "Action",
    "AgentMemory",
    "AsyncConversation",
    "BadInput",
    "Blocker",
    "Candidate",
    "Budget",
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
}


def test_the_public_names_are_these_and_no_others() -> None:
    assert set(marksweep.__all__) == PUBLIC
    assert set(marksweep._HOMES) == PUBLIC


def test_every_public_name_can_be_imported_and_is_listed() -> None:
    for name in PUBLIC:
        assert getattr(marksweep, name) is not None
        assert name in dir(marksweep)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    assert not hasattr(marksweep, "Sweeper")


def test_importing_marksweep_loads_nothing_else() -> None:
    script = "import sys, marksweep; print([m for m in sys.modules if m.startswith('marksweep.')])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == "[]"
