"""Turns: the one definition, for conversations, the ledger and GC plugins.

A turn goes from one message typed by the user to the next; an image counts. What comes before the
first is the preamble. Results of tools, and the summaries and notices that a collection put into
the history, speak with the user's voice in some formats, but start nothing.

The first turn is `turn_0`. A turn keeps its number when others go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from marksweep.messages.message import Message, Role

PREAMBLE = "preamble"
"""The name of what comes before the first turn."""

SUMMARY = "gc_summary_"
"""Message ids, ledger keys and first lines of summaries start with this, then a number."""

NOTICE = "gc_notice_"
"""The same for notices of a collection."""

_ID = re.compile(rf"({SUMMARY}|{NOTICE})(\d+)$")
_FIRST_LINE = re.compile(rf"\[({SUMMARY}|{NOTICE})(\d+)\b")
_SUMMARY_LINE = re.compile(r"\[Summary of \d+ earlier messages\]")


def starts_turn(message: Message) -> bool:
    """Whether a turn begins here: the user typed it."""
    return (
        message.role is Role.USER
        and not message.function_responses
        and made_by_collection(message) is None
        and not is_summary(message)
    )


def is_summary(message: Message) -> bool:
    """Recognise a summary of a collection, also if it was sent to a provider and read again."""
    made = made_by_collection(message)
    if made is not None:
        return made[0] == SUMMARY
    if message.role is not Role.USER or not message.parts:
        return False
    return _SUMMARY_LINE.match(message.parts[0].text or "") is not None


def made_by_collection(message: Message) -> tuple[str, int] | None:
    """Recognise a summary or a notice by its id, or by its first line if a provider lost the id."""
    if message.role is not Role.USER:
        return None
    found = _ID.match(message.message_id)
    if found is None and message.parts:
        found = _FIRST_LINE.match(message.parts[0].text or "")
    return (found[1], int(found[2])) if found else None


def turn_name(number: int) -> str:
    """Name a turn by its number; below 0 is the preamble."""
    return f"turn_{number}" if number >= 0 else PREAMBLE


def turn_number(name: str | None) -> int:
    """Give the number of a turn by its name; -1 for anything else."""
    digits = (name or "").removeprefix("turn_")
    return int(digits) if digits.isdigit() else -1


class TurnNumbers:
    """Numbers for turns that stay theirs when others are collected.

    A turn is known by the id of its first message. A pin on turn 3 means the same turn before and
    after turn 1 went.
    """

    def __init__(self, known: Mapping[str, int] | None = None, upcoming: int = 0) -> None:
        self._known = dict(known or {})
        self._upcoming = max([upcoming, *(number + 1 for number in self._known.values())])

    def number(self, started_by: str, number: int | None = None) -> int:
        """Number a turn by the id of its first message; a new one gets the next, or this one."""
        if started_by not in self._known:
            self._known[started_by] = self._upcoming if number is None else number
            self.reserve(self._known[started_by])
        return self._known[started_by]

    def reserve(self, number: int) -> None:
        """Give no new turn this number or one below it."""
        self._upcoming = max(self._upcoming, number + 1)

    @property
    def known(self) -> Mapping[str, int]:
        """Every turn ever numbered, by the id of its first message."""
        return self._known

    @property
    def upcoming(self) -> int:
        """The number the next new turn gets."""
        return self._upcoming
