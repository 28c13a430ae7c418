"""What a message says, as text to search in and to shorten, and what its calls came to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from operator import is_

import msgspec

from marksweep.dialects.base import Dialect, Json, text_of
from marksweep.messages import FunctionCall, Message, Outcome, Part, Path, Place, Role, Text

LONG = 100
"""Characters from which a string in a call's arguments is a text of its own."""

_FEW = 0.2
"""Share of bytes beyond one per character, up to which escapes take no more room than two bytes."""

replace = msgspec.structs.replace

_encode = msgspec.json.Encoder().encode
_sorted = msgspec.json.Encoder(order="sorted").encode


def as_json(value: Json) -> str:
    """Write a value so that `json.loads` gives it back exactly.

    The fast encoder writes what is not a number as null, and refuses half characters and very
    large numbers; those few go through the slow one. A few characters beyond ASCII are escaped:
    for one arrow Python holds a whole text in twice the memory.
    """
    try:
        written = _encode(value)
    except (TypeError, ValueError, OverflowError):
        return json.dumps(value)
    if b"null" in written:
        return json.dumps(value)
    text = written.decode()
    if written.isascii():
        return text
    beyond = len(written) - len(text)
    if beyond > len(text) * _FEW:
        return text
    escaped = text.encode("ascii", "backslashreplace")
    # Characters of three bytes become \uXXXX, as in JSON. Others grow more than that per byte,
    # and become \x or \U, which JSON has not.
    is_json = 2 * (len(escaped) - len(text)) == 5 * beyond
    return escaped.decode() if is_json else json.dumps(value)


def said_in(message: Message) -> str:
    """Give what a message says: text, calls with their arguments, results. No thoughts.

    It is for searching and reading: half characters, which no store takes, become question marks.
    """
    parts = message.parts
    said = _said(parts[0]) if len(parts) == 1 else "\n".join(filter(None, map(_said, parts)))
    if said.isascii():
        return said
    try:
        said.encode()
    except UnicodeEncodeError:
        return said.encode(errors="replace").decode()
    return said


def _said(part: Part) -> str:
    if part.text is not None:
        return part.text
    if part.function_call is not None:
        call = part.function_call
        return f"{call.name} {_plain(call.args)}".strip()
    if part.function_response is not None:
        return result_text(part.function_response.result)
    return ""


def texts_of(message: Message) -> Iterator[Text]:
    """Give the texts of a message. Thoughts and pictures have none."""
    is_observed = message.role is not Role.MODEL
    for at, part in enumerate(message.parts):
        if part.function_call is not None:
            yield from _texts_of_call(at, part.function_call)
        elif words := _said(part):
            is_said = message.role is Role.USER and part.function_response is None
            yield Text((at, ()), words, is_observed=is_observed, is_said=is_said)


def _texts_of_call(at: int, call: FunctionCall) -> Iterator[Text]:
    """Give a call as one text, and each long string in its arguments as one of its own."""
    short = [call.name]
    for path, leaf in _leaves(call.args):
        if path and len(leaf) >= LONG:
            yield Text((at, path), leaf, is_call=True, is_observed=False)
        else:
            short.append(leaf)
    words = "\n".join(short)
    yield Text((at, ()), words, is_call=True, is_observed=False)


def _leaves(value: object, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Give the strings and numbers in a call's arguments, with the way to each string."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(each, (*path, key))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _leaves(each, (*path, at))
    elif isinstance(value, str):
        yield path, value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield (), str(value)


def with_texts(
    message: Message, texts: Mapping[Place, str], dialect: Dialect | None
) -> Message | None:
    """Put other texts in their places, in the form of the provider; None if nothing changes.

    A message that was never read from a provider's has no such form.
    """
    dialect = dialect if message.raw is not None else None
    parts = list(message.parts)
    for (at, path), text in texts.items():
        parts[at] = _with_text(parts[at], path, text, dialect)
    if all(map(is_, parts, message.parts)):
        return None
    raw = dialect.rebuild(message.raw, parts) if dialect else None
    return replace(message, parts=tuple(parts), raw=raw)


def _with_text(part: Part, path: Path, text: str, dialect: Dialect | None) -> Part:
    call, result = part.function_call, part.function_response
    if result is not None:
        if dialect is not None:
            return dialect.with_result(part, text)
        return Part(function_response=replace(result, result=text))
    if call is not None:
        arguments = _with_leaf(call.args, path, text)
        if dialect is not None:
            return dialect.with_arguments(part, arguments)
        return Part(function_call=replace(call, args=arguments))
    return _with_words(part, text) if dialect is not None else Part(text=text)


def _with_leaf(value: Json, path: Path, text: str) -> Json:
    """Give arguments with another text at the end of a way through them."""
    if not path:
        return text
    key, *rest = path
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[key] = _with_leaf(value[key], tuple(rest), text)  # type: ignore[index]
    return copied


def _with_words(part: Part, text: str) -> Part:
    """Give a text part with other words, in the form its provider has it.

    A text that stands elsewhere in its block, as that of a document does, is left as it is.
    """
    raw = part.raw
    if isinstance(raw, dict):
        if raw.get("text") != part.text:
            return part
        raw = {**raw, "text": text}
    else:
        raw = text
    return replace(part, text=text, raw=raw)


def result_text(result: object) -> str:
    """Give what a result says, also if it is wrapped; one without text is written as JSON."""
    if isinstance(result, str):
        return result
    if isinstance(result, dict) and len(result) == 1:
        (only,) = result.values()
        if isinstance(only, str):
            return only
    return result_sent(result)


def result_sent(result: object) -> str:
    """Give a result as its provider is sent it, for counting."""
    return text_of(result) or _plain(result)


def _plain(value: object) -> str:
    if value in (None, "", {}, []):
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def outcomes_of(message: Message, calls: Sequence[FunctionCall]) -> Iterator[Outcome]:
    """Give the results of a message, each with its call among these."""
    left = list(calls)
    for at, part in enumerate(message.parts):
        result = part.function_response
        if result is None:
            continue
        call = next((c for c in left if c.id == result.call_id), None) or next(
            (c for c in left if result.name and c.name == result.name), None
        )
        if call is not None:
            left.remove(call)
        name = call.name if call else result.name
        args = call.args if call else None
        text = result_text(result.result)
        one, said = _as_one(name, args), _in_words(name, args)
        yield Outcome(at, name, args, text, result.is_error, one, said)


LONGEST_ARGUMENT = 60
"""Characters of an argument that are repeated where a call is told in a few words."""


def _in_words(name: str, args: object) -> str:
    """Say a call in a few words: its name and its first argument."""
    first = next(iter(args.values()), "") if isinstance(args, dict) and args else args
    said = " ".join(str(first).split()) if first not in (None, "", {}) else ""
    if len(said) > LONGEST_ARGUMENT:
        said = said[: LONGEST_ARGUMENT - 1] + "…"
    return f"{name or 'a tool'} {said}".rstrip()


def _as_one(name: str, args: object) -> bytes:
    try:
        return _sorted((name, args))
    except (TypeError, ValueError):
        return repr((name, args)).encode(errors="replace")
