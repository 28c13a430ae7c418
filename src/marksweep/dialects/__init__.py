"""Provider formats, both ways, with what each provider demands of a history.

base.py        what a dialect is; Rule, Finding, Change, Skipped
openai_chat.py, openai_responses.py, anthropic.py, gemini.py      one provider each …
…_rules.py     … and its rules, each with its source
claude_code.py, codex.py     transcripts: a provider's messages in envelopes
pairing.py     which result answers which call, and where it must be
detecting.py   which dialect a history is in
history.py     read and write whole histories
transcripts.py  files of them, in whatever form they come
validity.py    validate and repair
editing.py     what a collection does to messages
"""

from __future__ import annotations

from marksweep.dialects.base import Change, Dialect, Finding, Rule, Skipped
from marksweep.dialects.detecting import DIALECTS, detect, dialect_named
from marksweep.dialects.history import History, read, read_lines, write, written
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
