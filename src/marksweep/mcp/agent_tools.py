"""The small set of tools: what a model needs to remember, recall, forget, and ask about code.

Answers are text within a token limit; definitions are short, because they are in every request.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

from mcp_types import CallToolResult, TextContent
from pydantic import Field

from marksweep.graph.agent_memory import AgentMemory, Recalled, Where
from marksweep.graph.notes import moment
from marksweep.mcp import memory_tools
from marksweep.mcp.asking import CurrentWorkspace, state_of
from marksweep.mcp.bounds import MAX_TOKENS, bounded
from marksweep.mcp.server_state import Workspace
from marksweep.mcp.tool import ADDS, READS, SETS, SWEEPS, Answer, Ctx, StrictTool


class TextTool(StrictTool):
    """A tool that answers in sentences."""

    def sent(self, answer: Answer[object], most: int) -> CallToolResult:
        """Send the words alone."""
        return CallToolResult(content=[TextContent(text=bounded(answer.words, most))])


MAX_PLACE_CHARS = 200
"""Characters of a path or of a note's tags that are shown before its id."""

Said = Answer[None]
"""An answer in words alone."""


def _said(*lines: str) -> Said:
    return Answer("\n".join(lines), None)


@contextmanager
def _agent(ctx: Ctx, here: Workspace) -> Iterator[AgentMemory]:
    memory = state_of(ctx).memory().sync
    with here.segments() as segments:
        yield AgentMemory(memory, segments)


Tags = Annotated[list[str], Field(max_length=50)]
Ids = Annotated[list[str], Field(min_length=1, max_length=100)]


def remember(
    ctx: Ctx,
    here: CurrentWorkspace,
    *,
    text: Annotated[str, Field(min_length=1, max_length=200_000)],
    tags: Tags = [],  # noqa: B006
    replaces: Annotated[
        list[str], Field(max_length=50, description="Ids of notes this one makes untrue.")
    ] = [],  # noqa: B006
    pin: Annotated[bool, Field(description="Never collect it.")] = False,
    ttl: Annotated[str, Field(description="Time to live, such as 30d.")] = "",
) -> Said:
    """Keep a fact, decision or preference for later sessions, one per call, in full sentences. Not
    for code (index_codebase has it) or what only matters in this conversation."""
    with _agent(ctx, here) as memory:
        done = memory.remember(text, tags=tags, replaces=replaces, pinned=pin, ttl=ttl)
    return _said(str(done))


def recall(
    ctx: Ctx,
    here: CurrentWorkspace,
    *,
    query: Annotated[
        str, Field(max_length=2_000, description="Words, a symbol, an id to read whole, or latest.")
    ] = "",
    where: Annotated[
        list[Literal["live", "stashed", "note", "code"]], Field(description="All if empty.")
    ] = [],  # noqa: B006
    tags: Tags = [],  # noqa: B006
    path: Annotated[str, Field(description="A file or folder.")] = "",
    as_of: Annotated[str, Field(description="A date: notes that were valid then.")] = "",
    limit: Annotated[int, Field(ge=1, le=100)] = 10,
    max_tokens: int = MAX_TOKENS,
) -> Said:
    """Search all memory: notes of earlier sessions, indexed code, and context, live or swept. Call
    before you ask the user what they may have said, and before you read many files to find one."""
    then = moment(as_of)
    with _agent(ctx, here) as memory:
        found = memory.recall(
            query, where=where, tags=tags, path=path, as_of=then, limit=limit, tokens=max_tokens
        )
    if not found:
        return _said(
            "Nothing matches. Try other words; code is found once index_codebase has read it."
        )
    return _said(*("\n".join(_shown(one)) for one in found))


def _shown(one: Recalled) -> Iterator[str]:
    place = f" {one.place[:MAX_PLACE_CHARS]}" if one.place else ""
    until = f", valid until {one.valid_until:%Y-%m-%d}" if one.valid_until else ""
    by = f", replaced by {one.replaced_by}" if one.replaced_by else ""
    day = f" {one.created_at:%Y-%m-%d}" if one.where is not Where.CODE else ""
    yield f"[{one.where}{place} {one.id}{day}{until}{by}]"
    yield f"{one.text}{' …' if one.cut else ''}"


def forget(
    ctx: Ctx,
    here: CurrentWorkspace,
    *,
    ids: Annotated[Ids, Field(description="Ids from recall, a plan to restore, or latest.")],
    restore: Annotated[bool, Field(description="Restore instead.")] = False,
) -> Said:
    """Delete what the user wants gone or what was never true; restorable for a week. For a fact
    that changed, call remember with replaces instead."""
    with _agent(ctx, here) as memory:
        done = memory.restore(ids) if restore else memory.forget(ids)
    return _said(str(done))


def who_calls(
    ctx: Ctx,
    here: CurrentWorkspace,
    *,
    symbol: Annotated[
        str, Field(min_length=1, max_length=500, description="Function, Class.method, or file.")
    ],
    ask: Literal[
        "callers", "callees", "imports", "importers", "inherits", "subclasses", "impact"
    ] = "callers",
    limit: Annotated[int, Field(ge=1, le=1_000)] = 50,
) -> Said:
    """Ask the call graph of indexed code, with file and line; impact: all that a change may break.
    Call before you rename or change a function. Text that is not code: recall."""
    memory = state_of(ctx).memory().sync
    found = memory.call_graph(symbol, ask, workspace_id=here.name, limit=limit)
    return _said(str(found))


TOOLS = (
    TextTool.of(remember, "Remember", ADDS),
    TextTool.of(recall, "Recall", READS),
    TextTool.of(forget, "Forget", SWEEPS),
    TextTool.of(memory_tools.index_codebase, "Index a codebase", SETS),
    TextTool.of(who_calls, "Who calls it", READS),
    TextTool.of(memory_tools.prune_memory, "Prune memory", SWEEPS),
)
