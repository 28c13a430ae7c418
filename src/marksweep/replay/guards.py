"""Guard rules: what no collector may do, each with its name.

A step that breaks one scores nothing. They keep a collector from winning by dropping the task, by
editing what the agent has not acted on yet, or by sending what a provider would reject.
"""

from __future__ import annotations

from enum import StrEnum

from marksweep.replay.atoms import LINE_LENGTH, names, squeeze
from marksweep.replay.hits import Reader
from marksweep.replay.records import Wire, text_of


class Violation(StrEnum):
    """The rules, by the name of their breach."""

    PINNED = "pinned changed"
    """The first messages are not exactly the pinned prefix."""
    TAIL = "tail changed"
    """The last messages are not exactly those added since the last step."""
    PAIRING = "invalid pairing"
    """A call is not answered directly behind its message, in order, or a result has no call."""
    BUDGET = "over budget"
    """More tokens than the limit, or more than prefix and tail where those alone exceed it."""
    MALFORMED = "malformed"
    """Not a list of messages."""
    ERROR = "error"
    """The collector raised, hung or died."""
    PEEKED = "peeked"
    """It holds a line that only later messages hold."""


def check(context: object, pinned: list[Wire], tail: list[Wire]) -> Violation | None:
    """The first rule that a context breaks, except the budget; None if it breaks none."""
    if not (isinstance(context, list) and all(map(is_message, context))):
        return Violation.MALFORMED
    if context[: len(pinned)] != pinned:
        return Violation.PINNED
    behind = context[len(pinned) :]
    if tail and behind[-len(tail) :] != tail:
        return Violation.TAIL
    return None if is_paired(context) else Violation.PAIRING


def is_message(item: object) -> bool:
    """Whether an item has the form of a chat-completions message."""
    return (
        isinstance(item, dict)
        and item.get("role") in ("system", "developer", "user", "assistant", "tool")
        and isinstance(item.get("content"), str | list | None)
        and isinstance(item.get("tool_calls"), list | None)
        and all(map(_is_call, item.get("tool_calls") or ()))
    )


def _is_call(item: object) -> bool:
    function = item.get("function") if isinstance(item, dict) else None
    return (
        isinstance(item, dict)
        and isinstance(item.get("id"), str)
        and isinstance(function, dict)
        and isinstance(function.get("name"), str)
        and isinstance(function.get("arguments"), str)
    )


def is_paired(context: list[Wire]) -> bool:
    """Whether each call is answered right behind its message, in order; no result is stray."""
    at = 0
    while at < len(context):
        if context[at]["role"] == "tool":
            return False
        calls = [call["id"] for call in context[at].get("tool_calls") or ()]
        answers = context[at + 1 : at + 1 + len(calls)]
        if [answer.get("tool_call_id") for answer in answers] != calls:
            return False
        at += 1 + len(calls)
    return True


class LookaheadGuard:
    """Knows which lines are still to come.

    Collectors are sent past messages only, but third-party code could read the transcript's file. A
    long line that holds a name, is in a later message and in nothing that was sent so far cannot be
    a coincidence.
    """

    def __init__(self, messages: list[Wire], reader: Reader) -> None:
        self._messages = messages
        self._reader = reader
        self._sent = 0
        self._later = set().union(*map(reader.lines, messages))
        self._originals: set[int] = set()

    def advance(self, upto: int) -> None:
        """Note that all messages before this index were sent."""
        for message in self._messages[self._sent : upto]:
            self._later -= self._reader.lines(message)
            self._originals.add(id(message))
        self._sent = upto

    def is_in(self, context: list[Wire]) -> bool:
        """Whether a context holds a line that is still to come."""
        return any(
            id(message) not in self._originals
            and not self._later.isdisjoint(self._reader.lines(message))
            and any(map(self._tells, self._later & self._reader.lines(message)))
            for message in context
        )

    def _tells(self, line: str) -> bool:
        """Whether a line holds a name, and is not part of a longer one that was sent."""
        return (
            len(line) >= LINE_LENGTH
            and len(names(line)) > 1
            and not any(line in squeeze(text_of(sent)) for sent in self._messages[: self._sent])
        )
