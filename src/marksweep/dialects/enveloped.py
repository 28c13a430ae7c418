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

from collections.abc import Sequence

from marksweep.dialects.anthropic import ANTHROPIC, Anthropic
from marksweep.dialects.base import Dialect, Json, Unreadable, word
from marksweep.dialects.openai_responses import CALLS, OPENAI_RESPONSES, OUTPUTS, OpenAIResponses
from marksweep.messages import Part, Role


class NotAMessage(Unreadable):
    """A line that is not part of the conversation. It is kept in its place."""


class Enveloped:
    """Reads and writes a provider's messages inside envelopes; a subclass says what these are."""

    inner: Dialect

    def unwrap(self, line: Json) -> Json:
        """Take the provider's message out of its envelope; NotAMessage if there is none."""
        raise NotImplementedError

    def wrap(self, message: Json, line: Json = None) -> Json:
        """Put a message into an envelope: a copy of that line, or a new one."""
        raise NotImplementedError

    def read(self, raw: Json) -> tuple[Role, tuple[Part, ...]]:
        """Parse the message in an envelope."""
        if not isinstance(raw, dict):
            raise Unreadable(f"{type(raw).__name__} where an object was expected")
        return self.inner.read(self.unwrap(raw))

    def rebuild(self, raw: Json, parts: Sequence[Part]) -> Json:
        """Copy envelope and message with these parts."""
        return self.wrap(self.inner.rebuild(self.unwrap(raw), parts), raw)

    def compose(self, role: Role, parts: Sequence[Part]) -> list[Json]:
        """Make messages in new envelopes."""
        return [self.wrap(message) for message in self.inner.compose(role, parts)]


class ClaudeCode(Enveloped, Anthropic):
    """Lines of Claude Code sessions."""

    name = "claude_code"
    inner = ANTHROPIC

    def unwrap(self, line: Json) -> Json:
        """Take the message out of its line; NotAMessage if there is none."""
        kind = line.get("type")
        if kind not in ("user", "assistant") or "message" not in line:
            raise NotAMessage(f"a line of type {kind!r}")
        if line.get("isSidechain") is True:
            raise NotAMessage("a line of a side chain")
        return line["message"]

    def wrap(self, message: Json, line: Json = None) -> Json:
        """Put a message into a copy of a line, or into a new one."""
        return {**(line or {"type": message["role"]}), "message": message}


BARE = {"message", "reasoning", *CALLS, *OUTPUTS}
"""Types of items that older rollouts hold without an envelope."""

ASIDE = {"ghost_snapshot"}
"""Payloads that never go to the model."""


class Codex(Enveloped, OpenAIResponses):
    """Lines of Codex rollouts."""

    name = "codex"
    inner = OPENAI_RESPONSES

    def unwrap(self, line: Json) -> Json:
        """Take the item out of its line; NotAMessage if there is none."""
        kind, payload = line.get("type"), line.get("payload")
        is_item = kind == "response_item" and isinstance(payload, dict)
        if is_item and word(payload.get("type")) not in ASIDE:
            return payload
        if payload is None and word(kind) in BARE:
            return line
        raise NotAMessage(f"a line of type {kind or line.get('record_type')!r}")

    def wrap(self, message: Json, line: Json = None) -> Json:
        """Put an item into a copy of a line, or into a new one; a bare item stays bare."""
        if line is None:
            return {"type": "response_item", "payload": message}
        return {**line, "payload": message} if "payload" in line else message


CLAUDE_CODE = ClaudeCode()
CODEX = Codex()
