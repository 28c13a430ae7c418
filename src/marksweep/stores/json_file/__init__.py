"""The JSON store: files that people can read, and other tools can write.

    context.json           {"segments": […]}, the live segments
    context.stash.json     the same shape; each segment has an object `stashed` beside its fields
    context.journal.jsonl  one entry per line

The default workspace lives in the files above; every other one has files of its own beside them,
named after it. Each write replaces a file as a whole, so it suits some thousands of
segments; beyond that, SQLite is the better place.

    places      which file is whose
    documents   a file's text to nouns and back, with the place of what is wrong
    watched     a file read again when someone changed it
    salvage     what can be read of damaged files
    segments, stash, journal   the three faces
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from marksweep.errors import StoreError
from marksweep.stores.base import KEEP_PLANS, PlanRetention
from marksweep.stores.files import LOCK_TIMEOUT, FileLock, make_folder, tighten, unusable
from marksweep.stores.json_file.journal import JsonJournal
from marksweep.stores.json_file.places import Places
from marksweep.stores.json_file.segments import JsonSegments
from marksweep.stores.json_file.stash import JsonStash

__all__ = ["JsonJournal", "JsonSegments", "JsonStash", "JsonStore"]


class JsonStore:
    """All three faces in readable files. Threads may share the object, processes the files."""

    def __init__(
        self,
        path: str | Path,
        *,
        lock_timeout: float = LOCK_TIMEOUT,
        retention: PlanRetention = KEEP_PLANS,
    ) -> None:
        self.places = Places(Path(path).absolute())
        self._timeout = lock_timeout
        self._mutex = threading.RLock()
        self._locks: dict[Path, FileLock] = {}
        self._closed = False
        try:
            make_folder(self.places.folder)
            for file in self.places.files():
                tighten(file)
        except OSError as error:
            raise unusable(self.places.folder, error) from error
        self._segments = JsonSegments(self)
        self._stash = JsonStash(self)
        self._journal = JsonJournal(self, retention)

    @property
    def segments(self) -> JsonSegments:
        """The live segments."""
        return self._segments

    @property
    def stash(self) -> JsonStash:
        """The swept segments."""
        return self._stash

    @property
    def journal(self) -> JsonJournal:
        """The record."""
        return self._journal

    @contextmanager
    def lock(self, workspace: str) -> Iterator[None]:
        """Hold a workspace for one sweep, across threads and processes."""
        with self.reading():
            lock = self._lock_on(self.places.sweep_lock(workspace))
        with lock.held():
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep other threads out for one call; refuse if the store is closed."""
        with self._mutex:
            if self._closed:
                raise StoreError(f"{self.places.main}: the store is closed. Open it again.")
            yield

    @contextmanager
    def writing(self, path: Path) -> Iterator[None]:
        """Keep other threads and processes from writing a file for one call."""
        with self.reading(), self._lock_on(self.places.write_lock(path)).held():
            yield

    def scrub(self) -> tuple[str, ...]:
        """Do nothing: a file that lost something was written anew."""
        return ()

    def close(self) -> None:
        """Refuse further calls. No file is left open in between anyway."""
        with self._mutex:
            self._closed = True

    def _lock_on(self, side: Path) -> FileLock:
        return self._locks.setdefault(side, FileLock(side, self._timeout))
