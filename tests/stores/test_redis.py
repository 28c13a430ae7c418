from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from marksweep.stores.redis import RedisStore
from marksweep.testing.contracts import WAIT_AT_MOST, Opener, StoreContract
from tests.servers import running_redis


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_redis() as url:
        yield url


class TestRedisStore(StoreContract):
    @pytest.fixture
    def opener(self, url: str) -> Opener:
        prefix = f"test-{uuid4().hex}"
        return lambda: RedisStore(url, prefix=prefix, lock_timeout=WAIT_AT_MOST)
