"""Messages that are valid only together, and a history without some of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from marksweep.dialects.base import Dialect, Messages
from marksweep.heaps.forms import Line
from marksweep.messages import Message


def ties(dialect: Dialect, messages: Messages) -> Iterator[tuple[int, int]]:
    """Name all pairs of messages, by index, that are valid only together; the earlier first."""
    tying = dialect.tying()
    for i, message in enumerate(messages):
        for other in tying.feed(i, message):
            yield other, i


def units(dialect: Dialect, messages: Messages) -> list[tuple[int, ...]]:
    """Group messages, by index, that are valid only together; most are alone in their group."""
    parent = list(range(len(messages)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for a, b in ties(dialect, messages):
        low, high = sorted((root(a), root(b)))
        parent[high] = low
    groups: dict[int, list[int]] = {}
    for i in range(len(messages)):
        groups.setdefault(root(i), []).append(i)
    return [tuple(group) for group in groups.values()]


def without(dialect: Dialect, messages: Messages, gone: Collection[int]) -> list[Message]:
    """Remove messages by index. Removing whole units keeps a history as valid as before."""
    left = set(gone)
    line = Line(dialect)
    line.extend((i, m) for i, m in enumerate(messages) if i not in left)
    return line.messages
