"""Asks a function. One parameter is enough; one named `previous` gets the summary before."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable

from marksweep.errors import ModelError
from marksweep.summarizers.base import Summary, shrunk

TIMEOUT = 120.0
"""Seconds a function may take."""


class CallableSummarizer:
    """Summarises by calling a function from text to text."""

    def __init__(self, function: Callable[..., str], *, timeout: float = TIMEOUT) -> None:
        self._function = function
        self._timeout = timeout
        self._anchored = _takes_previous(function)

    @property
    def name(self) -> str:
        """What results call it."""
        return getattr(self._function, "__name__", type(self._function).__name__)

    def summarize(self, conversation: str, previous: str = "") -> Summary:
        """Call the function; ModelError if it raises, takes too long or returns no text."""
        arguments = {"previous": previous} if self._anchored else {}
        text = _within(lambda: self._function(conversation, **arguments), self._timeout, self.name)
        if not isinstance(text, str):
            raise ModelError(
                f"the summarizer {self.name} returned a {type(text).__name__}; expected text."
            )
        return shrunk(Summary(text, self.name), conversation)


def _takes_previous(function: Callable[..., str]) -> bool:
    try:
        return "previous" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _within(work: Callable[[], object], seconds: float, name: str) -> object:
    """Do work in a thread, so that one that hangs does not hold the conversation up."""
    done: list[object] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            done.append(work())
        except Exception as error:  # noqa: BLE001  whatever a stranger's function raises
            failed.append(error)

    thread = threading.Thread(target=run, name=f"summarizer {name}", daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        error = failed[0]
        raise ModelError(
            f"the summarizer {name} raised {type(error).__name__}: {error}."
        ) from error
    if not done:
        raise ModelError(f"the summarizer {name} took more than {seconds:g} seconds.")
    return done[0]
