from __future__ import annotations

from pathlib import Path

import pytest

from marksweep.stores.json_file import JsonStore
from marksweep.testing.contracts import WAIT_AT_MOST, Opener, StoreContract


class TestJsonStore(StoreContract):
    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener:
        return lambda: JsonStore(tmp_path / "store.json", lock_timeout=WAIT_AT_MOST)
