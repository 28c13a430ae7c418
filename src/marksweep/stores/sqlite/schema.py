"""The layout of the SQLite store."""

from __future__ import annotations

CREATE_TABLES = """
CREATE TABLE workspaces (
    workspace INTEGER PRIMARY KEY,
    name NOT NULL UNIQUE,
    version INTEGER NOT NULL DEFAULT 0,
    floor INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE segments (
    row INTEGER PRIMARY KEY,
    workspace INTEGER NOT NULL,
    segment_id NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    touched_at INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (workspace, segment_id)
);
CREATE INDEX segments_by_version ON segments (workspace, version);
CREATE TABLE removed (
    workspace INTEGER NOT NULL,
    segment_id NOT NULL,
    version INTEGER NOT NULL,
    PRIMARY KEY (workspace, segment_id)
) WITHOUT ROWID;
CREATE INDEX removed_by_version ON removed (workspace, version);
CREATE TABLE stash (
    row INTEGER PRIMARY KEY,
    workspace INTEGER NOT NULL,
    plan_id NOT NULL,
    segment_id NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    body BLOB NOT NULL,
    UNIQUE (workspace, plan_id, segment_id)
);
CREATE INDEX stash_by_segment ON stash (workspace, segment_id);
CREATE INDEX stash_expiring ON stash (workspace, expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE journal (
    workspace INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    event TEXT NOT NULL,
    plan_id NOT NULL,
    at INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (workspace, seq)
);
CREATE INDEX journal_by_plan ON journal (workspace, plan_id, seq);
CREATE INDEX journal_by_event ON journal (workspace, event, seq, at);
CREATE VIRTUAL TABLE segments_words USING fts5 (words, marks, tokenize = 'ascii');
INSERT INTO segments_words (segments_words, rank) VALUES ('rank', 'bm25(1.0, 0.0)');
INSERT INTO segments_words (segments_words, rank) VALUES ('automerge', 16);
CREATE VIRTUAL TABLE stash_words USING fts5 (words, marks, tokenize = 'ascii');
INSERT INTO stash_words (stash_words, rank) VALUES ('rank', 'bm25(1.0, 0.0)');
INSERT INTO stash_words (stash_words, rank) VALUES ('automerge', 16);
"""
"""The tables. Words are tokenized by `search.words`; FTS5 only splits at spaces.

Marks encode filter values (see `search._marks`). They are in the same index as the words, so that
only rows that pass are ranked; their weight in the ranking is 0. Merging later makes batches 10%
faster.
"""
