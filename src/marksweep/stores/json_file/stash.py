"""The stash in JSON files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from marksweep.errors import StoreCorrupt
from marksweep.model import Stashed
from marksweep.stores.base import Hit, Query
from marksweep.stores.json_file import documents
from marksweep.stores.json_file.documents import write_stashed
from marksweep.stores.json_file.watched import WatchedFile
from marksweep.stores.tables import StashTable

if TYPE_CHECKING:
    from pathlib import Path

    from marksweep.stores.json_file import JsonStore


class StashFile:
    """One workspace's stash file, and the table that was read from it."""

    def __init__(self, path: Path) -> None:
        self._file = WatchedFile(path)
        self._table = StashTable()
        self._written: dict[tuple[str, str], bytes] = {}
        self._version = 0

    def table(self) -> StashTable:
        """Give the table as the file has it now."""
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

    def put(self, workspace: str, entries: Sequence[Stashed]) -> None:
        """Keep entries. The caller holds the file's lock."""
        table = self.table()
        written = dict(self._written)
        for entry in entries:
            written.pop(_key(entry), None)
            written[_key(entry)] = write_stashed(entry)
        self._replace(workspace, written)
        table.put(entries)

    def remove(self, workspace: str, plan_id: str, segment_ids: Sequence[str]) -> None:
        """Let go of entries. The caller holds the file's lock."""
        table = self.table()
        gone = {(plan_id, segment_id) for segment_id in segment_ids} & self._written.keys()
        if gone:
            written = {key: each for key, each in self._written.items() if key not in gone}
            self._replace(workspace, written)
            table.remove(plan_id, segment_ids)

    def _replace(self, workspace: str, written: dict[tuple[str, str], bytes]) -> None:
        version = self._version + 1
        self._file.replace(documents.write_document(version, workspace, written.values()))
        self._written, self._version = written, version


class JsonStash:
    """Swept segments, in the order they were put."""

    def __init__(self, store: JsonStore) -> None:
        self._store = store
        self._files: dict[Path, StashFile] = {}

    def put(self, workspace: str, entries: Sequence[Stashed]) -> None:
        """Keep entries, all or nothing. Again with the same plan and segment: replaced."""
        path = self._store.places.stash(workspace)
        with self._store.writing(path):
            self._file(path).put(workspace, tuple(entries))

    def get(self, workspace: str, segment_ids: Sequence[str]) -> tuple[Stashed, ...]:
        """Fetch the entries of these segments, the one put last first."""
        with self._store.reading():
            return self._table(workspace).get(segment_ids)

    def of_plan(self, workspace: str, plan_id: str) -> tuple[Stashed, ...]:
        """Fetch what a plan swept, in heap order."""
        with self._store.reading():
            return self._table(workspace).of_plan(plan_id)

    def latest_plan(self, workspace: str) -> str | None:
        """Name the plan of the entry that was put last."""
        with self._store.reading():
            return self._table(workspace).latest_plan()

    def remove(self, workspace: str, plan_id: str, segment_ids: Sequence[str]) -> None:
        """Let go of a plan's entries, all or nothing. Unknown ids are no error."""
        path = self._store.places.stash(workspace)
        with self._store.writing(path):
            self._file(path).remove(workspace, plan_id, tuple(segment_ids))

    def search(self, workspace: str, query: Query) -> tuple[Hit[Stashed], ...]:
        """Find entries, best first; without words, the one put last first."""
        with self._store.reading():
            return self._table(workspace).search(query)

    def expired(self, workspace: str, now: datetime) -> tuple[Stashed, ...]:
        """Fetch the entries whose deletion has become final, the one put first first."""
        with self._store.reading():
            return self._table(workspace).expired(now)

    def count(self, workspace: str, most: int = sys.maxsize) -> int:
        """Count the entries, no further than to `most`."""
        with self._store.reading():
            return min(most, len(self._table(workspace)))

    def _table(self, workspace: str) -> StashTable:
        return self._file(self._store.places.stash(workspace)).table()

    def _file(self, path: Path) -> StashFile:
        if path not in self._files:
            self._files[path] = StashFile(path)
        return self._files[path]


def _key(entry: Stashed) -> tuple[str, str]:
    return entry.plan_id, entry.segment.segment_id
