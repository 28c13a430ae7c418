"""Write and erase memories; indexing runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from marksweep.errors import NotFound
from marksweep.search.bm25 import half_point
from marksweep.search.ranking import K1, MEAN_WORDS
from marksweep.stores.codec import microseconds
from marksweep.stores.graph import nouns, rows
from marksweep.stores.graph.base import Copy, Nodes, Run, Seen, checked
from marksweep.stores.graph.falkor import statements as cypher
from marksweep.stores.graph.falkor.connection import Connection, Step
from marksweep.stores.graph.nouns import Memory, Record
from marksweep.stores.graph.rows import Cell, Row, bare, plain

SETTLING: tuple[Step, ...] = tuple((statement, {}) for statement in cypher.SETTLE)
"""Statements that move what was written under an alias to its entity; they need no parameters."""


def put(db: Connection, workspace_id: str, records: Sequence[Record]) -> None:
    """Write records, each replacing what its memory had."""
    records = checked(workspace_id, records)
    memory_ids = [plain(record.memory.memory_id) for record in records]
    moved = [
        [plain(record.moved_from), plain(record.memory.memory_id)]
        for record in records
        if record.moved_from and record.moved_from != record.memory.memory_id
    ]
    replaced = [*memory_ids, *(old for old, _ in moved)]
    let_go = db.read(workspace_id, cypher.MENTIONED_BY, ids=replaced)
    entities = {entity.entity_id: entity for record in records for entity in record.entities}
    steps: list[Step] = [
        (cypher.DROP_CHUNKS_OF, {"ids": replaced}),
        (cypher.DROP_RELATIONS_OF, {"ids": replaced}),
        (cypher.PUT_MEMORIES, {"rows": [memory_cells(record.memory) for record in records]}),
        *(_superseding(record) for record in records),
        (cypher.CARRY_OVER, {"rows": moved}),
        (cypher.DROP_MEMORIES, {"ids": [old for old, _ in moved]}),
        (
            cypher.PUT_CHUNKS,
            {"rows": [chunk_cells(c, r.memory, w) for r in records for c, w in r.found_by()]},
        ),
        (cypher.PUT_ENTITIES, {"rows": [entity_cells(entity) for entity in entities.values()]}),
        (cypher.CREATE_MENTIONS, {"rows": mention_cells(m for r in records for m in r.mentions)}),
        (
            cypher.CREATE_RELATIONS,
            {"rows": relation_cells(link for r in records for link in r.relations)},
        ),
    ]
    drop: Step = (cypher.DROP_UNMENTIONED, {"ids": [row[0] for row in let_go]})
    db.write(workspace_id, *worthwhile(steps), *SETTLING, *worthwhile([drop]))


def _superseding(record: Record) -> Step:
    """Return the step that ends the validity of the notes that a record replaces."""
    by, at = plain(record.memory.memory_id), microseconds(record.memory.created_at)
    return cypher.SUPERSEDE, {"ids": [plain(e) for e in record.replaces], "by": by, "at": at}


def copy(db: Connection, workspace_id: str, copies: Sequence[Copy]) -> tuple[str, ...]:
    """Write memories with the chunks of others; the server stores equal texts once."""
    sources = {"ids": sorted({plain(each.source) for each in copies})}
    known, chunks = db.read_all(workspace_id, (cypher.COPYABLE, cypher.CHUNK_PLACES), sources)
    hashes = {str(name): content_hash for name, content_hash in known}
    chunks_of: defaultdict[str, list[Row]] = defaultdict(list)
    for source, *chunk in chunks:
        chunks_of[str(source)].append(tuple(chunk))
    copied: dict[str, list[list[str]]] = {}
    wanted = [
        (plain(each.source), each.memory)
        for each in copies
        if hashes.get(plain(each.source)) == each.memory.content_hash
    ]
    for source, memory in wanted:
        found = chunks_of[source]
        places = ((int(a or 0), int(b or 0), str(c)) for _, a, b, c in found)
        names = nouns.chunk_ids(memory.memory_id, places)
        memory_id = plain(memory.memory_id)
        copied[memory_id] = [[str(r[0]), n, memory_id] for r, n in zip(found, names, strict=True)]
    pairs = {"rows": [pair for one in copied.values() for pair in one]}
    let_go = db.read(workspace_id, cypher.MENTIONED_BY, ids=list(copied))
    steps: list[Step] = [
        (cypher.DROP_CHUNKS_OF, {"ids": list(copied)}),
        (cypher.DROP_RELATIONS_OF, {"ids": list(copied)}),
        (cypher.PUT_MEMORIES, {"rows": [memory_cells(memory) for _, memory in wanted]}),
        (cypher.COPY_CHUNKS, pairs),
        (cypher.COPY_MENTIONS, pairs),
        (
            cypher.COPY_RELATIONS,
            {"rows": [[source, plain(memory.memory_id)] for source, memory in wanted]},
        ),
        (cypher.DROP_UNMENTIONED, {"ids": [row[0] for row in let_go]}),
    ]
    made = db.write(workspace_id, *steps)[3] if wanted else []
    there = {str(row[0]) for row in made}
    lost = [each for each, one in copied.items() if not {name for _, name, _ in one} <= there]
    if lost:  # the source was erased between reading and writing
        remove(db, workspace_id, lost)
    return tuple(each for each in copied if each not in lost)


def worthwhile(steps: Iterable[Step]) -> list[Step]:
    """Drop statements that have no input."""
    return [step for step in steps if step[1].get("rows") or step[1].get("ids")]


def memory_cells(memory: Memory) -> list[object]:
    """Convert a memory to its columns, followed by the list of its tags."""
    return [*rows.memory_row(memory), [plain(tag) for tag in memory.tags]]


def chunk_cells(chunk: nouns.Chunk, memory: Memory | None, words: str = "") -> list[object]:
    """Convert a chunk to its columns, followed by its search words."""
    found = rows.fields_of(memory, chunk, words=words)
    half = half_point(found.length, MEAN_WORDS, K1)
    return [*rows.chunk_row(chunk), *found, bare(chunk.symbol), half]


def entity_cells(entity: nouns.Entity) -> list[object]:
    """Convert an entity to its columns, followed by the last part of its name."""
    return [*rows.entity_row(entity), bare(entity.name, entity.kind)]


def mention_cells(mentions: Iterable[nouns.Mention]) -> list[list[str]]:
    """Convert mentions to rows, without duplicates."""
    return [[plain(m.chunk_id), plain(m.entity_id)] for m in dict.fromkeys(mentions)]


def relation_cells(relations: Iterable[nouns.Relation]) -> list[Row]:
    """Convert relations to rows, without duplicates."""
    return [rows.relation_row(r) for r in dict.fromkeys(relations)]


def alias_cells(aliases: Iterable[nouns.Alias]) -> list[list[str]]:
    """Convert aliases to rows."""
    return [[plain(a.entity_id), plain(a.keep_id), plain(a.name), a.kind] for a in aliases]


def remove(db: Connection, workspace_id: str, memory_ids: Sequence[str]) -> Nodes:
    """Erase memories immediately, with what only they hold."""
    ids = [plain(each) for each in memory_ids]
    chunks = db.read(workspace_id, cypher.CHUNKS_OF_MEMORIES, ids=ids)
    let_go = db.read(workspace_id, cypher.MENTIONED_BY, ids=ids)
    mentioned = {"ids": [row[0] for row in let_go]}
    _, _, memories, entities, _ = db.write(
        workspace_id,
        (cypher.DROP_CHUNKS_OF, {"ids": ids}),
        (cypher.DROP_RELATIONS_OF, {"ids": ids}),
        (cypher.DROP_MEMORIES, {"ids": ids}),
        (cypher.DROP_UNMENTIONED, mentioned),
        (cypher.DROP_ALIASES, mentioned),
    )
    return Nodes(*(tuple(str(row[0]) for row in each) for each in (memories, chunks, entities)))


def merge(db: Connection, workspace_id: str, keep: str, gone: Sequence[str]) -> int:
    """Make entities aliases of another, and move their edges to it."""
    known = db.read(
        workspace_id, cypher.EXISTING_ENTITIES, ids=[plain(each) for each in (keep, *gone)]
    )
    found = {str(row[0]) for row in known}
    ids = sorted(found - {plain(keep)})
    if plain(keep) not in found or not ids:
        return 0
    given = {"keep": plain(keep), "ids": ids}
    db.write(
        workspace_id,
        (cypher.MAKE_ALIASES, given),
        (cypher.HAND_ALIASES_ON, given),
        *SETTLING,
    )
    return len(ids)


def _mark(
    db: Connection, workspace_id: str, memory_ids: Sequence[str], statement: str, **given: Cell
) -> int:
    """Set one property of memories; return how many exist."""
    ids = sorted({plain(each) for each in memory_ids})
    (marked,) = db.write(workspace_id, (statement, {"ids": ids, **given}))
    return len(marked)


def pin(db: Connection, workspace_id: str, memory_ids: Sequence[str], by: str) -> int:
    """Pin memories."""
    return _mark(db, workspace_id, memory_ids, cypher.PIN, by=plain(by))


def unpin(db: Connection, workspace_id: str, memory_ids: Sequence[str]) -> int:
    """Remove pins."""
    return _mark(db, workspace_id, memory_ids, cypher.UNPIN)


def touch(db: Connection, workspace_id: str, memory_ids: Sequence[str], at: datetime) -> int:
    """Record that memories were read."""
    return _mark(db, workspace_id, memory_ids, cypher.TOUCH, at=microseconds(at))


def mark_stale(db: Connection, workspace_id: str, memory_ids: Sequence[str]) -> int:
    """Mark code memories stale."""
    return _mark(db, workspace_id, memory_ids, cypher.MARK_STALE, source=nouns.CODE_INDEXER)


def begin_run(db: Connection, workspace_id: str, run: Run) -> None:
    """Record that a run has begun."""
    given = {
        "id": run.run_id,
        "repository": plain(run.repository),
        "filter": plain(run.filter),
        "started_at": microseconds(run.started_at),
    }
    db.write(workspace_id, (cypher.BEGIN_RUN, given))


def stamp(
    db: Connection, workspace_id: str, run_id: str, seen: Sequence[Seen], at: datetime
) -> None:
    """Mark unchanged files as seen; restore soft-deleted ones with what they hold."""
    ids = [plain(each.memory_id) for each in seen]
    stamped = [
        [plain(each.memory_id), each.size, each.mtime_ns, plain(each.file_path)] for each in seen
    ]
    db.write(
        workspace_id,
        (cypher.SHOW_ENTITIES_OF_MEMORIES, {"ids": ids}),
        (cypher.SHOW_CHUNKS_OF_MEMORIES, {"ids": ids}),
        (cypher.STAMP, {"rows": stamped, "run": run_id, "at": microseconds(at)}),
    )


def finish_run(
    db: Connection, workspace_id: str, run_id: str, scope: Sequence[str], at: datetime
) -> Run:
    """Mark stale what the run should have seen but did not, and close it."""
    run = _run(db, workspace_id, run_id)
    ids = [plain(each) for each in scope]
    given = {"ids": ids, "repository": run.repository, "source": nouns.CODE_INDEXER, "run": run_id}
    stale, _ = db.write(
        workspace_id,
        (cypher.FINISH_STALE, given),
        (cypher.END_RUN, {"id": run_id, "at": microseconds(at)}),
    )
    count = int(stale[0][0] or 0) if stale else 0
    db.write(workspace_id, (cypher.COUNT_STALE, {"id": run_id, "stale": count}))
    return _run(db, workspace_id, run_id)


def _run(db: Connection, workspace_id: str, run_id: str) -> Run:
    found = db.read(workspace_id, cypher.RUN, id=run_id)
    if not found:
        raise NotFound(f"no run {run_id!r} in workspace {workspace_id!r}; begin it first.")
    return rows.run_of(found[0])
