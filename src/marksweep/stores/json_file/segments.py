"""The live segments in JSON files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from marksweep.errors import StoreCorrupt
from marksweep.model import Segment
from marksweep.stores.base import DEFAULT_WORKSPACE, Changes, Hit, Query
from marksweep.stores.json_file import documents
from marksweep.stores.json_file.documents import SALVAGE, Document, write_segment
from marksweep.stores.json_file.watched import WatchedFile
from marksweep.stores.tables import LiveTable

if TYPE_CHECKING:
    from pathlib import Path

    from marksweep.stores.json_file import JsonStore


class LiveFile:
    """One workspace's file, and the table that was read from it."""

    def __init__(self, path: Path) -> None:
        self._file = WatchedFile(path)
        self._table: LiveTable | None = None
        self._written: dict[str, bytes] = {}

    def table(self) -> LiveTable:
        """Give the table as the file has it now."""
        document = self._file.changed()
        if document is not None:
            self._take_in(document)
        if self._table is None:
            self._table = LiveTable()
        return self._table

    def write(self, workspace: str, put: Sequence[Segment], remove: Sequence[str]) -> int:
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
        self._file.replace(documents.write_document(version, workspace, written.values()))
        self._written = written
        return table.write(put, remove, version=version)

    def _take_in(self, document: Document) -> None:
        """Learn what is in the file; what differs from before counts as changed now."""
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
                f"has too; ids must differ. {SALVAGE}"
            )
        found[segment.segment_id] = segment
    return found


class JsonSegments:
    """The live segments of each workspace."""

    def __init__(self, store: JsonStore) -> None:
        self._store = store
        self._files: dict[Path, LiveFile] = {}

    def changes(self, workspace: str, since: int = 0) -> Changes:
        """Tell what was put or removed after version `since`; from 0, everything."""
        with self._store.reading():
            return self._table(workspace).changes(since)

    def write(
        self, workspace: str, *, put: Sequence[Segment] = (), remove: Sequence[str] = ()
    ) -> int:
        """Remove, then put, in one step, all or nothing; return the new version."""
        path = self._store.places.live(workspace)
        with self._store.writing(path):
            return self._file(path).write(workspace, tuple(put), tuple(remove))

    def search(self, workspace: str, query: Query) -> tuple[Hit[Segment], ...]:
        """Find live segments, best first; without words, last touched first."""
        with self._store.reading():
            return self._table(workspace).search(query)

    def workspaces(self) -> tuple[str, ...]:
        """Name the workspaces that hold live segments, sorted."""
        with self._store.reading():
            live = (path for path in self._store.places.workspaces() if path.exists())
            names = (self._name(path) for path in live if len(self._file(path).table()))
            return tuple(sorted(names))

    def _name(self, path: Path) -> str:
        """Read whose file it is. The main file is the default workspace's, whatever it says."""
        if path == self._store.places.main:
            return DEFAULT_WORKSPACE
        return documents.parse(path, path.read_bytes()).workspace

    def _table(self, workspace: str) -> LiveTable:
        return self._file(self._store.places.live(workspace)).table()

    def _file(self, path: Path) -> LiveFile:
        if path not in self._files:
            self._files[path] = LiveFile(path)
        return self._files[path]
