"""One workspace's files, each with the table read from it. A change goes to the file first.

Writers hold the file's lock. Changes by other programs are read at the next use; a journal line
that a crash cut off is skipped and logged.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec

from marksweep.errors import StoreCorrupt
from marksweep.model import Entry, Segment, Stashed
from marksweep.stores.base import PlanRetention
from marksweep.stores.codec import ENTRY
from marksweep.stores.files import (
    check_writable,
    open_private,
    replace_file,
    sync_folder,
    unusable,
)
from marksweep.stores.json_file import documents
from marksweep.stores.json_file.documents import (
    SALVAGE,
    Document,
    parse,
    write_segment,
    write_stashed,
)
from marksweep.stores.memory import JournalTable, LiveTable, StashTable

log = logging.getLogger(__name__)

_HEADER = 64

Stamp = tuple[int, int, int, bytes]
"""Identifies a state of a file: inode, size, modification time, and the first bytes.

The first bytes hold the version: two writes in one tick of the file system's clock may be equal
in all the rest.
"""


class WatchedFile:
    """One file and its last seen state. Missing is a state, too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: Stamp | None = None

    def changed(self) -> Document | None:
        """Read the file if it changed since last seen, else None. A missing file reads as empty."""
        try:
            stamp = self._stamp()
            if stamp == self._seen:
                return None
            found = parse(self.path, self.path.read_bytes()) if stamp else Document([])
        except OSError as error:
            raise unusable(self.path, error) from error
        self._seen = stamp
        return found

    def replace(self, content: bytes) -> None:
        """Replace the whole file durably. The caller holds its lock."""
        try:
            replace_file(self.path, content)
            self._seen = self._stamp()
        except OSError as error:
            raise unusable(self.path, error) from error

    def forget(self) -> None:
        """Force a new read at the next use."""
        self._seen = (0, 0, 0, b"")

    def _stamp(self) -> Stamp | None:
        try:
            found = self.path.stat()
            with self.path.open("rb") as file:
                return found.st_ino, found.st_size, found.st_mtime_ns, file.read(_HEADER)
        except FileNotFoundError:
            return None


class LiveFile:
    """One workspace's live file and the table read from it."""

    def __init__(self, path: Path, workspace: str) -> None:
        self._file = WatchedFile(path)
        self._workspace = workspace
        self._table: LiveTable | None = None
        self._written: dict[str, bytes] = {}

    def table(self) -> LiveTable:
        """Return the table, up to date with the file."""
        document = self._file.changed()
        if document is not None:
            self._take_in(document)
        if self._table is None:
            self._table = LiveTable()
        return self._table

    def write(self, put: Sequence[Segment], remove: Sequence[str]) -> int:
        """Remove, then put; return the new version. The caller holds the file's lock."""
        table = self.table()
        if not put and not remove:
            return table.version
        written = dict(self._written)
        for segment_id in remove:
            written.pop(segment_id, None)
        for segment in put:
            written[segment.segment_id] = write_segment(segment)
        version = table.version + 1
        self._file.replace(documents.write_document(version, self._workspace, written.values()))
        self._written = written
        return table.write(put, remove, version=version)

    def _take_in(self, document: Document) -> None:
        """Load the file; differences from before count as changed now."""
        try:
            found = _by_id(self._file.path, documents.read_segments(self._file.path, document))
        except StoreCorrupt:
            self._file.forget()
            raise
        self._written = {key: write_segment(segment) for key, segment in found.items()}
        if self._table is None:
            self._table = LiveTable(max(document.version, min(1, len(found))), found.values())
            return
        known = self._table
        put = [segment for key, segment in found.items() if known.get(key) != segment]
        gone = [s.segment_id for s in known.segments() if s.segment_id not in found]
        if put or gone or document.version > known.version:
            known.write(put, gone, version=max(known.version + 1, document.version))


def _by_id(path: Path, segments: Sequence[Segment]) -> dict[str, Segment]:
    found: dict[str, Segment] = {}
    for at, segment in enumerate(segments):
        if segment.segment_id in found:
            raise StoreCorrupt(
                f"{path}: segments[{at}] has the id {segment.segment_id!r}, which an earlier one "
                f"already has; ids must be unique. {SALVAGE}"
            )
        found[segment.segment_id] = segment
    return found


class StashFile:
    """One workspace's stash file and the table read from it."""

    def __init__(self, path: Path, workspace: str) -> None:
        self._file = WatchedFile(path)
        self._workspace = workspace
        self._table = StashTable()
        self._written: dict[tuple[str, str], bytes] = {}
        self._version = 0

    def table(self) -> StashTable:
        """Return the table, up to date with the file."""
        document = self._file.changed()
        if document is None:
            return self._table
        try:
            entries = documents.read_stashed(self._file.path, document)
        except StoreCorrupt:
            self._file.forget()
            raise
        self._table = StashTable()
        self._table.put(entries)
        self._written = {_key(entry): write_stashed(entry) for entry in entries}
        self._version = document.version
        return self._table

    def put(self, entries: Sequence[Stashed]) -> None:
        """Store entries. The caller holds the file's lock."""
        table = self.table()
        written = dict(self._written)
        for entry in entries:
            written.pop(_key(entry), None)
            written[_key(entry)] = write_stashed(entry)
        self._replace(written)
        table.put(entries)

    def remove(self, plan_id: str, segment_ids: Sequence[str]) -> None:
        """Drop entries. The caller holds the file's lock."""
        table = self.table()
        gone = {(plan_id, segment_id) for segment_id in segment_ids} & self._written.keys()
        if gone:
            written = {key: each for key, each in self._written.items() if key not in gone}
            self._replace(written)
            table.remove(plan_id, segment_ids)

    def _replace(self, written: dict[tuple[str, str], bytes]) -> None:
        version = self._version + 1
        self._file.replace(documents.write_document(version, self._workspace, written.values()))
        self._written, self._version = written, version


def _key(entry: Stashed) -> tuple[str, str]:
    return entry.plan_id, entry.segment.segment_id


class JournalFile:
    """One workspace's journal file, read incrementally."""

    def __init__(self, path: Path, retention: PlanRetention) -> None:
        self.path = path
        self._retention = retention
        self._forget()

    def table(self) -> JournalTable:
        """Return the entries, up to date with the file. The caller holds the file's lock."""
        try:
            self._read_on()
        except FileNotFoundError:
            self._forget()
        except OSError as error:
            raise unusable(self.path, error) from error
        return self._table

    def append(self, entry: Entry) -> Entry:
        """Append an entry durably. The caller holds the file's lock."""
        table = self.table()
        if shown := table.shown(entry):
            return shown
        numbered = msgspec.structs.replace(entry, seq=table.next_seq)
        line = ENTRY.encode(numbered) + b"\n"
        try:
            self._write(line)
        except OSError as error:
            raise unusable(self.path, error) from error
        self._offset += len(line)
        self._line += 1
        table.entries.append(numbered)
        if table.expire():
            self._rewrite()
        return numbered

    def redact(self, segment_ids: Collection[str]) -> int:
        """Remove the content of segments from all entries. The caller holds the file's lock."""
        changed = self.table().redact(segment_ids)
        if changed:
            self._rewrite()
        return changed

    def _rewrite(self) -> None:
        """Rewrite the file from the table."""
        lines = [ENTRY.encode(entry) + b"\n" for entry in self._table.entries]
        try:
            replace_file(self.path, b"".join(lines))
            self._inode = self.path.stat().st_ino
        except OSError as error:
            self._forget()
            raise unusable(self.path, error) from error
        self._offset, self._line, self._torn = sum(map(len, lines)), len(lines), b""

    def _forget(self) -> None:
        self._table = JournalTable(self._retention)
        self._offset = 0
        self._line = 0
        self._inode = 0
        self._torn = b""

    def _read_on(self) -> None:
        with self.path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_ino != self._inode or found.st_size < self._offset:
                self._forget()
                self._inode = found.st_ino
            if found.st_size == self._offset:
                return
            file.seek(self._offset)
            *lines, rest = file.read().split(b"\n")
        for line in lines:
            self._take_in(line)
            self._offset += len(line) + 1
        if rest and rest != self._torn:
            log.warning(
                "%s: line %d was cut off after %d bytes and is skipped. A crash during the write "
                "causes this; its operation is recovered when the store is used.",
                self.path,
                self._line + 1,
                len(rest),
            )
        self._torn = rest

    def _take_in(self, line: bytes) -> None:
        try:
            entry = ENTRY.decode(line)
        except ValueError as error:
            raise StoreCorrupt(
                f"{self.path}: line {self._line + 1} is not a journal entry: {error}. {SALVAGE}"
            ) from error
        self._line += 1
        self._table.entries.append(entry)

    def _write(self, line: bytes) -> None:
        if self.path.exists():
            check_writable(self.path)
        with open_private(self.path) as file:
            if os.fstat(file.fileno()).st_size > self._offset:
                file.truncate(self._offset)
                self._torn = b""
            file.seek(self._offset)
            try:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.ftruncate(file.fileno(), self._offset)
                raise
            self._inode = os.fstat(file.fileno()).st_ino
        if self._offset == 0:
            sync_folder(self.path.parent)
