"""Anthropic messages: user and assistant, each with content blocks; and what the API demands.

    {"role": "assistant", "content": [{"type": "thinking", …}, {"type": "tool_use", "id": …}]}
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": …}, {"type": "text", …}]}

Consecutive messages of one role are read as one. The system prompt is not a message; a request
keeps it in `system`. A later system message is between a user message and an assistant message, and
stays with both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from marksweep.dialects import base, rulebook
from marksweep.dialects.base import Fault, Json, Messages, Rule, Slot, word
from marksweep.dialects.rulebook import Answers, each_run, leading, run_after, together
from marksweep.messages import FunctionCall, InlineData, Message, Part, Role, ToolResult
from marksweep.tokens import result_text

MESSAGES = "https://platform.claude.com/docs/en/api/messages"
TOOL_CALLS = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls"
SERVER_TOOLS = "https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools"
EFFORT = "https://platform.claude.com/docs/build-with-claude/effort-per-message"
THINKING = (
    "https://platform.claude.com/docs/en/build-with-claude/extended-thinking"
    "#preserving-thinking-blocks"
)
CACHING = "https://platform.claude.com/docs/en/build-with-claude/prompt-caching"

CACHE_MARKS = 4
"""How many blocks of a request may carry `cache_control`."""


def _kind(part: Part) -> str:
    return str(part.raw.get("type", "")) if isinstance(part.raw, dict) else "text"


def client_call(part: Part) -> FunctionCall | None:
    """Return the call that we have to run."""
    return part.function_call if _kind(part) == "tool_use" else None


def client_result(part: Part) -> ToolResult | None:
    """Return the result of a call that we ran."""
    return part.function_response if _kind(part) == "tool_result" else None


def _server_call(part: Part) -> FunctionCall | None:
    return None if _kind(part) == "tool_use" else part.function_call


def _server_result(part: Part) -> ToolResult | None:
    return None if _kind(part) == "tool_result" else part.function_response


ANSWERS = Answers(each_run, run_after, together, leading, client_call, client_result)


def _sets_effort(message: Message) -> bool:
    """Whether it only changes the effort: a system message without content, allowed anywhere."""
    is_silent = message.role is Role.SYSTEM and not message.parts
    return is_silent and isinstance(message.raw, dict) and bool(message.raw.get("output_config"))


def _system_misplaced(messages: Messages) -> Iterator[Fault]:
    """Find system messages that are not between the user and the assistant."""
    said = [(i, message) for i, message in enumerate(messages) if not _sets_effort(message)]
    for k, (i, message) in enumerate(said):
        if message.role is not Role.SYSTEM:
            continue
        before = said[k - 1][1].role if k else None
        after = said[k + 1][1].role if k + 1 < len(said) else None
        if before not in (Role.USER, Role.TOOL):
            yield Fault(i, "a message of the system does not follow one of the user")
        elif after not in (None, Role.MODEL):
            yield Fault(i, "a message of the system is not followed by one of the assistant")


def _is_empty(part: Part) -> bool:
    return part.text is not None and not part.text.strip() and _kind(part) == "text"


def _says_nothing(messages: Messages) -> dict[Slot, str]:
    """Find empty texts, and messages without content; the assistant's last one may have none."""
    slots: dict[Slot, str] = {}
    for i, message in enumerate(messages):
        may_be_empty = i == len(messages) - 1 and message.role is Role.MODEL
        if not message.parts and not may_be_empty and not _sets_effort(message):
            slots[Slot(i, 0)] = "a message has no content"
        empty = [k for k, part in enumerate(message.parts) if _is_empty(part)]
        slots |= {Slot(i, k): "a text block is empty" for k in empty}
    return slots


def _misplaced(messages: Messages) -> dict[Slot, str]:
    """Find blocks that their role may not hold."""
    slots: dict[Slot, str] = {}
    for i, message in enumerate(messages):
        model = message.role is Role.MODEL
        for k, part in enumerate(message.parts):
            if model and client_result(part) is not None:
                slots[Slot(i, k)] = "a tool_result is in a message of the assistant"
            elif not model and (
                part.function_call or part.thought is not None or _server_result(part) is not None
            ):
                slots[Slot(i, k)] = f"a {_kind(part)} block is in a message of the user"
    return slots


def _server_loose(messages: Messages) -> dict[Slot, str]:
    """Find server results without a call before them in that turn, and calls without a result."""
    slots: dict[Slot, str] = {}
    last = len(messages) - 1
    for group in each_run(messages):
        run = messages[group.first : group.last + 1]
        found = base.match(run, _server_call, _server_result)
        loose = dict.fromkeys(found.orphans, "result without its server_tool_use")
        if group.last != last:
            loose |= dict.fromkeys(found.unanswered, "server_tool_use without its result")
        for slot, what in loose.items():
            slots[Slot(group.first + slot.message, slot.part)] = what
    return slots


def _unsigned(messages: Messages) -> dict[Slot, str]:
    return {
        Slot(i, k): "a thinking block has no signature"
        for i, message in enumerate(messages)
        for k, part in enumerate(message.parts)
        if (_kind(part) == "thinking" and not part.raw.get("signature"))
        or (_kind(part) == "redacted_thinking" and not part.raw.get("data"))
    }


def _trailing_thoughts(messages: Messages) -> dict[Slot, str]:
    slots: dict[Slot, str] = {}
    for group in each_run(messages):
        for i in range(group.last, group.first - 1, -1):
            parts = messages[i].parts
            ends = len(parts)
            while ends and parts[ends - 1].thought is not None:
                ends -= 1
            slots |= {Slot(i, k): "thinking ends the turn" for k in range(ends, len(parts))}
            if ends:
                break
    return slots


def _marks(messages: Messages) -> dict[Slot, str]:
    """Find cache marks that are not allowed: on thinking, or too many; the oldest are too many."""
    marked = [
        (Slot(i, k), _kind(part))
        for i, message in enumerate(messages)
        for k, part in enumerate(message.parts)
        if isinstance(part.raw, dict) and part.raw.get("cache_control")
    ]
    thoughts = [slot for slot, kind in marked if "thinking" in kind]
    others = [slot for slot, kind in marked if "thinking" not in kind]
    over = others[: max(0, len(others) - CACHE_MARKS)]
    return {
        **dict.fromkeys(thoughts, "a thinking block carries cache_control"),
        **dict.fromkeys(over, f"more than {CACHE_MARKS} blocks carry cache_control"),
    }


def _unmarked(part: Part) -> Part:
    return _part({k: v for k, v in part.raw.items() if k != "cache_control"})


def _space_at_end(messages: Messages) -> dict[Slot, str]:
    last = messages[-1] if messages else None
    if last is None or last.role is not Role.MODEL or not last.parts:
        return {}
    part = last.parts[-1]
    if _kind(part) != "text" or not part.text or part.text == part.text.rstrip():
        return {}
    end = Slot(len(messages) - 1, len(last.parts) - 1)
    return {end: "the last message is the assistant's and ends in space"}


def _stripped(part: Part) -> Part:
    text = (part.text or "").rstrip()
    return Part(text=text, raw=text if isinstance(part.raw, str) else {**part.raw, "text": text})


RULES = (
    Rule(
        "roles-known",
        f"{MESSAGES}: roles are user and assistant; a system prompt goes into `system`. A system "
        "message among them follows one of the user, and is last or before one of the assistant. "
        f"One that only sets the effort may be anywhere: {EFFORT}.",
        "Put the text into the request's `system`, or make it a message of the user.",
        *rulebook.system_as_user(_system_misplaced),
    ),
    Rule(
        "blocks-by-role",
        "The API answers '`tool_use` blocks can only be in `assistant` messages' and "
        f"'`tool_result` blocks can only be in `user` messages'; {TOOL_CALLS}.",
        "Drop the block, or move it to a message of the right role.",
        *rulebook.dropping(_misplaced),
    ),
    Rule(
        "thinking-signed",
        f"{THINKING}: thinking blocks are passed back complete and unmodified, with their "
        "signature; they may be left out of earlier turns.",
        "Pass the block back as it came, or leave it out.",
        *rulebook.dropping(_unsigned),
    ),
    Rule(
        "server-results-with-calls",
        "The API answers 'Each `…_tool_result` block must have a corresponding "
        f"`server_tool_use` block before it'; {SERVER_TOOLS}.",
        "Keep a server tool's call and result together in one turn of the assistant.",
        *rulebook.dropping(_server_loose),
    ),
    Rule(
        "content-not-empty",
        "The API answers 'messages: text content blocks must be non-empty' and 'all messages "
        f"must have non-empty content except for the optional final assistant message'; "
        f"{MESSAGES}.",
        "Drop the empty block or message.",
        *rulebook.dropping(_says_nothing),
    ),
    Rule(
        "call-ids-unique",
        f"The API answers '`tool_use` ids must be unique'; {TOOL_CALLS}.",
        "Give each tool_use its own id, and the same to its tool_result.",
        *rulebook.renaming(
            rulebook.repeated_ids(client_call, "a tool_use has no id, or that of an earlier one"),
            ANSWERS,
        ),
    ),
    Rule(
        "results-have-calls",
        "The API answers 'Each `tool_result` block must have a corresponding `tool_use` block "
        f"in the previous message'; {TOOL_CALLS}.",
        "Drop the tool_result, or put back the message that asked for it.",
        *rulebook.results_without_call(
            ANSWERS, "a tool_result answers {result.call_id!r}, which nothing asks for"
        ),
    ),
    Rule(
        "results-first",
        f"{TOOL_CALLS}: tool results immediately follow their tool uses, and come first in the "
        "content, before any text.",
        "Move the tool_result to the start of the next message of the user.",
        *rulebook.results_astray(
            ANSWERS, "a tool_result is not first in what follows message {last}"
        ),
    ),
    Rule(
        "calls-answered",
        "The API answers '`tool_use` ids were found without `tool_result` blocks immediately "
        f"after'; {TOOL_CALLS}. A call at the very end may still be waiting.",
        "Add a tool_result for each tool_use that has none.",
        *rulebook.calls_unanswered(
            ANSWERS, "tool_use {call.id!r} has no tool_result in the next message"
        ),
    ),
    Rule(
        "thinking-not-last",
        "The API answers 'The final block in an assistant message cannot be `thinking`'; "
        f"{THINKING}.",
        "Put back what followed the thinking, or leave the thinking out.",
        *rulebook.dropping(_trailing_thoughts),
    ),
    Rule(
        "cache-marks",
        "The API answers 'A maximum of 4 blocks with cache_control may be provided'; thinking "
        f"blocks cannot be marked: {CACHING}.",
        "Take off the marks of the oldest blocks.",
        *rulebook.editing(_marks, _unmarked, "took off a cache_control mark"),
    ),
    Rule(
        "starts-with-user",
        f"{MESSAGES}: the first message must be the user's.",
        "Put a message of the user in front.",
        rulebook.starts_with_user,
        rulebook.start_with_user,
    ),
    Rule(
        "no-space-at-end",
        "The API answers 'final assistant content cannot end with trailing whitespace'; "
        f"{MESSAGES}.",
        "Strip the space, or end with a message of the user.",
        *rulebook.editing(_space_at_end, _stripped, "stripped the space at its end"),
    ),
)
"""In the order in which a repair applies them."""


ROLES = {"user": Role.USER, "assistant": Role.MODEL, "system": Role.SYSTEM}

SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
"""Calls that the provider runs itself. Their results are in the same turn of the assistant."""


class TyingSystem(base.Tying):
    """Ties what the system says to the user's message before it and the assistant's after it."""

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[int, Role] | None = None

    def feed(self, i: int, message: Message) -> list[int]:
        """Read the next message; return the numbers of those it is tied to."""
        tied = super().feed(i, message)
        if self._last is not None and Role.SYSTEM in (message.role, self._last[1]):
            tied = sorted({*tied, self._last[0]})
        self._last = (i, message.role)
        return tied


class Anthropic(base.TiedByCalls):
    """Reads and writes Anthropic messages."""

    name = "anthropic"
    rules: tuple[Rule, ...] = RULES

    def tying(self) -> base.Tying:
        """Tie results to their calls, thoughts to what followed, the system to its neighbours."""
        return TyingSystem()

    def read(self, raw: Json) -> tuple[Role, tuple[Part, ...]]:
        """Parse one message."""
        role = base.role_in(raw, ROLES)
        parts = tuple(base.parts_of(raw.get("content"), _part))
        if role is Role.USER and parts and all(part.function_response for part in parts):
            role = Role.TOOL
        return role, parts

    def rebuild(self, raw: Json, parts: Sequence[Part]) -> Json:
        """Copy the message with these parts."""
        blocks = [part.raw for part in parts]
        if len(blocks) == 1 and isinstance(blocks[0], str):
            return {**raw, "content": blocks[0]}
        blocks = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        return {**raw, "content": blocks}

    def compose(self, role: Role, parts: Sequence[Part]) -> list[Json]:
        """Compose one message; results come first, and thoughts of other models are left out."""
        texts = [part.text for part in parts]
        if len(texts) == 1 and texts[0] is not None:
            content: Json = texts[0]
        else:
            results = [part for part in parts if part.function_response]
            rest = [part for part in parts if not part.function_response]
            content = [block for part in (*results, *rest) if (block := part.raw or _written(part))]
        return [{"role": "assistant" if role is Role.MODEL else "user", "content": content}]

    def answer(self, asked: Part, text: str) -> Part:
        """Make a result for a call."""
        call = asked.function_call or FunctionCall("", "")
        raw = {"type": "tool_result", "tool_use_id": call.id, "content": text}
        return Part(function_response=ToolResult(call.id, call.name, text), raw=raw)

    def with_call_id(self, part: Part, call_id: str) -> Part:
        """Return the same call or result under another id."""
        return _part({**part.raw, "id" if part.function_call else "tool_use_id": call_id})

    def with_result(self, part: Part, text: str) -> Part:
        """Replace what a result says; the results of server tools stay as they are."""
        if client_result(part) is None:
            return part
        content = base.shortened(part.raw.get("content"), text, "text")
        return _part({**part.raw, "content": content})


def _part(block: dict[str, Json]) -> Part:
    """Parse one block."""
    kind = word(block.get("type"))
    if kind == "text":
        return Part(text=word(block.get("text")), raw=block)
    if kind == "tool_use" or kind in SERVER_CALLS:
        call = FunctionCall(word(block.get("id")), word(block.get("name")), block.get("input"))
        return Part(function_call=call, raw=block)
    if kind.endswith("tool_result"):
        is_error = block.get("is_error") is True
        result = ToolResult(word(block.get("tool_use_id")), "", block.get("content"), is_error)
        return Part(function_response=result, raw=block)
    if kind in ("thinking", "redacted_thinking"):
        return Part(thought=word(block.get("thinking")), raw=block)
    if kind in ("image", "document"):
        return _media(kind, block)
    return Part(raw=block)


def _media(kind: str, block: dict[str, Json]) -> Part:
    source = block.get("source")
    if not isinstance(source, dict):
        return Part(raw=block)
    if source.get("type") in ("text", "content"):
        return Part(text=result_text(block), raw=block)
    mime = word(source.get("media_type")) or ("image/*" if kind == "image" else "application/pdf")
    data = word(source.get("data") or source.get("url") or source.get("file_id"))
    return Part(inline_data=InlineData(mime, data), raw=block)


def _written(part: Part) -> Json:
    """Compose a block from a neutral part; None for a thought, which only its model can sign."""
    if part.text:
        return {"type": "text", "text": part.text}
    if part.function_call:
        call = part.function_call
        given = base.as_object(call.args)
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": given}
    if part.function_response:
        result = part.function_response
        block = {"type": "tool_result", "tool_use_id": result.call_id}
        block["content"] = base.as_text(result.result)
        return {**block, "is_error": True} if result.is_error else block
    if part.inline_data:
        return _written_media(part.inline_data)
    return None


def _written_media(media: InlineData) -> Json:
    kind = "image" if media.mime_type.startswith("image/") else "document"
    if "://" in media.data[:16]:
        return {"type": kind, "source": {"type": "url", "url": media.data}}
    mime, data = media.mime_type, media.data
    if data.startswith("data:") and ";base64," in data:
        mime, data = data.removeprefix("data:").split(";base64,", 1)
    return {"type": kind, "source": {"type": "base64", "media_type": mime, "data": data}}


ANTHROPIC = Anthropic()
