"""Turn a note into a record of the graph: memory, chunks and entities."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta

from marksweep.errors import BadInput, NotFound
from marksweep.graph.extract import extract
from marksweep.stores.graph.base import GraphStore
from marksweep.stores.graph.nouns import (
    CODE_INDEXER,
    Entity,
    Memory,
    Mention,
    Piece,
    Record,
    Scalar,
    chunks_of,
    entity_id,
    hash_content,
    note_memory_id,
)
from marksweep.stores.graph.rows import plain

MAX_TTL = 100_000
"""Numbers from here on are not accepted: they exceed the calendar, or are mistakes."""

LONGEST_TTL = timedelta(weeks=MAX_TTL)

CHUNK_CHARACTERS = 1200
"""Length at which a note is split. Longer chunks rank worse; shorter ones lose their context."""


UNITS = ("minutes", "hours", "days", "weeks")
"""The units of a time to live, which may be written as a word or by the first letter."""


def time_to_live(text: str) -> timedelta | None:
    """Read a time to live such as 30d or 30 days; None if the text is empty."""
    written = text.strip().casefold()
    if not written:
        return None
    number = written.rstrip(string.ascii_lowercase)
    letters = written.removeprefix(number)
    unit = next((u for u in UNITS if letters in (u[0], u, u.removesuffix("s"))), "")
    digits = number.rstrip()
    is_number = digits.isdecimal() and len(digits) <= len(str(MAX_TTL))
    if not unit or not is_number or not 0 < int(digits) < MAX_TTL:
        raise BadInput(
            f"the time to live is {text!r}; expected a whole number followed by m, h, d or w, "
            "such as 30d."
        )
    return timedelta(**{unit: int(digits)})


def moment(text: str) -> datetime | None:
    """Read the time of an `as_of`; None means now. A date means its end, times are in UTC."""
    written = text.strip()
    if written.casefold() in ("", "now", "latest"):
        return None
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        raise BadInput(
            f"as_of is {text!r}; expected a date such as 2026-05-01, with a time or without."
        ) from None
    with suppress(ValueError):
        found = datetime.combine(date.fromisoformat(written), time.max)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def note_record(
    workspace_id: str,
    text: str,
    *,
    now: datetime,
    source: str,
    tags: Sequence[str] = (),
    metadata: dict[str, Scalar] | None = None,
    ttl: timedelta | None = None,
    pinned_by: str = "",
    memory_id: str = "",
) -> Record:
    """Make a note's memory, chunks, entities and mentions; without an id, as a new text."""
    if not text.strip():
        raise BadInput("the text of a memory is empty; expected something to remember.")
    if source == CODE_INDEXER:
        raise BadInput(f"the source {CODE_INDEXER!r} is the indexer's; name another one.")
    if ttl is not None and not timedelta() < ttl <= LONGEST_TTL:
        raise BadInput(
            f"ttl is {ttl}; expected a time to live longer than zero and up to {MAX_TTL:,} weeks. "
            "Without one, a note does not expire."
        )
    memory = Memory(
        memory_id=memory_id or note_memory_id(workspace_id, source, text),
        workspace_id=workspace_id,
        source=source,
        created_at=now,
        text=text,
        lines=text.count("\n") + 1,
        size=len(text.encode("utf-8", "surrogatepass")),
        content_hash=same_words(text),
        tags=tuple(tags),
        metadata=metadata or {},
        last_seen_at=now,
        pinned=bool(pinned_by),
        pinned_by=pinned_by,
        expires_at=None if ttl is None else now + ttl,
    )
    chunks = chunks_of(workspace_id, memory.memory_id, tuple(cut(text)))
    entities: dict[str, Entity] = {}
    mentions: list[Mention] = []
    for chunk in chunks:
        for found in extract(chunk.text):
            known = entity_id(workspace_id, found.kind, found.name)
            entities[known] = Entity(
                entity_id=known, workspace_id=workspace_id, name=found.name, kind=found.kind
            )
            mentions.append(Mention(chunk.chunk_id, known))
    return Record(
        memory=memory,
        chunks=chunks,
        entities=tuple(entities[known] for known in sorted(entities)),
        mentions=tuple(mentions),
    )


def memories_of(graph: GraphStore, workspace_id: str, source: str, text: str) -> tuple[Memory, ...]:
    """Return the memories of a source's text, oldest first: one for each time it became valid."""
    found = graph.notes(workspace_id, source, same_words(text))
    return tuple(each for each in found if each.text == plain(text))


def known_note(
    graph: GraphStore, workspace_id: str, source: str, text: str, now: datetime
) -> tuple[Memory | None, str]:
    """Return the valid memory of a text, if there is one, and the id to remember the text under.

    A memory is valid once: a text that was replaced or has expired gets another one. A valid one
    that was forgotten is restored.
    """
    lives = memories_of(graph, workspace_id, source, text)
    valid = [each for each in lives if each.valid_until is None or each.valid_until > now]
    shown = next((each for each in valid if each.deleted_at is None), None)
    if valid:
        return shown, (shown or valid[0]).memory_id
    known = {each.memory_id for each in lives}
    memory_id = note_memory_id(workspace_id, source, text, lives[-1].memory_id if lives else "")
    while memory_id in known:
        memory_id = note_memory_id(workspace_id, source, text, memory_id)
    return None, memory_id


def check_replaceable(graph: GraphStore, workspace_id: str, memory_ids: Sequence[str]) -> None:
    """Refuse to replace what is not there or is not a note."""
    found = {each.memory.memory_id: each.memory for each in graph.fetch(workspace_id, memory_ids)}
    if missing := [each for each in memory_ids if each not in found]:
        raise NotFound(
            f"there is no memory {', '.join(missing)} to replace. Nothing was remembered. "
            "Pass ids that a search returned."
        )
    if files := [each.relative_path for each in found.values() if each.source == CODE_INDEXER]:
        raise BadInput(
            f"a note cannot replace indexed code: {', '.join(files)}. Nothing was remembered. "
            "Pass ids of notes."
        )


def same_words(text: str) -> str:
    """Hash a note's content as stores hold it, ignoring case and spacing."""
    return hash_content(" ".join(plain(text).casefold().split()).encode())


def cut(text: str, limit: int = CHUNK_CHARACTERS) -> Iterator[Piece]:
    """Split a text into runs of whole lines, at blank lines where possible.

    A line longer than the limit is split at spaces, or at the limit if it has none.
    """
    pending: list[str] = []
    first, size = 1, 0
    for number, line in enumerate(text.split("\n"), 1):
        full = size + len(line) > limit
        paragraph_ends = not line.strip() and size > limit // 2
        if pending and (full or paragraph_ends):
            yield from _lines(first, pending)
            pending, size, first = [], 0, number
        if len(line) > limit:
            for piece in _pieces(line, limit):
                yield Piece("text", "", number, number, piece)
            first = number + 1
            continue
        pending.append(line)
        size += len(line) + 1
    yield from _lines(first, pending)


def _lines(first: int, lines: Sequence[str]) -> Iterator[Piece]:
    if any(line.strip() for line in lines):
        yield Piece("text", "", first, first + len(lines) - 1, "\n".join(lines))


def _pieces(line: str, limit: int) -> Iterator[str]:
    start = 0
    while start < len(line):
        end = start + limit
        if end < len(line):
            space = line.rfind(" ", start + limit // 2, end)
            end = space + 1 if space > 0 else end
        yield line[start:end]
        start = end
