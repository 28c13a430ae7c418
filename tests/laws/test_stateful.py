"""The random walk over every store."""

from __future__ import annotations

from pathlib import Path

from hypothesis import settings

from marksweep.stores.base import Store
from marksweep.stores.memory import MemoryStore
from marksweep.stores.open import open_store
from tests.laws.stateful import HeapMachine


class MemoryMachine(HeapMachine):
    def make_store(self, folder: Path) -> Store:
        return MemoryStore()


class SqliteMachine(HeapMachine):
    def make_store(self, folder: Path) -> Store:
        return open_store(folder / "context.db")


class JsonMachine(HeapMachine):
    def make_store(self, folder: Path) -> Store:
        return open_store(folder / "context.json")


TestMemory = MemoryMachine.TestCase
TestSqlite = SqliteMachine.TestCase
TestJson = JsonMachine.TestCase
for case in (TestMemory, TestSqlite, TestJson):
    case.settings = settings(max_examples=30, stateful_step_count=30)
