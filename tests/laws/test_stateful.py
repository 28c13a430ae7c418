"""The random walk over every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import settings

from marksweep.stores.base import Store
from marksweep.stores.memory import MemoryStore
from marksweep.stores.open import open_store
from marksweep.stores.redis import RedisStore
from tests.laws.stateful import HeapMachine
from tests.servers import running_redis


class MemoryMachine(HeapMachine):
    def make_store(self, folder: Path) -> Store:
        return MemoryStore()


class SqliteMachine(HeapMachine):
    def make_store(self, folder: Path) -> Store:
        return open_store(folder / "context.db")


class RedisMachine(HeapMachine):
    server: ClassVar[str]

    def make_store(self, folder: Path) -> Store:
        return RedisStore(self.server, prefix=str(folder))


class JsonMachine(HeapMachine):
    def make_store(self, folder: Path) -> Store:
        return open_store(folder / "context.json")


@pytest.fixture(autouse=True, scope="module")
def server() -> Iterator[None]:
    with running_redis() as RedisMachine.server:
        yield


WALK = settings(max_examples=30, stateful_step_count=30)

TestMemory = MemoryMachine.TestCase
TestSqlite = SqliteMachine.TestCase
TestJson = JsonMachine.TestCase
TestRedis = RedisMachine.TestCase

TestMemory.settings = WALK
TestSqlite.settings = WALK
TestJson.settings = WALK
TestRedis.settings = WALK
