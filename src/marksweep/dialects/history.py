"""A history as it was given, read: messages, what was skipped, and the way back."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Sequence

import msgspec

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
)
from marksweep.dialects.detecting import advice_on, detect, dialect_named
from marksweep.dialects.enveloped import Enveloped, NotAMessage
from marksweep.errors import BadInput, UnreadableWarning
from marksweep.messages import Message, Part, Role, ToolResult

LISTS = {
    "openai_chat": "messages",
    "openai_responses": "input",
    "anthropic": "messages",
    "gemini": "contents",
}
"""Where each provider's request keeps its messages."""

SYSTEMS = {
    "openai_responses": ("instructions",),
    "anthropic": ("system",),
    "gemini": ("systemInstruction", "system_instruction"),
}
"""Where each provider's request keeps its system prompt, if not among its messages."""


class Aside(msgspec.Struct, frozen=True):
    """Something that is not a message, with its place: written back, never sent or collected."""

    position: int
    raw: Json


class UnparsedLine(msgspec.Struct, frozen=True):
    """A line of a transcript that is not JSON: written back as it is, to the byte."""

    data: bytes
    reason: str = ""
    """What is wrong with it; empty for a blank line, which nobody misses."""


class History(msgspec.Struct, frozen=True):
    """A history that was read."""

    dialect: str
    messages: tuple[Message, ...]
    positions: tuple[int, ...]
    """Where each message stood in what was given."""
    skipped: tuple[Skipped, ...] = ()
    asides: tuple[Aside, ...] = ()
    system: Message | None = None
    """The system prompt of a request that keeps it apart."""
    given: Json = None
    """What was read: a list of messages, a whole request, or the lines of a transcript."""


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
        values = _values(values, name)
    return _read(values, given, kind, start)


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


def _read(values: list[Json], given: Json, dialect: Dialect, start: int) -> History:
    messages: list[Message] = []
    positions: list[int] = []
    skipped: list[Skipped] = []
    asides: list[Aside] = []
    for position, value in enumerate(values):
        if isinstance(value, UnparsedLine):
            asides.append(Aside(position, value))
            skipped += [Skipped(position, value.reason)] if value.reason else []
            continue
        try:
            messages.append(message_of(dialect, value, f"m{start + position}"))
            positions.append(position)
        except NotAMessage:
            asides.append(Aside(position, value))
        except Unreadable as error:
            skipped.append(Skipped(position, str(error)))
            asides.append(Aside(position, value))
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
    """Write the history in the form it was given; with other messages, if some are passed.

    What was read and not changed comes back as it was, to the last field.
    """
    if messages is None or tuple(messages) == history.messages:
        return history.given
    return rewritten(history, messages)


def rewritten(history: History, messages: Sequence[Message]) -> Json:
    """Write these messages in the form the history was given, its asides in their places."""
    dialect = dialect_named(history.dialect)
    values = _interleaved(history, _raws(dialect, messages), messages)
    if not isinstance(history.given, dict):
        return values
    return {**history.given, LISTS[history.dialect]: values}


def _interleaved(
    history: History, raws: list[list[Json]], messages: Sequence[Message]
) -> list[Json]:
    """Put what is not a message back to its place among those that are left."""
    if not history.asides:
        return [raw for each in raws for raw in each]
    places = {m.message_id: at for m, at in zip(history.messages, history.positions, strict=True)}
    waiting = list(reversed(history.asides))
    values: list[Json] = []
    for message, each in zip(messages, raws, strict=True):
        at = places.get(message.message_id, -1)
        while waiting and waiting[-1].position < at:
            values.append(waiting.pop().raw)
        values += each
    return values + [aside.raw for aside in reversed(waiting)]


def written(messages: Sequence[Message], dialect: str) -> list[Json]:
    """Write neutral messages in a dialect.

    A message that was read in it is written as it came; a transcript's is taken out of its
    envelope. Others are composed from their parts; thoughts stay with the model that had them.
    """
    kind = dialect_named(dialect)
    ready = [m if _is_ready(kind, m) else _neutral(m) for m in messages]
    gathered = _gathered(kind, [m for m in ready if m.parts or m.raw is not None])
    return [raw for each in _raws(kind, gathered) for raw in each]


def _is_ready(dialect: Dialect, message: Message) -> bool:
    """Whether a message has a value in this dialect already."""
    source = dialect_named(message.dialect) if message.dialect else None
    inner = source.inner.name if isinstance(source, Enveloped) else ""
    return message.raw is not None and dialect.name in (message.dialect, inner)


def _neutral(message: Message) -> Message:
    """Give what any model may see of a message: no thoughts, and nothing we do not know."""
    said = (msgspec.structs.replace(p, raw=None) for p in message.parts if p.thought is None)
    return Message(message.role, tuple(p for p in said if p != Part()), message.message_id)


def _gathered(dialect: Dialect, messages: Sequence[Message]) -> list[Message]:
    """Make one message of those that must be composed and that the model said in one go.

    The same goes for results. A transcript may write each block of a response as a message.
    """
    out: list[Message] = []
    for message in messages:
        last = out[-1] if out else None
        if (
            last is not None
            and last.role is message.role
            and message.role in (Role.MODEL, Role.TOOL)
            and not _is_ready(dialect, message)
            and not _is_ready(dialect, last)
        ):
            out[-1] = Message(last.role, (*last.parts, *message.parts), last.message_id)
        else:
            out.append(message)
    return out


def _raws(dialect: Dialect, messages: Sequence[Message]) -> list[list[Json]]:
    names = {call.id: call.name for m in messages for call in m.function_calls}
    return [_written(dialect, message, names) for message in messages]


def _written(dialect: Dialect, message: Message, names: dict[str, str]) -> list[Json]:
    if _is_ready(dialect, message):
        source = dialect_named(message.dialect)
        same = message.dialect == dialect.name
        return [
            message.raw if same or not isinstance(source, Enveloped) else source.unwrap(message.raw)
        ]
    parts = [_with_name(part, names) for part in _neutral(message).parts]
    return dialect.compose(message.role, parts)


def _with_name(part: Part, names: dict[str, str]) -> Part:
    """Name a result after its call; some providers answer by name."""
    result = part.function_response
    if result is None or result.name or result.call_id not in names:
        return part
    call_id, name = result.call_id, names[result.call_id]
    return Part(function_response=ToolResult(call_id, name, result.result, result.is_error))


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
