"""The async face: nothing it does blocks the event loop, and calls keep their order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from marksweep.async_conversation import AsyncConversation, InOrder
from marksweep.conversation import Conversation
from marksweep.dialects import validate
from marksweep.errors import NotFound, StoreError
from marksweep.model import Stashed
from marksweep.stores.memory import Access, MemoryStore, StashTable, TableStash
from marksweep.testing.histories import Answered, Call, Said, Script, render_script

LONGEST = 20.0
"""Seconds after which a hanging test fails."""


def messages(steps: int = 30) -> list[dict[str, Any]]:
    reads = (
        Answered(f"step {n}", calls=(Call("read", {"path": f"{n}.py"}, f"row {n}\n" * 60),))
        for n in range(steps)
    )
    return render_script(Script((Said("fix it"), *reads, Answered("done"))), "openai_chat")


class SlowStash(TableStash):
    """A stash that blocks until it is released."""

    def __init__(self, tables: Access[StashTable]) -> None:
        super().__init__(tables, tables)
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def put(self, workspace: str, entries: Sequence[Stashed]) -> None:
        """Wait, then keep the entries."""
        self.reached.set()
        assert self.go_on.wait(LONGEST), "the event loop is blocked"
        super().put(workspace, entries)


class SlowStore(MemoryStore):
    """A store with a slow stash."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = SlowStash(self._access({}, StashTable))
        self.stash = self.slow


def test_the_loop_goes_on_while_a_sweep_waits_for_its_store() -> None:
    store = SlowStore()

    async def program() -> None:
        async with AsyncConversation(Conversation(limit=10**9, store=store)) as talk:
            await talk.extend(messages())
            sweep = asyncio.create_task(talk.collect(await talk.plan(500)))
            while not store.slow.reached.is_set():
                await asyncio.sleep(0)
            for _ in range(1_000):
                await asyncio.sleep(0)
            assert not sweep.done()
            store.slow.go_on.set()
            assert (await sweep).swept

    asyncio.run(asyncio.wait_for(program(), LONGEST))


def test_calls_are_carried_out_in_the_order_in_which_they_were_made() -> None:
    async def program() -> None:
        async with AsyncConversation(Conversation(limit=10**9)) as talk:
            said = [{"role": "user", "content": f"{n}"} for n in range(50)]
            await asyncio.gather(*(talk.extend([message]) for message in said))
            assert await talk.messages() == said

    asyncio.run(program())


def test_a_call_whose_task_is_cancelled_is_still_carried_out_whole() -> None:
    store = SlowStore()

    async def program() -> None:
        async with AsyncConversation(Conversation(limit=10**9, store=store)) as talk:
            await talk.extend(messages())
            sweep = asyncio.create_task(talk.collect(await talk.plan(500)))
            while not store.slow.reached.is_set():
                await asyncio.sleep(0)
            sweep.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sweep
            store.slow.go_on.set()
            left = [message.raw for message in await talk.history()]
            assert len(left) < len(messages())
            assert validate(left, "openai_chat") == []
            await talk.undo()
            assert [message.raw for message in await talk.history()] == messages()

    asyncio.run(asyncio.wait_for(program(), LONGEST))


def test_everything_a_conversation_does_is_there_and_does_the_same(tmp_path: Path) -> None:
    async def program() -> None:
        async with AsyncConversation(
            Conversation(limit=10**9, strategy="truncate", store=tmp_path / "talk.db")
        ) as talk:
            first, second, *_ = await talk.extend(messages())
            await talk.pin(second, "the test")
            plan = await talk.plan(800)
            report = await talk.collect(plan)
            assert report.plan_id == plan.plan_id
            assert "pinned by the test" in await talk.why(second)
            assert report.plan_id in await talk.why(report.swept[0])
            assert await talk.recall("row 7", 200)
            names = {line.name for line in await talk.ledger()}
            assert names == {"user", "model", "tool", "gap"}
            assert report.swept[0] in await talk.restore(report.swept[0])
            await talk.unpin(second)
            await talk.undo()
            assert await talk.messages() == messages()
            with pytest.raises(NotFound):
                await talk.why("nobody")
            assert first == "m1"
        with pytest.raises((StoreError, RuntimeError)):
            await talk.messages()

    asyncio.run(program())


def test_it_has_every_call_of_a_conversation() -> None:
    def calls(kind: type) -> set[str]:
        return {name for name, each in vars(kind).items() if name[0] != "_" and callable(each)}

    assert calls(Conversation) <= calls(AsyncConversation)


def test_calls_that_wait_when_the_program_ends_are_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, go_on = ThreadPoolExecutor(1), threading.Event()
    monkeypatch.setattr("marksweep.async_conversation.shared_pool", lambda: pool)
    calls, done = InOrder(), list[int]()

    def add(number: int) -> bool:
        done.append(number)
        return True

    futures = [calls.submit(lambda: go_on.wait(LONGEST))]
    futures += [calls.submit(partial(add, n)) for n in range(3)]
    pool.shutdown(wait=False)
    go_on.set()
    assert all(future.result(LONGEST) for future in futures)
    assert done == [0, 1, 2]
