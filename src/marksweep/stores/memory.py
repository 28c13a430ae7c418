"""A store in memory: for tests and for one-off runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from marksweep.errors import StoreBusy, StoreError
from marksweep.stores.base import KEEP_PLANS, PlanRetention
from marksweep.stores.files import LOCK_TIMEOUT
from marksweep.stores.tables import (
    Access,
    JournalTable,
    LiveTable,
    StashTable,
    TableJournal,
    TableSegments,
    TableStash,
)

Table = TypeVar("Table")


class MemoryStore:
    """All three faces in this process's memory. Gone when the process ends."""

    def __init__(
        self, *, lock_timeout: float = LOCK_TIMEOUT, retention: PlanRetention = KEEP_PLANS
    ) -> None:
        self._timeout = lock_timeout
        self._mutex = threading.RLock()
        self._locks: dict[str, threading.RLock] = {}
        self._closed = False
        self._live: dict[str, LiveTable] = {}
        live = self._access(self._live, LiveTable)
        stash = self._access({}, StashTable)
        journal = self._access({}, lambda: JournalTable(retention))
        self.segments = TableSegments(live, live, self._workspaces)
        self.stash = TableStash(stash, stash)
        self.journal = TableJournal(journal, journal)

    @contextmanager
    def lock(self, workspace: str) -> Iterator[None]:
        """Hold a workspace for one sweep, between threads."""
        with self._alone():
            lock = self._locks.setdefault(workspace, threading.RLock())
        if not lock.acquire(timeout=self._timeout):
            raise StoreBusy(
                f"memory store: workspace {workspace!r} is held by another thread for more than "
                f"{self._timeout:g} s. Try again, or find the thread that hangs in a sweep."
            )
        try:
            yield
        finally:
            lock.release()

    def scrub(self) -> tuple[str, ...]:
        """Do nothing: there are no files."""
        return ()

    def close(self) -> None:
        """Refuse further calls."""
        with self._mutex:
            self._closed = True

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads out for one call; refuse if the store is closed."""
        with self._mutex:
            if self._closed:
                raise StoreError("memory store: it is closed. Make a new one.")
            yield

    def _access(self, tables: dict[str, Table], make: Callable[[], Table]) -> Access[Table]:
        @contextmanager
        def access(workspace: str) -> Iterator[Table]:
            with self._alone():
                if workspace not in tables:
                    tables[workspace] = make()
                yield tables[workspace]

        return access

    def _workspaces(self) -> list[str]:
        with self._alone():
            return [name for name, table in self._live.items() if len(table)]
