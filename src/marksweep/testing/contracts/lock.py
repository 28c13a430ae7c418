"""What every lock must do, and what threads may expect."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from marksweep.errors import StoreBusy, StoreError
from marksweep.model import Entry, Event
from marksweep.stores.base import Store
from marksweep.testing.contracts.handles import (
    HOSTILE_NAMES,
    NOON,
    Handles,
    Opener,
    segment,
    stashed,
)

WAIT_AT_MOST = 1.0
"""Seconds that the stores under test should wait for a lock; `opener` sets it."""


class LockContract(Handles):
    """What every lock must do. The opener's stores wait at most WAIT_AT_MOST seconds."""

    def test_one_holder_at_a_time(self, store: Store, another: Opener) -> None:
        handles = [store, another(), store, another()]
        inside = 0
        most = 0

        def work(handle: Store) -> None:
            nonlocal inside, most
            for _ in range(3):
                with handle.lock("w"):
                    inside += 1
                    most = max(most, inside)
                    time.sleep(0.002)
                    inside -= 1

        with ThreadPoolExecutor(len(handles)) as pool:
            list(pool.map(work, handles))
        assert most == 1

    def test_who_waits_too_long_is_told(self, store: Store, another: Opener) -> None:
        neighbour = another()
        with store.lock("w"), ThreadPoolExecutor(2) as pool:
            for handle in (store, neighbour):
                with pytest.raises(StoreBusy, match="held"):
                    pool.submit(_take, handle, "w").result()
        _take(neighbour, "w")

    def test_the_same_thread_may_take_it_again(self, store: Store, another: Opener) -> None:
        neighbour = another()
        with store.lock("w"):
            with store.lock("w"):
                pass
            with ThreadPoolExecutor(1) as pool, pytest.raises(StoreBusy):
                pool.submit(_take, neighbour, "w").result()

    def test_it_is_let_go_after_an_error(self, store: Store, another: Opener) -> None:
        with pytest.raises(RuntimeError), store.lock("w"):
            raise RuntimeError
        _take(another(), "w")

    def test_workspaces_do_not_wait_for_each_other(self, store: Store, another: Opener) -> None:
        neighbour = another()
        with store.lock("one"), ThreadPoolExecutor(1) as pool:
            assert pool.submit(_take, neighbour, "two").result() == "two"
            assert pool.submit(_take, store, "two").result() == "two"

    def test_reading_and_writing_go_on_while_it_is_held(
        self, store: Store, another: Opener
    ) -> None:
        neighbour = another()
        with store.lock("w"), ThreadPoolExecutor(1) as pool:
            pool.submit(neighbour.segments.write, "w", put=[segment("a")]).result()
            assert len(store.segments.changes("w").put) == 1

    def test_hostile_names_can_be_locked(self, store: Store) -> None:
        for name in HOSTILE_NAMES:
            with store.lock(name):
                assert _take(store, name) == name

    def test_a_closed_store_cannot_be_locked(self, store: Store) -> None:
        store.close()
        with pytest.raises(StoreError, match="closed"):
            _take(store, "w")

    def test_threads_share_one_store(self, store: Store) -> None:
        threads, each = 4, 15
        start = threading.Barrier(threads)

        def work(me: int) -> None:
            start.wait()
            for n in range(each):
                store.segments.write("w", put=[segment(f"{me}-{n}", "text")])
                store.stash.put("w", [stashed(f"{me}-{n}", f"plan-{me}")])
                store.journal.append("w", Entry(Event.SWEPT, NOON, f"plan-{me}"))
                store.segments.changes("w", 1)

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))
        assert len(store.segments.changes("w").put) == threads * each
        assert store.stash.count("w") == threads * each
        numbers = [entry.seq for entry in store.journal.read("w")]
        assert numbers == list(range(threads * each, 0, -1))


def _take(store: Store, workspace: str) -> str:
    """Take and release a lock; return the name of the workspace."""
    with store.lock(workspace):
        return workspace
