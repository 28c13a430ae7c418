"""What every store must do, as a test class to inherit.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def opener(self, tmp_path: Path) -> Opener:
            return lambda: MyStore(tmp_path / "store", lock_timeout=WAIT_AT_MOST)

`opener` returns a function that opens another handle on the same place, which is empty at first. A
store with only one handle, such as one in memory, returns that one each time.
"""

from __future__ import annotations

from marksweep.testing.contracts.handles import Opener
from marksweep.testing.contracts.journal import JournalContract
from marksweep.testing.contracts.lock import WAIT_AT_MOST, LockContract
from marksweep.testing.contracts.model import StoreModelContract
from marksweep.testing.contracts.search import SearchContract
from marksweep.testing.contracts.segments import SegmentStoreContract
from marksweep.testing.contracts.stash import StashContract

__all__ = ["WAIT_AT_MOST", "Opener", "StoreContract"]


class StoreContract(
    SegmentStoreContract,
    StashContract,
    SearchContract,
    JournalContract,
    LockContract,
    StoreModelContract,
):
    """Everything that a store must do: segments, stash, search, journal, lock, and random work."""
