"""The layout of the graph in SQLite."""

from __future__ import annotations

SCHEMA = """
CREATE TABLE workspace (
    ws INTEGER PRIMARY KEY, workspace_id TEXT NOT NULL UNIQUE, version INTEGER NOT NULL DEFAULT 0,
    chunks INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE memory (
    key INTEGER PRIMARY KEY, ws INTEGER NOT NULL, version INTEGER NOT NULL, id TEXT NOT NULL,
    source TEXT NOT NULL, created_at INTEGER NOT NULL, repository TEXT NOT NULL,
    file_path TEXT NOT NULL, relative_path TEXT NOT NULL, language TEXT NOT NULL,
    lines INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    content_hash TEXT NOT NULL, run TEXT NOT NULL, tags TEXT NOT NULL, metadata TEXT NOT NULL,
    stale INTEGER NOT NULL, last_seen_at INTEGER, pinned INTEGER NOT NULL, pinned_by TEXT NOT NULL,
    read_at INTEGER, deleted_at INTEGER, deleted_by TEXT NOT NULL DEFAULT '', text TEXT NOT NULL,
    superseded_by TEXT NOT NULL DEFAULT '', superseded_at INTEGER, expires_at INTEGER,
    UNIQUE (ws, id)
);
CREATE INDEX memory_file ON memory (ws, repository, relative_path);
CREATE INDEX memory_path ON memory (ws, file_path);
CREATE INDEX memory_stale ON memory (ws, stale) WHERE stale = 1;
CREATE INDEX memory_deleted ON memory (ws, deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX memory_created ON memory (ws, created_at);
CREATE INDEX memory_ws ON memory (ws);
CREATE TABLE chunk (
    key INTEGER PRIMARY KEY, ws INTEGER NOT NULL, version INTEGER NOT NULL, id TEXT NOT NULL,
    memory_key INTEGER, orphan_of TEXT NOT NULL DEFAULT '', kind TEXT NOT NULL,
    symbol TEXT NOT NULL, start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
    position INTEGER NOT NULL, deleted_at INTEGER, deleted_by TEXT NOT NULL DEFAULT '',
    bare TEXT NOT NULL DEFAULT '', text_key INTEGER NOT NULL DEFAULT 0, UNIQUE (ws, id)
);
CREATE INDEX chunk_symbol ON chunk (ws, bare) WHERE bare <> '';
CREATE INDEX chunk_by_text ON chunk (text_key);
CREATE INDEX chunk_memory ON chunk (ws, memory_key);
CREATE INDEX chunk_orphan ON chunk (ws, orphan_of) WHERE orphan_of <> '';
CREATE INDEX chunk_deleted ON chunk (ws, deleted_at) WHERE deleted_at IS NOT NULL;
CREATE TABLE chunk_text (
    key INTEGER PRIMARY KEY, text TEXT NOT NULL, words TEXT NOT NULL DEFAULT '',
    named TEXT NOT NULL DEFAULT '', placed TEXT NOT NULL DEFAULT ''
);
CREATE TABLE text_length (key INTEGER PRIMARY KEY, length INTEGER NOT NULL);
CREATE VIRTUAL TABLE chunk_words USING fts5(
    words, named, placed, content='chunk_text', content_rowid='key', tokenize='ascii',
    columnsize=0
);
INSERT INTO chunk_words (chunk_words, rank) VALUES ('hashsize', 16777216);
CREATE TABLE entity (
    key INTEGER PRIMARY KEY, ws INTEGER NOT NULL, version INTEGER NOT NULL, id TEXT NOT NULL,
    name TEXT NOT NULL, type TEXT NOT NULL, deleted_at INTEGER,
    deleted_by TEXT NOT NULL DEFAULT '', bare TEXT NOT NULL DEFAULT '', UNIQUE (ws, id)
);
CREATE INDEX entity_bare ON entity (ws, bare);
CREATE INDEX entity_deleted ON entity (ws, deleted_at) WHERE deleted_at IS NOT NULL;
CREATE TABLE mention (
    ws INTEGER NOT NULL, chunk_key INTEGER NOT NULL, entity_key INTEGER NOT NULL,
    PRIMARY KEY (ws, chunk_key, entity_key)
) WITHOUT ROWID;
CREATE INDEX mention_entity ON mention (entity_key);
CREATE TABLE relation (
    ws INTEGER NOT NULL, source_key INTEGER NOT NULL, target_key INTEGER NOT NULL,
    relation TEXT NOT NULL, memory_id TEXT NOT NULL, lines TEXT NOT NULL DEFAULT '[]',
    PRIMARY KEY (ws, source_key, target_key, relation, memory_id)
) WITHOUT ROWID;
CREATE INDEX relation_target ON relation (target_key);
CREATE INDEX relation_memory ON relation (ws, memory_id);
CREATE TABLE alias (
    ws INTEGER NOT NULL, id TEXT NOT NULL, keep TEXT NOT NULL, name TEXT NOT NULL,
    type TEXT NOT NULL, PRIMARY KEY (ws, id)
) WITHOUT ROWID;
CREATE TABLE run (
    ws INTEGER NOT NULL, run_id TEXT NOT NULL, repository TEXT NOT NULL, filter TEXT NOT NULL,
    started_at INTEGER NOT NULL, finished_at INTEGER, seen INTEGER NOT NULL, stale INTEGER NOT NULL,
    PRIMARY KEY (ws, run_id)
) WITHOUT ROWID;
CREATE TABLE lease (
    workspace_id TEXT NOT NULL, purpose TEXT NOT NULL, holder TEXT NOT NULL, until REAL NOT NULL,
    PRIMARY KEY (workspace_id, purpose)
) WITHOUT ROWID;
"""
"""The layout.

Chunks of identical files in several roots share one text; its key is that of the chunk it was
written with. A text is deleted with the last chunk that uses it. `workspace.chunks` counts texts.

`text_length` has the number of words of each text, in rows as small as a search that looks up
thousands of them needs. It replaces what FTS5 would store for its own ranking.

Each indexed word is prefixed with its workspace's number, so that a workspace finds and counts only
its own words.

The words of one transaction are buffered in up to 16 MB before they are written: with the default
1 MB, large batches are written in pieces that must be merged again. No trigger keeps them in sync
with the texts: a statement within a trigger flushes the buffer, which makes writing four times as
slow.
"""

MIGRATIONS = {
    3: """
ALTER TABLE memory ADD COLUMN expires_at INTEGER;
ALTER TABLE chunk ADD COLUMN text_key INTEGER NOT NULL DEFAULT 0;
UPDATE chunk SET text_key = key;
CREATE INDEX chunk_by_text ON chunk (text_key);
""",
    4: """
DROP TABLE chunk_words;
CREATE TABLE text_length (key INTEGER PRIMARY KEY, length INTEGER NOT NULL);
CREATE VIRTUAL TABLE chunk_words USING fts5(
    words, named, placed, content='chunk_text', content_rowid='key', tokenize='ascii',
    columnsize=0
);
INSERT INTO chunk_words (chunk_words, rank) VALUES ('hashsize', 16777216);
INSERT INTO chunk_words (chunk_words) VALUES ('rebuild');
INSERT INTO text_length SELECT key, word_count(words, named, placed) FROM chunk_text;
""",
}
"""Migrations to the next layout, by the version they start from."""

VERSION = max(MIGRATIONS) + 1
"""The version of the layout."""
