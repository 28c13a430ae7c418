"""The small set of tools: what a model needs to remember, recall, forget, and ask about code.

Answers are text within a bound of tokens; definitions are short, for they are in every request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import Field, PrivateAttr

from marksweep.errors import BadInput
from marksweep.graph.agent_memory import AgentMemory, Let, Recalled, Remembered, Where
from marksweep.graph.call_graph import Ask, Linked
from marksweep.mcp import memory_tools
from marksweep.mcp.asking import CurrentWorkspace, state_of
from marksweep.mcp.server_state import Workspace
from marksweep.mcp.tool import ADDS, READS, SETS, SWEEPS, Ctx, Result, StrictTool, VerbatimError
from marksweep.tokens import count

MAX_TOKENS = 2_000
"""Tokens of an answer, unless the call says otherwise."""

LEAST_TOKENS = 50
"""The lowest bound that a call may set: less would not hold a sentence and an id."""


DESCRIPTIONS = {
    "index_codebase": "Read a folder's code into memory, so that recall and who_calls know it. "
    "Call once per project and after large changes; only what changed is read again. Not for a "
    "single file: read that yourself.",
    "prune_memory": "Show what in long-term memory is garbage: files and roots that are gone, "
    "duplicates, what is expired or orphaned. Call when asked to clean up. To delete exactly what "
    "was shown: dry_run false and confirm true, once the user agrees; restorable for a week.",
}
"""What tools of the full set say in the small one: when to call them and when not."""


class Said(Result):
    """An answer in words."""

    _text: str = PrivateAttr(default="")

    @classmethod
    def of(cls, *lines: str) -> Said:
        """Make one of lines."""
        made = cls()
        made._text = "\n".join(lines)
        return made

    def words(self) -> str:
        """Give the lines."""
        return self._text


class TextTool(StrictTool):
    """A tool that answers with text within a bound, and never with structure."""

    @classmethod
    def of(cls, function: Callable[..., object], title: str, hints: ToolAnnotations) -> Self:
        """Make a tool of a function, with a bound of tokens and without what costs tokens."""
        made = super().of(function, title, hints)
        made.description = DESCRIPTIONS.get(made.name, made.description)
        made.fn_metadata.output_schema = None
        made.fn_metadata.output_model = None
        slim = _without_titles(made.parameters)
        slim["properties"].setdefault("max_tokens", {"type": "integer", "default": MAX_TOKENS})
        made.parameters = slim
        return made

    async def run(
        self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False
    ) -> CallToolResult | InputRequiredResult:
        """Run the tool; cut what is over the bound."""
        given = dict(arguments)
        bound = given.get("max_tokens", MAX_TOKENS)
        if "max_tokens" not in self.fn_metadata.arg_model.model_fields:
            given.pop("max_tokens", None)
        try:
            most = int(bound)
        except (TypeError, ValueError):
            raise VerbatimError(f"max_tokens is {bound!r}; expected a number.") from None
        result = await super().run(given, context, convert_result)
        if isinstance(result, InputRequiredResult):
            return result
        (said,) = result.content
        text = said.text if isinstance(said, TextContent) else ""
        content: list[Any] = [TextContent(text=bounded(text, max(most, LEAST_TOKENS)))]
        return CallToolResult(content=content, is_error=result.is_error)


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out the titles that pydantic makes of names; they say nothing and cost tokens."""
    kept = {name: value for name, value in schema.items() if name != "title"}
    return {
        name: {each: _without_titles(one) for each, one in value.items()}
        if name in ("properties", "$defs")
        else _without_titles(value)
        if isinstance(value, dict)
        else value
        for name, value in kept.items()
    }


def bounded(text: str, most: int) -> str:
    """Cut a text to so many tokens, at a line if possible, and say so."""
    if count(text) <= most:
        return text
    note = "… cut here. Narrow the question, or raise max_tokens."
    room = most - count(note) - 1
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= room else (low, middle - 1)
    kept = text[:low]
    at_line = kept.rpartition("\n")[0]
    return f"{at_line if len(at_line) > len(kept) // 2 else kept}\n{note}"


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
) -> Said:
    """Keep a fact, decision or preference for later sessions, one per call, in full sentences. Not
    for code (index_codebase has it) or what only matters in this conversation."""
    with _agent(ctx, here) as memory:
        return Said.of(
            *_remembered(memory.remember(text, tags=tags, replaces=replaces, pinned=pin))
        )


def _remembered(done: Remembered) -> Iterator[str]:
    yield f"{'Known already' if done.known else 'Remembered'}: {done.memory_id}"
    if done.replaced:
        yield f"No longer valid, kept for recall as of earlier: {', '.join(done.replaced)}"
    for memory_id, text in done.alike:
        yield (
            f"Says nearly the same: [{memory_id}] {' '.join(text.split())[:200]} "
            "(if it is untrue now: remember again with replaces)"
        )


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
    moment = _moment(as_of)
    room = max(max_tokens, LEAST_TOKENS)
    with _agent(ctx, here) as memory:
        found = memory.recall(
            query, where=where, tags=tags, path=path, as_of=moment, limit=limit, tokens=room
        )
    if not found:
        return Said.of(
            "Nothing fits. Try other words; code is found once index_codebase has read it."
        )
    return Said.of(*("\n".join(_shown(one)) for one in found))


def _moment(as_of: str) -> datetime | None:
    if not as_of.strip() or as_of.strip().casefold() in ("now", "latest"):
        return None
    try:
        found = datetime.fromisoformat(as_of.strip())
    except ValueError:
        raise BadInput(f"as_of is {as_of!r}; expected a date such as 2026-05-01.") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _shown(one: Recalled) -> Iterator[str]:
    place = f" {one.place}" if one.place else ""
    until = f", valid until {one.valid_until:%Y-%m-%d}" if one.valid_until else ""
    by = f", replaced by {one.replaced_by}" if one.replaced_by else ""
    day = f" {one.created_at:%Y-%m-%d}" if one.where is not Where.CODE else ""
    yield f"[{one.where}{place} {one.id}{day}{until}{by}]"
    yield f"{one.text}{' …' if one.cut else ''}"


def forget(
    ctx: Ctx,
    here: CurrentWorkspace,
    *,
    ids: Annotated[Ids, Field(description="Ids that recall gave, or latest.")],
    restore: Annotated[bool, Field(description="Take back instead.")] = False,
) -> Said:
    """Delete what the user wants gone or what was never true; restorable for a week. For a fact
    that changed, call remember with replaces instead."""
    with _agent(ctx, here) as memory:
        done = memory.restore(ids) if restore else memory.forget(ids)
    return Said.of(*_let(done, "Restored" if restore else "Forgotten"))


def _let(done: Let, verb: str) -> Iterator[str]:
    yield f"{verb}: {', '.join(done.done) or 'nothing'}"
    for each in done.left:
        yield f"Not: {each}"


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
    return Said.of(*linked_lines(found))


def linked_lines(found: Linked) -> Iterator[str]:
    """Write an answer of the call graph, a line for each link."""
    for each in found.definitions[:5]:
        yield f"defined: {each.kind} {each.symbol} {each.file}:{each.line}"
    if len(found.definitions) > 5:
        yield f"defined: and {len(found.definitions) - 5} more of this name"
    for one in found.links:
        link = one.link
        lines = ",".join(map(str, link.lines))
        step = f"{one.depth} " if found.ask is Ask.IMPACT else ""
        yield f"{step}{link.source} {link.relation} {link.target} {link.file}:{lines}"
    if not found.links:
        known = "" if found.definitions else " It is not defined in indexed code, either."
        yield f"No {found.ask} of {found.name} are known.{known}"
    if not found.complete:
        yield "There are more; raise limit, or ask about one of these."


TOOLS = (
    TextTool.of(remember, "Remember", ADDS),
    TextTool.of(recall, "Recall", READS),
    TextTool.of(forget, "Forget", SWEEPS),
    TextTool.of(memory_tools.index_codebase, "Index a codebase", SETS),
    TextTool.of(who_calls, "Who calls it", READS),
    TextTool.of(memory_tools.prune_memory, "Prune memory", SWEEPS),
)
