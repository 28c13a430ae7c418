"""Codex rollouts: one JSON object per line, with a Responses item as payload.

    {"timestamp": …, "type": "response_item", "payload": {"type": "function_call", …}}

Older rollouts have bare items. Lines of other types (session_meta, turn_context, event_msg,
compacted) are not part of the conversation; they are kept in their place.
"""

from __future__ import annotations

from marksweep.dialects.base import Json
from marksweep.dialects.enveloped import Enveloped, NotAMessage
from marksweep.dialects.openai_responses import CALLS, OPENAI_RESPONSES, OUTPUTS

BARE = {"message", "reasoning", *CALLS, *OUTPUTS}
"""Types of items that older rollouts hold without an envelope."""

ASIDE = {"ghost_snapshot"}
"""Payloads that never go to the model."""


def _open(line: Json) -> Json:
    kind = line.get("type")
    payload = line.get("payload")
    if kind == "response_item" and isinstance(payload, dict) and payload.get("type") not in ASIDE:
        return payload
    if payload is None and kind in BARE:
        return line
    raise NotAMessage(f"a line of type {kind or line.get('record_type')!r}")


def _close(line: Json, item: Json) -> Json:
    return {**line, "payload": item} if "payload" in line else item


def _wrap(item: Json) -> Json:
    return {"type": "response_item", "payload": item}


CODEX = Enveloped("codex", OPENAI_RESPONSES, open=_open, close=_close, wrap=_wrap)
