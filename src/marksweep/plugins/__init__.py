"""GC plugins: ways to free the context of a conversation, behind one protocol.

1. base.py        The protocol, and GCConfig, GCResult, GCRemovalItem, GCTriggerReason.
2. checks.py      What settings may be; defaults from the environment.
3. discovery.py   Which plugins there are; loading one by name.
4. files.py       Configuration as JSON: file, profile, in line.
5. options.py     The options of the built-in plugins.
6. history.py     A plugin as an adapter of a strategy. Start reading here.
7. run.py         One collection of a history: heap, plan, history.
8. result.py      What was done, as a GCResult.

Then one file per plugin: gc_truncate, gc_summarize, gc_hybrid, gc_budget, gc_superseded,
gc_coverage.
"""

from marksweep.plugins.base import (
    ContextUsage,
    GCConfig,
    GCPlugin,
    GCRemovalItem,
    GCResult,
    GCTriggerReason,
    apply_result,
)
from marksweep.plugins.discovery import discover_gc_plugins, load_gc_plugin, survey_gc_plugins
from marksweep.plugins.files import GCSpec, Profile, choose_gc, load_gc_from_file, load_profile

__all__ = [
    "ContextUsage",
    "GCConfig",
    "GCPlugin",
    "GCRemovalItem",
    "GCResult",
    "GCSpec",
    "GCTriggerReason",
    "Profile",
    "apply_result",
    "choose_gc",
    "discover_gc_plugins",
    "load_gc_from_file",
    "load_gc_plugin",
    "load_profile",
    "survey_gc_plugins",
]
