"""Transcripts of agents: a provider's messages, each in an envelope of the program that wrote it.

Claude Code sessions: one JSON object per line, with an Anthropic message inside.

    {"type": "assistant", "uuid": …, "parentUuid": …, "message": {"role": "assistant", …}}

A response is written as one line per block, so its thinking and its tool uses are in separate
lines; the rules read consecutive lines of one role as one message, as the API does. Lines of
other types (snapshots, summaries, hooks, progress) and the side chains of sub-agents are not part
of the conversation; they are kept in their place.

Codex rollouts: one JSON object per line, with a Responses item as payload.

    {"timestamp": …, "type": "response_item", "payload": {"type": "function_call", …}}

Older rollouts have bare items. Lines of other types (session_meta, turn_context, event_msg,
compacted) are not part of the conversation, and neither is what comes before the last compaction;
they are kept in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from marksweep.dialects.anthropic import ANTHROPIC
from marksweep.dialects.base import Dialect, Json, Unreadable
from marksweep.dialects.openai_responses import CALLS, OPENAI_RESPONSES, OUTPUTS
from marksweep.messages import Part, Role


class NotAMessage(Unreadable):
    """A line that is not part of the conversation. It is kept in its place."""


class Enveloped:
    """Reads and writes a provider's messages inside envelopes.

    `open` extracts the provider's message or raises NotAMessage, `close` returns an envelope with
    another message in it, `wrap` makes a new envelope.
    """

    def __init__(
        self,
        name: str,
        inner: Dialect,
        *,
        open: Callable[[Json], Json],
        close: Callable[[Json, Json], Json],
        wrap: Callable[[Json], Json],
    ) -> None:
        self.name = name
        self.inner = inner
        self.unwrap = open
        self._close = close
        self._wrap = wrap
        self.rules = inner.rules
        self.answer = inner.answer
        self.with_call_id = inner.with_call_id
        self.with_result = inner.with_result
        self.tying = inner.tying
        self.joins = inner.joins

    def read(self, raw: Json) -> tuple[Role, tuple[Part, ...]]:
        """Parse the message in an envelope."""
        if not isinstance(raw, dict):
            raise Unreadable(f"{type(raw).__name__} where an object was expected")
        return self.inner.read(self.unwrap(raw))

    def rebuild(self, raw: Json, parts: Sequence[Part]) -> Json:
        """Copy envelope and message with these parts."""
        return self._close(raw, self.inner.rebuild(self.unwrap(raw), parts))

    def compose(self, role: Role, parts: Sequence[Part]) -> list[Json]:
        """Make messages in new envelopes."""
        return [self._wrap(raw) for raw in self.inner.compose(role, parts)]


def _open_claude_code(line: Json) -> Json:
    kind = line.get("type")
    if kind not in ("user", "assistant") or "message" not in line:
        raise NotAMessage(f"a line of type {kind!r}")
    if line.get("isSidechain") is True:
        raise NotAMessage("a line of a side chain")
    return line["message"]


def _close_claude_code(line: Json, message: Json) -> Json:
    return {**line, "message": message}


def _wrap_claude_code(message: Json) -> Json:
    return {"type": message["role"], "message": message}


CLAUDE_CODE = Enveloped(
    "claude_code",
    ANTHROPIC,
    open=_open_claude_code,
    close=_close_claude_code,
    wrap=_wrap_claude_code,
)


BARE = {"message", "reasoning", *CALLS, *OUTPUTS}
"""Types of items that older rollouts hold without an envelope."""

ASIDE = {"ghost_snapshot"}
"""Payloads that never go to the model."""


def _open_codex(line: Json) -> Json:
    kind = line.get("type")
    payload = line.get("payload")
    if kind == "response_item" and isinstance(payload, dict) and payload.get("type") not in ASIDE:
        return payload
    if payload is None and kind in BARE:
        return line
    raise NotAMessage(f"a line of type {kind or line.get('record_type')!r}")


def _close_codex(line: Json, item: Json) -> Json:
    return {**line, "payload": item} if "payload" in line else item


def _wrap_codex(item: Json) -> Json:
    return {"type": "response_item", "payload": item}


CODEX = Enveloped("codex", OPENAI_RESPONSES, open=_open_codex, close=_close_codex, wrap=_wrap_codex)
