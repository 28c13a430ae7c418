"""Every Cypher statement of the graph store, named for its purpose.

Values are always parameters; rows are lists in the column order of `rows`. A graph holds one
workspace, and its single `Workspace` node holds the version that each write increments. Nodes are
looked up by id first and by time only after a WITH: two indexes at once are far slower than one.
OPTIONAL MATCH tests whether a node has an edge: `indegree` of a node without edges scans the matrix
to the next node that has some, which takes longer in larger graphs.
"""

from __future__ import annotations

from marksweep.search.bm25 import half_point
from marksweep.search.ranking import K1, MEAN_WORDS, NAME_WEIGHT
from marksweep.stores.graph.rows import (
    CHUNK_COLUMNS,
    ENTITY_COLUMNS,
    MEMORY_COLUMNS,
    SURVEY_COLUMNS,
)

_LABELS = {"memory": "Memory", "chunk": "Chunk", "entity": "Entity"}

_STORED_AS = {"tags": "tags_json"}
"""Tags are stored twice: as a list to filter by, and as JSON to read back exactly."""


def _of(node: str, columns: tuple[str, ...]) -> str:
    return ", ".join(f"{node}.{_STORED_AS.get(column, column)}" for column in columns)


def _set(node: str, columns: tuple[str, ...], skip: tuple[str, ...] = ()) -> str:
    """Assign the cells of row r to properties."""
    return ", ".join(
        f"{node}.{_STORED_AS.get(column, column)} = r[{place}]"
        for place, column in enumerate(columns)
        if column not in ("id", *skip)
    )


_MEMORY, _CHUNK, _ENTITY = (
    _of("m", MEMORY_COLUMNS),
    _of("c", CHUNK_COLUMNS),
    _of("e", ENTITY_COLUMNS),
)
_AS_NUMBER = {name: f"CASE WHEN m.{name} THEN 1 ELSE 0 END" for name in ("stale", "pinned")}
_SURVEY = ", ".join(
    ("id(m)", *(_AS_NUMBER.get(name, _of("m", (name,))) for name in SURVEY_COLUMNS))
)
_KEPT = ("created_at", "read_at", "pinned", "pinned_by")
_AT = {column: place for place, column in enumerate(MEMORY_COLUMNS)}
_TAG_LIST = len(MEMORY_COLUMNS)
"""Index of the list of tags in a memory's row, after its columns."""
_CHUNK_FIELDS = (*CHUNK_COLUMNS, "words", "named", "placed", "bare", "half_point")
"""The cells of a chunk's row: its columns; the search words of its text, symbol and path; the last
part of the symbol; and how many occurrences of a word give half of the word's weight."""
_SHARED = ("text", "words", "scale")
"""Fields stored once for all chunks that share them, as in identical files of several roots."""
SCALE, SCALE_WEIGHT = "_scale_", 1_000_000
"""A word that every chunk has, and its weight: more than the occurrences of any other.

The server divides a word's occurrences by those of the chunk's most common word. With this word
that is the same number for every chunk. Queries cannot contain it.
"""


def _new_chunk(cells: dict[str, str]) -> str:
    """Write the properties of a new chunk, given expressions for its fields.

    It is created with all of them: a restarted server repeats the creation and then every SET, and
    indexes the chunk each time. Until it collects the extra copies, it takes words for common.
    """
    cells |= {"scale": f"'{SCALE}'", "workspace_id": "w.workspace_id", "version": "w.version"}
    return ", ".join(
        f"{field}: {f'intern({value})' if field in _SHARED else value}"
        for field, value in cells.items()
    )


_FROM_ROW = _new_chunk({field: f"r[{place}]" for place, field in enumerate(_CHUNK_FIELDS)})
_FROM_OTHER = _new_chunk(
    {field: f"o.{field}" for field in _CHUNK_FIELDS}
    | {"id": "r[1]", "memory_id": "r[2]", "deleted_at": "null"}
)

# The graph

INDEXES = (
    *(
        f"CREATE INDEX FOR (n:{label}) ON (n.{column})"
        for label, columns in {
            "Memory": (
                "id",
                "deleted_at",
                "repository",
                "file_path",
                "created_at",
                "content_hash",
            ),
            "Chunk": ("id", "memory_id", "deleted_at", "bare"),
            "Entity": ("id", "name", "deleted_at", "bare"),
            "Run": ("id",),
        }.items()
        for column in columns
    ),
    "CREATE INDEX FOR ()-[r:RELATED_TO]-() ON (r.memory_id)",
    "CALL db.idx.fulltext.createNodeIndex({label: 'Chunk', stopwords: []},"
    " {field: 'words', nostem: true})",
    *(
        "CALL db.idx.fulltext.createNodeIndex({label: 'Chunk'},"
        f" {{field: '{name}', nostem: true, weight: {weight}}})"
        for name, weight in (("named", NAME_WEIGHT), ("placed", 1), ("scale", SCALE_WEIGHT))
    ),
)
"""None is on a boolean: such an index finds nothing after the server restarts from a file that it
had rewritten."""
_EMPTY, _ONE_WORD = (half_point(words, MEAN_WORDS, K1) for words in (0, 1))
UPGRADE = (
    "DROP FULLTEXT INDEX FOR (c:Chunk) ON (c.named)",
    f"""MATCH (c:Chunk) WHERE c.half_point IS NULL
SET c.half_point = {_EMPTY} + {_ONE_WORD - _EMPTY} * c.length, c.scale = '{SCALE}'""",
)
"""Turn the layout of 0.2.0 into this one, before the indexes are created: words in names had no
weight there, and chunks no half point."""
UNFINISHED_INDEXES = """
CALL db.indexes() YIELD status WITH status WHERE status <> 'OPERATIONAL' RETURN count(status)"""
SCHEMA = "MATCH (w:Workspace) RETURN w.schema"
SET_SCHEMA = """
MERGE (w:Workspace {id: 'workspace'})
ON CREATE SET w.version = 0 SET w.schema = $schema, w.workspace_id = $workspace_id"""
NEXT_VERSION = "MATCH (w:Workspace) SET w.version = w.version + 1 RETURN w.version"
VERSION = "MATCH (w:Workspace) RETURN w.version"
ANY_NODE = "MATCH (n) WHERE n:Memory OR n:Chunk OR n:Entity RETURN 1 LIMIT 1"
COUNTS = (
    "MATCH (n:Memory) WHERE n.deleted_at IS NULL RETURN count(n)",
    "MATCH (n:Chunk) WHERE n.deleted_at IS NULL RETURN count(n)",
    "MATCH (n:Entity) WHERE n.deleted_at IS NULL RETURN count(n)",
    "MATCH ()-[r:MENTIONS]->() RETURN count(r)",
    "MATCH ()-[r:RELATED_TO]->() RETURN count(r)",
    "MATCH (n:Memory) WHERE n.stale = true AND n.deleted_at IS NULL RETURN count(n)",
    "MATCH (n:Memory) WHERE n.pinned = true AND n.deleted_at IS NULL RETURN count(n)",
    "MATCH (n:Memory) WHERE n.deleted_at IS NOT NULL RETURN count(n)",
    "MATCH (n:Chunk) WHERE n.deleted_at IS NOT NULL RETURN count(n)",
    "MATCH (n:Entity) WHERE n.deleted_at IS NOT NULL RETURN count(n)",
)
"""In the order of `Counts`; the last three are added up."""

# Writing

PUT_MEMORIES = f"""
MATCH (w:Workspace) UNWIND $rows AS r
MERGE (m:Memory {{id: r[0]}})
ON CREATE SET {", ".join(f"m.{column} = r[{_AT[column]}]" for column in _KEPT)}
ON MATCH SET m.pinned_by = CASE WHEN r[{_AT["pinned"]}] THEN r[{_AT["pinned_by"]}]
    ELSE m.pinned_by END, m.pinned = m.pinned OR r[{_AT["pinned"]}]
SET {_set("m", MEMORY_COLUMNS, _KEPT)}, m.tags = r[{_TAG_LIST}], m.deleted_by = null,
    m.workspace_id = w.workspace_id, m.version = w.version"""
"""Write memories; existing ones keep their creation and read times and their pin."""
MENTIONED_BY = """
UNWIND $ids AS i MATCH (c:Chunk {memory_id: i})-[:MENTIONS]->(e:Entity) RETURN DISTINCT e.id"""
DROP_CHUNKS_OF = "UNWIND $ids AS i MATCH (c:Chunk {memory_id: i}) DELETE c"
DROP_RELATIONS_OF = "UNWIND $ids AS i MATCH ()-[r:RELATED_TO {memory_id: i}]->() DELETE r"
CARRY_OVER = """
UNWIND $rows AS r MATCH (old:Memory {id: r[0]}) MATCH (m:Memory {id: r[1]})
SET m.created_at = old.created_at, m.read_at = old.read_at, m.pinned = m.pinned OR old.pinned,
    m.pinned_by = CASE WHEN old.pinned THEN old.pinned_by ELSE m.pinned_by END,
    m.tags_json = CASE WHEN m.tags_json = '[]' THEN old.tags_json ELSE m.tags_json END,
    m.tags = CASE WHEN size(m.tags) = 0 THEN old.tags ELSE m.tags END"""
"""Carry over what moved files had under their old paths."""
DROP_MEMORIES = "UNWIND $ids AS i MATCH (m:Memory {id: i}) WITH m, m.id AS id DELETE m RETURN id"
PUT_CHUNKS = f"""
MATCH (w:Workspace) UNWIND $rows AS r
MATCH (m:Memory {{id: r[1]}})
CREATE (m)-[:HAS_CHUNK]->(c:Chunk {{{_FROM_ROW}}})"""
COPYABLE = """
UNWIND $ids AS i MATCH (m:Memory {id: i}) WHERE m.deleted_at IS NULL AND m.tags_json = '[]'
RETURN m.id, m.content_hash"""
"""Memories whose chunks may be copied; tags are among a chunk's words."""
CHUNK_PLACES = """
UNWIND $ids AS i MATCH (:Memory {id: i})-[:HAS_CHUNK]->(c:Chunk)
RETURN i, c.id, c.start_line, c.end_line, c.symbol ORDER BY i, c.position, c.id"""
COPY_CHUNKS = f"""
MATCH (w:Workspace) UNWIND $rows AS r MATCH (o:Chunk {{id: r[0]}}) MATCH (m:Memory {{id: r[2]}})
CREATE (m)-[:HAS_CHUNK]->(c:Chunk {{{_FROM_OTHER}}})
RETURN r[1]"""
COPY_MENTIONS = """
MATCH (w:Workspace) UNWIND $rows AS r MATCH (c:Chunk {id: r[1]}) WITH w, r, c
MATCH (o:Chunk {id: r[0]}) WITH w, c, o MATCH (o)-[:MENTIONS]->(e:Entity)
CREATE (c)-[:MENTIONS]->(e)
SET e.version = w.version, e.deleted_at = null, e.deleted_by = null"""
COPY_RELATIONS = """
UNWIND $rows AS r WITH r[0] AS source, r[1] AS made
MATCH (s)-[l:RELATED_TO {memory_id: source}]->(t)
WITH s, t, l.relation AS relation, l.lines AS lines, made
CREATE (s)-[:RELATED_TO {relation: relation, memory_id: made, lines: lines}]->(t)"""
PUT_ENTITIES = f"""
MATCH (w:Workspace) UNWIND $rows AS r
MERGE (e:Entity {{id: r[0]}})
SET {_set("e", ENTITY_COLUMNS)}, e.bare = r[{len(ENTITY_COLUMNS)}], e.deleted_by = null,
    e.workspace_id = w.workspace_id, e.version = w.version"""
CREATE_MENTIONS = """
UNWIND $rows AS r MATCH (c:Chunk {id: r[0]}) MATCH (e:Entity {id: r[1]})
CREATE (c)-[:MENTIONS]->(e)"""
MERGE_MENTIONS = """
UNWIND $rows AS r MATCH (c:Chunk {id: r[0]}) MATCH (e:Entity {id: r[1]})
MERGE (c)-[:MENTIONS]->(e)"""
CREATE_RELATIONS = """
UNWIND $rows AS r MATCH (s:Entity {id: r[0]}) MATCH (t:Entity {id: r[1]})
CREATE (s)-[:RELATED_TO {relation: r[2], memory_id: r[3], lines: r[4]}]->(t)"""
MERGE_RELATIONS = """
UNWIND $rows AS r MATCH (s:Entity {id: r[0]}) MATCH (t:Entity {id: r[1]})
MERGE (s)-[l:RELATED_TO {relation: r[2], memory_id: r[3]}]->(t) SET l.lines = r[4]"""
DROP_UNMENTIONED = """
UNWIND $ids AS i MATCH (e:Entity {id: i}) WHERE indegree(e, 'MENTIONS') = 0
WITH e, e.id AS id DELETE e RETURN id"""
PIN = """
MATCH (w:Workspace) UNWIND $ids AS i MATCH (m:Memory {id: i})
SET m.pinned = true, m.pinned_by = $by, m.version = w.version RETURN m.id"""
UNPIN = """
MATCH (w:Workspace) UNWIND $ids AS i MATCH (m:Memory {id: i})
SET m.pinned = false, m.pinned_by = '', m.version = w.version RETURN m.id"""
TOUCH = """
MATCH (w:Workspace) UNWIND $ids AS i MATCH (m:Memory {id: i})
SET m.read_at = CASE WHEN m.read_at > $at THEN m.read_at ELSE $at END, m.version = w.version
RETURN m.id"""
EXISTING_ENTITIES = "UNWIND $ids AS i MATCH (e:Entity {id: i}) RETURN e.id"
PUT_ALIASES = """
UNWIND $rows AS r MERGE (a:Alias {id: r[0]}) SET a.keep = r[1], a.name = r[2], a.type = r[3]"""
MAKE_ALIASES = """
MATCH (k:Entity {id: $keep}) UNWIND $ids AS i
MERGE (a:Alias {id: i}) SET a.keep = k.id, a.name = k.name, a.type = k.type"""
HAND_ALIASES_ON = """
MATCH (k:Entity {id: $keep}) MATCH (a:Alias) WHERE a.keep IN $ids
SET a.keep = k.id, a.name = k.name, a.type = k.type"""
"""Point the aliases of entities to the one they were merged into."""
ALIASES = "MATCH (a:Alias) RETURN a.id, a.keep, a.name, a.type ORDER BY a.id"
DROP_ALIASES = """
MATCH (a:Alias) WHERE a.keep IN $ids
OPTIONAL MATCH (k:Entity {id: a.keep}) WITH a, k WHERE k IS NULL DELETE a"""
"""Delete the aliases of deleted entities."""
_UNSETTLED = """
MATCH (a:Alias) WITH a.id AS i, a.keep AS keep, a.name AS name, a.type AS type,
    last(split(a.name, CASE WHEN a.type = 'path' OR a.name CONTAINS '/' THEN '/' ELSE '.' END))
    AS bare
MATCH (g:Entity {id: i})"""
"""Entities that exist although they were merged into another."""
_KEEPER = f"{_UNSETTLED} WITH g, keep MATCH (k:Entity {{id: keep}})"
SETTLE = (
    f"""{_UNSETTLED} WITH keep, name, type, bare MATCH (w:Workspace)
MERGE (k:Entity {{id: keep}})
SET k.name = name, k.type = type, k.bare = bare, k.deleted_at = null, k.deleted_by = null,
    k.workspace_id = w.workspace_id, k.version = w.version""",
    f"{_KEEPER} MATCH (c:Chunk)-[:MENTIONS]->(g) MERGE (c)-[:MENTIONS]->(k)",
    f"""{_KEEPER} MATCH (g)-[r:RELATED_TO]->(t:Entity) WHERE t.id <> keep AND t.id <> g.id
MERGE (k)-[l:RELATED_TO {{relation: r.relation, memory_id: r.memory_id}}]->(t)
SET l.lines = coalesce(l.lines, r.lines)""",
    f"""{_KEEPER} MATCH (s:Entity)-[r:RELATED_TO]->(g) WHERE s.id <> keep AND s.id <> g.id
MERGE (s)-[l:RELATED_TO {{relation: r.relation, memory_id: r.memory_id}}]->(k)
SET l.lines = coalesce(l.lines, r.lines)""",
    f"""{_KEEPER} MATCH (g)-[r:RELATED_TO]->(g)
MERGE (k)-[l:RELATED_TO {{relation: r.relation, memory_id: r.memory_id}}]->(k)
SET l.lines = coalesce(l.lines, r.lines)""",
    f"{_UNSETTLED} DELETE g",
)
"""Move the edges of entities written under an alias to the entity that the alias names."""

# Fetching

MEMORIES = f"UNWIND $ids AS i MATCH (m:Memory {{id: i}}) RETURN {_MEMORY}"
NOTES = f"""
MATCH (m:Memory {{content_hash: $content_hash}}) WHERE m.source = $source
RETURN {_MEMORY} ORDER BY m.created_at, m.id"""
CHUNKS_BY_ID = f"UNWIND $ids AS i MATCH (c:Chunk {{id: i}}) RETURN {_CHUNK}"
CHUNKS_OF_MEMORIES = (
    f"UNWIND $ids AS i MATCH (:Memory {{id: i}})-[:HAS_CHUNK]->(c:Chunk) RETURN {_CHUNK}"
)
ENTITIES_BY_ID = f"UNWIND $ids AS i MATCH (e:Entity {{id: i}}) RETURN {_ENTITY}"
LIVE_ENTITIES = f"MATCH (e:Entity) WHERE e.deleted_at IS NULL RETURN {_ENTITY} ORDER BY e.id"
ENTITIES_OF_MEMORIES = f"""
UNWIND $ids AS i MATCH (:Memory {{id: i}})-[:HAS_CHUNK]->(c:Chunk)-[:MENTIONS]->(e:Entity)
RETURN c.id, {_ENTITY} ORDER BY c.id, e.id"""
RELATIONS_OF_MEMORIES = """
UNWIND $ids AS i MATCH (s)-[r:RELATED_TO {memory_id: i}]->(t)
RETURN s.id, t.id, r.relation, r.memory_id, r.lines ORDER BY r.memory_id, s.id, t.id, r.relation"""
ENTITIES_BY_LAST_PART = "UNWIND $ids AS i MATCH (e:Entity {bare: i}) RETURN e.id, e.name, e.bare"
_SAID_BY = """
WITH s, t, r MATCH (m:Memory {id: r.memory_id}) WHERE m.stale = false AND m.deleted_at IS NULL
RETURN s.name, t.name, r.relation, m.relative_path, m.repository, r.lines
ORDER BY m.repository, m.relative_path, r.lines, s.name, t.name LIMIT $limit"""
LINKS_TO = f"""
UNWIND $ids AS i MATCH (t:Entity {{id: i}})
WITH t MATCH (s:Entity)-[r:RELATED_TO]->(t) WHERE r.relation = $relation {_SAID_BY}"""
LINKS_FROM = f"""
UNWIND $ids AS i MATCH (s:Entity {{id: i}})
WITH s MATCH (s)-[r:RELATED_TO]->(t:Entity) WHERE r.relation = $relation {_SAID_BY}"""
DEFINITIONS = """
UNWIND $ids AS i MATCH (c:Chunk {bare: i}) WITH c WHERE c.deleted_at IS NULL
MATCH (m:Memory)-[:HAS_CHUNK]->(c) WHERE m.stale = false AND m.deleted_at IS NULL
WITH m, c.symbol AS symbol, min(c.start_line) AS line, min(c.kind) AS kind
RETURN symbol, kind, m.relative_path, m.repository, line
ORDER BY m.repository, m.relative_path, line, symbol"""
SUPERSEDE = """
MATCH (w:Workspace) UNWIND $ids AS i MATCH (m:Memory {id: i})
WHERE m.id <> $by AND m.superseded_at IS NULL
SET m.superseded_by = $by, m.superseded_at = $at, m.version = w.version RETURN m.id"""
CHUNK_COUNT = "MATCH (c:Chunk) RETURN count(c)"
COUNT_MATCHES = """
UNWIND $matches AS match CALL db.idx.fulltext.queryNodes('Chunk', match) YIELD node, score
RETURN match, count(node), min(score)"""

# Runs

FILES = f"""
MATCH (m:Memory {{repository: $repository}}) WHERE m.source = $source
RETURN {_SURVEY} ORDER BY m.relative_path"""
FILE_AT = """
MATCH (m:Memory {file_path: $path}) WHERE m.source = $source AND m.deleted_at IS NULL
RETURN m.id ORDER BY m.last_seen_at DESC, m.id LIMIT 1"""
BEGIN_RUN = """
MERGE (r:Run {id: $id}) SET r.repository = $repository, r.filter = $filter,
    r.started_at = $started_at, r.finished_at = null, r.seen = 0, r.stale = 0"""
STAMP = """
MATCH (w:Workspace) UNWIND $rows AS r MATCH (m:Memory {id: r[0]})
SET m.version = CASE WHEN m.stale OR m.deleted_at IS NOT NULL THEN w.version ELSE m.version END,
    m.run = $run, m.last_seen_at = $at, m.size = r[1], m.mtime_ns = r[2], m.stale = false,
    m.file_path = CASE WHEN r[3] = '' THEN m.file_path ELSE r[3] END,
    m.deleted_at = null, m.deleted_by = null"""
_RUN = "r.id, r.repository, r.filter, r.started_at, r.finished_at, r.seen, r.stale"
RUN = f"MATCH (r:Run {{id: $id}}) RETURN {_RUN}"
FINISH_STALE = """
MATCH (w:Workspace) UNWIND $ids AS i MATCH (m:Memory {id: i})
WHERE m.repository = $repository AND m.source = $source AND m.run <> $run AND m.stale = false
    AND m.deleted_at IS NULL
SET m.stale = true, m.version = w.version RETURN count(m)"""
END_RUN = """
MATCH (r:Run {id: $id})
OPTIONAL MATCH (m:Memory {repository: r.repository}) WHERE m.run = $id
WITH r, count(m) AS seen SET r.seen = seen, r.finished_at = $at"""
COUNT_STALE = "MATCH (r:Run {id: $id}) SET r.stale = $stale"
MARK_STALE = """
MATCH (w:Workspace) UNWIND $ids AS i MATCH (m:Memory {id: i})
WHERE m.source = $source AND m.stale = false AND m.deleted_at IS NULL
SET m.stale = true, m.version = w.version RETURN m.id"""
RUNS = f"""
MATCH (r:Run) WHERE $repository IS NULL OR r.repository = $repository
RETURN {_RUN} ORDER BY r.started_at DESC, r.id DESC"""

# Collection

SURVEY_MEMORIES = f"MATCH (m:Memory) RETURN {_SURVEY}"
SURVEY_CHUNKS = "MATCH (c:Chunk) RETURN collect(id(c))"
SURVEY_OWNERS = "MATCH (m:Memory)-[:HAS_CHUNK]->(c) RETURN collect(id(c)), collect(id(m))"
SURVEY_DELETED_CHUNKS = "MATCH (c:Chunk) WHERE c.deleted_at > 0 RETURN collect(id(c))"
SURVEY_ENTITIES = "MATCH (e:Entity) RETURN collect(id(e))"
SURVEY_DELETED_ENTITIES = "MATCH (e:Entity) WHERE e.deleted_at > 0 RETURN collect(id(e))"
SURVEY_MENTIONS = "MATCH (c)-[:MENTIONS]->(e:Entity) RETURN collect(id(c)), collect(id(e))"
IDS = {
    kind: f"UNWIND $keys AS k MATCH (n:{label}) WHERE id(n) = k RETURN k, n.id"
    for kind, label in _LABELS.items()
}
_HIDE = "SET n.deleted_at = $at, n.deleted_by = $plan_id, n.version = w.version"
_UNCHANGED = "n.deleted_at IS NULL AND n.version <= $seen"
HIDE = {
    "memory": f"""
MATCH (w:Workspace) UNWIND $ids AS i MATCH (n:Memory {{id: i}})
WHERE {_UNCHANGED} AND n.pinned = false {_HIDE}""",
    "chunk": f"""
MATCH (w:Workspace) UNWIND $ids AS i MATCH (n:Chunk {{id: i}}) WHERE {_UNCHANGED}
OPTIONAL MATCH (n)<-[:HAS_CHUNK]-(m:Memory)
WITH w, n, m WHERE m IS NULL OR m.deleted_at IS NOT NULL {_HIDE}""",
    "entity": f"""
MATCH (w:Workspace) UNWIND $ids AS i MATCH (n:Entity {{id: i}}) WHERE {_UNCHANGED}
OPTIONAL MATCH (n)<-[:MENTIONS]-(c:Chunk)<-[held:HAS_CHUNK]-(:Memory) WHERE c.deleted_at IS NULL
WITH w, n, count(held) AS holders WHERE holders = 0 {_HIDE}""",
}
"""Hide nodes that have not changed and are neither pinned nor held by something live."""
HIDDEN_BY = {
    kind: f"UNWIND $ids AS i MATCH (n:{label} {{id: i}}) WHERE n.deleted_by = $plan_id RETURN i"
    for kind, label in _LABELS.items()
}
"""What a plan has hidden, now or before an interruption: repeating it gives the same result."""
_SHOW = "SET n.deleted_at = null, n.deleted_by = null, n.version = w.version RETURN n.id"
SHOW_ENTITIES_OF_MEMORIES = f"""
MATCH (w:Workspace) UNWIND $ids AS i MATCH (m:Memory {{id: i}}) WITH w, m WHERE m.deleted_at > 0
MATCH (m)-[:HAS_CHUNK]->(:Chunk)-[:MENTIONS]->(n:Entity) WHERE n.deleted_at > 0
WITH DISTINCT w, n {_SHOW}"""
SHOW_CHUNKS_OF_MEMORIES = f"""
MATCH (w:Workspace) UNWIND $ids AS i MATCH (m:Memory {{id: i}}) WITH w, m WHERE m.deleted_at > 0
MATCH (m)-[:HAS_CHUNK]->(n:Chunk) WHERE n.deleted_at > 0 {_SHOW}"""
_SHOW_ENTITIES_OF_CHUNKS = f"""
MATCH (w:Workspace) UNWIND $ids AS i MATCH (c:Chunk {{id: i}})
WITH w, c MATCH (c)-[:MENTIONS]->(n:Entity) WHERE n.deleted_at > 0
WITH DISTINCT w, n {_SHOW}"""
_SHOW_NODES = {
    kind: f"""
MATCH (w:Workspace) UNWIND $ids AS i MATCH (n:{label} {{id: i}})
WITH w, n WHERE n.deleted_at > 0 {_SHOW}"""
    for kind, label in _LABELS.items()
}
SHOW = {
    "memory": (
        ("entity", SHOW_ENTITIES_OF_MEMORIES),
        ("chunk", SHOW_CHUNKS_OF_MEMORIES),
        ("memory", _SHOW_NODES["memory"]),
    ),
    "chunk": (("entity", _SHOW_ENTITIES_OF_CHUNKS), ("chunk", _SHOW_NODES["chunk"])),
    "entity": (("entity", _SHOW_NODES["entity"]),),
}
"""Make nodes visible again, after what they hold; the kind that each statement shows."""
DELETED = {
    kind: f"""
MATCH (n:{label}) WHERE n.deleted_at > 0
    AND ($before IS NULL OR n.deleted_at < $before)
    AND ($plan_id IS NULL OR n.deleted_by = $plan_id)
RETURN n.id, n.deleted_at, n.deleted_by ORDER BY n.id"""
    for kind, label in _LABELS.items()
}
PURGE_RELATIONS_OF = """
UNWIND $ids AS i MATCH (m:Memory {id: i}) WITH i, m WHERE m.deleted_at < $before
WITH i MATCH ()-[r:RELATED_TO {memory_id: i}]->() DELETE r"""
PURGE_MEMORIES = """
UNWIND $ids AS i MATCH (m:Memory {id: i}) WITH i, m WHERE m.deleted_at < $before
OPTIONAL MATCH (m)-[:HAS_CHUNK]->(c:Chunk) WITH i, m, c, c.id AS chunk DELETE c, m
RETURN i, chunk"""
"""Memories and chunks in one statement: a deletion takes time proportional to the graph's size."""
PURGE_ORPHANS = """
UNWIND $ids AS i MATCH (c:Chunk {id: i}) WITH i, c WHERE c.deleted_at < $before
OPTIONAL MATCH (c)<-[held:HAS_CHUNK]-(:Memory)
WITH i, c, held WHERE held IS NULL DELETE c RETURN i"""
PURGE_ENTITIES = """
UNWIND $ids AS i MATCH (e:Entity {id: i}) WITH i, e WHERE e.deleted_at < $before
OPTIONAL MATCH (e)<-[:MENTIONS]-(:Chunk)<-[held:HAS_CHUNK]-(:Memory)
WITH i, e, count(held) AS holders WHERE holders = 0 DELETE e RETURN i"""

# Search

_VISIBLE = """
WHERE c.deleted_at IS NULL AND m.deleted_at IS NULL AND m.stale = false
    AND ($repository IS NULL OR m.repository = $repository)
    AND ($path IS NULL OR m.relative_path = $path OR m.relative_path STARTS WITH ($path + '/'))
    AND (CASE WHEN $as_of IS NULL THEN m.superseded_at IS NULL ELSE m.created_at <= $as_of
        AND (m.superseded_at IS NULL OR m.superseded_at > $as_of) END)
    AND ($at IS NULL OR m.expires_at IS NULL OR m.expires_at > $at)
    AND ($since IS NULL OR m.created_at >= $since) AND ($until IS NULL OR m.created_at < $until)
    AND (size($sources) = 0 OR m.source IN $sources)
    AND (size($languages) = 0 OR m.language IN $languages)
    AND (size($tags) = 0 OR all(tag IN $tags WHERE tag IN m.tags))"""
BEST_MATCHES = f"""
UNWIND $words AS w WITH w[0] AS match, w[1] AS weight
CALL db.idx.fulltext.queryNodes('Chunk', match) YIELD node, score AS times
WITH node AS c, sum(weight * times / (times + node.half_point)) AS worth
WITH c, worth ORDER BY c.bare IN $names OR c.symbol IN $names DESC, worth DESC, c.memory_id
    SKIP $skip LIMIT $window
MATCH (m)-[:HAS_CHUNK]->(c) {_VISIBLE}
RETURN c.id, m.id, c.position, m.relative_path, c.symbol, c.words, c.named, c.placed, worth"""
"""Score the chunks that have some of the words, and fetch what may be shown of the best.

That is BM25. What a name of the query defines comes first.
"""
HITS = f"""
UNWIND $ids AS i MATCH (c:Chunk {{id: i}})
WITH c WHERE c.deleted_at IS NULL
MATCH (m)-[:HAS_CHUNK]->(c) WHERE m.deleted_at IS NULL AND m.stale = false
RETURN {_MEMORY}, {_CHUNK}"""
"""Fetch the best matches, except those hidden since they were found.

Chunks are matched before their memories: matching both at once, the server scans all memories.
"""
ENTITIES_OF_HITS = f"""
UNWIND $ids AS i MATCH (c:Chunk {{id: i}})
WITH c MATCH (c)-[:MENTIONS]->(e) WHERE e.deleted_at IS NULL
RETURN c.id, {_ENTITY} ORDER BY c.id, e.id"""
NEWEST = f"""
MATCH (m:Memory)-[:HAS_CHUNK]->(c:Chunk) {_VISIBLE}
RETURN c.id ORDER BY m.created_at DESC, m.id, c.position LIMIT $limit"""

# Export and import

PAGES = {
    "memory": f"MATCH (m:Memory) WHERE m.id > $after RETURN {_MEMORY} ORDER BY m.id LIMIT $limit",
    "chunk": f"MATCH (c:Chunk) WHERE c.id > $after RETURN {_CHUNK} ORDER BY c.id LIMIT $limit",
    "entity": f"MATCH (e:Entity) WHERE e.id > $after RETURN {_ENTITY} ORDER BY e.id LIMIT $limit",
}
MENTIONS_OF_CHUNKS = """
UNWIND $ids AS i MATCH (c:Chunk {id: i})-[:MENTIONS]->(e:Entity) RETURN c.id, e.id"""
MENTIONS_OF_ENTITIES = """
UNWIND $ids AS i MATCH (c:Chunk)-[:MENTIONS]->(e:Entity {id: i}) RETURN c.id, e.id"""
RELATIONS_FROM = """
UNWIND $ids AS i MATCH (s:Entity {id: i})-[r:RELATED_TO]->(t:Entity)
RETURN s.id, t.id, r.relation, r.memory_id, r.lines"""
RELATIONS_TO = """
UNWIND $ids AS i MATCH (s:Entity)-[r:RELATED_TO]->(t:Entity {id: i})
RETURN s.id, t.id, r.relation, r.memory_id, r.lines"""
LOAD_KNOWN_CHUNKS = f"""
MATCH (w:Workspace) UNWIND $rows AS r MATCH (c:Chunk {{id: r[0]}})
SET c.deleted_at = r[{CHUNK_COLUMNS.index("deleted_at")}], c.deleted_by = null,
    c.version = w.version"""
"""Give existing chunks the state in which they are loaded; their texts stay."""
LOAD_CHUNKS = f"""
MATCH (w:Workspace) UNWIND $rows AS r
OPTIONAL MATCH (known:Chunk {{id: r[0]}}) WITH w, r, known WHERE known IS NULL
CREATE (c:Chunk {{{_FROM_ROW}}})"""
"""Write chunks unchanged; existing ones are not overwritten."""
ADOPT_CHUNKS = """
UNWIND $ids AS i MATCH (m:Memory {id: i}) MATCH (c:Chunk {memory_id: i})
WHERE indegree(c, 'HAS_CHUNK') = 0 CREATE (m)-[:HAS_CHUNK]->(c)"""
"""Attach chunks to the memories they name."""
