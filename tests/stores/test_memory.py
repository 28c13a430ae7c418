from __future__ import annotations

import pytest

from marksweep.stores.memory import MemoryStore
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


class MemoryHandles:
    @pytest.fixture
    def opener(self) -> Opener:
        store = MemoryStore(lock_timeout=WAIT_AT_MOST)
        return lambda: store


class TestMemorySegments(MemoryHandles, SegmentStoreContract):
    pass


class TestMemoryStash(MemoryHandles, StashContract):
    pass


class TestMemorySearch(MemoryHandles, SearchContract):
    pass


class TestMemoryJournal(MemoryHandles, JournalContract):
    pass


class TestMemoryLock(MemoryHandles, LockContract):
    pass


class TestMemoryModel(MemoryHandles, StoreModelContract):
    pass
