"""Every SQL statement of the graph store, named for its purpose.

Rows belong to a workspace by its number `ws`. `ids` and `keys` are JSON lists, of any length. A
chunk is live when neither it nor its memory is soft-deleted; a chunk without a memory keeps nothing
alive.
"""

# ruff: noqa: S608  statements are built from constants; every value is a parameter

from __future__ import annotations

from marksweep.stores.graph.rows import (
    CHUNK_COLUMNS,
    ENTITY_COLUMNS,
    MEMORY_COLUMNS,
    SURVEY_COLUMNS,
)


def _of(table: str, columns: tuple[str, ...]) -> str:
    return ", ".join(f"{table}.{column}" for column in columns)


_MEMORY = _of("m", MEMORY_COLUMNS)
_ENTITY = _of("e", ENTITY_COLUMNS)
_SURVEY = ", ".join(("key", *SURVEY_COLUMNS))
_CHUNK = ", ".join(
    {"memory_id": "coalesce(m.id, c.orphan_of)", "text": "t.text"}.get(column, f"c.{column}")
    for column in CHUNK_COLUMNS
)
_CHUNKS = (
    f"SELECT {_CHUNK} FROM chunk c JOIN chunk_text t ON t.key = c.text_key"
    " LEFT JOIN memory m ON m.key = c.memory_key"
)
_PICKED = "(SELECT value FROM json_each(:ids))"
_KEYED = "(SELECT value FROM json_each(:keys))"
_CHUNKS_KEYED = "json_each(:keys) k CROSS JOIN chunk c ON c.key = k.value"

# The workspace

WORKSPACE = "SELECT ws, version FROM workspace WHERE workspace_id = ?"
NEW_WORKSPACE = "INSERT INTO workspace (workspace_id) VALUES (?) ON CONFLICT DO NOTHING"
NEXT_VERSION = """
UPDATE workspace SET version = version + 1 WHERE workspace_id = ? RETURNING ws, version"""
WORKSPACES = """
SELECT workspace_id FROM workspace w
WHERE EXISTS (SELECT 1 FROM memory WHERE ws = w.ws) OR EXISTS (SELECT 1 FROM chunk WHERE ws = w.ws)
    OR EXISTS (SELECT 1 FROM entity WHERE ws = w.ws)
ORDER BY workspace_id"""
COUNTS = """
SELECT (SELECT count(*) FROM memory WHERE ws = :ws AND deleted_at IS NULL),
    (SELECT count(*) FROM chunk WHERE ws = :ws AND deleted_at IS NULL),
    (SELECT count(*) FROM entity WHERE ws = :ws AND deleted_at IS NULL),
    (SELECT count(*) FROM mention WHERE ws = :ws), (SELECT count(*) FROM relation WHERE ws = :ws),
    (SELECT count(*) FROM memory WHERE ws = :ws AND stale = 1 AND deleted_at IS NULL),
    (SELECT count(*) FROM memory WHERE ws = :ws AND pinned = 1 AND deleted_at IS NULL),
    (SELECT count(*) FROM memory WHERE ws = :ws AND deleted_at IS NOT NULL)
    + (SELECT count(*) FROM chunk WHERE ws = :ws AND deleted_at IS NOT NULL)
    + (SELECT count(*) FROM entity WHERE ws = :ws AND deleted_at IS NOT NULL)"""

# Writing

_KEPT = ("id", "created_at", "read_at", "pinned", "pinned_by")
PUT_MEMORY = f"""
INSERT INTO memory (ws, version, {", ".join(MEMORY_COLUMNS)})
VALUES (?, ?{", ?" * len(MEMORY_COLUMNS)})
ON CONFLICT (ws, id) DO UPDATE SET version = excluded.version, deleted_by = '',
    {", ".join(f"{name} = excluded.{name}" for name in MEMORY_COLUMNS if name not in _KEPT)},
    pinned = max(pinned, excluded.pinned),
    pinned_by = CASE WHEN excluded.pinned THEN excluded.pinned_by ELSE pinned_by END
RETURNING key"""
"""Write a memory; an existing one keeps its creation and read times and its pin."""
CARRY_OVER = """
UPDATE memory SET created_at = old.created_at, read_at = old.read_at,
    pinned = max(memory.pinned, old.pinned),
    pinned_by = CASE WHEN old.pinned THEN old.pinned_by ELSE memory.pinned_by END,
    tags = CASE WHEN memory.tags = '[]' THEN old.tags ELSE memory.tags END
FROM (SELECT * FROM memory WHERE ws = :ws AND id = :old) AS old
WHERE memory.ws = :ws AND memory.id = :new"""
"""Carry over what a moved file had under its old path."""
LAST_CHUNK = "SELECT coalesce(max(key), 0) FROM chunk"
PUT_CHUNK = """
INSERT INTO chunk (key, ws, version, memory_key, orphan_of, id, kind, symbol, start_line, end_line,
    position, deleted_at, bare, text_key)
VALUES (?1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?1)"""
PUT_CHUNK_TEXT = """
INSERT INTO chunk_text (key, text, words, named, placed) VALUES (?, ?, ?, ?, ?)"""
PUT_CHUNK_WORDS = """
INSERT INTO chunk_words (rowid, words, named, placed)
SELECT key, words, named, placed FROM chunk_text WHERE key > ?"""
PUT_LENGTH = "INSERT INTO text_length (key, length) VALUES (?, ?)"
COUNT_CHUNKS = "UPDATE workspace SET chunks = chunks + :more WHERE ws = :ws"
CHUNK_COUNT = "SELECT chunks FROM workspace WHERE ws = ?"
PUT_ENTITY = """
INSERT INTO entity (ws, version, id, name, type, deleted_at, bare) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (ws, id) DO UPDATE
SET version = excluded.version, deleted_at = excluded.deleted_at, deleted_by = ''"""
PUT_MENTION = "INSERT OR IGNORE INTO mention (ws, chunk_key, entity_key) VALUES (?, ?, ?)"
PUT_RELATION = """
INSERT OR IGNORE INTO relation (ws, source_key, target_key, relation, memory_id, lines)
VALUES (?, ?, ?, ?, ?, ?)"""
COPYABLE = f"""
SELECT id, key, content_hash FROM memory
WHERE ws = :ws AND deleted_at IS NULL AND tags = '[]' AND id IN {_PICKED}"""
"""Memories whose chunks may be copied; tags are among a chunk's words."""
CHUNK_PLACES = """
SELECT key, start_line, end_line, symbol FROM chunk
WHERE ws = :ws AND memory_key = :memory ORDER BY position, id"""
COPY_CHUNK = """
INSERT INTO chunk (key, ws, version, memory_key, id, kind, symbol, start_line, end_line, position,
    bare, text_key)
SELECT :key, ws, :version, :memory, :id, kind, symbol, start_line, end_line, position, bare,
    text_key
FROM chunk WHERE key = :source"""
COPY_MENTIONS = """
INSERT INTO mention (ws, chunk_key, entity_key)
SELECT ws, :key, entity_key FROM mention WHERE ws = :ws AND chunk_key = :source"""
REVIVE_MENTIONED = """
UPDATE entity SET version = :version, deleted_at = NULL, deleted_by = ''
WHERE key IN (SELECT entity_key FROM mention WHERE ws = :ws AND chunk_key > :after)"""
"""Make the entities of new chunks live, as writing them would."""
COPY_RELATIONS = """
INSERT INTO relation (ws, source_key, target_key, relation, memory_id, lines)
SELECT ws, source_key, target_key, relation, :memory, lines
FROM relation INDEXED BY relation_memory WHERE ws = :ws AND memory_id = :source"""
KEYS = {
    kind: f"SELECT key, id FROM {kind} WHERE ws = :ws AND id IN {_PICKED}"
    for kind in ("memory", "chunk", "entity")
}
CHUNKS_OF_KEYS = f"SELECT key, id FROM chunk WHERE ws = :ws AND memory_key IN {_KEYED}"
ORPHANS_OF = (
    f"SELECT key, id FROM chunk WHERE ws = :ws AND orphan_of <> '' AND orphan_of IN {_PICKED}"
)
MENTIONED_BY = f"SELECT DISTINCT entity_key FROM mention WHERE ws = :ws AND chunk_key IN {_KEYED}"
DROP_RELATIONS_OF = f"DELETE FROM relation WHERE ws = :ws AND memory_id IN {_PICKED}"
DROP_MENTIONS_OF = f"DELETE FROM mention WHERE ws = :ws AND chunk_key IN {_KEYED}"
TEXTS_OF = f"SELECT DISTINCT text_key FROM chunk WHERE key IN {_KEYED}"
UNUSED_TEXTS = """
SELECT value FROM json_each(:keys) WHERE NOT EXISTS (SELECT 1 FROM chunk WHERE text_key = value)"""
"""The texts that no chunk uses any more."""
DROP_CHUNKS = f"DELETE FROM chunk WHERE key IN {_KEYED}"
DROP_CHUNK_WORDS = f"""
INSERT INTO chunk_words (chunk_words, rowid, words, named, placed)
SELECT 'delete', key, words, named, placed FROM chunk_text WHERE key IN {_KEYED}"""
DROP_CHUNK_TEXTS = f"DELETE FROM chunk_text WHERE key IN {_KEYED}"
DROP_LENGTHS = f"DELETE FROM text_length WHERE key IN {_KEYED}"
DROP_MEMORIES = f"DELETE FROM memory WHERE key IN {_KEYED}"
UNMENTIONED = f"""
SELECT key, id FROM entity
WHERE key IN {_KEYED} AND NOT EXISTS (SELECT 1 FROM mention WHERE entity_key = entity.key)"""
DROP_ENTITIES = (
    f"DELETE FROM relation WHERE ws = :ws AND source_key IN {_KEYED}",
    f"DELETE FROM relation WHERE target_key IN {_KEYED}",
    f"DELETE FROM mention WHERE entity_key IN {_KEYED}",
    f"DELETE FROM entity WHERE key IN {_KEYED}",
)
"""Erase entities, after every edge that touches them."""
PIN = f"""
UPDATE memory SET pinned = 1, pinned_by = :by, version = :version
WHERE ws = :ws AND id IN {_PICKED}"""
UNPIN = f"""
UPDATE memory SET pinned = 0, pinned_by = '', version = :version
WHERE ws = :ws AND id IN {_PICKED}"""
TOUCH = f"""
UPDATE memory SET read_at = max(coalesce(read_at, 0), :at), version = :version
WHERE ws = :ws AND id IN {_PICKED}"""
SUPERSEDE = f"""
UPDATE memory SET superseded_by = :by, superseded_at = :at, version = :version
WHERE ws = :ws AND id <> :by AND superseded_at IS NULL AND id IN {_PICKED}"""
MOVE_MENTIONS = """
INSERT OR IGNORE INTO mention (ws, chunk_key, entity_key)
SELECT ws, chunk_key, :kept FROM mention WHERE entity_key = :gone"""
MOVE_RELATIONS = """
INSERT OR IGNORE INTO relation (ws, source_key, target_key, relation, memory_id, lines)
SELECT ws, iif(source_key = :gone, :kept, source_key), iif(target_key = :gone, :kept, target_key),
    relation, memory_id, lines
FROM relation WHERE ((ws = :ws AND source_key = :gone) OR target_key = :gone)
    AND :kept NOT IN (source_key, target_key)"""
"""Move relations from one entity to another, except those between the two."""
PUT_ALIAS = """
INSERT OR REPLACE INTO alias (ws, id, keep, name, type) VALUES (:ws, :id, :keep, :name, :type)"""
HAND_ALIASES_ON = """
UPDATE alias SET keep = :keep, name = :name, type = :type WHERE ws = :ws AND keep = :id"""
"""Point the aliases of an entity to the one it was merged into."""
ALIASES = "SELECT id, keep, name, type FROM alias WHERE ws = ? ORDER BY id"
UNSETTLED = """
SELECT g.key, a.keep, a.name, a.type FROM alias a CROSS JOIN entity g ON g.ws = a.ws AND g.id = a.id
WHERE a.ws = :ws ORDER BY a.id"""
"""Entities that exist although they were merged into another."""
DROP_ALIASES = f"DELETE FROM alias WHERE ws = :ws AND keep IN {_PICKED}"

# Fetching

VERSION = "SELECT version FROM workspace WHERE ws = :ws"
_CHUNKS_OF = """
json_each(:ids) p CROSS JOIN memory m ON m.ws = :ws AND m.id = p.value
CROSS JOIN chunk c ON c.ws = :ws AND c.memory_key = m.key"""
_MENTIONED = """
CROSS JOIN mention n ON n.ws = :ws AND n.chunk_key = c.key
CROSS JOIN entity e ON e.key = n.entity_key"""
_MENTIONED_IN = f"""
json_each(:ids) p CROSS JOIN chunk c ON c.ws = :ws AND c.id = p.value {_MENTIONED}"""
MEMORIES = f"SELECT {_MEMORY} FROM memory m WHERE m.ws = :ws AND m.id IN {_PICKED}"
NOTES = f"""
SELECT {_MEMORY} FROM memory m
WHERE m.ws = :ws AND m.repository = '' AND m.source = :source AND m.content_hash = :content_hash
ORDER BY m.created_at, m.id"""
CHUNKS_OF_MEMORIES = f"""
SELECT {_CHUNK} FROM {_CHUNKS_OF} CROSS JOIN chunk_text t ON t.key = c.text_key
ORDER BY c.position, c.id"""
CHUNKS_BY_ID = f"{_CHUNKS} WHERE c.ws = :ws AND c.id IN {_PICKED}"
ENTITIES_BY_ID = f"SELECT {_ENTITY} FROM entity e WHERE e.ws = :ws AND e.id IN {_PICKED}"
LIVE_ENTITIES = (
    f"SELECT {_ENTITY} FROM entity e WHERE e.ws = :ws AND e.deleted_at IS NULL ORDER BY e.id"
)
ENTITIES_OF_MEMORIES = f"SELECT c.id, {_ENTITY} FROM {_CHUNKS_OF} {_MENTIONED} ORDER BY c.id, e.id"
RELATIONS_OF_MEMORIES = f"""
SELECT s.id, t.id, r.relation, r.memory_id, r.lines FROM relation r
JOIN entity s ON s.key = r.source_key JOIN entity t ON t.key = r.target_key
WHERE r.ws = :ws AND r.memory_id IN {_PICKED} ORDER BY 4, 1, 2, 3"""
ENTITIES_BY_LAST_PART = f"SELECT id, name, bare FROM entity WHERE ws = :ws AND bare IN {_PICKED}"
_LINK = """
SELECT s.name, t.name, r.relation, m.relative_path, m.repository, r.lines
FROM json_each(:ids) p CROSS JOIN entity n ON n.ws = :ws AND n.id = p.value"""
_SAID_BY = """
JOIN entity s ON s.key = r.source_key JOIN entity t ON t.key = r.target_key
JOIN memory m ON m.ws = :ws AND m.id = r.memory_id
WHERE r.relation = :relation AND m.stale = 0 AND m.deleted_at IS NULL
ORDER BY m.repository, m.relative_path, r.lines, s.name, t.name LIMIT :limit"""
LINKS_TO = f"{_LINK} CROSS JOIN relation r ON r.target_key = n.key {_SAID_BY}"
LINKS_FROM = f"{_LINK} CROSS JOIN relation r ON r.ws = :ws AND r.source_key = n.key {_SAID_BY}"
DEFINITIONS = """
SELECT c.symbol, c.kind, m.relative_path, m.repository, min(c.start_line)
FROM json_each(:ids) p CROSS JOIN chunk c ON c.ws = :ws AND c.bare = p.value AND c.bare <> ''
CROSS JOIN memory m ON m.key = c.memory_key
WHERE c.deleted_at IS NULL AND m.stale = 0 AND m.deleted_at IS NULL
GROUP BY m.key, c.symbol ORDER BY m.repository, m.relative_path, 5, c.symbol"""

# Runs

FILES = f"""
SELECT {_SURVEY} FROM memory
WHERE ws = :ws AND repository = :repository AND source = :source ORDER BY relative_path"""
FILE_AT = """
SELECT id FROM memory
WHERE ws = :ws AND file_path = :path AND source = :source AND deleted_at IS NULL
ORDER BY last_seen_at DESC, id LIMIT 1"""
BEGIN_RUN = """
INSERT OR REPLACE INTO run (ws, run_id, repository, filter, started_at, finished_at, seen, stale)
VALUES (:ws, :run, :repository, :filter, :at, NULL, 0, 0)"""
STAMP = """
UPDATE memory SET run = :run, last_seen_at = :at, size = :size, mtime_ns = :mtime_ns, stale = 0,
    file_path = iif(:file_path = '', file_path, :file_path),
    version = CASE WHEN stale OR deleted_at IS NOT NULL THEN :version ELSE version END
WHERE ws = :ws AND id = :id RETURNING deleted_at IS NOT NULL"""
RUN = """
SELECT run_id, repository, filter, started_at, finished_at, seen, stale FROM run
WHERE ws = :ws AND run_id = :run"""
FINISH_STALE = f"""
UPDATE memory SET stale = 1, version = :version
WHERE ws = :ws AND repository = :repository AND source = :source AND run <> :run AND stale = 0
    AND deleted_at IS NULL AND id IN {_PICKED}"""
END_RUN = """
UPDATE run SET finished_at = :at, stale = :stale, seen = (
    SELECT count(*) FROM memory WHERE ws = :ws AND repository = :repository AND run = :run)
WHERE ws = :ws AND run_id = :run"""
MARK_STALE = f"""
UPDATE memory SET stale = 1, version = :version
WHERE ws = :ws AND source = :source AND stale = 0 AND deleted_at IS NULL AND id IN {_PICKED}"""
RUNS = """
SELECT run_id, repository, filter, started_at, finished_at, seen, stale FROM run
WHERE ws = :ws AND (:repository IS NULL OR repository = :repository)
ORDER BY started_at DESC, run_id DESC"""

# Collection

SURVEY_MEMORIES = f"SELECT {_SURVEY} FROM memory WHERE ws = ? ORDER BY key"
SURVEY_CHUNKS = """
SELECT json_group_array(c.key), json_group_array(iif(m.key IS NULL, -1, m.key))
FROM chunk c INDEXED BY chunk_memory LEFT JOIN memory m ON m.key = c.memory_key WHERE c.ws = ?"""
"""Columns as JSON: reading a million numbers is three times as fast as in rows."""
SURVEY_DELETED_CHUNKS = """
SELECT json_group_array(key) FROM chunk WHERE ws = ? AND deleted_at IS NOT NULL"""
SURVEY_ENTITIES = "SELECT json_group_array(key) FROM entity WHERE ws = ?"
SURVEY_DELETED_ENTITIES = """
SELECT json_group_array(key) FROM entity WHERE ws = ? AND deleted_at IS NOT NULL"""
SURVEY_MENTIONS = """
SELECT json_group_array(chunk_key), json_group_array(entity_key) FROM mention WHERE ws = ?"""
IDS = {
    kind: f"SELECT key, id FROM {kind} WHERE ws = :ws AND key IN {_KEYED}"
    for kind in ("memory", "chunk", "entity")
}
_HIDE = f"""
SET deleted_at = :at, deleted_by = :plan_id, version = :version
WHERE ws = :ws AND version <= :seen AND deleted_at IS NULL AND id IN {_PICKED}"""
HIDE = {
    "memory": f"UPDATE memory {_HIDE} AND pinned = 0",
    "chunk": f"""UPDATE chunk {_HIDE}
    AND NOT EXISTS (SELECT 1 FROM memory WHERE key = chunk.memory_key AND deleted_at IS NULL)""",
    "entity": f"""UPDATE entity {_HIDE} AND NOT EXISTS (
        SELECT 1 FROM mention n JOIN chunk c ON c.key = n.chunk_key
        JOIN memory m ON m.key = c.memory_key
        WHERE n.entity_key = entity.key AND c.deleted_at IS NULL AND m.deleted_at IS NULL)""",
}
"""Hide nodes that have not changed and are neither pinned nor held by something live."""
HIDDEN_BY = {
    kind: f"SELECT id FROM {kind} WHERE ws = :ws AND deleted_by = :plan_id AND id IN {_PICKED}"
    for kind in ("memory", "chunk", "entity")
}
"""What a plan has hidden, now or before an interruption: repeating it gives the same result."""
RESTORE_MEMORIES = f"""
UPDATE memory SET deleted_at = NULL, deleted_by = '', version = :version
WHERE ws = :ws AND deleted_at IS NOT NULL AND id IN {_PICKED} RETURNING id"""
RESTORE_CHUNKS = f"""
UPDATE chunk SET deleted_at = NULL, deleted_by = '', version = :version
WHERE ws = :ws AND deleted_at IS NOT NULL AND (id IN {_PICKED} OR memory_key IN (
    SELECT key FROM memory WHERE ws = :ws AND id IN {_PICKED})) RETURNING id"""
RESTORE_ENTITIES = f"""
UPDATE entity SET deleted_at = NULL, deleted_by = '', version = :version
WHERE ws = :ws AND deleted_at IS NOT NULL AND (id IN {_PICKED} OR key IN (
    SELECT n.entity_key FROM json_each(:ids) p CROSS JOIN chunk c ON c.ws = :ws AND c.id = p.value
    CROSS JOIN mention n ON n.ws = :ws AND n.chunk_key = c.key)) RETURNING id"""
DELETED = {
    kind: f"""
SELECT id, deleted_at, deleted_by FROM {kind} WHERE ws = :ws AND deleted_at IS NOT NULL
    AND (:before IS NULL OR deleted_at < :before) AND (:plan_id IS NULL OR deleted_by = :plan_id)
ORDER BY id"""
    for kind in ("memory", "chunk", "entity")
}
PURGEABLE = {
    "memory": f"""
SELECT key, id FROM memory
WHERE ws = :ws AND deleted_at < :before AND id IN {_PICKED}""",
    "chunk": f"""
SELECT key, id FROM chunk WHERE ws = :ws AND deleted_at < :before AND id IN {_PICKED}
    AND NOT EXISTS (SELECT 1 FROM memory WHERE key = chunk.memory_key)""",
    "entity": f"""
SELECT key, id FROM entity WHERE ws = :ws AND deleted_at < :before
    AND id IN {_PICKED} AND NOT EXISTS (
        SELECT 1 FROM mention n JOIN chunk c ON c.key = n.chunk_key
        JOIN memory m ON m.key = c.memory_key WHERE n.entity_key = entity.key)""",
}
"""Only orphaned chunks: the others are purged with their memory."""

# Search

_VISIBLE = """
c.deleted_at IS NULL AND m.deleted_at IS NULL AND m.stale = 0
    AND (:repository IS NULL OR m.repository = :repository)
    AND (:path IS NULL OR m.relative_path = :path
        OR substr(m.relative_path, 1, length(:path) + 1) = :path || '/')
    AND (CASE WHEN :as_of IS NULL THEN m.superseded_at IS NULL ELSE m.created_at <= :as_of
        AND (m.superseded_at IS NULL OR m.superseded_at > :as_of) END)
    AND (:at IS NULL OR m.expires_at IS NULL OR m.expires_at > :at)
    AND (:since IS NULL OR m.created_at >= :since) AND (:until IS NULL OR m.created_at < :until)
    AND (:sources = '[]' OR m.source IN (SELECT value FROM json_each(:sources)))
    AND (:languages = '[]' OR m.language IN (SELECT value FROM json_each(:languages)))
    AND (:tags = '[]' OR NOT EXISTS (SELECT 1 FROM json_each(:tags) wanted
        WHERE wanted.value NOT IN (SELECT value FROM json_each(m.tags))))"""
MATCHING = "SELECT count(*) FROM (SELECT 1 FROM chunk_words WHERE chunk_words MATCH ? LIMIT ?)"
WORD_INSTANCES = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.word_instances
USING fts5vocab (main, chunk_words, instance)"""
"""Every occurrence of every word in the index."""
INSTANCES = """
SELECT json_group_array(doc), json_group_array(doc) FILTER (WHERE col = 'named')
FROM temp.word_instances WHERE term = ?"""
"""The text of each occurrence of a word, and of those in names. Columns as JSON are read faster."""
LENGTHS = """
SELECT json_group_array(ifnull(t.length, 0))
FROM json_each(?) wanted LEFT JOIN text_length t ON t.key = wanted.value"""
CALLED = """
SELECT text_key FROM chunk WHERE ws = :ws AND bare <> ''
    AND bare IN (SELECT value FROM json_each(:names))"""
MATCHES = f"""
SELECT c.text_key, c.key, m.id, c.position, m.relative_path, c.symbol, t.words, t.named, t.placed
FROM json_each(:texts) found CROSS JOIN chunk c ON c.text_key = found.value
CROSS JOIN chunk_text t ON t.key = c.text_key CROSS JOIN memory m ON m.key = c.memory_key
WHERE {_VISIBLE}"""
HITS = f"""
SELECT c.key, {_MEMORY}, {_CHUNK} FROM {_CHUNKS_KEYED}
CROSS JOIN chunk_text t ON t.key = c.text_key CROSS JOIN memory m ON m.key = c.memory_key"""
ENTITIES_OF_HITS = f"""
SELECT c.id, {_ENTITY} FROM {_CHUNKS_KEYED} {_MENTIONED}
WHERE e.deleted_at IS NULL ORDER BY c.id, e.id"""
NEWEST = f"""
SELECT c.key FROM memory m CROSS JOIN chunk c ON c.ws = :ws AND c.memory_key = m.key
WHERE m.ws = :ws AND {_VISIBLE}
ORDER BY m.created_at DESC, m.id, c.position LIMIT :limit"""

# Export and import

EXPORT_MEMORIES = f"SELECT {_MEMORY} FROM memory m WHERE +m.ws = ? ORDER BY m.key"
EXPORT_CHUNKS = f"{_CHUNKS} WHERE +c.ws = ? ORDER BY c.key"
"""In the order of the table: with an index on `ws`, all texts would be sorted."""
EXPORT_ENTITIES = f"SELECT {_ENTITY} FROM entity e WHERE +e.ws = ? ORDER BY e.key"
EXPORT_MENTIONS = """
SELECT c.id, e.id FROM mention n
JOIN chunk c ON c.key = n.chunk_key JOIN entity e ON e.key = n.entity_key
WHERE n.ws = ? ORDER BY n.chunk_key, n.entity_key"""
EXPORT_RELATIONS = """
SELECT s.id, t.id, r.relation, r.memory_id, r.lines FROM relation r
JOIN entity s ON s.key = r.source_key JOIN entity t ON t.key = r.target_key
WHERE r.ws = ? ORDER BY r.source_key, r.target_key, r.relation, r.memory_id"""
MENTIONS_OF_CHUNKS = f"SELECT c.id, e.id FROM {_MENTIONED_IN} ORDER BY 1, 2"
MENTIONS_OF_ENTITIES = """
SELECT c.id, e.id FROM json_each(:ids) p CROSS JOIN entity e ON e.ws = :ws AND e.id = p.value
CROSS JOIN mention n ON n.entity_key = e.key CROSS JOIN chunk c ON c.key = n.chunk_key
ORDER BY 1, 2"""
RELATIONS_FROM = """
SELECT s.id, t.id, r.relation, r.memory_id, r.lines
FROM json_each(:ids) p CROSS JOIN entity s ON s.ws = :ws AND s.id = p.value
CROSS JOIN relation r ON r.ws = :ws AND r.source_key = s.key
CROSS JOIN entity t ON t.key = r.target_key ORDER BY 1, 2, 3, 4"""
RELATIONS_TO = """
SELECT s.id, t.id, r.relation, r.memory_id, r.lines
FROM json_each(:ids) p CROSS JOIN entity t ON t.ws = :ws AND t.id = p.value
CROSS JOIN relation r ON r.target_key = t.key CROSS JOIN entity s ON s.key = r.source_key
ORDER BY 1, 2, 3, 4"""
LOAD_KNOWN_CHUNK = """
UPDATE chunk SET version = :version, deleted_at = :deleted_at, deleted_by = '',
    memory_key = coalesce(memory_key, :memory), orphan_of = iif(:memory IS NULL, orphan_of, '')
WHERE ws = :ws AND key = :key"""
"""Give a chunk the state in which it is loaded, and an orphan its memory; its text stays."""
ADOPT_CHUNKS = """
UPDATE chunk SET memory_key = :memory, orphan_of = ''
WHERE ws = :ws AND orphan_of = :id AND orphan_of <> ''"""
"""Reattach orphans to the memory they name when it is loaded."""

# Leases

LEASE = "SELECT holder, until FROM lease WHERE workspace_id = ? AND purpose = ?"
TAKE_LEASE = (
    "INSERT OR REPLACE INTO lease (workspace_id, purpose, holder, until) VALUES (?, ?, ?, ?)"
)
KEEP_LEASE = "UPDATE lease SET until = ? WHERE workspace_id = ? AND purpose = ? AND holder = ?"
DROP_LEASE = "DELETE FROM lease WHERE workspace_id = ? AND purpose = ? AND holder = ?"
