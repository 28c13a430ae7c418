"""Read memories, files, runs and deleted nodes: one implementation for every engine.

An engine has a `statements` module with the names below, and runs one of them in a workspace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from marksweep.stores.graph import base, nouns, rows
from marksweep.stores.graph.nouns import Entity, Kind
from marksweep.stores.graph.rows import Row, plain, plain_all


class Statements(Protocol):
    """The statements that read, by the name that every engine gives them.

    `ids` are what they look up: node ids, or the last parts of names.
    """

    VERSION: str
    MEMORIES: str
    NOTES: str
    CHUNKS_BY_ID: str
    CHUNKS_OF_MEMORIES: str
    ENTITIES_BY_ID: str
    ENTITIES_OF_MEMORIES: str
    ENTITIES_BY_LAST_PART: str
    LIVE_ENTITIES: str
    MENTIONS_OF_CHUNKS: str
    MENTIONS_OF_ENTITIES: str
    RELATIONS_OF_MEMORIES: str
    RELATIONS_FROM: str
    RELATIONS_TO: str
    LINKS_TO: str
    LINKS_FROM: str
    DEFINITIONS: str
    FILES: str
    FILE_AT: str
    RUNS: str
    DELETED: dict[str, str]


class Reader(Protocol):
    """A connection to an engine."""

    @property
    def statements(self) -> Statements:
        """The engine's statements."""
        ...

    def read_all(
        self, workspace_id: str, statements: Sequence[str], params: Mapping[str, object]
    ) -> list[list[Row]]:
        """Run statements in a workspace, all with the same parameters."""
        ...


def _read(db: Reader, workspace_id: str, statement: str, **given: object) -> list[Row]:
    (found,) = db.read_all(workspace_id, (statement,), given)
    return found


def _by_id(db: Reader, workspace_id: str, statement: str, ids: Sequence[str]) -> list[Row]:
    return _read(db, workspace_id, statement, ids=ids) if ids else []


def version(db: Reader, workspace_id: str) -> int:
    """Return the workspace's version."""
    found = _read(db, workspace_id, db.statements.VERSION)
    return int(found[0][0] or 0) if found else 0


def fetch(db: Reader, workspace_id: str, memory_ids: Sequence[str]) -> tuple[nouns.Record, ...]:
    """Assemble whole records."""
    ids = plain_all(dict.fromkeys(memory_ids))
    if not ids:
        return ()
    named = db.statements
    memories, chunks, relations, entities = db.read_all(
        workspace_id,
        (
            named.MEMORIES,
            named.CHUNKS_OF_MEMORIES,
            named.RELATIONS_OF_MEMORIES,
            named.ENTITIES_OF_MEMORIES,
        ),
        {"ids": ids},
    )
    return rows.records(
        ids,
        {str(row[0]): rows.memory_of(workspace_id, row) for row in memories},
        [rows.chunk_of(workspace_id, row) for row in chunks],
        map(rows.relation_of, relations),
        by_chunk(workspace_id, entities),
    )


def by_chunk(workspace_id: str, found: Iterable[Row]) -> dict[str, list[Entity]]:
    """Group entities by the chunk that mentions them."""
    grouped: defaultdict[str, list[Entity]] = defaultdict(list)
    for row in found:
        grouped[str(row[0])].append(rows.entity_of(workspace_id, row[1:]))
    return dict(grouped)


def find(
    db: Reader, workspace_id: str, nodes: base.Nodes
) -> tuple[nouns.Memory | nouns.Chunk | Entity, ...]:
    """Fetch nodes by id."""
    found: list[nouns.Memory | nouns.Chunk | Entity] = []
    for kind, statement, read in (
        (Kind.MEMORY, db.statements.MEMORIES, rows.memory_of),
        (Kind.CHUNK, db.statements.CHUNKS_BY_ID, rows.chunk_of),
        (Kind.ENTITY, db.statements.ENTITIES_BY_ID, rows.entity_of),
    ):
        ids = plain_all(nodes.of(kind))
        there = _by_id(db, workspace_id, statement, ids)
        by_id = {str(row[0]): read(workspace_id, row) for row in there}
        found += [by_id[each] for each in ids if each in by_id]
    return tuple(found)


def owners(
    db: Reader, workspace_id: str, items: Collection[base.Item]
) -> Mapping[str, nouns.Memory]:
    """Return the memories of the chunks among items, which are among them or in the store."""
    given = {item.memory_id: item for item in items if isinstance(item, nouns.Memory)}
    wanted = dict.fromkeys(item.memory_id for item in items if isinstance(item, nouns.Chunk))
    elsewhere = base.Nodes(memories=tuple(each for each in wanted if each not in given))
    stored = find(db, workspace_id, elsewhere)
    return {each.memory_id: each for each in stored if isinstance(each, nouns.Memory)} | given


def notes(
    db: Reader, workspace_id: str, source: str, content_hash: str
) -> tuple[nouns.Memory, ...]:
    """Fetch a source's notes with this content hash."""
    given = {"source": plain(source), "content_hash": content_hash}
    found = _read(db, workspace_id, db.statements.NOTES, **given)
    return tuple(rows.memory_of(workspace_id, row) for row in found)


def links(
    db: Reader, workspace_id: str, names: Sequence[str], query: base.LinkQuery
) -> tuple[base.Link, ...]:
    """Fetch relations to, or from, entities with these names."""
    asked = set(plain_all(names))
    parts = sorted(rows.last_parts(asked))
    found = _by_id(db, workspace_id, db.statements.ENTITIES_BY_LAST_PART, parts)
    ids = sorted(
        str(each) for each, name, last in found if rows.is_asked(str(name), str(last), asked, query)
    )
    statement = db.statements.LINKS_TO if query.to_name else db.statements.LINKS_FROM
    given = {"relation": plain(query.relation), "limit": min(query.limit, base.MAX_LIMIT)}
    return rows.links_of(_read(db, workspace_id, statement, ids=ids, **given) if ids else ())


def definitions(
    db: Reader, workspace_id: str, names: Sequence[str], limit: int
) -> tuple[base.Definition, ...]:
    """Fetch where symbols with these names are defined."""
    asked = set(plain_all(names))
    parts = sorted(rows.last_parts(asked) - {""})
    found = (
        base.Definition(str(symbol), str(kind), str(path), str(repository), int(line or 0))
        for symbol, kind, path, repository, line in _by_id(
            db, workspace_id, db.statements.DEFINITIONS, parts
        )
    )
    return rows.defined(found, asked, limit)


def entities(db: Reader, workspace_id: str) -> tuple[Entity, ...]:
    """Fetch every live entity."""
    found = _read(db, workspace_id, db.statements.LIVE_ENTITIES)
    return tuple(rows.entity_of(workspace_id, row) for row in found)


def files(db: Reader, workspace_id: str, repository: str) -> tuple[base.MemoryRow, ...]:
    """Fetch the known files of a repository."""
    given = {"repository": plain(repository), "source": nouns.CODE_INDEXER}
    return tuple(map(rows.survey_row, _read(db, workspace_id, db.statements.FILES, **given)))


def file_at(db: Reader, workspace_id: str, file_path: str) -> str | None:
    """Return the id of a file's code memory."""
    given = {"path": plain(file_path), "source": nouns.CODE_INDEXER}
    found = _read(db, workspace_id, db.statements.FILE_AT, **given)
    return str(found[0][0]) if found else None


def runs(db: Reader, workspace_id: str, repository: str | None = None) -> tuple[base.Run, ...]:
    """Fetch runs, newest first."""
    name = None if repository is None else plain(repository)
    return tuple(map(rows.run_of, _read(db, workspace_id, db.statements.RUNS, repository=name)))


def deleted(
    db: Reader,
    workspace_id: str,
    *,
    before: datetime | None = None,
    plan_id: str | None = None,
) -> tuple[base.DeletedRow, ...]:
    """Fetch soft-deleted nodes."""
    by_plan = None if plan_id is None else plain(plan_id)
    given = {"before": rows.micros_or_none(before), "plan_id": by_plan}
    return tuple(
        base.DeletedRow(kind, str(node_id), rows.moment(at), str(by))
        for kind in sorted(Kind)
        for node_id, at, by in _read(db, workspace_id, db.statements.DELETED[kind], **given)
    )


def nodes_with_edges(db: Reader, workspace_id: str, nodes: base.Nodes) -> list[base.Item]:
    """Fetch nodes, the chunks of the memories among them, and every edge that touches them."""
    named = db.statements
    memory_ids, entity_ids = plain_all(nodes.memories), plain_all(nodes.entities)

    def read(statement: str, ids: Sequence[str]) -> list[Row]:
        return _by_id(db, workspace_id, statement, ids)

    found = read(named.CHUNKS_OF_MEMORIES, memory_ids)
    found += read(named.CHUNKS_BY_ID, plain_all(nodes.chunks))
    chunks = {str(row[0]): rows.chunk_of(workspace_id, row) for row in found}
    mentions = read(named.MENTIONS_OF_CHUNKS, list(chunks))
    mentions += read(named.MENTIONS_OF_ENTITIES, entity_ids)
    relations = read(named.RELATIONS_OF_MEMORIES, memory_ids)
    relations += read(named.RELATIONS_FROM, entity_ids) + read(named.RELATIONS_TO, entity_ids)
    return [
        *(rows.memory_of(workspace_id, row) for row in read(named.MEMORIES, memory_ids)),
        *chunks.values(),
        *(rows.entity_of(workspace_id, row) for row in read(named.ENTITIES_BY_ID, entity_ids)),
        *dict.fromkeys(nouns.Mention(str(chunk), str(entity)) for chunk, entity in mentions),
        *dict.fromkeys(map(rows.relation_of, relations)),
    ]
