"""Everything marksweep raises on purpose.

    MarksweepError
    ├── BadInput             what was passed in cannot be used (also a ValueError)
    │   └── UnknownName      a plugin, scorer, strategy, store or setting that does not exist
    ├── Refused              the request is understood and will not be done
    │   ├── PlanOutdated     the heap has moved since the plan was made
    │   ├── NotConfirmed     a deletion without the plan's id
    │   └── NotTrusted       a project's own file sends data elsewhere, and the user has not agreed
    ├── NotFound             no such segment, plan or stash entry (also a LookupError)
    ├── ModelError           a model did not answer, or not as expected
    │   └── ContextOverflow  the request is longer than the model's context
    └── StoreError           a store cannot be read or written
        ├── StoreCorrupt     its content is damaged; the file is left as it is
        ├── StoreBusy        another process holds its lock for longer than the timeout
        └── StoreTooNew      written by a newer marksweep

and its warnings:

    UnreadableWarning        some of the messages that were passed in cannot be read
    OverLimitWarning         what must stay of a conversation does not fit its limit

Each message says what was found, what was expected and what to do. None shows the credentials of a
URL, not even if the message comes from another library.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

from marksweep.urls import redacted


class MarksweepError(Exception):
    """The root of all errors marksweep raises on purpose."""

    def __init__(self, message: str = "") -> None:
        super().__init__(redacted(message))


class BadInput(MarksweepError, ValueError):
    """What was passed in cannot be used."""


class UnknownName(BadInput):
    """A plugin, scorer, strategy, store or setting that does not exist."""


class Refused(MarksweepError):
    """The request is understood and will not be done."""


class PlanOutdated(Refused):
    """The heap has moved since the plan was made."""


class NotConfirmed(Refused):
    """A deletion without the plan's id."""


class NotTrusted(Refused):
    """A project's own file sends what is remembered elsewhere, and the user has not agreed."""


class NotFound(MarksweepError, LookupError):
    """No such segment, plan or stash entry."""


class ModelError(MarksweepError):
    """A model did not answer, or not as expected."""


class ContextOverflow(ModelError):
    """The request is longer than the model's context."""


class StoreError(MarksweepError):
    """A store cannot be read or written."""


class StoreCorrupt(StoreError):
    """The content of a store is damaged. The file is left as it is."""


class StoreBusy(StoreError):
    """Another process holds the store's lock for longer than the timeout."""


class StoreTooNew(StoreError):
    """The store was written by a newer marksweep."""


class OverLimitWarning(UserWarning):
    """What must stay of a conversation does not fit its limit."""


class UnreadableWarning(UserWarning):
    """Some of the messages that were passed in cannot be read, and were left out."""


Member = TypeVar("Member", bound=StrEnum)


def unknown_name(problem: str, name: str, known: Iterable[str], advice: str) -> UnknownName:
    """Make the error for a name that is not one of those known."""
    return UnknownName(f"{problem} {name!r}; known are {', '.join(known)}. {advice}")


def member(kind: type[Member], name: str, problem: str) -> Member:
    """Return the member of an enum with that value; UnknownName lists the known ones."""
    try:
        return kind(name)
    except ValueError:
        raise UnknownName(f"{problem} {name!r}; known are {', '.join(kind)}.") from None


def in_a_line(error: object) -> str:
    """Describe an error; of one from another library, whose text may hold data, only its type."""
    if isinstance(error, Exception) and not isinstance(error, MarksweepError):
        return type(error).__name__
    return " ".join(str(error).split())[:200]


def not_a_url(url: str, of: str, expected: str) -> BadInput:
    """Make the error for the URL of a server that cannot be read."""
    return BadInput(
        f"{redacted(url)} is not the URL of a {of} server. Expected {expected}, with user and "
        "password before the host if need be, in which `/`, `?`, `#` and `@` are written as %2F, "
        "%3F, %23 and %40."
    )
