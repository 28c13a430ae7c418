"""LookaheadGuard: whether a context holds what only later messages hold.

Collectors are sent past messages only, but third-party code could read the transcript's file. A
long line that holds a name, is in a later message and in nothing that was sent so far cannot be a
coincidence.
"""

from __future__ import annotations

from marksweep.replay.atoms import LINE_LENGTH, names, squeeze
from marksweep.replay.hits import Reader
from marksweep.replay.records import Wire, text_of


class LookaheadGuard:
    """Knows which lines are still to come."""

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
