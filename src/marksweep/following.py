"""A history that its host owns and sends whole each time, matched with what is known of it.

    for kept in talk.follow(request["messages"]):
        kept.message       the caller's own object, or what replaces it
        kept.key           the caller's key for it, or its index; None for what a collection added
        kept.is_changed    whether it is not what the caller passed

The common prefix of both histories is known; at the first difference the host has rewound, and the
rest is read again. A host may also keep what it was given to send, and resend that instead of the
full history. Prompt cache marks move with every request, so they are neither compared nor kept; the
output has at most the marks that the caller set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import is_
from typing import NamedTuple

import msgspec

from marksweep.collector import Collector
from marksweep.dialects import dialect_named
from marksweep.dialects.base import Json, Unreadable, parsed, plain, spelled
from marksweep.dialects.history import LISTS
from marksweep.errors import BadInput
from marksweep.heaps.conversation import ConversationHeap, was_said
from marksweep.heaps.stash_search import EVERYTHING, GAP, RECALLED, all_said
from marksweep.messages import Message, Role
from marksweep.model import Segment
from marksweep.stores.base import Store
from marksweep.tokens import Calibration

MARK = "cache_control"
"""The field that marks the end of what a provider should cache."""

_MARK = f'"{MARK}"'.encode()


class Kept(msgspec.Struct, frozen=True):
    """One message of what the host should send."""

    message: Json
    """The caller's own object if it is unchanged, else what replaces it."""
    key: Json = None
    """The caller's key, or its index where no keys were passed; None: a collection added it."""
    is_changed: bool = False


class Link(NamedTuple):
    """One known message of the host: a digest of its content, its id and position here."""

    digest: bytes
    name: str
    position: int

    @property
    def is_note(self) -> bool:
        """Whether it is recalled text: its position is that of the message before it."""
        return self.name.startswith(f"{RECALLED}-")

    @property
    def is_gap(self) -> bool:
        """Whether it is a line in place of swept messages: its position is that of the first."""
        return self.name.startswith(f"{GAP}-")


class Sent(msgspec.Struct, frozen=True):
    """The last request, stored so that a retry is recognized, also after a restart."""

    newest: str = ""
    """The id of its newest message."""
    tokens: int = 0
    limit: int = 0
    """The limit that it was made for."""
    calibration: Calibration = Calibration()
    """The ratio of the provider's counts to ours, as known then."""


class Agreed(NamedTuple):
    """How much of a host's history equals the known one."""

    links: list[Link | None]
    """Of the host's messages up to the first difference; None: unreadable, stays in place."""
    position: int | None
    """Where the known history differs from the host's; None: the host has all of it."""


class Overlap(msgspec.Struct, frozen=True):
    """How a host's history relates to the known one."""

    known: int
    """Messages of it that are known."""
    taken_back: int
    """Known messages that it does not have."""
    loses_sweep: bool = False
    """Whether any of those was swept."""


def listed(messages: Json, dialect: str) -> list[Json]:
    """Return the messages of a list or of a whole request."""
    values = messages.get(LISTS.get(dialect, "")) if isinstance(messages, dict) else messages
    if not isinstance(values, list | tuple):
        raise BadInput(
            f"{type(values).__name__} where a list of messages was expected. Pass the whole "
            "history each time, as a list or as the request that holds it."
        )
    if any(isinstance(value, Message) for value in values):
        raise BadInput(
            "neutral messages cannot be followed. Pass them as their provider has them: "
            "`written(messages, dialect)`."
        )
    return list(values)


class Follower:
    """Matches what a host sends with the messages of one conversation, live and swept."""

    def __init__(self, heap: ConversationHeap, collector: Collector, store: Store) -> None:
        self._heap = heap
        self._collector = collector
        self._store = store
        self.known: list[Link] | None = None
        """The full history, in order; None: look it up again, since somebody added to it."""
        self._as_of = 0
        """Changes by others that `known` includes."""
        self._last: tuple[Sequence[Json], list[bytes]] = ((), [])
        self._host: tuple[list[Link], ...] = ()
        """What the host last had, and what it was given to send then."""
        self._digested: dict[str, tuple[Message, bytes]] = {}
        """The digest of a live message, valid while it is the same object."""

    @property
    def links(self) -> list[Link]:
        """The full history, in order."""
        if self.known is None or self._as_of != self._heap.foreign_changes:
            self._as_of = self._heap.foreign_changes
            self.known = [
                Link(digest(parsed(s.raw)), s.segment_id, s.position) for s in self._said()
            ]
        return self.known

    @property
    def last_sent(self) -> Sent:
        """The last request; an empty one if there was none, or another version recorded it."""
        try:
            return msgspec.json.decode(self._heap.last_request, type=Sent)
        except msgspec.DecodeError:
            return Sent()

    def was_sent(self, limit: int) -> bool:
        """Whether the live messages were already sent as they are, for the same limit."""
        last = self.last_sent
        return (last.newest, last.tokens, last.limit) == self._request(limit)

    def record_sent(self, limit: int, calibration: Calibration, now: datetime) -> None:
        """Store that the live messages are sent now; nothing if they were sent already."""
        if not self.was_sent(limit):
            sent = Sent(*self._request(limit), calibration)
            self._heap.record_request(msgspec.json.encode(sent).decode(), now)

    def _request(self, limit: int) -> tuple[str, int, int]:
        return (self.links[-1].name if self.links else "", self._heap.size(), limit)

    def _said(self) -> list[Segment]:
        live = self._heap.snapshot().segments
        everything = all_said(self._store.stash, self._heap.workspace, live)
        return [segment for segment in everything if was_said(segment)]

    def agreed(self, values: Sequence[Json], dialect: str) -> Agreed:
        """Compare a host's list with the full history, what it had or got last, and what is live.

        What is live may be new to the host: since it got its messages, others may have undone.
        """
        self._heap.refresh()
        found = self._matched(values, self.links, dialect)
        if len(found.links) < len(values):
            candidates = (*self._host, self._live())
            others = [self._matched(values, known, dialect) for known in candidates]
            found = max(found, *others, key=lambda each: len(each.links))
        return found

    def _matched(self, values: Sequence[Json], known: Sequence[Link], dialect: str) -> Agreed:
        links: list[Link | None] = []
        at, kind = 0, dialect_named(dialect)
        for value, said in zip(values, self._digests(values), strict=True) if known else ():
            if at < len(known) and said == known[at].digest:
                links.append(known[at])
                at += 1
                continue
            try:
                kind.read(plain(value))
                break
            except Unreadable:
                links.append(None)
        following = next((k.position for k in known[at:] if not k.is_note), None)
        if following is None:
            return Agreed(links, None)
        if at and len(links) == len(values) and not known[at - 1].is_gap:
            return Agreed(links, known[at - 1].position + 1)  # what the host has last stays last
        return Agreed(links, max([following, *(k.position + 1 for k in known[:at])]))

    def _live(self) -> list[Link]:
        """All that is live: what the host is given to send."""
        live = self._heap.index.live
        return [
            Link(self._digest(message), message.message_id, live[message.message_id].position)
            for message in self._heap.messages()
        ]

    def _digests(self, values: Sequence[Json]) -> list[bytes]:
        """Digest a list; the same list right after that, as in `overlap` then `agreed`, is free."""
        if len(values) != len(self._last[0]) or not all(map(is_, values, self._last[0])):
            self._last = (values, [digest(value) for value in values])
        return self._last[1]

    def overlap(self, values: Sequence[Json], dialect: str) -> Overlap:
        """Say how much of a host's list is known, and what following it would remove."""
        links, position = self.agreed(values, dialect)
        known = sum(link is not None for link in links)
        back = [link.name for link in self._links_from(position)]
        swept = bool(back and self._store.stash.get(self._heap.workspace, back))
        return Overlap(known, len(back), loses_sweep=swept)

    def extend(self, values: Sequence[Json], taken: Mapping[int, str]) -> list[Link | None]:
        """Add new messages, named by index in the list; return the links of all in it."""
        live = self._heap.index.live
        new = {
            at: Link(digest(values[at]), name, live[name].position) for at, name in taken.items()
        }
        self.links.extend(new.values())
        return [new.get(at) for at in range(len(values))]

    def drop_last(self, number: int, now: datetime) -> None:
        """Remove the last messages."""
        self._heap.refresh()
        if not 0 <= number <= len(self.links):
            raise BadInput(f"drop_last({number}) of {len(self.links)} messages.")
        self.rewind_to(self.links[-number].position if number else None, now)

    def _links_from(self, position: int | None) -> list[Link]:
        return [] if position is None else [k for k in self.links if k.position >= position]

    def rewind_to(self, position: int | None, now: datetime) -> bool:
        """Remove all messages from a position on; return whether there were any.

        What the model has not answered then, and its last answer, come back if they were swept.
        """
        if position is None:
            return False
        start = self._unanswered_before(position)
        with self._collector.holding(now):
            while swept := self._swept_from(start):
                self._collector.restore(swept, now=now)
            self._heap.drop_from(position)
        self.known = [link for link in self.links if link.position < position]
        self._host = tuple([k for k in each if k.position < position] for each in self._host)
        self._digested.clear()
        return True

    def _unanswered_before(self, position: int) -> int:
        """Return where the model's last answer before a position begins.

        If the model never spoke, return the position of the last message.
        """
        said = [s for s in self._said() if s.position < position]
        answer = None
        for segment in reversed(said):
            if self._heap.message(segment).role is Role.MODEL:
                answer = segment.position
            elif answer is not None:
                break
        return answer or (said[-1].position if said else position)

    def _swept_from(self, position: int) -> list[str]:
        found = self._store.stash.search(self._heap.workspace, EVERYTHING)
        swept = [hit.found.segment for hit in found]
        return list(dict.fromkeys(s.segment_id for s in swept if s.position >= position))

    def project(
        self, values: Sequence[Json], links: Sequence[Link | None], keys: Sequence[Json]
    ) -> list[Kept]:
        """Return the live messages, as the host's own objects where they are unchanged."""
        index = {link.name: i for i, link in enumerate(links) if link is not None}
        digests = self._digests(values)
        self._last = ((), [])
        self._host = ([link for link in links if link is not None], self._live())
        out: list[Kept] = []
        asides = [i for i, link in enumerate(links) if link is None][::-1]
        for message in self._heap.messages():
            i = index.get(message.message_id)
            if i is None:
                out.append(Kept(message.raw, is_changed=True))
                continue
            while asides and asides[-1] < i:
                at = asides.pop()
                out.append(Kept(values[at], keys[at]))
            if self._digest(message) != digests[i]:
                out.append(Kept(marked_like(message.raw, values[i]), keys[i], is_changed=True))
            else:
                out.append(Kept(values[i], keys[i]))
        return out + [Kept(values[at], keys[at]) for at in reversed(asides)]

    def _digest(self, message: Message) -> bytes:
        known = self._digested.get(message.message_id)
        if known is None or known[0] is not message:
            known = self._digested[message.message_id] = (message, digest(message.raw))
        return known[1]


def digest(value: Json) -> bytes:
    """Digest a message into sixteen bytes: equal with and without cache marks.

    The order of keys does not count: a host may keep what it was given in objects of its own. What
    cannot be read gets none, which equals no digest of a message.
    """
    try:
        said = plain(value)
    except Unreadable:
        return b""
    data = spelled(said, is_sorted=True)
    if _MARK in data:
        said = unmarked(said)
        data = spelled(said, is_sorted=True)
    content = said.get("content") if isinstance(said, dict) else None
    if isinstance(content, list) and len(content) == 1 and _is_text(content[0]):
        data = spelled({**said, "content": content[0]["text"]}, is_sorted=True)
    return hashlib.blake2b(data, digest_size=16).digest()


def _is_text(block: Json) -> bool:
    """Whether a block is plain text. Clients write it as a string where it has no mark."""
    return isinstance(block, dict) and block.keys() == {"type", "text"} and block["type"] == "text"


def unmarked(value: Json) -> Json:
    """Return a message without cache marks: on itself, its blocks, and the blocks of a result."""
    if not isinstance(value, dict):
        return value
    content = value.get("content")
    if isinstance(content, list):
        blocks = [unmarked(block) for block in content]
        if any(new is not old for new, old in zip(blocks, content, strict=True)):
            value = {**value, "content": blocks}
    return {k: v for k, v in value.items() if k != MARK} if MARK in value else value


def marked_like(message: Json, example: Json) -> Json:
    """Put the mark that ends an example at the end of a message that has none."""
    content = example.get("content") if isinstance(example, dict) else None
    last = content[-1] if isinstance(content, list) and content else None
    if not isinstance(last, dict) or MARK not in last:
        return message
    blocks = message.get("content")
    if isinstance(blocks, str) and blocks:
        blocks = [{"type": "text", "text": blocks}]
    if not isinstance(blocks, list) or not blocks or not isinstance(blocks[-1], dict):
        return message
    return {**message, "content": [*blocks[:-1], {**blocks[-1], MARK: last[MARK]}]}
