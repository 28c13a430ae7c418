"""The async API of a conversation: the same calls, none of which blocks the event loop.

    async with AsyncConversation(Conversation(limit=100_000, store=path)) as talk:
        await talk.extend(new_messages)
        request(messages=await talk.messages())

`Conversation` makes all decisions. Its calls run one after the other, in the order they were made,
in a thread pool that all conversations share. A call whose task is cancelled still completes: half
a sweep would be worse.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial, wraps
from threading import Lock
from types import TracebackType
from typing import Concatenate, ParamSpec, Self, TypeVar

from marksweep.conversation import Conversation
from marksweep.dialects.base import Json
from marksweep.messages import Message

Given = ParamSpec("Given")
T = TypeVar("T")

MAX_THREADS = 8
"""Conversations that run in parallel. More would only wait for the interpreter and the store."""


@cache
def shared_pool() -> ThreadPoolExecutor:
    """Return the threads that all conversations share."""
    return ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="marksweep")


class InOrder:
    """Runs calls in the shared threads one after the other, in order of arrival."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_running = False
        self._lock = Lock()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Queue a call behind those made before it."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        with self._lock:
            self._waiting.append(lambda: _settle(future, call))
            if not self._is_running:
                self._is_running = True
                shared_pool().submit(self._run)
        return future

    def _run(self) -> None:
        """Run one call, then queue again, so that other conversations get their turn.

        When the program ends nothing can be queued any more: all calls run here then.
        """
        while True:
            self._waiting.popleft()()
            with self._lock:
                self._is_running = bool(self._waiting)
                if not self._is_running:
                    return
                with suppress(RuntimeError):
                    shared_pool().submit(self._run)
                    return


def _settle(future: Future[T], call: Callable[[], T]) -> None:
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - the caller gets it
        future.set_exception(error)


def _as_async(
    work: Callable[Concatenate[Conversation, Given], T],
) -> Callable[Concatenate[AsyncConversation, Given], Coroutine[object, object, T]]:
    """Turn a method of `Conversation` into one of `AsyncConversation`."""

    @wraps(work)
    async def call(talk: AsyncConversation, /, *args: Given.args, **kwargs: Given.kwargs) -> T:
        return await talk.run(partial(work, talk.sync, *args, **kwargs))

    return call


class AsyncConversation:
    """A conversation for programs that run in an event loop."""

    def __init__(self, conversation: Conversation) -> None:
        self.sync = conversation
        """The same calls for programs without an event loop."""
        self._calls = InOrder()

    async def messages(self) -> list[Json]:
        """Return the messages for the next request; collected when due."""
        return await self.run(lambda: self.sync.messages)

    async def history(self) -> list[Message]:
        """Return the messages as they are, neutral. Nothing is collected."""
        return await self.run(lambda: self.sync.history)

    extend = _as_async(Conversation.extend)
    follow = _as_async(Conversation.follow)
    overlap = _as_async(Conversation.overlap)
    drop_last = _as_async(Conversation.drop_last)
    clear = _as_async(Conversation.clear)
    state = _as_async(Conversation.state)
    observe = _as_async(Conversation.observe)
    note_cold_cache = _as_async(Conversation.note_cold_cache)
    note_request = _as_async(Conversation.note_request)
    context = _as_async(Conversation.context)
    plan = _as_async(Conversation.plan)
    plan_recall = _as_async(Conversation.plan_recall)
    save = _as_async(Conversation.save)
    saved = _as_async(Conversation.saved)
    collect = _as_async(Conversation.collect)
    collect_if_due = _as_async(Conversation.collect_if_due)
    undo = _as_async(Conversation.undo)
    latest = _as_async(Conversation.latest)
    restore = _as_async(Conversation.restore)
    recall = _as_async(Conversation.recall)
    why = _as_async(Conversation.why)
    ledger = _as_async(Conversation.ledger)
    journal = _as_async(Conversation.journal)
    pin = _as_async(Conversation.pin)
    unpin = _as_async(Conversation.unpin)
    use = _as_async(Conversation.use)
    close = _as_async(Conversation.close)

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

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call on the conversation after those made before it."""
        return await asyncio.shield(asyncio.wrap_future(self._calls.submit(call)))
