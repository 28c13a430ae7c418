"""The journal as JSON lines. A line that a crash cut off is passed over, and reported."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec

from marksweep.errors import StoreCorrupt
from marksweep.model import Entry, Event
from marksweep.stores.base import JournalSize, PlanRetention
from marksweep.stores.codec import ENTRY
from marksweep.stores.files import check_writable, open_private, replace_file, sync_folder, unusable
from marksweep.stores.json_file.documents import SALVAGE
from marksweep.stores.tables import JournalTable

if TYPE_CHECKING:
    from pathlib import Path

    from marksweep.stores.json_file import JsonStore

log = logging.getLogger(__name__)


class JournalFile:
    """One workspace's journal file, read as far as it is known."""

    def __init__(self, path: Path, retention: PlanRetention) -> None:
        self.path = path
        self._retention = retention
        self._forget()

    def table(self) -> JournalTable:
        """Give the entries as the file has them now. The caller holds the file's lock."""
        try:
            self._read_on()
        except FileNotFoundError:
            self._forget()
        except OSError as error:
            raise unusable(self.path, error) from error
        return self._table

    def append(self, entry: Entry) -> Entry:
        """Add an entry durably. The caller holds the file's lock."""
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
        table.add(numbered)
        if table.expire(self._retention):
            self._rewrite()
        return numbered

    def redact(self, segment_ids: Collection[str]) -> int:
        """Take the content of segments out of all entries. The caller holds the file's lock."""
        changed = self.table().redact(segment_ids)
        if changed:
            self._rewrite()
        return changed

    def size(self) -> JournalSize:
        """Say how large the file is. The caller holds its lock."""
        return JournalSize(len(self.table().entries), self._offset)

    def _rewrite(self) -> None:
        """Write the file anew from the table."""
        lines = [ENTRY.encode(entry) + b"\n" for entry in self._table.entries]
        try:
            replace_file(self.path, b"".join(lines))
            self._inode = self.path.stat().st_ino
        except OSError as error:
            self._forget()
            raise unusable(self.path, error) from error
        self._offset, self._line, self._torn = sum(map(len, lines)), len(lines), b""

    def _forget(self) -> None:
        self._table = JournalTable()
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
                "%s: line %d was cut off after %d bytes and is passed over. A crash while it was "
                "written leaves this; the deed it speaks of is checked when the store is used.",
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
                f"{self.path}: line {self._line + 1} is no journal entry: {error}. {SALVAGE}"
            ) from error
        self._line += 1
        self._table.add(entry)

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


class JsonJournal:
    """The record of plans and sweeps, one line each."""

    def __init__(self, store: JsonStore, retention: PlanRetention) -> None:
        self._store = store
        self._retention = retention
        self._files: dict[Path, JournalFile] = {}

    def append(self, workspace: str, entry: Entry) -> Entry:
        """Add an entry durably; return it with its number."""
        path = self._store.places.journal(workspace)
        with self._store.writing(path):
            return self._file(path).append(entry)

    def read(
        self,
        workspace: str,
        *,
        events: Collection[Event] = (),
        plan_id: str | None = None,
        limit: int | None = None,
    ) -> tuple[Entry, ...]:
        """Fetch entries, newest first; `events` empty means every kind."""
        path = self._store.places.journal(workspace)
        with self._store.writing(path):
            return self._file(path).table().read(events, plan_id, limit)

    def redact(self, workspace: str, segment_ids: Collection[str]) -> int:
        """Take the content of segments out of all entries; say of how many."""
        path = self._store.places.journal(workspace)
        with self._store.writing(path):
            return self._file(path).redact(segment_ids)

    def size(self, workspace: str) -> JournalSize:
        """Say how large the journal is."""
        path = self._store.places.journal(workspace)
        with self._store.writing(path):
            return self._file(path).size()

    def _file(self, path: Path) -> JournalFile:
        if path not in self._files:
            self._files[path] = JournalFile(path, self._retention)
        return self._files[path]
