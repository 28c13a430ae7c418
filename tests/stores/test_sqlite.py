from __future__ import annotations

from pathlib import Path

import pytest

from marksweep.stores.sqlite import SqliteStore
from marksweep.testing.contracts import (
    JournalContract,
    LockContract,
    Opener,
    SearchContract,
    SegmentStoreContract,
    StashContract,
    StoreModelContract,
)
from marksweep.testing.contracts.lock import WAIT_AT_MOST


class SqliteHandles:
    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener:
        return lambda: SqliteStore(tmp_path / "store.db", lock_timeout=WAIT_AT_MOST)


class TestSqliteSegments(SqliteHandles, SegmentStoreContract):
    pass


class TestSqliteStash(SqliteHandles, StashContract):
    pass


class TestSqliteSearch(SqliteHandles, SearchContract):
    pass


class TestSqliteJournal(SqliteHandles, JournalContract):
    pass


class TestSqliteLock(SqliteHandles, LockContract):
    pass


class TestSqliteModel(SqliteHandles, StoreModelContract):
    pass
