"""What is specific to the Redis store: the server, the lease, the keys."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
import redis
from redis.crc import key_slot

from marksweep.errors import BadInput, StoreBusy, StoreCorrupt, StoreError
from marksweep.stores.redis import RedisStore
from marksweep.testing.contracts.handles import segment, stashed
from tests.servers import free_port, running_redis


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_redis() as url:
        yield url


@pytest.fixture
def server(url: str) -> Iterator[redis.Redis]:
    server = redis.Redis.from_url(url)
    server.flushall()
    yield server
    server.close()


@pytest.fixture
def store(url: str, server: redis.Redis) -> Iterator[RedisStore]:
    store = RedisStore(url, lock_timeout=1)
    yield store
    store.close()


def all_keys(server: redis.Redis) -> list[bytes]:
    return list(server.scan_iter("*"))


def test_an_unreachable_server_is_reported() -> None:
    with pytest.raises(StoreError, match=r"redis://\*\*\*@127\.0\.0\.1:1/3: it cannot be reached"):
        RedisStore("redis://:secret@127.0.0.1:1/3")


def test_a_cluster_is_refused_at_once() -> None:
    bus = str(
        free_port()
    )  # the default is the server's port plus 10,000, which may be out of range
    with (
        running_redis("--cluster-enabled", "yes", "--cluster-port", bus) as url,
        pytest.raises(StoreError, match=r"127.0.0.1.*Redis Cluster.*Name a single server"),
    ):
        RedisStore(url)


def test_an_option_in_the_url_that_the_client_does_not_know_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match=r"foo=1 is not the URL of a Redis server"):
        RedisStore(f"{url}?foo=1")


def test_a_url_that_asks_for_decoded_answers_can_be_used(url: str) -> None:
    store = RedisStore(f"{url}?decode_responses=yes")
    store.segments.write("decoded", put=[segment("a", "words")])
    assert [each.segment_id for each in store.segments.changes("decoded").put] == ["a"]
    store.close()


def test_a_password_is_never_shown() -> None:
    with pytest.raises(StoreError) as caught:
        RedisStore("redis://user:secret@127.0.0.1:1/3")
    assert "secret" not in str(caught.value)


def test_a_server_that_dies_is_reported_and_its_return_is_noticed() -> None:
    with running_redis() as url:
        store = RedisStore(url)
        store.segments.write("w", put=[segment("a")])
    for _ in range(2):
        with pytest.raises(StoreError, match="cannot be reached"):
            store.segments.changes("w")
    store.close()


def test_a_server_that_hangs_is_reported_and_used_again_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("marksweep.stores.redis.client.ANSWER_TIMEOUT", 0.3)
    with running_redis() as url, redis.Redis.from_url(url) as server:
        process = server.info("server")["process_id"]
        store = RedisStore(url)
        store.segments.write("w", put=[segment("a")])
        os.kill(process, signal.SIGSTOP)
        try:
            with pytest.raises(StoreError, match="it does not answer"):
                store.segments.changes("w")
        finally:
            os.kill(process, signal.SIGCONT)
        assert [each.segment_id for each in store.segments.changes("w").put] == ["a"]
        store.close()


def test_a_server_whose_memory_is_full_is_reported_and_nothing_is_changed(
    store: RedisStore, server: redis.Redis
) -> None:
    store.stash.put("w", [stashed("a")])
    server.config_set("maxmemory", "1")
    server.config_set("maxmemory-policy", "noeviction")
    try:
        with pytest.raises(StoreError, match="memory is full"):
            store.stash.put("w", [stashed("more")])
    finally:
        server.config_set("maxmemory", "0")
    assert store.stash.get("w", ["a"]) == (stashed("a"),)


def test_a_value_that_cannot_be_read_is_reported(store: RedisStore, server: redis.Redis) -> None:
    store.segments.write("w", put=[segment("a")])
    (key,) = [key for key in all_keys(server) if key.endswith(b":live")]
    server.hset(key, "a", "{")
    with pytest.raises(StoreCorrupt, match="cannot be read"):
        store.segments.changes("w")


def test_all_keys_have_the_prefix_and_a_workspaces_keys_share_a_slot(
    url: str, server: redis.Redis
) -> None:
    store = RedisStore(url, prefix="mine")
    slots: list[set[int]] = []
    for workspace in ("one", "t{w}o"):
        store.segments.write(workspace, put=[segment("a{b}c", "some words")])
        store.stash.put(workspace, [stashed("a}{b", "pl{a}n")])
        with store.lock(workspace):
            keys = all_keys(server)
            assert all(key.startswith(b"mine:") for key in keys)
            slots.append({key_slot(key) for key in keys} - {key_slot(b"mine:workspaces")})
    assert [len(found) for found in slots] == [1, 2]
    store.close()


def test_nothing_is_left_behind_of_what_was_removed(store: RedisStore, server: redis.Redis) -> None:
    store.stash.put("w", [stashed("a", text="some words"), stashed("b", "p2", "words")])
    store.stash.remove("w", "plan-1", ["a"])
    store.stash.remove("w", "p2", ["b"])
    left = all_keys(server)
    assert all(key.endswith((b":state", b"=total", b":workspaces")) for key in left)
    assert [server.get(key) for key in left if key.endswith(b"=total")] == [b"0"]


def lock_key(server: redis.Redis) -> bytes:
    (key,) = [key for key in all_keys(server) if key.endswith(b":lock")]
    return key


def test_a_holder_that_died_loses_the_lock_when_its_lease_runs_out(
    url: str, server: redis.Redis, store: RedisStore
) -> None:
    with store.lock("w"):
        key = lock_key(server)
    waiting = RedisStore(url)
    start = time.monotonic()
    server.set(key, "the token of the dead", px=400)
    with waiting.lock("w"):
        assert time.monotonic() - start > 0.2
    waiting.close()


def test_a_lease_is_renewed_while_it_is_held(url: str, server: redis.Redis) -> None:
    slow = RedisStore(url, lease_seconds=0.9)
    other = RedisStore(url, lock_timeout=1.2)
    with slow.lock("w"), pytest.raises(StoreBusy, match="held for a sweep by another process"):
        other.lock("w").__enter__()
    assert all_keys(server) == []
    with other.lock("w"):
        pass
    slow.close()
    other.close()


def test_a_lease_that_was_lost_is_reported_and_not_taken_from_the_next(
    url: str, server: redis.Redis, store: RedisStore, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), store.lock("w"):
        key = lock_key(server)
        server.set(key, "the token of the next")
    assert "expired while it was held" in caplog.text
    assert server.get(key) == b"the token of the next"


def test_conflicting_writers_retry_and_no_write_is_lost(url: str, server: redis.Redis) -> None:
    def write(me: int) -> None:
        store = RedisStore(url)
        for n in range(10):
            store.segments.write("w", put=[segment(f"{me}-{n}", "shared words")])
        store.close()

    threads = [threading.Thread(target=write, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = RedisStore(url)
    changes = store.segments.changes("w")
    assert len(changes.put) == 40
    assert changes.version == 40
    store.close()
