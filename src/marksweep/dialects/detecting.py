"""Which dialect a history is in, detected by marks that only one of them has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from marksweep.dialects.anthropic import ANTHROPIC
from marksweep.dialects.base import Dialect, Json, no_messages, plain, word
from marksweep.dialects.claude_code import CLAUDE_CODE
from marksweep.dialects.codex import CODEX
from marksweep.dialects.gemini import GEMINI
from marksweep.dialects.openai_chat import OPENAI_CHAT
from marksweep.dialects.openai_responses import CALLS, OPENAI_RESPONSES, OUTPUTS
from marksweep.errors import BadInput, UnknownName

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI, CLAUDE_CODE, CODEX)
}

ANTHROPIC_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "document"}
CHAT_BLOCKS = {"image_url", "input_audio", "file"}
RESPONSES_BLOCKS = {"input_text", "output_text", "input_image", "input_file"}
RESPONSES_ITEMS = {"message", "reasoning", "item_reference", "compaction", *CALLS, *OUTPUTS}
RESPONSES_ENDINGS = ("_call", "_call_output", "_search_output")
"""How the types of other Responses items end: calls that the provider runs itself."""
CODEX_LINES = {"response_item", "session_meta", "turn_context", "event_msg", "compacted"}
CLAUDE_CODE_LINES = {"summary": "leafUuid", "file-history-snapshot": "snapshot"}
"""Lines of Claude Code that have no id, and what each of them has."""


def _blocks(message: dict[str, Json]) -> set[str]:
    content = message.get("content")
    if not isinstance(content, list):
        return set()
    return {word(block.get("type")) for block in content if isinstance(block, dict)}


def _is_chat(m: dict[str, Json]) -> bool:
    return "parts" not in m and (
        "tool_calls" in m
        or "tool_call_id" in m
        or m.get("role") in ("tool", "function")
        or bool(_blocks(m) & CHAT_BLOCKS)
    )


def _is_anthropic(m: dict[str, Json]) -> bool:
    blocks = _blocks(m)
    if m.get("type") == "message" and not (blocks & RESPONSES_BLOCKS):
        return isinstance(m.get("usage"), dict) and "stop_reason" in m
    served = any(kind.endswith(("_tool_use", "_tool_result")) for kind in blocks)
    images = "image" in blocks
    return bool(blocks & ANTHROPIC_BLOCKS) or served or images


def _is_responses(m: dict[str, Json]) -> bool:
    kind = word(m.get("type"))
    if kind == "message":
        return not _is_anthropic(m)
    known = kind in RESPONSES_ITEMS or kind.startswith("mcp_") or kind.endswith(RESPONSES_ENDINGS)
    return known or bool(_blocks(m) & RESPONSES_BLOCKS)


def _is_claude_code(m: dict[str, Json]) -> bool:
    if "uuid" in m:
        return "sessionId" in m or isinstance(m.get("message"), dict)
    kind = word(m.get("type"))
    return CLAUDE_CODE_LINES.get(kind) in m or bool(kind and "sessionId" in m)


def _is_codex(m: dict[str, Json]) -> bool:
    return word(m.get("type")) in CODEX_LINES and "payload" in m


MARKS: tuple[tuple[Dialect, Callable[[dict[str, Json]], bool], str], ...] = (
    (CLAUDE_CODE, _is_claude_code, "lines with `uuid` and `sessionId` or `message`"),
    (CODEX, _is_codex, "lines with `payload`, such as response_item"),
    (GEMINI, lambda m: "parts" in m and not _is_pydantic_ai(m), "contents with `parts`"),
    (OPENAI_RESPONSES, _is_responses, "items with `type`, such as function_call; input_text"),
    (ANTHROPIC, _is_anthropic, "blocks such as tool_use, tool_result, thinking, image"),
    (OPENAI_CHAT, _is_chat, "`tool_calls`, `tool_call_id`, role tool; image_url"),
)
"""Each dialect with what distinguishes it from the others, for code and for people."""


def _is_langchain(value: Json) -> bool:
    if not isinstance(value, dict):
        return type(value).__module__.startswith("langchain")
    return (
        "role" not in value
        and word(value.get("type")) != ""
        and ("additional_kwargs" in value or isinstance(value.get("data"), dict))
    )


def _is_pydantic_ai(value: Json) -> bool:
    if not isinstance(value, dict):
        return type(value).__module__.startswith("pydantic_ai")
    return value.get("kind") in ("request", "response") and "parts" in value


FOREIGN: tuple[tuple[Callable[[Json], bool], str], ...] = (
    (
        _is_langchain,
        "These are LangChain's: pass what `langchain_core.messages.convert_to_openai_messages` "
        "makes of them.",
    ),
    (
        _is_pydantic_ai,
        "These are pydantic-ai's: pass the messages of its provider, or neutral `Message`s.",
    ),
)
"""Messages of frameworks that are not read, and what to do with each."""


def advice_on(values: Iterable[Json]) -> str:
    """Say what to do with messages that cannot be read."""
    seen = list(values)
    for is_it, advice in FOREIGN:
        if any(map(is_it, seen)):
            return advice
    return f"Pass dialect=, one of {', '.join(DIALECTS)}."


def _is_plain(m: dict[str, Json]) -> bool:
    return isinstance(m.get("role"), str) and "content" in m


def detect(messages: Sequence[Json] | dict[str, Json]) -> str:
    """Name the dialect of a history, or of a whole request.

    Plain text is the same in chat completions, Responses and Anthropic; it is taken for
    `openai_chat`. BadInput if there are marks of several dialects, or of none.
    """
    if isinstance(messages, dict):
        return _of_request(messages)
    if isinstance(messages, str):
        return OPENAI_CHAT.name
    if not isinstance(messages, Sequence):
        raise no_messages(messages)
    found = marks_in(messages)
    seen = [m for m in map(plain, messages) if isinstance(m, dict)]
    for transcript in (CLAUDE_CODE.name, CODEX.name):
        if transcript in found:
            return transcript
    if len(found) == 1:
        return found[0]
    if not found and any(map(_is_plain, seen)):
        return OPENAI_CHAT.name
    if not found and not messages:
        return OPENAI_CHAT.name
    raise BadInput(_puzzled(found, messages))


def marks_in(messages: Sequence[Json]) -> list[str]:
    """Name the dialects of which a history has marks; plain text has none."""
    seen = [m for m in map(plain, messages) if isinstance(m, dict)]
    return [dialect.name for dialect, is_it, _ in MARKS if any(map(is_it, seen))]


def _puzzled(found: list[str], messages: Sequence[Json]) -> str:
    looked = "; ".join(f"{dialect.name}: {mark}" for dialect, _, mark in MARKS)
    marks = f"marks of {' and '.join(found)}" if found else "no known marks"
    return (
        f"cannot detect the dialect: {marks} in {len(messages)} messages. Looked for {looked}; or "
        f"role and content for plain text. {advice_on(messages)}"
    )


def _of_request(body: dict[str, Json]) -> str:
    if "contents" in body:
        return GEMINI.name
    if "input" in body:
        return OPENAI_RESPONSES.name
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise BadInput(
            "cannot detect the dialect of a request with "
            f"{', '.join(map(str, body)) or 'no keys'}. "
            "Looked for contents (gemini), input (openai_responses) and messages (openai_chat, "
            "anthropic). Pass the list of messages."
        )
    named = detect(messages)
    tools = body.get("tools")
    schemas = isinstance(tools, list) and any(
        isinstance(tool, dict) and "input_schema" in tool for tool in tools
    )
    claims = "system" in body or schemas or isinstance(body.get("thinking"), dict)
    return ANTHROPIC.name if named == OPENAI_CHAT.name and claims else named


def dialect_named(name: str) -> Dialect:
    """Give the dialect of that name; UnknownName lists the known ones."""
    try:
        return DIALECTS[name]
    except KeyError:
        raise UnknownName(
            f"no dialect named {name!r}; known are {', '.join(DIALECTS)}. "
            "Leave it out to have it detected."
        ) from None
