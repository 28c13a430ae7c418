"""What all adapters share. Each hook has one `Adapter`, for any number of threads and event loops.

    adapter = Adapter(limit="60%", keep=("todo",))
    fitted = adapter.fit(values, key, window=200_000)    # the whole history each time
    for kept in fitted.kept:
        kept.key           index of the value it comes from; None if a collection added it
        kept.is_changed    False: send the framework's own object; True: send kept.message instead

An adapter never raises into a run. All work there is `guarded`: if it fails, the framework
continues with its own messages, and the logger `marksweep.adapters` gives the reason, once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypedDict, TypeVar

from marksweep.async_conversation import shared_pool
from marksweep.conversation import COVERAGE, Conversation
from marksweep.dialects.base import Json
from marksweep.dialects.history import LISTS
from marksweep.errors import BadInput, MarksweepError, in_a_line
from marksweep.fit import Fit, Fitted
from marksweep.recalling import DESCRIPTION, recall
from marksweep.sizes import Size
from marksweep.stores.base import Store
from marksweep.stores.memory import store_of
from marksweep.strategies.registry import Choice

__all__ = ["DESCRIPTION", "Adapter", "Options", "Sent", "missing"]

T = TypeVar("T")

MOST_KEYS = 1_000
"""Number of requests that are remembered until their usage is reported."""

logger = logging.getLogger("marksweep.adapters")


class Options(TypedDict, total=False):
    """The options of every adapter, besides `limit`."""

    strategy: Choice
    store: Store | str | Path | None
    """Where conversations are stored. Without one they are in memory and end with the process."""
    keep: Collection[str]
    """Tools and roles (user, assistant) whose messages are never collected."""
    rewrite_history: bool
    """Whether the framework's own history is collected too, not only the requests."""
    window: int | None
    """The model's window in tokens, for a limit in percent where the framework does not know it."""


class Sent(NamedTuple):
    """A request whose usage is not reported yet."""

    conversation: Conversation
    tokens: int
    """Our count of its tokens."""

    @classmethod
    def of(cls, fitted: Fitted) -> Sent:
        """Take what reported usage is compared with, without the messages."""
        return cls(fitted.conversation, fitted.tokens)


class Adapter:
    """Makes the histories of one framework fit. Safe between threads."""

    def __init__(
        self,
        limit: int | str,
        *,
        dialect: str,
        strategy: Choice = COVERAGE,
        store: Store | str | Path | None = None,
        keep: Collection[str] = (),
        rewrite_history: bool = False,
        window: int | None = None,
    ) -> None:
        """Check all options. Nothing is raised later."""
        self.rewrite_history = rewrite_history
        self.failures = 0
        """How often something of ours failed and the framework continued with its own messages."""
        self._limit = _size(limit)
        self._dialect = dialect
        self._window = window
        self._options: dict[str, Any] = {
            "strategy": strategy,
            "keep": keep,
            "actor": "adapter",
        }
        Conversation(limit=self._tokens(100_000 if window is None else window), **self._options)
        self._store = store_of(store)
        self._fits: dict[int, Fit] = {}
        self._lock = Lock()

    def _tokens(self, window: int | None) -> int:
        """Return the limit in tokens for a model with this window."""
        if self._limit.tokens is None and window is None:
            raise BadInput(
                f"limit is {self._limit.percent:g}% of the model's window, which is not known "
                "here. Pass window= in tokens, or limit= in tokens."
            )
        if window is not None and (not isinstance(window, int) or window <= 0):
            raise BadInput(f"window is {window!r}; expected a number of tokens, such as 200_000.")
        return max(1, self._limit.of(window or 0))

    def fit(
        self,
        values: Sequence[Json],
        key: str,
        *,
        window: int | None = None,
        model: str = "",
        fixed: Json = None,
        state: Json = None,
        requested_at: float | None = None,
        dialect: str | None = None,
    ) -> Fitted:
        """Return what to send of a history; collect it if that is due.

        `key` is the framework's own id of the conversation. `window` is the model's, if the
        framework knows it; `model` is its name: another model has no cached prompt. `fixed` is part
        of every request: system prompt, tools. `state` is what `checkpoint` returned, and
        `requested_at` the time of the last request, in seconds since 1970, for a framework that
        keeps them. `dialect` is the format of these values, if it is not the adapter's.
        """
        limit = self._tokens(self._window or window)
        with self._lock:
            if limit not in self._fits:
                self._fits[limit] = Fit(
                    limit, store=self._store, dialect=self._dialect, **self._options
                )
            fit = self._fits[limit]
        dialect = dialect or self._dialect
        request = {LISTS[dialect]: list(values), "tools": fixed or None}
        known = state["state"] if state else None
        at = None if requested_at is None else datetime.fromtimestamp(requested_at, UTC)
        return fit.follow(request, key, dialect, known, model, requested_at=at)

    def checkpoint(self, fitted: Fitted, known: Json = None) -> Json:
        """Return what the framework should keep in its checkpoint, as plain JSON data.

        Returns `known`, the last checkpoint, if nothing was collected since.
        """
        newest = fitted.conversation.latest()
        if newest is None or (known and known["plan"] == newest):
            return known
        return {"plan": newest, "state": fitted.conversation.state()}

    def observe(
        self, sent: Sent | None, input_tokens: int | None, cached_tokens: int | None = None
    ) -> None:
        """Record the usage that was reported for a request, which need not be the last one."""
        if sent is not None and input_tokens:
            talk, tokens = sent
            self.guarded(lambda: talk.observe(input_tokens, cached_tokens, tokens), None)

    def recall(
        self, what: str, key: str = "", start: int = 0, talk: Conversation | None = None
    ) -> str:
        """Return what was swept from one conversation, or from all with a key, by id or by words.

        The answer is bounded.
        """
        group = Fit.group(key) if talk is None else talk.workspace
        try:
            return recall(self._store, what, start, group=group)
        except MarksweepError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - the run must continue
            self.failed(error)
            return f"recall failed: {in_a_line(error)}."

    def guarded(self, work: Callable[[], T], otherwise: T) -> T:
        """Do some work and return its result, or `otherwise` if it fails."""
        try:
            return work()
        except Exception as error:  # noqa: BLE001 - the run must continue
            self.failed(error)
            return otherwise

    async def guarded_async(self, work: Callable[[], T], otherwise: T) -> T:
        """Do the same in a thread, so that the event loop is not blocked."""
        future = shared_pool().submit(self.guarded, work, otherwise)
        return await asyncio.shield(asyncio.wrap_future(future))

    def failed(self, error: Exception) -> None:
        """Log the first failure as a warning, in one line, without any message content."""
        with self._lock:
            self.failures += 1
            is_first = self.failures == 1
        logger.debug("failed", exc_info=error)
        if is_first:
            logger.warning("the history is sent unchanged: %s", in_a_line(error))

    def close(self) -> None:
        """Close the store."""
        self._store.close()


def missing(extra: str, error: ImportError) -> ImportError:
    """Say what to install for an adapter whose framework cannot be imported."""
    return ImportError(
        f"the adapter needs a package that is missing or too old ({error}). Install it: "
        f"pip install 'marksweep[{extra}]'"
    )


def _size(limit: int | str) -> Size:
    """Read a limit: tokens, or percent of the model's window."""
    size = Size.read(limit) if isinstance(limit, str) else Size(tokens=limit)
    given = size.tokens if size.percent is None else size.percent
    if given and given > 0 and (size.percent or 0) <= 100:
        return size
    raise BadInput(
        f"limit is {limit!r}; expected tokens, such as 100_000, or percent of the model's window, "
        "such as '60%'."
    )
