"""One workspace's files, each with the table read from it.

Writers hold the file's lock; what they change is in the file before they return. Changes by other
programs are read at the next use; a journal line that a crash cut off is skipped and logged.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

from marksweep.errors import StoreCorrupt
from marksweep.model import Entry, Segment, Stashed
from marksweep.stores.base import PlanRetention
from marksweep.stores.codec import ENTRY
from marksweep.stores.files import (
    Stamp,
    check_writable,
    open_private,
    open_stored,
    replace_file,
    sync_folder,
    unusable,
)
from marksweep.stores.json_file.documents import (
    SALVAGE,
    Document,
    parse,
    read_segments,
    read_stashed,
    write_document,
    write_item,
)
from marksweep.stores.memory import JournalTable, LiveTable, StashTable

log = logging.getLogger(__name__)

_HEADER = 64

Version = tuple[Stamp, bytes]
"""Identifies a state of a file, by its first bytes too.

These hold the version: two writes in one tick of the file system's clock may be equal in all the
rest.
"""

Table = TypeVar("Table", LiveTable, StashTable)


def _version(path: Path) -> Version | None:
    try:
        found = Stamp.of(path.stat())
        with open_stored(path) as file:
            return found, file.read(_HEADER)
    except FileNotFoundError:
        return None


class DocumentFile(Generic[Table]):
    """One workspace's live file or stash file, and the table read from it."""

    def __init__(self, path: Path, workspace: str) -> None:
        self.path = path
        self._workspace = workspace
        self._table: Table | None = None
        self._seen: Version | None = None
        self._texts: dict[int, tuple[Segment | Stashed, bytes]] = {}
        """What is in the file, by identity: formatting it again would take most of a write."""

    def table(self) -> Table:
        """Return the table, up to date with the file. A missing file reads as empty."""
        try:
            version = _version(self.path)
            if self._table is None or version != self._seen:
                found = parse(self.path, self.path.read_bytes()) if version else Document([])
                self._table = self._loaded(found, self._table)
                self._seen = version
        except OSError as error:
            raise unusable(self.path, error) from error
        return self._table

    @contextmanager
    def writing(self) -> Iterator[Table]:
        """Yield the table, and write the file if the table was changed.

        After a failure it is read from the file again. The caller holds the file's lock.
        """
        table = self.table()
        before = table.version
        try:
            yield table
            if table.version != before:
                self._save(table)
        except BaseException:
            self._table = None
            raise

    def _save(self, table: Table) -> None:
        items, known = table.held.values(), self._texts
        texts = {id(item): known.get(id(item)) or (item, write_item(item)) for item in items}
        written = (text for _, text in texts.values())
        try:
            replace_file(self.path, write_document(table.version, self._workspace, written))
            self._seen = _version(self.path)
        except OSError as error:
            raise unusable(self.path, error) from error
        self._texts = texts

    def _loaded(self, document: Document, known: Table | None) -> Table:
        """Read a table from the file; `known` is what was read or written before."""
        raise NotImplementedError


class LiveFile(DocumentFile[LiveTable]):
    """One workspace's live segments."""

    def _loaded(self, document: Document, known: LiveTable | None) -> LiveTable:
        """Read the segments; differences from before count as changed now."""
        found = _by_id(self.path, read_segments(self.path, document))
        if known is None:
            return LiveTable(max(document.version, min(1, len(found))), found.values())
        put = [segment for key, segment in found.items() if known.held.get(key) != segment]
        gone = [key for key in known.held if key not in found]
        if put or gone or document.version > known.version:
            known.write(put, gone, version=max(known.version + 1, document.version))
        return known


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


class StashFile(DocumentFile[StashTable]):
    """One workspace's stash."""

    def _loaded(self, document: Document, known: StashTable | None) -> StashTable:  # noqa: ARG002
        return StashTable(document.version, read_stashed(self.path, document))


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

    @contextmanager
    def writing(self) -> Iterator[JournalTable]:
        """Yield the entries; write what is added durably. The caller holds the file's lock.

        If others were changed or expired, the whole file is replaced. After a failure the file is
        read again.
        """
        table = self.table()
        before = tuple(table.entries)
        try:
            yield table
            after = tuple(table.entries)
            if after[: len(before)] != before:
                self._replace(after)
            elif len(after) > len(before):
                self._append(after[len(before) :])
        except OSError as error:
            self._forget()
            raise unusable(self.path, error) from error
        except BaseException:
            self._forget()
            raise

    def _replace(self, entries: Sequence[Entry]) -> None:
        lines = _lines(entries)
        replace_file(self.path, b"".join(lines))
        self._inode = self.path.stat().st_ino
        self._offset, self._line, self._torn, self._last = 0, 0, b"", b""
        self._pass(lines)

    def _append(self, entries: Sequence[Entry]) -> None:
        lines = _lines(entries)
        if self.path.exists():
            check_writable(self.path)
        with open_private(self.path) as file:
            if os.fstat(file.fileno()).st_size > self._offset:
                file.truncate(self._offset)
                self._torn = b""
            file.seek(self._offset)
            try:
                file.write(b"".join(lines))
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.ftruncate(file.fileno(), self._offset)
                raise
            self._inode = os.fstat(file.fileno()).st_ino
        if self._offset == 0:
            sync_folder(self.path.parent)
        self._pass(lines)

    def _pass(self, lines: Sequence[bytes]) -> None:
        """Note that these lines were read or written."""
        self._offset += sum(map(len, lines))
        self._line += len(lines)
        self._last = lines[-1] if lines else self._last

    def _forget(self) -> None:
        self._table = JournalTable(self._retention)
        self._offset = 0
        self._line = 0
        self._inode = 0
        self._torn = b""
        self._last = b""
        """The line before the offset: a new file may have the inode of one before it."""

    def _read_on(self) -> None:
        with open_stored(self.path) as file:
            found = os.fstat(file.fileno())
            file.seek(self._offset - len(self._last))
            if found.st_ino != self._inode or file.read(len(self._last)) != self._last:
                self._forget()
                self._inode = found.st_ino
            if found.st_size == self._offset:
                return
            file.seek(self._offset)
            *lines, rest = file.read().split(b"\n")
        for line in lines:
            self._take_in(line)
            self._pass([line + b"\n"])
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
        self._table.entries.append(entry)


def _lines(entries: Sequence[Entry]) -> list[bytes]:
    return [ENTRY.encode(entry) + b"\n" for entry in entries]
