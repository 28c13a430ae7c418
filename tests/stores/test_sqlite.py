from __future__ import annotations

from pathlib import Path

import pytest

from marksweep.stores.sqlite import SqliteStore
from marksweep.testing.contracts import WAIT_AT_MOST, Opener, StoreContract


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener:
        return lambda: SqliteStore(tmp_path / "store.db", lock_timeout=WAIT_AT_MOST)
