"""Models behind a small protocol: messages in, one message out.

A callable, an OpenAI-compatible endpoint, an Anthropic endpoint. Each says when a request was too
long by raising ContextOverflow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from marksweep.dialects import read, written
from marksweep.errors import ContextOverflow, ModelError
from marksweep.messages import Message, Role
from marksweep.session.tools import Tool
from marksweep.wire import Endpoint, Model, Rejected, first_choice

OVERFLOWS = re.compile(
    r"context[_ ]length[_ ]exceeded|maximum (?:context|prompt|model) length|context window|"
    r"(?:prompt|input) is too long|too many (?:input )?tokens|request_too_large|"
    r"exceed(?:s|ed)? (?:the )?(?:model'?s? |available )?(?:context|token|maximum|max|limit)|"
    r"exceed_context_size|greater than the context length|"
    r"reduce the length of the (?:messages|prompt)",
    re.IGNORECASE,
)
"""Error messages of providers and servers for a request longer than the context."""

OVERFLOW_STATUSES = frozenset({400, 413, 422, 500})
"""HTTP statuses of these errors."""


class Usage(msgspec.Struct, frozen=True):
    """What a provider counted; 0 where it did not say."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int | None = None
    """Input tokens that came from its prompt cache; None: it did not say."""


class Answer(msgspec.Struct, frozen=True):
    """What a model answered."""

    message: Message
    usage: Usage = Usage()


@runtime_checkable
class Provider(Protocol):
    """A model."""

    @property
    def dialect(self) -> str:
        """The format whose rules a history must keep."""
        ...

    def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Answer:
        """Answer a history; ContextOverflow if it is too long, ModelError if all else fails."""
        ...


Respond = Callable[[Sequence[Message]], Message | str]
"""A model as a function."""


class CallableProvider:
    """A model that is a function from messages to a message or a text."""

    dialect = "openai_chat"

    def __init__(self, function: Respond) -> None:
        self._function = function

    def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Answer:  # noqa: ARG002
        """Call the function."""
        said = self._function(messages)
        if isinstance(said, str):
            return Answer(Message.from_text(Role.MODEL, said))
        if isinstance(said, Message):
            return Answer(said)
        raise ModelError(
            f"the model function returned a {type(said).__name__}; expected a Message."
        )


class OpenAIProvider(Model):
    """A model behind an OpenAI-compatible URL."""

    dialect = "openai_chat"

    def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Answer:
        """Post a chat completion."""
        body: dict[str, object] = {
            "model": self._model,
            "messages": written(messages, self.dialect),
        }
        if tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": tool.parameters,
                    },
                }
                for tool in tools
            ]
        plain = _asked(self._endpoint, body)
        usage = plain.get("usage")
        details = usage.get("prompt_tokens_details") if isinstance(usage, dict) else None
        return Answer(
            _message(first_choice(plain, self._model), self.dialect),
            Usage(
                _number(usage, "prompt_tokens") or 0,
                _number(usage, "completion_tokens") or 0,
                _number(details, "cached_tokens"),
            ),
        )


class AnthropicProvider(Model):
    """A model behind an Anthropic messages URL."""

    dialect = "anthropic"
    path = "/messages"

    def _headers(self, key: str) -> dict[str, str]:
        return {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}

    def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Answer:
        """Post a message. System messages go into this provider's `system` field."""
        system = "\n\n".join(m.text for m in messages if m.role is Role.SYSTEM)
        rest = [message for message in messages if message.role is not Role.SYSTEM]
        body: dict[str, object] = {
            "model": self._model,
            "max_tokens": self._most_tokens,
            "messages": written(rest, self.dialect),
        }
        if system:
            body["system"] = system
        if tools:
            body["tools"] = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": tool.parameters,
                }
                for tool in tools
            ]
        plain = _asked(self._endpoint, body)
        said = {"role": "assistant", "content": plain.get("content")}
        usage = plain.get("usage")
        cached = _number(usage, "cache_read_input_tokens")
        fresh = _number(usage, "input_tokens") or 0
        written_to_cache = _number(usage, "cache_creation_input_tokens") or 0
        return Answer(
            _message(said, self.dialect),
            Usage(
                fresh + (cached or 0) + written_to_cache,
                _number(usage, "output_tokens") or 0,
                cached,
            ),
        )


def _asked(endpoint: Endpoint, body: Mapping[str, object]) -> Mapping[str, object]:
    try:
        plain = endpoint.post(body)
    except Rejected as rejected:
        if rejected.status in OVERFLOW_STATUSES and OVERFLOWS.search(rejected.text):
            raise ContextOverflow(str(rejected)) from rejected
        raise
    if not isinstance(plain, dict):
        raise ModelError(f"{endpoint.url} answered a {type(plain).__name__}; expected an object.")
    return plain


def _message(raw: object, dialect: str) -> Message:
    """Read an answer. It keeps its provider's value, and gets a new id."""
    history = read([raw], dialect)
    if not history.messages:
        why = history.skipped[0].reason if history.skipped else "it is empty"
        raise ModelError(f"the answer cannot be read: {why}.")
    if not any(part.text != "" for part in history.messages[0].parts):
        raise ModelError("the model answered nothing.")
    return msgspec.structs.replace(history.messages[0], message_id="")


def _number(plain: object, key: str) -> int | None:
    """Read a count of tokens; None if there is none."""
    value = plain.get(key) if isinstance(plain, dict) else None
    return value if isinstance(value, int) else None
