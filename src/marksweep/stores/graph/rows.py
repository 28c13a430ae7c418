"""Convert nouns to rows and back, in one format for all stores.

Times are whole microseconds since 1970, so that they compare and sort in any store. Text is stored
without NUL and without lone surrogates, which FalkorDB and UTF-8 cannot hold.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar, get_type_hints

import msgspec

from marksweep.errors import BadInput
from marksweep.search.ranking import Fields, fields
from marksweep.stores.codec import microseconds
from marksweep.stores.graph import nouns
from marksweep.stores.graph.base import (
    EPOCH,
    Definition,
    GraphHit,
    GraphQuery,
    Link,
    LinkQuery,
    MemoryRow,
    Run,
)
from marksweep.stores.graph.nouns import Chunk, Entity, Memory, Record

Cell = str | int | float | None
Row = tuple[Cell, ...]
Noun = TypeVar("Noun")

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

MEMORY_COLUMNS = (
    "id", "source", "created_at", "repository", "file_path", "relative_path", "language", "lines",
    "size", "mtime_ns", "content_hash", "run", "tags", "metadata", "stale", "last_seen_at",
    "pinned", "pinned_by", "read_at", "deleted_at", "superseded_by", "superseded_at",
    "expires_at", "text",
)  # fmt: skip
CHUNK_COLUMNS = (
    "id", "memory_id", "kind", "symbol", "start_line", "end_line", "position", "deleted_at", "text",
)  # fmt: skip
ENTITY_COLUMNS = ("id", "name", "type", "deleted_at")
RELATION_COLUMNS = ("source_id", "target_id", "relation", "memory_id", "lines")
SURVEY_COLUMNS = (
    "id", "source", "repository", "file_path", "relative_path", "content_hash", "lines",
    "stale", "pinned", "pinned_by", "created_at", "last_seen_at", "read_at", "deleted_at", "tags",
    "expires_at", "size", "mtime_ns", "superseded_at",
)  # fmt: skip

_tags = msgspec.json.Decoder(tuple[str, ...])
_metadata = msgspec.json.Decoder(dict[str, nouns.Scalar])
_numbers = msgspec.json.Decoder(list[int])
_lines = msgspec.json.Decoder(tuple[int, ...])


def plain(text: str) -> str:
    """Replace NUL and lone surrogates, which stores cannot hold."""
    if text.isascii():
        return text.replace("\0", REPLACEMENT) if "\0" in text else text
    text = text.replace("\0", REPLACEMENT)
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(REPLACEMENT if "\ud800" <= char <= "\udfff" else char for char in text)
    return text


def plain_all(texts: Iterable[str]) -> list[str]:
    """Replace what stores cannot hold in each text."""
    return [plain(each) for each in texts]


def micros_or_none(at: datetime | None) -> int | None:
    """Convert a time, if there is one, to microseconds since 1970."""
    return None if at is None else microseconds(at)


def moment(cell: Cell) -> datetime:
    """Convert a cell back to a time."""
    return EPOCH + timedelta(microseconds=int(cell or 0))


def moment_or_none(cell: Cell) -> datetime | None:
    """Convert a cell back to a time, if there is one."""
    return None if cell is None else moment(cell)


def truth(cell: Cell) -> bool:
    """Read a boolean: SQLite has 0 and 1, FalkorDB true and false."""
    return cell in (1, "true")


def _plain_tags(tags: Iterable[str]) -> str:
    return msgspec.json.encode([plain(tag) for tag in tags]).decode()


def _plain_metadata(metadata: dict[str, nouns.Scalar]) -> str:
    """Write metadata as JSON; BadInput if it could not be read back."""
    found = {
        plain(key): plain(value) if isinstance(value, str) else value
        for key, value in sorted(metadata.items())
    }
    written = msgspec.json.encode(found)
    try:
        _metadata.decode(written)
    except msgspec.ValidationError as error:
        raise BadInput(
            f"the metadata of a memory is {metadata!r}; expected a text, a number, a boolean or "
            "None for each key. Write what is nested as JSON text."
        ) from error
    return written.decode()


def _same(cell: Any) -> Any:  # noqa: ANN401
    return cell


_FORMS: dict[object, tuple[Callable[[Any], Cell], Callable[[Any], Any]]] = {
    str: (plain, lambda cell: str(cell or "")),
    int: (_same, lambda cell: int(cell or 0)),
    bool: (_same, truth),
    datetime: (microseconds, moment),
    datetime | None: (micros_or_none, moment_or_none),
    tuple[str, ...]: (_plain_tags, _tags.decode),
    tuple[int, ...]: (
        lambda lines: msgspec.json.encode(lines).decode(),
        lambda cell: _lines.decode(cell or "[]"),
    ),
    dict[str, nouns.Scalar]: (_plain_metadata, _metadata.decode),
}
"""How a field of each type is written to a cell, and read from it."""

JSON_CELLS: dict[str, dict[str, tuple[Callable[[str], object], str]]] = {
    "memory": {"tags": (_tags.decode, "[]"), "metadata": (_metadata.decode, "{}")},
    "relation": {"lines": (_lines.decode, "[]")},
}
"""The columns of each table that hold JSON: how one is read, and what an empty one holds."""


class Columns(Generic[Noun]):
    """The columns that hold a noun's fields, in order."""

    def __init__(self, kind: type[Noun], names: Sequence[str], **fields: str) -> None:
        """Take the columns; `fields` names the fields that are called otherwise."""
        types = get_type_hints(kind)
        named = [fields.get(name, name) for name in names]
        self._make: Callable[..., Noun] = kind
        self._forms = [(field, *_FORMS[types[field]]) for field in named]

    def row(self, noun: Noun) -> Row:
        """Convert a noun to a row."""
        return tuple([write(getattr(noun, field)) for field, write, _ in self._forms])

    def noun(self, row: Row, **more: str) -> Noun:
        """Read a noun from a row; `more` are its fields that have no column."""
        forms = zip(self._forms, row, strict=True)
        return self._make(**{field: read(cell) for (field, _, read), cell in forms}, **more)


_MEMORY = Columns(Memory, MEMORY_COLUMNS, id="memory_id")
_CHUNK = Columns(Chunk, CHUNK_COLUMNS, id="chunk_id")
_ENTITY = Columns(Entity, ENTITY_COLUMNS, id="entity_id", type="kind")
_RELATION = Columns(nouns.Relation, RELATION_COLUMNS)
_RUN = Columns(Run, Run.__struct_fields__)

memory_row, chunk_row, entity_row = _MEMORY.row, _CHUNK.row, _ENTITY.row
relation_row, relation_of, run_of = _RELATION.row, _RELATION.noun, _RUN.noun


def memory_of(workspace_id: str, row: Row) -> Memory:
    """Read a memory."""
    return _MEMORY.noun(row, workspace_id=workspace_id)


def chunk_of(workspace_id: str, row: Row) -> Chunk:
    """Read a chunk."""
    return _CHUNK.noun(row, workspace_id=workspace_id)


def entity_of(workspace_id: str, row: Row) -> Entity:
    """Read an entity. Written out, because a search reads hundreds."""
    entity_id, name, kind, deleted_at = row
    return Entity(
        entity_id=str(entity_id),
        workspace_id=workspace_id,
        name=str(name),
        kind=str(kind),
        deleted_at=moment_or_none(deleted_at),
    )


def bare(name: str, kind: str = "") -> str:
    """Return the last part of a name: `open` of `Session.open`, `app.py` of `src/app.py`."""
    parted = "/" if kind == "path" or "/" in name else "."
    return plain(name.rpartition(parted)[2] or name)


def last_parts(names: Iterable[str]) -> set[str]:
    """Return the possible last parts of entities with these names: `app.py` may be a path."""
    return {part for name in names for part in (bare(name), plain(name))}


def is_asked(name: str, last_part: str, names: Collection[str], query: LinkQuery) -> bool:
    """Return whether an entity matches one of the requested names.

    It matches by whole name or last part. `Session.open` also matches calls to plain `open`, which
    do not name the class.
    """
    if name in names or (last_part in names and not query.whole_names):
        return True
    unresolved = query.to_name and query.relation != "imports" and name == last_part
    return unresolved and any("." in each and bare(each) == name for each in names)


def links_of(rows: Iterable[Row]) -> tuple[Link, ...]:
    """Read links, sorted by location."""
    return tuple(
        sorted(
            map(_link_of, rows),
            key=lambda link: (link.repository, link.file, link.lines, link.source, link.target),
        )
    )


def _link_of(row: Row) -> Link:
    """Read a link: source, target, relation, path, repository, lines."""
    source, target, relation, path, repository = map(str, row[:5])
    return Link(source, target, relation, path, repository, _lines.decode(str(row[5] or "[]")))


def defined(
    found: Iterable[Definition], names: Collection[str], limit: int
) -> tuple[Definition, ...]:
    """Select definitions with one of these names, whole or last part."""
    return tuple(each for each in found if each.symbol in names or bare(each.symbol) in names)[
        :limit
    ]


def survey_row(row: Row) -> MemoryRow:
    """Read a memory's small columns: its key, then SURVEY_COLUMNS."""
    return MemoryRow(*row)  # type: ignore[arg-type]


def numbers(cell: Cell) -> list[int]:
    """Read a column of numbers that was sent as one JSON list."""
    return _numbers.decode(str(cell))


def packed_numbers(cell: Cell) -> array[int]:
    """Read a column of numbers that is kept and may have millions, in little memory."""
    return array("q", numbers(cell))


def filters(query: GraphQuery) -> dict[str, Cell]:
    """Return the parameters of a search that hold one value each."""
    return {
        "repository": None if query.repository is None else plain(query.repository),
        "path": None if query.path is None else plain(query.path).rstrip("/"),
        "since": micros_or_none(query.since),
        "until": micros_or_none(query.until),
        "as_of": micros_or_none(query.as_of),
        "at": micros_or_none(query.as_of or query.now),
    }


def fields_of(memory: Memory | None, chunk: Chunk, mark: str = "", words: str = "") -> Fields:
    """Build the search text of a chunk; without its memory, it has no path."""
    if memory is None:
        return fields(chunk.text, chunk.symbol, "", mark, words)
    named = f"{chunk.symbol} {' '.join(memory.tags)}"
    return fields(chunk.text, named, memory.relative_path, mark, words)


HIT_CHUNK = len(MEMORY_COLUMNS)
"""Index of the chunk's first column in a hit's row, after those of its memory."""

Mentioned = Mapping[str, Sequence[Entity]]
"""Entities that chunks mention, by chunk id."""


def records(
    wanted: Iterable[str],
    memories: Mapping[str, Memory],
    chunks: Iterable[Chunk],
    relations: Iterable[nouns.Relation],
    mentioned: Mentioned,
) -> tuple[Record, ...]:
    """Build a record for each requested memory that exists, in that order."""
    chunks_of: defaultdict[str, list[Chunk]] = defaultdict(list)
    for chunk in sorted(chunks, key=lambda chunk: (chunk.position, chunk.chunk_id)):
        chunks_of[chunk.memory_id].append(chunk)
    relations_of: defaultdict[str, list[nouns.Relation]] = defaultdict(list)
    for relation in relations:
        relations_of[relation.memory_id].append(relation)
    return tuple(
        _record(memories[each], chunks_of[each], relations_of[each], mentioned)
        for each in wanted
        if each in memories
    )


def _record(
    memory: Memory,
    chunks: Sequence[Chunk],
    relations: Sequence[nouns.Relation],
    mentioned: Mentioned,
) -> Record:
    mentions = [(c.chunk_id, entity) for c in chunks for entity in mentioned.get(c.chunk_id, ())]
    entities = {entity.entity_id: entity for _, entity in mentions}
    return Record(
        memory=memory,
        chunks=tuple(chunks),
        entities=tuple(entities[each] for each in sorted(entities)),
        mentions=tuple(nouns.Mention(chunk_id, entity.entity_id) for chunk_id, entity in mentions),
        relations=tuple(relations),
    )


def hits(
    workspace_id: str, best: Iterable[tuple[Row, float]], mentioned: Mentioned
) -> tuple[GraphHit, ...]:
    """Build hits from rows of a memory and a chunk, with their scores and what they mention."""
    memories: dict[Cell, Memory] = {}
    found: list[GraphHit] = []
    for row, score in best:
        if row[0] not in memories:
            memories[row[0]] = memory_of(workspace_id, row[:HIT_CHUNK])
        found.append(
            GraphHit(
                memory=memories[row[0]],
                chunk=chunk_of(workspace_id, row[HIT_CHUNK:]),
                score=score,
                entities=tuple(mentioned.get(str(row[HIT_CHUNK]), ())),
            )
        )
    return tuple(found)
