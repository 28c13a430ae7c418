"""What a message says, as text to search in and to shorten, and what its calls came to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import msgspec

from marksweep.messages.message import FunctionCall, Message, Outcome, Part, Path, Role, Text

MIN_TEXT_CHARS = 100
"""Characters from which a string in a call's arguments is a separate text."""

_encode = msgspec.json.Encoder().encode
_sorted = msgspec.json.Encoder(order="sorted").encode


def as_json(value: object) -> str:
    """Write a value so that `json.loads` gives it back exactly.

    The fast encoder writes what is not a number as null, and refuses half characters and very
    large numbers; those few go through the slow one.
    """
    try:
        written = _encode(value)
    except (TypeError, ValueError, OverflowError):
        return json.dumps(value)
    return json.dumps(value) if b"null" in written else written.decode()


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
    """Give a call as one text, and each long string in its arguments as another."""
    short = [call.name]
    for path, leaf in _leaves(call.args):
        if path and len(leaf) >= MIN_TEXT_CHARS:
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
    return _text_in(result) or _plain(result)


def _text_in(value: object) -> str:
    """Give the text a block or a result holds, however deep; images and numbers give none."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _text_in(value.get("text") or value.get("content") or "")
    if isinstance(value, list):
        return "\n".join(filter(None, map(_text_in, value)))
    return ""


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
        yield Outcome(at, name, args, text, result.is_error, _as_one(name, args))


def _as_one(name: str, args: object) -> bytes:
    try:
        return _sorted((name, args))
    except (TypeError, ValueError):
        return repr((name, args)).encode(errors="replace")
