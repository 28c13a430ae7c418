"""Claude Code sessions: one JSON object per line, with an Anthropic message inside.

    {"type": "assistant", "uuid": …, "parentUuid": …, "message": {"role": "assistant", …}}

A response is written as one line per block, so its thinking and its tool uses are in separate
lines; the rules read consecutive lines of one role as one message, as the API does. Lines of
other types (snapshots, summaries, hooks, progress) and the side chains of sub-agents are not part
of the conversation; they are kept in their place.
"""

from __future__ import annotations

from marksweep.dialects.anthropic import ANTHROPIC
from marksweep.dialects.base import Json
from marksweep.dialects.enveloped import Enveloped, NotAMessage


def _open(line: Json) -> Json:
    kind = line.get("type")
    if kind not in ("user", "assistant") or "message" not in line:
        raise NotAMessage(f"a line of type {kind!r}")
    if line.get("isSidechain") is True:
        raise NotAMessage("a line of a side chain")
    return line["message"]


def _close(line: Json, message: Json) -> Json:
    return {**line, "message": message}


def _wrap(message: Json) -> Json:
    return {"type": message["role"], "message": message}


CLAUDE_CODE = Enveloped("claude_code", ANTHROPIC, open=_open, close=_close, wrap=_wrap)
