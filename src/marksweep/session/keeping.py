"""What plugins take out of a session, kept in a store: found again, or put back.

Whatever a plugin removes or shortens, ours or a stranger's, goes to the stash before the session
lets go of it. A message is kept whole, as JSON; its position is its place among all that were said.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import blake2b

import msgspec

from marksweep.clock import utc_now
from marksweep.errors import NotFound
from marksweep.heaps.conversation_stash import Recalled, recalled
from marksweep.messages import Counter, Message
from marksweep.messages.text import as_json, said_in
from marksweep.model import Entry, Event, Segment, Stashed
from marksweep.plugins.base import GCResult
from marksweep.stores.base import Store

MESSAGE = "message"


class Sweep(msgspec.Struct, frozen=True):
    """One collection: what it is called in the store, and what it put into the history."""

    plan_id: str
    made: frozenset[str]


class Keeper:
    """Keeps what leaves a history, and knows the place of every message."""

    def __init__(
        self, store: Store, workspace: str, clock: Callable[[], datetime] = utc_now
    ) -> None:
        self._store = store
        self._workspace = workspace
        self._clock = clock
        self._places: dict[str, int] = {}
        self._sweeps: list[Sweep] = []

    def keep(
        self,
        before: Sequence[Message],
        after: Sequence[Message],
        result: GCResult,
        counter: Counter,
    ) -> None:
        """Keep what a collection takes, before it is taken."""
        self._place(before)
        stays = {message.message_id: message for message in after}
        gone = [m for m in before if stays.get(m.message_id) != m]
        if not gone:
            return
        plan_id = _name(result.plugin_name, gone)
        now = self._clock()
        reason = f"{result.plugin_name}: {result.trigger_reason.value}"
        entries = [
            Stashed(self._segment(message, counter(message), now), plan_id, now, reason)
            for message in gone
        ]
        self._store.stash.put(self._workspace, entries)
        self._log(Event.SWEPT, plan_id, gone)
        known = {message.message_id for message in before}
        made = [message for message in after if message.message_id not in known]
        for message in made:
            self._places[message.message_id] = self._places[gone[0].message_id]
        self._sweeps.append(Sweep(plan_id, frozenset(m.message_id for m in made)))

    def undo(self, history: Sequence[Message]) -> list[Message]:
        """Give the history as it would be without the latest collection."""
        if not self._sweeps:
            raise NotFound("nothing was collected from this session, so there is no undo.")
        self._place(history)
        sweep = self._sweeps.pop()
        entries = self._store.stash.of_plan(self._workspace, sweep.plan_id)
        back = {e.segment.segment_id: _message(e.segment) for e in entries}
        stays = [m for m in history if m.message_id not in back and m.message_id not in sweep.made]
        self._store.stash.remove(self._workspace, sweep.plan_id, list(back))
        self._log(Event.UNDONE, sweep.plan_id, tuple(back.values()))
        return sorted([*stays, *back.values()], key=lambda m: self._places[m.message_id])

    def recall(
        self, query: str, limit: int, history: Sequence[Message], counter: Counter
    ) -> list[Recalled]:
        """Find what was taken out and answers a question, in at most so many tokens."""
        self._place(history)
        now = self._clock()
        live = [self._segment(message, counter(message), now) for message in history]
        return recalled(self._store.stash, self._workspace, live, query, limit)

    def _place(self, history: Sequence[Message]) -> None:
        """Give a place to what came since; it stands behind all that was there."""
        for message in history:
            self._places.setdefault(message.message_id, len(self._places) + 1)

    def _segment(self, message: Message, tokens: int, now: datetime) -> Segment:
        return Segment(
            segment_id=message.message_id,
            type=MESSAGE,
            created_at=now,
            text=said_in(message),
            raw=as_json(msgspec.to_builtins(message)),
            tokens=tokens,
            position=self._places[message.message_id],
            project_id=self._workspace,
        )

    def _log(self, event: Event, plan_id: str, messages: Sequence[Message]) -> None:
        ids = tuple(message.message_id for message in messages)
        entry = Entry(event, self._clock(), plan_id, "session", segments=ids)
        self._store.journal.append(self._workspace, entry)


def _message(segment: Segment) -> Message:
    return msgspec.convert(json.loads(segment.raw), Message)


def _name(plugin: str, gone: Sequence[Message]) -> str:
    """Name a collection after what it took: message ids are never used twice."""
    ids = "\n".join(message.message_id for message in gone)
    return f"{plugin}-{blake2b(ids.encode(), digest_size=6).hexdigest()}"
