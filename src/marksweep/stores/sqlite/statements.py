"""Every SQL statement of the SQLite store, each with its purpose.

A row number has its workspace in the high bits (see `rows_of`), so that a workspace is a range of
rows, in both the tables and the word indexes. Text columns hold values from `bind`.
"""

from __future__ import annotations

ROW_BITS = 40
"""Bits of a row number that count rows within a workspace; the rest number the workspace."""


def rows_of(workspace: int) -> tuple[int, int]:
    """Return the first and last row number of a workspace."""
    return workspace << ROW_BITS, ((workspace + 1) << ROW_BITS) - 1


PAGE_ROWS = 100
"""Rows per batch when all are read. Higher takes more memory."""

# Opening

CACHE_MORE = "PRAGMA cache_size = -16384"
"""Cache up to 16 MB of pages: batches touch many, all over the word index."""

CHECKPOINT_LESS = "PRAGMA wal_autocheckpoint = 4000"
"""Let the log grow to 16 MB: a page that is written often is then copied once."""

# Salvage: forwards up to the damage, then backwards up to the damage

ALL_NAMES = "SELECT workspace, name FROM workspaces"
"""Every workspace's number and name."""

ALL_ROWS = {
    "segments": "SELECT row, workspace, body FROM segments ORDER BY row {direction}",
    "stash": "SELECT row, workspace, body FROM stash ORDER BY row {direction}",
    "journal": "SELECT rowid, workspace, body FROM journal ORDER BY rowid {direction}",
}
"""Every row of a table; `{direction}` is ASC or DESC."""

# Workspaces

FIND_WORKSPACE = "SELECT workspace, version, floor FROM workspaces WHERE name = ?"
"""A workspace's number, version, and the oldest version whose removals are all known."""

ADD_WORKSPACE = "INSERT INTO workspaces (name) VALUES (?)"
"""Add a workspace."""

SET_VERSION = "UPDATE workspaces SET version = ? WHERE workspace = ?"
"""Set a workspace's new version."""

SET_FLOOR = "UPDATE workspaces SET floor = ? WHERE workspace = ?"
"""Set the version up to which removals may be forgotten."""

HELD_WORKSPACES = """
SELECT name FROM workspaces AS w
WHERE EXISTS (SELECT 1 FROM segments WHERE segments.workspace = w.workspace)
OR EXISTS (SELECT 1 FROM stash WHERE stash.workspace = w.workspace)
OR EXISTS (SELECT 1 FROM journal WHERE journal.workspace = w.workspace)
"""
"""Names of the workspaces that hold anything."""

LIVE_WORKSPACES = """
SELECT name FROM workspaces AS w
WHERE EXISTS (SELECT 1 FROM segments WHERE segments.workspace = w.workspace)
"""
"""Names of the workspaces that hold live segments."""

# Live segments

LIVE_SEGMENTS = "SELECT body FROM segments WHERE row BETWEEN ? AND ?"
"""All live segments of a workspace."""

SEGMENTS_SINCE = "SELECT body FROM segments WHERE workspace = ? AND version > ? ORDER BY version"
"""What was put after a version."""

REMOVED_SINCE = """
SELECT segment_id FROM removed WHERE workspace = ? AND version > ? ORDER BY version
"""
"""What was removed after a version."""

FIND_SEGMENT = "SELECT row, body FROM segments WHERE workspace = ? AND segment_id = ?"
"""A segment's row, and what it held."""

LAST_SEGMENT_ROW = "SELECT max(row) FROM segments WHERE row BETWEEN ? AND ?"
"""The highest row number a workspace uses."""

ADD_SEGMENT = """
INSERT INTO segments (row, workspace, segment_id, version, created_at, touched_at, body)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
"""Insert a new segment."""

CHANGE_SEGMENT = """
UPDATE segments SET version = ?, created_at = ?, touched_at = ?, body = ? WHERE row = ?
"""
"""Replace the segment with this id."""

REMOVE_SEGMENT = "DELETE FROM segments WHERE row = ?"
"""Drop a segment."""

NOTE_REMOVED = "INSERT OR REPLACE INTO removed (workspace, segment_id, version) VALUES (?, ?, ?)"
"""Record that a segment was removed, for readers that have it."""

FORGET_REMOVED_ID = "DELETE FROM removed WHERE workspace = ? AND segment_id = ?"
"""A segment exists again: readers must not see its removal."""

COUNT_REMOVED = "SELECT count(*) FROM removed WHERE workspace = ?"
"""How many removals are recorded."""

OLDEST_KEPT_REMOVAL = """
SELECT version FROM removed WHERE workspace = ? ORDER BY version DESC LIMIT 1 OFFSET ?
"""
"""The version of the n-th most recent removal."""

FORGET_REMOVED = "DELETE FROM removed WHERE workspace = ? AND version <= ?"
"""Delete removals up to a version."""

# Words and search. `{table}` is segments or stash, `{times}` clauses of TIMES only; `{score}` and
# `{order}` are columns. Values are parameters.

ADD_WORDS = "INSERT INTO {table}_words (rowid, words, marks) VALUES (?, ?, ?)"
"""Index a row's words and marks."""

REMOVE_WORDS = "DELETE FROM {table}_words WHERE rowid = ?"
"""Remove a row from the word index."""

COUNT_MATCHES = """
SELECT count(*) FROM (
    SELECT 1 FROM {table}_words WHERE {table}_words MATCH ? AND rowid BETWEEN ? AND ? LIMIT ?
)
"""
"""How many rows match, up to a limit."""

LIST_ROWS = """
SELECT row, body, {score} FROM {table} WHERE row BETWEEN ? AND ? {times} ORDER BY {order} LIMIT ?
"""
"""Rows in the given time range."""

LIST_MATCHES = """
SELECT row, body, {score} FROM {table}_words AS words CROSS JOIN {table} ON row = words.rowid
WHERE {table}_words MATCH ? AND words.rowid BETWEEN ? AND ? {times} ORDER BY {order} LIMIT ?
"""
"""Rows that match, in the given time range."""

TIMES = {"since": "AND created_at >= ?", "until": "AND created_at < ?"}
"""One clause per time filter."""

# Stash

PLAN_IS_KNOWN = "SELECT 1 FROM stash WHERE workspace = ? AND plan_id = ? LIMIT 1"
"""Whether a plan has entries: only then can one be replaced."""

FIND_STASHED = "SELECT row FROM stash WHERE workspace = ? AND plan_id = ? AND segment_id = ?"
"""The row of a plan's entry."""

LAST_STASH_ROW = "SELECT max(row) FROM stash WHERE row BETWEEN ? AND ?"
"""The highest row number a workspace uses; higher means put later."""

ADD_STASHED = """
INSERT INTO stash (row, workspace, plan_id, segment_id, created_at, expires_at, body)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
"""Insert an entry."""

REMOVE_STASHED = "DELETE FROM stash WHERE row = ?"
"""Drop an entry."""

STASHED_OF_SEGMENT = "SELECT row, body FROM stash WHERE workspace = ? AND segment_id = ?"
"""The entries of one segment, one per plan."""

STASHED_OF_PLAN = "SELECT body FROM stash WHERE workspace = ? AND plan_id = ?"
"""The entries of one plan."""

STASHED_FROM = "SELECT row, body FROM stash WHERE row > ? AND row <= ? ORDER BY row LIMIT ?"
"""A batch of entries after a row, oldest first."""

EXPIRED = "SELECT body FROM stash WHERE workspace = ? AND expires_at <= ? ORDER BY row"
"""Entries whose deletion has become final, oldest first."""

COUNT_STASHED = """
SELECT count(*) FROM (SELECT 1 FROM stash WHERE row BETWEEN ? AND ? LIMIT ?)
"""
"""How many entries a workspace has, up to a limit."""

# Journal

LAST_SEQ = "SELECT max(seq) FROM journal WHERE workspace = ?"
"""The number of the last entry."""

ADD_ENTRY = """
INSERT INTO journal (workspace, seq, event, plan_id, at, body) VALUES (?, ?, ?, ?, ?, ?)
"""
"""Add an entry."""

SHOWN_PLAN = """
SELECT body FROM journal WHERE workspace = ? AND plan_id = ? AND event = ?
ORDER BY seq DESC LIMIT 1
"""
"""The entry that shows a plan."""

EXPIRE_SHOWN = """
DELETE FROM journal WHERE rowid IN (
    SELECT rowid FROM (
        SELECT rowid, at, row_number() OVER (ORDER BY seq DESC) AS place FROM journal AS shown
        WHERE workspace = :workspace AND event = :shown AND NOT EXISTS (
            SELECT 1 FROM journal INDEXED BY journal_by_plan
            WHERE workspace = :workspace AND plan_id = shown.plan_id AND event = :applied
        )
    ) WHERE at < :since OR place > :plans
)
"""
"""Delete unapplied plans: those shown before a given time, and all but the newest."""

ENTRIES_WITH_PLANS = "SELECT rowid, body FROM journal WHERE workspace = ?"
"""All entries, to remove the content of segments."""

CHANGE_ENTRY = "UPDATE journal SET body = ? WHERE rowid = ?"
"""Replace an entry with its redacted form."""

JOURNAL_SIZE = "SELECT count(*), coalesce(sum(length(body)), 0) FROM journal WHERE workspace = ?"
"""The number of entries, and their total bytes."""

READ_ENTRIES = """
SELECT body FROM journal WHERE workspace = ? {filters} ORDER BY seq DESC LIMIT ?
"""
"""Entries that pass the filters, newest first; a limit of -1 means all."""

ENTRIES_FROM = """
SELECT seq, body FROM journal WHERE workspace = ? AND seq > ? ORDER BY seq LIMIT ?
"""
"""A batch of entries after a number, oldest first."""

ENTRY_FILTERS = {"event": "AND event IN ({places})", "plan_id": "AND plan_id = ?"}
"""One clause per filter; `{places}` becomes as many question marks as there are events."""
