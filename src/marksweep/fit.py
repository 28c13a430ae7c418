"""The one-line API for a host that sends whole histories of any number of conversations.

    fit = Fit(limit=100_000)
    request(messages=fit(messages))        # in a hook, before every call of the model

A conversation is identified by the host's own key, if it has one, and by its content: among those
that begin alike, the one with the longest common beginning is continued. A host that rewinds past
what was swept gets a separate branch, so that neither loses its sweeps. Idle conversations are
closed, and opened again from their store when they continue, until they `expire`.

Conversations of a store are numbered, and the number is part of their messages' ids: m6 belongs to
the first, m3.6 to the third.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from marksweep.conversation import Conversation
from marksweep.dialects import detect
from marksweep.dialects.base import Json
from marksweep.dialects.history import LISTS, objects_in
from marksweep.errors import BadInput
from marksweep.following import Kept, Overlap, digest, listed
from marksweep.heaps.conversation import request_record
from marksweep.model import utc_now
from marksweep.stores.base import Query, Store
from marksweep.stores.checkpoint import forget
from marksweep.stores.memory import MemoryStore, store_of

PREFIX = "fit:"
"""The prefix of the workspaces in which these conversations are stored."""

MOST_OPEN = 32
"""Conversations that are kept open. More take memory; fewer are reopened more often."""

MOST_IN_MEMORY = 256
"""Conversations that are kept in a store in memory, so that a server does not grow for ever.

More take memory, about that of their texts. Fewer are forgotten sooner: one that then continues is
collected anew, and its prompt cache is lost once.
"""

MOST_COMPARED = 8
"""Conversations that begin alike with which a history is compared: the most recently used.

More find an older branch again; fewer are faster. One that is not found is collected anew.
"""

INSTRUCTIONS = ("system", "developer")
"""Roles of messages that begin every conversation of an agent."""


class Fitted(msgspec.Struct, frozen=True):
    """What to send, and the conversation it belongs to."""

    kept: list[Kept]
    conversation: Conversation
    passed: int
    """Messages that were passed."""
    tokens: int
    """What was counted for this request, with system prompt and tools."""

    @property
    def is_changed(self) -> bool:
        """Whether something is not as it was passed."""
        return len(self.kept) != self.passed or any(each.is_changed for each in self.kept)


class Fit:
    """Makes histories fit a limit, whichever conversation they belong to. Thread-safe."""

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
        self._names = dict.fromkeys(sorted(self._stored(PREFIX), key=_number))
        """The known conversations of the store, most recently used last."""
        self._models: dict[str, str] = {}
        """The model to which each conversation was last sent."""
        self._guard = RLock()
        self._turns: WeakValueDictionary[str, RLock] = WeakValueDictionary()
        """By beginning, so that a slow collection does not make other conversations wait."""

    def __call__(self, messages: Json, key: str = "") -> Json:
        """Return messages that fit, in the form of the input: a list, or a whole request."""
        fitted = self.follow(messages, key)
        sent = [kept.message for kept in fitted.kept]
        if not isinstance(messages, dict):
            return sent
        return {**messages, LISTS[fitted.conversation.dialect]: sent}

    @staticmethod
    def group(key: str) -> str:
        """Return the prefix of the workspaces of all conversations with a key."""
        return PREFIX + _hashed(key.encode())

    def follow(
        self,
        messages: Json,
        key: str = "",
        dialect: str | None = None,
        state: Json = None,
        model: str = "",
        *,
        requested_at: datetime | None = None,
    ) -> Fitted:
        """Take a whole history; return what to send, collected when due.

        `state` is the host's checkpoint of a conversation that is not known here, `requested_at`
        when the host last sent it. `model` is where it is sent: a model other than the last one has
        nothing of it in its prompt cache.
        """
        name = dialect or self._dialect or detect(messages)
        values = listed(messages, name)
        if not values:
            raise BadInput("there are no messages. Pass the whole history each time.")
        group = self._beginning(key, name, values)
        with self._guard:
            turn = self._turns.setdefault(group, RLock())
        with turn:  # so that nobody sweeps what following would rewind, after that was decided
            talk = self._chosen(group, messages, name, state, model)
            if requested_at is not None:
                talk.note_request(requested_at)
            return Fitted(talk.follow(messages), talk, len(values), talk.tokens)

    def _chosen(
        self, group: str, messages: Json, dialect: str, state: Json, model: str
    ) -> Conversation:
        """Return the conversation that a history belongs to, as the one used last."""
        with self._guard:
            talk = self._find(group, messages, dialect, state)
            self._names.pop(talk.workspace)
            self._names[talk.workspace] = None
            before = self._models.get(talk.workspace)
            self._models[talk.workspace] = model or before or ""
        if before and model and before != model:
            talk.note_cold_cache()
        return talk

    def workspace_of(self, messages: Json, key: str, dialect: str) -> str:
        """Name the open conversation that a history belongs to, without asking the store.

        If none is open: what the names of those that begin alike begin with.
        """
        group = self._beginning(key, dialect, listed(messages, dialect))
        return next((name for name in reversed(list(self._open)) if name.startswith(group)), group)

    def _beginning(self, key: str, dialect: str, values: Sequence[Json]) -> str:
        """Return the prefix of the names of those that agree up to the first message of a user."""
        count = 1 + next((n for n, value in enumerate(values) if not _instructs(value)), 0)
        said = b"".join(map(digest, values[:count]))
        return f"{self.group(key)}{_hashed(dialect.encode() + said)}:"

    def _find(self, group: str, messages: Json, dialect: str, state: Json) -> Conversation:
        """Return the conversation that a history continues, or a new one."""
        found = self._ranked(group, messages, dialect)
        if not found or found[0][0].loses_sweep:  # another process may continue it
            self._names |= dict.fromkeys(self._stored(group))
            found = self._ranked(group, messages, dialect)
        if not found:
            return self._begun(group, dialect, state)
        overlap, talk = found[0]
        return self._begun(group, dialect, talk.state()) if overlap.loses_sweep else talk

    def _begun(self, group: str, dialect: str, state: Json) -> Conversation:
        """Begin a conversation, from a state if there is one.

        It is in the store at once, so that no other process takes the same number.
        """
        with self.store.lock(PREFIX):
            name = f"{group}{self._next_number()}"
            if state is not None:
                return self._hold(Conversation.from_state(state, **self._place(name)))
            self.store.segments.write(name, put=[request_record(name, utc_now())])
        return self._opened(name, dialect)

    def _ranked(
        self, group: str, messages: Json, dialect: str
    ) -> list[tuple[Overlap, Conversation]]:
        """Return the conversations of a group, the one with the longest common beginning first."""
        names = [name for name in self._names if name.startswith(group)]
        talks = [self._opened(name, dialect) for name in names[-MOST_COMPARED:]]
        found = [(talk.overlap(messages), talk) for talk in talks]
        return sorted(found, key=lambda each: (each[0].known, -each[0].taken_back), reverse=True)

    def _stored(self, group: str) -> list[str]:
        return [name for name in self.store.segments.workspaces() if name.startswith(group)]

    def _place(self, name: str) -> dict[str, Any]:
        """Return the arguments of the conversation of that name."""
        place = {"limit": self._limit, "store": self.store, "workspace": name, "ids": _ids(name)}
        return {**place, **self._options}

    def workspaces(self) -> tuple[str, ...]:
        """List the conversations, most recently used first."""
        with self._guard:
            return tuple(reversed(self._names))

    def conversation(self, workspace: str, dialect: str | None = None) -> Conversation:
        """Return a conversation as it is: the open one, or one read from the store."""
        talk = self._open.get(workspace)
        return talk or Conversation(dialect=dialect, **self._place(workspace))

    def _next_number(self) -> int:
        """Return a number that no conversation of the store has, in any process."""
        names = {*self._names, *self.store.segments.workspaces()}
        return 1 + max((_number(name) for name in names if name.startswith(PREFIX)), default=0)

    def _opened(self, name: str, dialect: str) -> Conversation:
        return self._hold(self.conversation(name, dialect))

    def _hold(self, talk: Conversation) -> Conversation:
        """Record that a conversation is in use; close the least recently used one."""
        self._names[talk.workspace] = None
        self._open[talk.workspace] = talk
        self._open.move_to_end(talk.workspace)
        while len(self._open) > self._most_open:
            self._open.popitem(last=False)
        if isinstance(self.store, MemoryStore):
            self._forget_idle(self.store)
        return talk

    def _forget_idle(self, store: MemoryStore) -> None:
        """Forget the least recently used conversations of a store in memory."""
        while len(self._names) > MOST_IN_MEMORY:
            idle = next(iter(self._names))
            if idle in self._open:
                break
            store.drop(idle)
            self._names.pop(idle)
            self._models.pop(idle, None)

    @property
    def open_count(self) -> int:
        """How many conversations are open."""
        return len(self._open)

    def expire(self, before: datetime) -> int:
        """Delete the conversations without a new message since then; return their number."""
        since = Query(since=before, limit=1)
        idle = [
            name
            for name in self.store.segments.workspaces()
            if name.startswith(PREFIX) and not self.store.segments.search(name, since)
        ]
        deleted = 0
        for name in idle:
            with self._guard:
                if name not in self._open:
                    forget(self.store, name)
                    self._names.pop(name, None)
                    self._models.pop(name, None)
                    deleted += 1
        return deleted

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def _hashed(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _instructs(value: Json) -> bool:
    return any(said.get("role") in INSTRUCTIONS for said in objects_in([value]))


def _number(workspace: str) -> int:
    """Read the number of a conversation; 0 for what is not one."""
    last = workspace.rpartition(":")[2]
    return int(last) if last.isdecimal() else 0


def _ids(workspace: str) -> str:
    """Return the prefix of the ids of a conversation's messages."""
    number = _number(workspace)
    return "m" if number == 1 else f"m{number}."
