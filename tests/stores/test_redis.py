from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from marksweep.stores.redis import RedisStore
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
from marksweep.testing.servers import running_redis


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_redis() as url:
        yield url


class RedisHandles:
    @pytest.fixture
    def opener(self, url: str) -> Opener:
        prefix = f"test-{uuid4().hex}"
        return lambda: RedisStore(url, prefix=prefix, lock_timeout=WAIT_AT_MOST)


class TestRedisSegments(RedisHandles, SegmentStoreContract):
    pass


class TestRedisStash(RedisHandles, StashContract):
    pass


class TestRedisSearch(RedisHandles, SearchContract):
    pass


class TestRedisJournal(RedisHandles, JournalContract):
    pass


class TestRedisLock(RedisHandles, LockContract):
    pass


class TestRedisModel(RedisHandles, StoreModelContract):
    pass
