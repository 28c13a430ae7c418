"""Checks whether a provider would accept a history, and repairs it.

findings = validate(messages)
messages, changes = repair(messages)
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from marksweep.dialects.base import Change, Fault, Finding, Json, Messages
from marksweep.dialects.chain import faults, mended
from marksweep.dialects.enveloped import Enveloped
from marksweep.dialects.history import History, detect, dialect_named, read, rewritten
from marksweep.messages import Message

READABLE = "readable"
"""The rule that every item of a history is a message."""

LINKED = "lines-linked"
"""The rule that the parent of every line of a session exists."""

LINK = "Link it to the message before it, as `marksweep collect` does."

MAX_PASSES = 8
"""How often a repair may go through the rules. One pass is nearly always enough: a repair that
breaks an earlier rule is corrected in the next. Higher only costs time on those that need it."""


def validate(messages: Json, dialect: str | None = None) -> list[Finding]:
    """Find where a history breaks the rules of its provider; an empty list means it is valid.

    Takes provider messages, neutral messages, or a whole request. Without a name the dialect is
    detected.
    """
    history = _history(messages, dialect)
    name, places = history.dialect, history.positions
    kind = dialect_named(name)
    provider = kind.inner.name if isinstance(kind, Enveloped) else name
    findings = [
        Finding(READABLE, name, skipped.position, skipped.reason, "Take it out.")
        for skipped in history.skipped
    ]
    findings += [
        Finding(rule.name, provider, places[fault.position], fault.what, rule.advice)
        for rule in kind.rules
        for fault in rule.check(history.messages)
    ]
    if _is_linked(history):
        findings += [Finding(LINKED, name, at, what, LINK) for at, what in faults(history.given)]
    return sorted(findings, key=lambda finding: finding.position)


def _is_linked(history: History) -> bool:
    """Whether it is a session whose lines name the ones before them; see `chain`."""
    return history.dialect == "claude_code" and isinstance(history.given, list)


def repair(messages: Json, dialect: str | None = None) -> tuple[Json, list[Change]]:
    """Make a history valid with the least change; return it with the changes.

    What the user said is kept. A valid history is returned unchanged, and so is a repaired one.
    Neutral messages stay neutral; other input is returned in its original form.
    """
    history = _history(messages, dialect)
    linked: list[Fault] = []
    if _is_linked(history):
        lines, linked = mended(history.given)
        history = read(lines, history.dialect) if linked else history
    changes = [Change(LINKED, fault.position, fault.what) for fault in linked]
    changes += [
        Change(READABLE, skipped.position, f"took it out: {skipped.reason}")
        for skipped in history.skipped
    ]
    fixed, more = _repaired(history.messages, history.dialect)
    changes += more
    if not changes:
        return messages, []
    if len(changes) == len(linked):
        return history.given, changes
    if isinstance(messages, Sequence) and any(isinstance(m, Message) for m in messages):
        return fixed, changes
    unreadable = {skipped.position for skipped in history.skipped}
    asides = tuple(aside for aside in history.asides if aside.position not in unreadable)
    return rewritten(msgspec.structs.replace(history, asides=asides), fixed), changes


def _repaired(messages: Messages, dialect: str) -> tuple[list[Message], list[Change]]:
    """Apply each rule's repair in turn, until none is broken."""
    kind = dialect_named(dialect)
    current = list(messages)
    changes: list[Change] = []
    for _ in range(MAX_PASSES):
        before = len(changes)
        for rule in kind.rules:
            if next(rule.check(current), None) is None:
                continue
            current, faults = rule.repair(kind, current)
            changes += [Change(rule.name, fault.position, fault.what) for fault in faults]
        if len(changes) == before:
            break
    return current, changes


def _history(messages: Json, dialect: str | None) -> History:
    """Read the input; neutral messages in the dialect most of them came from."""
    if dialect is None and isinstance(messages, list | tuple):
        named = [m.dialect for m in messages if isinstance(m, Message) and m.dialect]
        plain_given = [m for m in messages if not isinstance(m, Message)]
        dialect = max(named, key=named.count) if named else detect(plain_given)
    return read(messages, dialect)
