from __future__ import annotations

import pytest

from marksweep.stores.memory import MemoryStore
from marksweep.testing.builders import segment
from marksweep.testing.contracts import WAIT_AT_MOST, Opener, StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def opener(self) -> Opener:
        store = MemoryStore(lock_timeout=WAIT_AT_MOST)
        return lambda: store


def test_changes_are_reported_one_by_one_until_there_were_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("marksweep.stores.memory.CHANGES_KEPT", 3)
    segments = MemoryStore().segments
    versions = [segments.write("w", put=[segment(f"s{n}")]) for n in range(6)]
    changes = segments.changes("w", versions[2])
    assert ([s.segment_id for s in changes.put], changes.complete) == (["s3", "s4", "s5"], False)
    changes = segments.changes("w", versions[1])
    assert (len(changes.put), changes.complete) == (6, True)
    last = segments.write("w", remove=["s0", "s1", "s2", "s3"])
    assert segments.changes("w", versions[5]).complete
    assert not segments.changes("w", last).complete
