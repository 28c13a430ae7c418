"""The one-line form for a host that sends whole histories: any number of conversations, told apart.

    fit = Fit(limit=100_000)
    request(messages=fit(messages))        # in a hook, before every call of the model

A conversation is known by the host's own key, if it has one, and by what was said: of those that
begin alike, the one that shares the longest beginning is gone on with. A host that rewinds past
what was swept gets a branch of its own, so that neither loses its sweeps. Idle conversations are
left to their store, and opened again when something of them is said.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from pathlib import Path
from threading import RLock
from typing import Any

import msgspec

from marksweep.conversation import Conversation
from marksweep.dialects import detect
from marksweep.dialects.base import Json
from marksweep.dialects.history import LISTS
from marksweep.errors import BadInput
from marksweep.following import Kept, digest, listed
from marksweep.stores.base import Store
from marksweep.stores.memory import store_of

PREFIX = "fit:"
"""What the workspaces of conversations that are told apart here begin with."""

MOST_OPEN = 32
"""Conversations that are held open. More take memory; fewer are opened again more often."""

MOST_BRANCHES = 8
"""Branches of one conversation. A host that rewinds more often loses the oldest branch's sweeps."""


class Fitted(msgspec.Struct, frozen=True):
    """What to send, and the conversation it belongs to."""

    kept: list[Kept]
    conversation: Conversation
    passed: int
    """Messages that were passed."""

    @property
    def is_changed(self) -> bool:
        """Whether something is not as it was passed."""
        return len(self.kept) != self.passed or any(each.is_changed for each in self.kept)


class Fit:
    """Makes histories fit a limit, whichever conversation they belong to. Safe between threads."""

    def __init__(
        self,
        limit: int,
        *,
        store: Store | str | Path | None = None,
        dialect: str | None = None,
        most_open: int = MOST_OPEN,
        **options: Any,  # noqa: ANN401 - what a Conversation takes besides
    ) -> None:
        self.store = store_of(store)
        self._limit = limit
        self._dialect = dialect
        self._most_open = most_open
        self._options = options
        self._open: OrderedDict[str, Conversation] = OrderedDict()
        self._names = dict.fromkeys(
            n for n in self.store.segments.workspaces() if n.startswith(PREFIX)
        )
        """All conversations of the store."""
        self._guard = RLock()

    def __call__(self, messages: Json, key: str = "") -> Json:
        """Give messages that fit, in the form they were given: a list, or a whole request."""
        fitted = self.follow(messages, key)
        sent = [kept.message for kept in fitted.kept]
        if not isinstance(messages, dict):
            return sent
        return {**messages, LISTS[fitted.conversation.dialect]: sent}

    @staticmethod
    def group(key: str) -> str:
        """Give what the workspaces of all conversations with a key begin with."""
        return PREFIX + _hashed(key.encode())

    def follow(
        self, messages: Json, key: str = "", dialect: str | None = None, state: Json = None
    ) -> Fitted:
        """Take in a whole history; give what to send, collected when due.

        `state` is what a checkpoint of the host holds, for a conversation that is not known here.
        """
        name = dialect or self._dialect or detect(messages)
        values = listed(messages, name)
        if not values:
            raise BadInput("there are no messages. Pass the whole history each time.")
        group = f"{self.group(key)}{_hashed(name.encode() + digest(values[0]))}:"
        with self._guard:
            talk = self._find(group, messages, name, state)
        return Fitted(talk.follow(messages), talk, len(values))

    def _find(self, group: str, messages: Json, dialect: str, state: Json) -> Conversation:
        """Give the conversation that a history goes on with; a new one if none does."""
        names = [name for name in self._names if name.startswith(group)]
        talks = [self._opened(name, dialect) for name in names]
        found = [(talk.overlap(messages), talk) for talk in talks]
        found.sort(key=lambda each: (each[0].known, -each[0].taken_back), reverse=True)
        if not found:
            first = f"{group}1"
            return self._opened(first, dialect) if state is None else self._copy(state, first)
        overlap, talk = found[0]
        if not overlap.loses_sweep or len(found) >= MOST_BRANCHES:
            return talk
        number = max(int(name.rpartition(":")[2]) for name in names) + 1
        return self._copy(talk.state(), f"{group}{number}")

    def _copy(self, state: Json, name: str) -> Conversation:
        return self._hold(
            Conversation.from_state(
                state, limit=self._limit, store=self.store, workspace=name, **self._options
            )
        )

    def workspaces(self) -> tuple[str, ...]:
        """Name the conversations, the one that was used last first."""
        with self._guard:
            names = [*self._names, *self._open]
        return tuple(dict.fromkeys(reversed(names)))

    def conversation(self, workspace: str, dialect: str | None = None) -> Conversation:
        """Give a conversation as it is: the one at work, or another look into the store."""
        talk = self._open.get(workspace)
        return talk or Conversation(
            limit=self._limit,
            store=self.store,
            workspace=workspace,
            dialect=dialect,
            **self._options,
        )

    def _opened(self, name: str, dialect: str) -> Conversation:
        return self._hold(self.conversation(name, dialect))

    def _hold(self, talk: Conversation) -> Conversation:
        """Note that a conversation is in use; the one that was not for longest is let go."""
        self._names[talk.workspace] = None
        self._open[talk.workspace] = talk
        self._open.move_to_end(talk.workspace)
        while len(self._open) > self._most_open:
            self._open.popitem(last=False)
        return talk

    @property
    def open_count(self) -> int:
        """How many conversations are held open."""
        return len(self._open)

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def _hashed(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
