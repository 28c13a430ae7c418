"""What fills the window of a coding agent's session, by the session's own count, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec
from rich.console import RenderableType

from marksweep.cli import render
from marksweep.core.budget import Line
from marksweep.dialects.base import Json
from marksweep.dialects.chain import USAGE, live
from marksweep.dialects.history import History
from marksweep.messages import Message, count_message, with_outcomes

CLIENTS = {"claude_code": "claude", "codex": "codex"}
"""The clients whose sessions are known, by dialect."""

CLAUDE_WINDOW = 200_000
"""Tokens of the window of Claude Code, which its sessions do not name."""

COPY_TOKENS = 60_000
"""Size proposed for a copy of a session. A session that is not larger is proposed to be halved."""

MOST_ROWS = 10
"""Tools, files and things that are listed."""

MCP = "mcp__"
"""Prefix of the tool names of MCP servers, and what ends the server's name."""


class LargeItem(msgspec.Struct, frozen=True):
    """One of the largest items in a window."""

    what: str
    tokens: int


class SessionWindow(msgspec.Struct, frozen=True):
    """The window of a session, by its own count where it has one."""

    window_tokens: int
    used_tokens: int
    """By the usage of the last answer; by our count, if there is none."""
    fixed_tokens: int
    """What is used beside the messages: system prompt, tools, and what a compaction wrote."""
    by_tool: tuple[Line, ...]
    by_file: tuple[Line, ...]
    by_server: tuple[Line, ...]
    """Of MCP servers."""
    biggest: tuple[LargeItem, ...]
    actions: tuple[str, ...]
    """Commands for this client."""


def session_window(history: History, counted: int) -> SessionWindow | None:
    """Analyze the window of a session whose messages have so many tokens, by our count.

    None if it is not a session of a client.
    """
    client = CLIENTS.get(history.dialect)
    if client is None or not isinstance(history.given, list):
        return None
    reported, window = _reported(history.given, history.dialect)
    used = reported or counted
    found = list(_things(history.messages))
    smaller = f"{COPY_TOKENS // 1_000}k" if counted > COPY_TOKENS else "50%"
    return SessionWindow(
        window_tokens=window,
        used_tokens=used,
        fixed_tokens=max(0, used - counted),
        by_tool=_sums((tool, size) for tool, _, _, size in found),
        by_file=_sums((path, size) for _, path, _, size in found if path),
        by_server=_sums(
            (tool.split("__")[1], size) for tool, _, _, size in found if tool.startswith(MCP)
        ),
        biggest=tuple(
            LargeItem(what, size) for _, _, what, size in sorted(found, key=lambda each: -each[3])
        )[:MOST_ROWS],
        actions=(
            f"marksweep resume {client} --limit {smaller}    continue in a smaller copy",
            f"marksweep wrap {client}    make every request fit from now on",
            "marksweep plugin claude DIR    shorten bulky output before it enters"
            if client == "claude"
            else "marksweep wrap --dry-run codex    log what would be removed",
        ),
    )


def _things(messages: Sequence[Message]) -> Iterator[tuple[str, str, str, int]]:
    """Return the tool, file, description and tokens of each result."""
    for message, outcomes in with_outcomes(messages):
        for each in outcomes:
            alone = msgspec.structs.replace(message, parts=(message.parts[each.part],))
            size = count_message(alone if len(message.parts) > 1 else message)
            yield each.name, each.path or "", each.said, size


def _sums(pairs: Iterable[tuple[str, int]]) -> tuple[Line, ...]:
    sums: dict[str, list[int]] = {}
    for name, size in pairs:
        line = sums.setdefault(name, [0, 0])
        line[0] += 1
        line[1] += size
    lines = (Line(name, number, tokens) for name, (number, tokens) in sums.items())
    return tuple(sorted(lines, key=lambda line: (-line.tokens, line.name)))


def _reported(lines: Sequence[Json], dialect: str) -> tuple[int, int]:
    """Read the tokens that the last answer reported, 0 if none did, and the window."""
    if dialect == "codex":
        for line in reversed(lines):
            with suppress(KeyError, TypeError, AttributeError):
                info = line["payload"]["info"]
                used = int(info["last_token_usage"]["input_tokens"])
                return used, int(info.get("model_context_window") or 0)
        return 0, 0
    for i in sorted(live(lines), reverse=True):
        with suppress(KeyError, TypeError):
            usage = lines[i]["message"]["usage"]
            return sum(int(usage.get(name) or 0) for name in USAGE), CLAUDE_WINDOW
    return 0, CLAUDE_WINDOW


def shown(found: SessionWindow) -> Iterator[RenderableType]:
    """Show a window: how full it is, with what, and what to do."""
    share = f", {found.used_tokens / found.window_tokens:.0%} of it" if found.window_tokens else ""
    of = f" of {found.window_tokens:,}" if found.window_tokens else ""
    yield render.title(f"The session's window: {found.used_tokens:,}{of} tokens{share}")
    yield render.line(
        f"about {found.fixed_tokens:,} tokens are fixed: system prompt, tools and the like"
    )
    for name, lines in (
        ("tool", found.by_tool),
        ("file", found.by_file),
        ("MCP server", found.by_server),
    ):
        if lines:
            made = render.table(name, "results", "tokens", right=("results", "tokens"))
            for each in lines[:MOST_ROWS]:
                made.add_row(each.name, str(each.segments), f"{each.tokens:,}")
            yield made
    if found.biggest:
        yield render.title(f"The {len(found.biggest)} biggest results")
        made = render.table("tokens", "what", right=("tokens",))
        for big in found.biggest:
            made.add_row(f"{big.tokens:,}", big.what)
        yield made
    yield render.title("What you can do")
    for action in found.actions:
        yield render.line(action)
