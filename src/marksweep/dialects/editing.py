"""What a collection does to messages, written as their provider wants it. New values, never edits.

units        what must go together
without      leave messages out, and close the seams
Line         messages that stand in order, with seams where others stood
saying       a new message, such as a summary
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from marksweep.dialects.base import Dialect, Messages, composed, with_parts
from marksweep.messages import Message, Part, Role


def units(dialect: Dialect, messages: Messages) -> list[tuple[int, ...]]:
    """Group messages, by index, that are valid only together; most stand alone."""
    parent = list(range(len(messages)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for a, b in dialect.ties(messages):
        low, high = sorted((root(a), root(b)))
        parent[high] = low
    groups: dict[int, list[int]] = {}
    for i in range(len(messages)):
        groups.setdefault(root(i), []).append(i)
    return [tuple(group) for group in groups.values()]


def without(dialect: Dialect, messages: Messages, gone: Collection[int]) -> list[Message]:
    """Leave messages out, by index. Whole units give a history that is as valid as before."""
    left = set(gone)
    line = Line(dialect)
    line.extend((i, m) for i, m in enumerate(messages) if i not in left)
    return line.messages


class Line:
    """The messages that are left of a history, joined at the seams where that is needed."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._last = -1
        self.messages: list[Message] = []

    def extend(self, placed: Iterable[tuple[int, Message]]) -> None:
        """Add messages, each with its place in the history."""
        out, last = self.messages, self._last
        for at, message in placed:
            out.append(message)
            if at > last + 1:
                self._join_end()
            last = at
        self._last = last

    def _join_end(self) -> None:
        """Join the last messages for as long as they must be written as one."""
        out = self.messages
        while len(out) > 1 and self._dialect.joins(out[-2], out[-1]):
            after = out.pop()
            out[-1] = with_parts(self._dialect, out[-1], [*out[-1].parts, *after.parts])


def saying(dialect: Dialect, text: str, message_id: str, role: Role = Role.USER) -> Message:
    """Make a new message, such as a summary. It may not stand between a call and its result."""
    (message,) = composed(dialect, role, [Part(text=text)], message_id)
    return message
