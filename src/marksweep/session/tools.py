"""Tools a session offers its model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from marksweep.ledger import ChildKind
from marksweep.messages import FunctionCall, Message, Part, Role, ToolResult

Run = Callable[..., object]


class Tool(msgspec.Struct, frozen=True):
    """A function the model may call: its schema, and what it does."""

    name: str
    description: str
    run: Run
    parameters: Mapping[str, object] = msgspec.field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )
    """The JSON schema of its arguments."""
    kind: ChildKind = ChildKind.CORE_TOOL
    """CORE_TOOL stays; DISCOVERABLE_TOOL may be dropped from requests to free context."""

    @property
    def schema(self) -> str:
        """What the model reads of it."""
        return json.dumps([self.name, self.description, self.parameters])


def answer_calls(calls: Sequence[FunctionCall], tools: Iterable[Tool]) -> list[Message]:
    """Run the calls of one message, each answered by one message."""
    known = {tool.name: tool for tool in tools}
    return [
        Message(Role.TOOL, (Part(function_response=_answer(call, known.get(call.name))),))
        for call in calls
    ]


def _answer(call: FunctionCall, tool: Tool | None) -> ToolResult:
    """Run one call. Errors are reported to the model, which can act on them."""
    if tool is None:
        return ToolResult(call.id, call.name, f"there is no tool {call.name!r}", is_error=True)
    try:
        arguments = call.args if isinstance(call.args, dict) else {}
        return ToolResult(call.id, call.name, tool.run(**arguments))
    except Exception as error:  # noqa: BLE001  whatever a third-party tool raises
        return ToolResult(call.id, call.name, f"{type(error).__name__}: {error}", is_error=True)
