"""Limits of an answer: text is cut at a line; in data, first long texts, then lists.

The answer says what was cut, so that the caller can narrow the question or raise `max_tokens`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from marksweep.tokens import count

MAX_TOKENS = 2_000
"""Default limit of an answer, in tokens."""

LEAST_TOKENS = 50
"""The lowest limit that a call may set: less has no room for a sentence and an id."""

SHORT_CHARS = 200
"""Texts in data up to this many characters are never cut: ids and paths are that short."""

CHARS_PER_TOKEN = 16
"""A text with more characters than this times the limit is over it, without counting tokens."""

Json = dict[str, "Json"] | list["Json"] | tuple["Json", ...] | str | int | float | bool | None


def bounded(text: str, most: int) -> str:
    """Cut a text to so many tokens, at a line if possible, and say so."""
    if len(text) <= CHARS_PER_TOKEN * most and count(text) <= most:
        return text
    note = "… cut here. Narrow the question, or raise max_tokens."
    room = most - count(note) - 1
    text = text[: CHARS_PER_TOKEN * most]
    kept = text[: _largest(len(text), lambda size: count(text[:size]) <= room)]
    at_line = kept.rpartition("\n")[0]
    return f"{at_line if len(at_line) > len(kept) // 2 else kept}\n{note}"


def as_json(data: Json) -> str:
    """Write data as it is sent and counted."""
    return json.dumps(data, ensure_ascii=False)


def bounded_data(data: dict[str, Json], most: int) -> dict[str, Json]:
    """Cut data to so many tokens: its long texts, and if that is not enough its lists.

    `cut` then says what is missing.
    """

    def fits(found: Json) -> bool:
        return count(as_json(found)) <= most

    roughly = _cut(data, CHARS_PER_TOKEN * most, most)
    if roughly == data and fits(data):
        return data
    room = CHARS_PER_TOKEN * most
    note: dict[str, Json] = {"cut": f"to {most} tokens: {', '.join(_long(data))}. {_MORE}"}
    chars = _largest(room, lambda size: fits(_cut(data, size, most) | note))
    if chars >= SHORT_CHARS:
        return _cut(data, chars, most) | note
    items = _largest(most, lambda size: fits(_cut(data, SHORT_CHARS, size) | note))
    return _cut(data, SHORT_CHARS, items) | note


_MORE = "Narrow the question, or raise max_tokens."


def _largest(high: int, holds: Callable[[int], bool]) -> int:
    """Find the largest number up to `high` for which something holds; 0 if for none."""
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _cut(data: dict[str, Json], chars: int, items: int) -> dict[str, Json]:
    return {name: _cut_value(value, max(chars, SHORT_CHARS), items) for name, value in data.items()}


def _cut_value(value: Json, chars: int, items: int) -> Json:
    if isinstance(value, str):
        return value if len(value) <= chars else f"{value[:chars]}…"
    if isinstance(value, list | tuple):
        return type(value)(_cut_value(each, chars, items) for each in value[:items])
    return _cut(value, chars, items) if isinstance(value, dict) else value


def _long(data: dict[str, Json], inside: str = "") -> Iterator[str]:
    """Name what has a length, with how many there are."""
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _long(value, f"{inside}{name}.")
        elif isinstance(value, list | tuple) and len(value) > 1:
            yield f"{inside}{name} has {len(value)}"
        elif isinstance(value, str) and len(value) > SHORT_CHARS:
            yield f"{inside}{name} has {len(value)} characters"
