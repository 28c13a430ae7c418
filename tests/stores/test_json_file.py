from __future__ import annotations

from pathlib import Path

import pytest

from marksweep.stores.json_file import JsonStore
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


class JsonHandles:
    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener:
        return lambda: JsonStore(tmp_path / "store.json", lock_timeout=WAIT_AT_MOST)


class TestJsonSegments(JsonHandles, SegmentStoreContract):
    pass


class TestJsonStash(JsonHandles, StashContract):
    pass


class TestJsonSearch(JsonHandles, SearchContract):
    pass


class TestJsonJournal(JsonHandles, JournalContract):
    pass


class TestJsonLock(JsonHandles, LockContract):
    pass


class TestJsonModel(JsonHandles, StoreModelContract):
    pass
