"""The async face of a conversation: the same calls, none of which blocks the event loop.

    async with AsyncConversation(Conversation(limit=100_000, store=path)) as talk:
        await talk.extend(new_messages)
        request(messages=await talk.messages())

All decisions are those of `Conversation`. Its calls run one after the other, in the order in which
they were made, in a pool of threads that all conversations share. A call whose task is cancelled is
still carried out: half a sweep would be worse.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from threading import Lock
from types import TracebackType
from typing import Self, TypeVar

from marksweep.conversation import RECALL_TOKENS, Conversation
from marksweep.core.budget import Line
from marksweep.dialects.base import Json
from marksweep.following import Kept
from marksweep.heaps.stash_search import Recalled
from marksweep.messages import Message
from marksweep.model import Plan, Report

T = TypeVar("T")

THREADS = 8
"""Conversations that work at once. More only wait for the interpreter and the store."""


@cache
def _pool() -> ThreadPoolExecutor:
    """Give the threads that all conversations share."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix="marksweep")


class InOrder:
    """Runs calls in the shared threads one after the other, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_running = False
        self._lock = Lock()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Let a call run once those before it are done."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            self._waiting.append(lambda: _settle(future, call))
            if not self._is_running:
                self._is_running = True
                _pool().submit(self._run)
        return future

    def _run(self) -> None:
        """Run one call, then queue for the next: so that others get their turn."""
        self._waiting.popleft()()
        with self._lock:
            self._is_running = bool(self._waiting)
            if self._is_running:
                _pool().submit(self._run)


def _settle(future: Future[T], call: Callable[[], T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - the caller gets it
        future.set_exception(error)


class AsyncConversation:
    """A conversation for programs that run in an event loop."""

    def __init__(self, conversation: Conversation) -> None:
        self._talk = conversation
        self._calls = InOrder()

    async def extend(self, messages: Json, pin: bool = False) -> list[str]:
        """Add messages at the end; give the ids they are known by here."""
        return await self._run(lambda: self._talk.extend(messages, pin))

    async def follow(self, messages: Json, keys: Sequence[Json] | None = None) -> list[Kept]:
        """Take in the whole history as its host has it now; give what to send."""
        return await self._run(lambda: self._talk.follow(messages, keys))

    async def messages(self) -> list[Json]:
        """Give the messages for the next request; collected when due."""
        return await self._run(lambda: self._talk.messages)

    async def observe(self, input_tokens: int, cached_tokens: int | None = None) -> None:
        """Learn from the usage that the provider reported for the last request."""
        await self._run(lambda: self._talk.observe(input_tokens, cached_tokens))

    async def note_cold_cache(self) -> None:
        """Note that the next request finds no prompt cache: another model or account, a resume."""
        await self._run(self._talk.note_cold_cache)

    async def history(self) -> list[Message]:
        """Give the messages as they are, neutral. Nothing is collected."""
        return await self._run(lambda: self._talk.history)

    async def plan(self, target_tokens: int | None = None) -> Plan:
        """Decide what would go, and why. Nothing is touched."""
        return await self._run(lambda: self._talk.plan(target_tokens))

    async def collect(self, plan: Plan | None = None) -> Report:
        """Do exactly what a plan says; without one, what `plan()` would."""
        return await self._run(lambda: self._talk.collect(plan))

    async def undo(self, plan_id: str | None = None) -> tuple[str, ...]:
        """Reverse a whole sweep; the latest, if none is named."""
        return await self._run(lambda: self._talk.undo(plan_id))

    async def restore(self, *message_ids: str) -> tuple[str, ...]:
        """Bring messages back to where they were."""
        return await self._run(lambda: self._talk.restore(*message_ids))

    async def recall(self, query: str, limit: int = RECALL_TOKENS) -> list[Recalled]:
        """Find what was swept and answers a question."""
        return await self._run(lambda: self._talk.recall(query, limit))

    async def why(self, message_id: str) -> str:
        """Say what keeps a message, or why it is gone."""
        return await self._run(lambda: self._talk.why(message_id))

    async def ledger(self) -> tuple[Line, ...]:
        """Give the tokens per role, heaviest first."""
        return await self._run(self._talk.ledger)

    async def pin(self, message_id: str, by: str = "the caller") -> None:
        """Protect a message from every collection."""
        await self._run(lambda: self._talk.pin(message_id, by))

    async def unpin(self, message_id: str) -> None:
        """Take the protection away."""
        await self._run(lambda: self._talk.unpin(message_id))

    async def close(self) -> None:
        """Wait for what is under way, and close the store."""
        await self._run(self._talk.close)

    async def __aenter__(self) -> Self:
        """Use it until the block ends."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        await self.close()

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.shield(asyncio.wrap_future(self._calls.submit(call)))
