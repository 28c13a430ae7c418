"""The server on stdin and stdout, for the client that started it."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import cast

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server import MCPServer
from mcp.server.stdio import stdio_server
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

from marksweep.mcp.app import build_server
from marksweep.mcp.background import collecting
from marksweep.mcp.logs import log_to_stderr
from marksweep.mcp.server_state import ServerState

Incoming = SessionMessage | Exception
"""A message, or the error of a line that is not one."""

MESSAGE_DEPTH = 2
"""Depth of a validation error about the whole message: its kind, and a missing field."""

SURROGATE = re.compile("[\ud800-\udfff]")


def serve_stdio(state: ServerState, *, log_level: str, collect_every: float | None) -> None:
    """Serve until the client closes its end."""
    log_to_stderr(log_level)
    anyio.run(_serve, state, collect_every)


async def _serve(state: ServerState, collect_every: float | None) -> None:
    try:
        async with collecting(state, collect_every):
            await _run(build_server(state))
    finally:
        await state.close()


async def _run(server: MCPServer[ServerState]) -> None:
    """Run as the SDK does, but answer every line that expects an answer."""
    lowlevel = server._lowlevel_server  # noqa: SLF001 - the only one that takes streams
    sent, received = anyio.create_memory_object_stream[Incoming]()
    async with stdio_server() as (lines, answers), anyio.create_task_group() as tasks:
        tasks.start_soon(_answer_bad_lines, lines, sent, answers)
        await lowlevel.run(received, answers, lowlevel.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _answer_bad_lines(
    lines: ReadStream[Incoming],
    messages: MemoryObjectSendStream[Incoming],
    answers: WriteStream[SessionMessage],
) -> None:
    """Forward messages; answer lines that are not messages."""
    async with messages:
        async for line in lines:
            if isinstance(line, SessionMessage):
                await messages.send(line)
            elif (refused := refusal(line)) is not None:
                with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                    await answers.send(SessionMessage(refused))


def refusal(problem: Exception) -> JSONRPCError | None:
    """Build the error response to an invalid line; None for a notification.

    The SDK ignores such lines, and their sender would wait forever. A lone surrogate is an escape
    that JSON's grammar allows and Unicode does not.
    """
    line, message = _read_again(problem)
    if message is None:
        said = "this line is not JSON. Send one JSON-RPC message per line."
        return _error(None, PARSE_ERROR, said)
    if not isinstance(message, dict):
        return _error(None, INVALID_REQUEST, "this is not an object; expected a JSON-RPC message.")
    if "method" in message and message.get("id") is None:
        return None
    if line:
        said = "this line has half a surrogate pair, which is not text. Send it as \\ufffd."
        return _error(message.get("id"), PARSE_ERROR, said)
    return _error(message.get("id"), INVALID_REQUEST, "this is not a JSON-RPC 2.0 message.")


def _read_again(problem: Exception) -> tuple[str, object]:
    """Return the line that the SDK does not accept as JSON, and its message; None for none."""
    found = problem.errors() if isinstance(problem, ValidationError) else []
    line = next((each["input"] for each in found if each["type"] == "json_invalid"), "")
    if not line:
        wholes = (each["input"] for each in found if len(each["loc"]) <= MESSAGE_DEPTH)
        return "", next((each for each in wholes if isinstance(each, dict)), [])
    try:
        return line, json.loads(line)
    except (ValueError, RecursionError):
        return line, None


def _error(number: object, code: int, message: str) -> JSONRPCError:
    is_id = type(number) is int or (isinstance(number, str) and not SURROGATE.search(number))
    error = ErrorData(code=code, message=message)
    return JSONRPCError(jsonrpc="2.0", id=cast(int | str, number) if is_id else None, error=error)
