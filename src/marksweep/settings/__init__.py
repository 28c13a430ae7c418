"""Settings: every tunable value, in one frozen object that is read in one place.

    settings = load_settings()                       # of the project in the current folder
    settings = load_settings(explicit={"window": {"limit_tokens": 32_000}})
    settings.window.budget()                         # what the rest of marksweep works with

Precedence, for each key separately: **explicit, then environment, then file, then default**.

- explicit: what the caller passes, in the shape of the file
- environment: `MARKSWEEP_GC_THRESHOLD`, `_TARGET` and `_PRESSURE`, or else these three under their
  `JAATO_GC_…` names; `MARKSWEEP_STORE`, `MARKSWEEP_WORKSPACE`, `MARKSWEEP_MEMORY`
- file: `.marksweep/settings.toml` or `.marksweep/settings.json`
- default: the constants where they are used

An invalid value or an unknown key is an error that names its source. A project file that sends
remembered content out of the project is refused until the user has agreed. groups.py has the
groups and what each value means, checks.py the valid values, layers.py how the sources are merged,
trust.py what the user has agreed to.
"""

from __future__ import annotations

from marksweep.settings.groups import (
    Conversation,
    Memory,
    Retention,
    Roots,
    Scoring,
    Settings,
    Steps,
    Store,
    Window,
)
from marksweep.settings.layers import load_settings

__all__ = [
    "Conversation",
    "Memory",
    "Retention",
    "Roots",
    "Scoring",
    "Settings",
    "Steps",
    "Store",
    "Window",
    "load_settings",
]
