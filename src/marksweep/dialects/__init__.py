"""Provider formats, both ways, with what each provider demands of a history.

base.py        what a dialect is, and which result answers which call; Rule, Finding, Skipped
openai_chat.py, openai_responses.py, anthropic.py, gemini.py
               one provider each: its rules, each with its source, and its format, both ways
rulebook.py    what several of their rules share, such as where the result of a call must be
enveloped.py   transcripts of Claude Code and Codex: a provider's messages in envelopes
history.py     detect the dialect of whole histories, read and write them
transcripts.py  files of them, in whatever form they come
validity.py    validate and repair
"""

from __future__ import annotations

from marksweep.dialects.base import Change, Dialect, Finding, Rule, Skipped
from marksweep.dialects.history import (
    DIALECTS,
    History,
    detect,
    dialect_named,
    read,
    read_lines,
    write,
    written,
)
from marksweep.dialects.validity import repair, validate

__all__ = [
    "DIALECTS",
    "Change",
    "Dialect",
    "Finding",
    "History",
    "Rule",
    "Skipped",
    "detect",
    "dialect_named",
    "read",
    "read_lines",
    "repair",
    "validate",
    "write",
    "written",
]
