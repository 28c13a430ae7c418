"""A history that was read: its dialect, its messages, what was skipped, and how to write it back.

The dialect is detected by marks that only one of them has.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Sequence

import msgspec

from marksweep.dialects.anthropic import ANTHROPIC
from marksweep.dialects.base import (
    NO_JSON,
    Dialect,
    Json,
    Skipped,
    Unreadable,
    message_of,
    no_messages,
    parsed,
    plain,
    word,
)
from marksweep.dialects.chain import live, relinked
from marksweep.dialects.enveloped import CLAUDE_CODE, CODEX, Enveloped, NotAMessage
from marksweep.dialects.gemini import GEMINI
from marksweep.dialects.openai_chat import OPENAI_CHAT
from marksweep.dialects.openai_responses import CALLS, OPENAI_RESPONSES, OUTPUTS
from marksweep.errors import BadInput, UnreadableWarning, unknown_name
from marksweep.messages import Message, Part, Role

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI, CLAUDE_CODE, CODEX)
}

ANTHROPIC_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "document"}
CHAT_BLOCKS = {"image_url", "file"}
RESPONSES_BLOCKS = {"input_text", "output_text", "input_image", "input_file"}
RESPONSES_ITEMS = {"message", "reasoning", "item_reference", "compaction", *CALLS, *OUTPUTS}
RESPONSES_ENDINGS = ("_call", "_call_output", "_search_output")
"""Suffixes of other Responses item types: calls that the provider runs itself."""
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


def objects_in(values: Iterable[Json]) -> Iterator[dict[str, Json]]:
    """Return those of the values that are JSON objects."""
    for value in values:
        try:
            said = plain(value)
        except Unreadable:
            continue
        if isinstance(said, dict):
            yield said


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
    if found and (len(found) == 1 or found[0] in TRANSCRIPTS):
        return found[0]
    if not found and (not messages or any(map(_is_plain, objects_in(messages)))):
        return OPENAI_CHAT.name
    raise BadInput(_puzzled(found, messages))


def marks_in(messages: Sequence[Json]) -> list[str]:
    """Name the dialects of which a history has marks; plain text has none."""
    seen = list(objects_in(messages))
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
    """Return the dialect of that name; UnknownName lists the known ones."""
    if name not in DIALECTS:
        advice = "Leave it out to have it detected."
        raise unknown_name("no dialect named", name, DIALECTS, advice)
    return DIALECTS[name]


LISTS = {
    "openai_chat": "messages",
    "openai_responses": "input",
    "anthropic": "messages",
    "gemini": "contents",
}
"""Where each provider's request keeps its messages."""

STORED = ("previous_response_id", "conversation")
"""Fields of requests whose history the provider stores; such requests are sent unchanged."""

TRANSCRIPTS = ("claude_code", "codex")
"""Dialects whose lines hold messages of others."""

PLAIN = "openai_chat"
"""The dialect of messages that have only plain text so far."""

SYSTEMS = {
    "openai_responses": ("instructions",),
    "anthropic": ("system",),
    "gemini": ("systemInstruction", "system_instruction"),
}
"""Where each provider's request keeps its system prompt, if not among its messages."""


class Aside(msgspec.Struct, frozen=True):
    """A value that is not a message, with its position: written back, never sent or collected."""

    position: int
    raw: Json


class UnparsedLine(msgspec.Struct, frozen=True):
    """A line of a transcript that is not JSON: written back byte for byte."""

    data: bytes
    reason: str = ""
    """What is wrong with it; empty for a blank line."""


class History(msgspec.Struct, frozen=True):
    """A history that was read."""

    dialect: str
    messages: tuple[Message, ...]
    positions: tuple[int, ...]
    """The position of each message in the input."""
    skipped: tuple[Skipped, ...] = ()
    asides: tuple[Aside, ...] = ()
    system: Message | None = None
    """The system prompt of a request that keeps it in a separate field."""
    given: Json = None
    """What was read: a list of messages, a whole request, or the lines of a transcript."""

    @property
    def overhead(self) -> dict[str, Json]:
        """What a whole request has that takes room besides its messages."""
        tools = self.given.get("tools") if isinstance(self.given, dict) else None
        found = {"system": self.system.raw if self.system else None, "tools": tools}
        return {kind: value for kind, value in found.items() if value is not None}


def _since_compaction(lines: Sequence[Json]) -> range:
    """Return the indices of the lines of a Codex session after its last compaction.

    What the compaction made is in its own line, which stays where it is.
    """
    kinds = [line.get("type") if isinstance(line, dict) else None for line in lines]
    last = max((i for i, kind in enumerate(kinds) if kind == "compacted"), default=-1)
    return range(last + 1, len(lines))


ALIVE: dict[str, Callable[[Sequence[Json]], Container[int]]] = {
    "claude_code": live,
    "codex": _since_compaction,
}
"""Which lines of a session its client would still send."""


def read(given: Json, dialect: str | None = None, *, start: int = 0) -> History:
    """Read provider messages, a whole request or the lines of a transcript.

    Messages are named by position, counted from `start`. What cannot be read is reported in
    `skipped` and kept as an aside. Neutral messages are written first.
    """
    name = dialect or detect(given)
    kind = dialect_named(name)
    values = given.get(LISTS.get(name, "messages")) if isinstance(given, dict) else given
    values = _as_list(values, name)
    if any(isinstance(value, Message) for value in values):
        values, alive = _values(values, name), None
    else:
        alive = ALIVE[name](values) if name in ALIVE else None
    return _read(values, given, kind, start, alive)


def insist_on(history: History, stacklevel: int = 3) -> History:
    """Refuse a history of which nothing could be read; warn of one that was read in part.

    `stacklevel` says whose line the warning names, as for `warnings.warn`.
    """
    if not history.skipped:
        return history
    first, total = history.skipped[0], len(history.messages) + len(history.skipped)
    why = f"be read as {history.dialect}; message {first.position}: {first.reason}."
    if not history.messages:
        advice = advice_on(aside.raw for aside in history.asides)
        raise BadInput(f"none of {total} messages can {why} {advice}")
    skipped = f"{len(history.skipped)} of {total} messages cannot {why}"
    warnings.warn(f"{skipped} They are skipped.", UnreadableWarning, stacklevel=stacklevel)
    return history


def _values(values: list[Json], name: str) -> list[Json]:
    """Write the neutral messages among the values."""
    out: list[Json] = []
    for is_neutral, run in itertools.groupby(values, key=lambda v: isinstance(v, Message)):
        each = list(run)
        out += written(each, name) if is_neutral else each
    return out


def _as_list(values: Json, name: str) -> list[Json]:
    if isinstance(values, str):
        return [{"role": "user", **_text(values, name)}]
    if isinstance(values, list | tuple):
        return list(values)
    raise no_messages(values)


def _text(text: str, name: str) -> dict[str, Json]:
    return {"parts": [{"text": text}]} if name == "gemini" else {"content": text}


def _read(
    values: list[Json], given: Json, dialect: Dialect, start: int, alive: Container[int] | None
) -> History:
    """Read values; only those `alive` are messages, if that is said."""
    messages: list[Message] = []
    positions: list[int] = []
    skipped: list[Skipped] = []
    asides: list[Aside] = []
    for position, value in enumerate(values):
        try:
            if isinstance(value, UnparsedLine) or (alive is not None and position not in alive):
                raise NotAMessage
            messages.append(message_of(dialect, value, f"m{start + position}"))
            positions.append(position)
        except Unreadable as error:
            asides.append(Aside(position, value))
            unparsed = value.reason if isinstance(value, UnparsedLine) else ""
            reason = unparsed if isinstance(error, NotAMessage) else str(error)
            if reason:
                skipped.append(Skipped(position, reason))
    system = _system(dialect, given) if isinstance(given, dict) else None
    return History(
        dialect.name,
        tuple(messages),
        tuple(positions),
        tuple(skipped),
        tuple(asides),
        system,
        given,
    )


def _system(dialect: Dialect, body: dict[str, Json]) -> Message | None:
    for key in SYSTEMS.get(dialect.name, ()):
        value = plain(body.get(key))
        if value is None:
            continue
        blocks = value.get("parts", []) if isinstance(value, dict) else value
        texts = [blocks] if isinstance(blocks, str) else blocks if isinstance(blocks, list) else []
        parts = [
            Part(text=block if isinstance(block, str) else str(block.get("text", "")), raw=block)
            for block in texts
            if isinstance(block, str | dict)
        ]
        return Message(Role.SYSTEM, tuple(parts), "system", value, dialect.name)
    return None


def write(history: History, messages: Sequence[Message] | None = None) -> Json:
    """Write the history in its original form; with other messages, if some are passed.

    Unchanged messages are written exactly as they were read.
    """
    if messages is None or tuple(messages) == history.messages:
        return history.given
    return rewritten(history, messages)


def rewritten(history: History, messages: Sequence[Message]) -> Json:
    """Write these messages in the history's original form, with its asides in their places."""
    dialect = dialect_named(history.dialect)
    values = _interleaved(history, _raws(dialect, messages), messages)
    if history.dialect == "claude_code":
        values = relinked(history.given, values)
    if not isinstance(history.given, dict):
        return values
    return {**history.given, LISTS[history.dialect]: values}


def _interleaved(
    history: History, raws: list[list[Json]], messages: Sequence[Message]
) -> list[Json]:
    """Put what is not a message back in its place among the messages that are left.

    A new message is where the first one after its predecessor is gone, if that is gone.
    """
    if not history.asides:
        return [raw for each in raws for raw in each]
    known = {message.message_id: n for n, message in enumerate(history.messages)}
    left = {message.message_id for message in messages}
    gone = {n for name, n in known.items() if name not in left}
    waiting = list(reversed(history.asides))
    values: list[Json] = []
    before = -1
    for message, each in zip(messages, raws, strict=True):
        number = known.get(message.message_id)
        place = before + 1 if number is None and before + 1 in gone else number
        at = -1 if place is None else history.positions[place]
        before = before if number is None else number
        while waiting and waiting[-1].position < at:
            values.append(waiting.pop().raw)
        values += each
    return values + [aside.raw for aside in reversed(waiting)]


def written(messages: Sequence[Message], dialect: str) -> list[Json]:
    """Write neutral messages in a dialect.

    A message that was read in that dialect is written unchanged; a transcript's is taken out of its
    envelope. Others are composed from their parts, without thoughts of another model.
    """
    kind = dialect_named(dialect)
    ready = [m if _value_in(kind, m) is not None else _neutral(m) for m in messages]
    gathered = _gathered(kind, [m for m in ready if m.parts or m.raw is not None])
    return [raw for each in _raws(kind, gathered) for raw in each]


def _value_in(dialect: Dialect, message: Message) -> Json:
    """Return the value that a message already has in a dialect, out of its envelope; or None."""
    if message.dialect == dialect.name or message.raw is None:
        return message.raw
    source = dialect_named(message.dialect) if message.dialect else None
    if isinstance(source, Enveloped) and source.inner.name == dialect.name:
        return source.unwrap(message.raw)
    return None


def _neutral(message: Message) -> Message:
    """Return what any model may see of a message: no thoughts, and nothing we do not know."""
    said = (msgspec.structs.replace(p, raw=None) for p in message.parts if p.thought is None)
    return Message(message.role, tuple(p for p in said if p != Part()), message.message_id)


def _gathered(dialect: Dialect, messages: Sequence[Message]) -> list[Message]:
    """Merge the messages of one model response that must be composed into one message.

    The same goes for results. A transcript may write each block of a response as a message.
    """
    out: list[Message] = []
    for message in messages:
        last = out[-1] if out else None
        if (
            last is not None
            and last.role is message.role
            and message.role in (Role.MODEL, Role.TOOL)
            and _value_in(dialect, message) is None
            and _value_in(dialect, last) is None
        ):
            out[-1] = Message(last.role, (*last.parts, *message.parts), last.message_id)
        else:
            out.append(message)
    return out


def _raws(dialect: Dialect, messages: Sequence[Message]) -> list[list[Json]]:
    names = {call.id: call.name for m in messages for call in m.function_calls}
    return [_written(dialect, message, names) for message in messages]


def _written(dialect: Dialect, message: Message, names: dict[str, str]) -> list[Json]:
    value = _value_in(dialect, message)
    if value is not None:
        return [value]
    parts = [_with_name(part, names) for part in _neutral(message).parts]
    return dialect.compose(message.role, parts)


def _with_name(part: Part, names: dict[str, str]) -> Part:
    """Name a result after its call; some providers answer by name."""
    result = part.function_response
    if result is None or result.name or result.call_id not in names:
        return part
    replace = msgspec.structs.replace
    return replace(part, function_response=replace(result, name=names[result.call_id]))


def read_lines(lines: Iterable[str | bytes], dialect: str | None = None) -> History:
    """Read a transcript, line by line. A line that is cut or not JSON is skipped, and kept."""
    values: list[Json] = []
    for number, line in enumerate(lines, 1):
        data = line if isinstance(line, bytes) else line.encode(errors="surrogatepass")
        values.append(_parsed_line(data.removesuffix(b"\n"), number))
    if dialect is None:
        dialect = detect([value for value in values if not isinstance(value, UnparsedLine)])
    return read(values, dialect)


def _parsed_line(data: bytes, number: int) -> Json:
    if not data.strip():
        return UnparsedLine(data)
    try:
        return parsed(data)
    except NO_JSON as error:
        return UnparsedLine(data, f"line {number} is not JSON: {error}")
