"""The neutral form of a conversation: what every provider's messages become, and plugins work on.

A `Message` is a role and a list of parts. Dialects turn provider formats into these and back. A
message that was read keeps the provider's own value in `raw`, beside what we understood of it, so
that writing gives back every field, also those we do not know.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any
from uuid import uuid4

import msgspec


class Role(StrEnum):
    """Who speaks."""

    USER = "user"
    MODEL = "model"
    TOOL = "tool"
    SYSTEM = "system"


class FunctionCall(msgspec.Struct, frozen=True, gc=False):
    """A call the model asks for. `args` is the decoded JSON, or the raw text if it is not JSON."""

    id: str
    name: str
    args: Any = None


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """What a call returned."""

    call_id: str
    name: str = ""
    result: Any = None
    is_error: bool = False


class InlineData(msgspec.Struct, frozen=True, gc=False):
    """An image, a file or sound: its kind, and its bytes or address as the provider gave it."""

    mime_type: str
    data: str


class Part(msgspec.Struct, frozen=True, gc=False):
    """One piece of a message; at most one of its fields is set, beside `raw`.

    A piece whose kind we do not know has only `raw`.
    """

    text: str | None = None
    function_call: FunctionCall | None = None
    function_response: ToolResult | None = None
    thought: str | None = None
    inline_data: InlineData | None = None
    raw: Any = None
    """The provider's own value for this piece, if it was read from one."""

    @classmethod
    def from_text(cls, text: str) -> Part:
        """A part that is plain text."""
        return cls(text=text)


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message of a conversation. Without an id it gets a new one."""

    role: Role
    parts: tuple[Part, ...] = ()
    message_id: str = ""
    raw: Any = None
    """The provider's own message, if it was read from one: what is written back."""
    dialect: str = ""
    """The format of `raw`."""

    def __post_init__(self) -> None:
        """Give the message an id, and freeze its parts."""
        if type(self.parts) is not tuple:
            msgspec.structs.force_setattr(self, "parts", tuple(self.parts))
        if not self.message_id:
            msgspec.structs.force_setattr(self, "message_id", str(uuid4()))

    @classmethod
    def from_text(cls, role: Role, text: str) -> Message:
        """A message that is plain text."""
        return cls(Role(role), (Part(text=text),))

    @property
    def text(self) -> str:
        """The plain text of the message, its parts joined by line breaks."""
        if len(self.parts) == 1:
            return self.parts[0].text or ""
        return "\n".join(part.text for part in self.parts if part.text)

    @property
    def is_work(self) -> bool:
        """Whether the message asks for calls or carries their results, and is not only words."""
        for part in self.parts:
            if part.function_call is not None or part.function_response is not None:
                return True
        return False

    @property
    def function_calls(self) -> tuple[FunctionCall, ...]:
        """The calls this message asks for."""
        return tuple(part.function_call for part in self.parts if part.function_call)

    @property
    def function_responses(self) -> tuple[ToolResult, ...]:
        """The results this message carries."""
        return tuple(part.function_response for part in self.parts if part.function_response)


LONGEST_ARGUMENT = 60
"""Characters of an argument that are repeated where a call is described in a few words."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What a call came to: one result of a message, with the call it answers."""

    part: int
    """Index of the result among the parts of its message."""
    name: str
    args: Any
    text: str
    """What the result says, without pictures."""
    is_error: bool = False
    call: bytes = b""
    """The call as one value: equal for equal calls, whatever the order of their arguments."""

    @property
    def said(self) -> str:
        """The call in a few words, for people to read: its name and its first argument."""
        args = self.args
        first = next(iter(args.values()), "") if isinstance(args, dict) and args else args
        said = " ".join(str(first).split()) if first not in (None, "", {}) else ""
        if len(said) > LONGEST_ARGUMENT:
            said = said[: LONGEST_ARGUMENT - 1] + "…"
        return f"{self.name or 'a tool'} {said}".rstrip()


Path = tuple[str | int, ...]
"""The way to a value inside a call's arguments, by keys and indices."""

Place = tuple[int, Path]
"""Where a text is: the index of its part, and the way to it inside; () is the part itself."""


class Text(msgspec.Struct, frozen=True, gc=False):
    """A text of a message: words, a result, a call, or a long string in a call's arguments."""

    place: Place
    words: str
    is_call: bool = False
    """What the agent asks for. The call itself is never cut, and goes only with its results."""
    is_observed: bool = True
    """Whether it comes from outside, not from the agent itself."""
    is_said: bool = False
    """Whether the user said it, and no tool."""


Counter = Callable[[Message], int]
"""Tokens of a message."""
