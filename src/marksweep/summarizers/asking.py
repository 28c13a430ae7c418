"""Summarizers that call a function or a model, and their fallback.

A call may fail, hang or return too long a text. So `make_summarizer` guards all but the extractive
one.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping

import msgspec

from marksweep.errors import BadInput, ModelError, Refused
from marksweep.summarizers.base import Summarizer, Summary, shrunk
from marksweep.summarizers.extractive import NAME, Extractive
from marksweep.wire import MAX_ATTEMPTS, TIMEOUT_SECONDS, Model, first_choice

CALL_SECONDS = 120.0
"""Seconds a function may take. Shorter gives up on slow ones; longer blocks the caller."""

INSTRUCTION = (
    "Summarise the conversation below for the assistant that will carry it on. Keep: what the user "
    "asked for, decisions and their reasons, names of files and symbols, errors and how they were "
    "resolved, open questions, exact numbers. Leave out pleasantries and raw output. Write short "
    "lines."
)

ANCHOR = (
    "This is the summary of everything before. It stays in place: do not repeat it, go on from it."
)

MOST_TOKENS = 1_500
"""Tokens a summary may have. More keeps more and frees less."""


class CallableSummarizer:
    """Summarises by calling a function from text to text."""

    def __init__(self, function: Callable[..., str], *, timeout: float = CALL_SECONDS) -> None:
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
    """Run a call in a thread, so that one that hangs does not block the conversation."""
    done: list[object] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            done.append(work())
        except Exception as error:  # noqa: BLE001  whatever a third-party function raises
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


class EndpointSummarizer(Model):
    """Summarises by asking a model."""

    max_tokens = MOST_TOKENS

    @property
    def name(self) -> str:
        """What results call it."""
        return self._model

    def summarize(self, conversation: str, previous: str = "") -> Summary:
        """Ask the model; ModelError if it does not answer."""
        system = f"{INSTRUCTION}\n\n{ANCHOR}\n\n{previous}" if previous else INSTRUCTION
        completion = self._endpoint.post(
            {
                "model": self._model,
                "max_tokens": self._most_tokens,
                "temperature": 0,
                "messages": [
                    {"role": "system", "content": system},
                    {"role": "user", "content": conversation},
                ],
            }
        )
        text = first_choice(completion, self._model).get("content")
        return shrunk(Summary(text if isinstance(text, str) else "", self._model), conversation)


class Guarded:
    """Asks a summarizer, and the extractive one if that fails or does not shrink."""

    def __init__(self, first: Summarizer) -> None:
        self._first = first

    @property
    def name(self) -> str:
        """What results call it."""
        return self._first.name

    def summarize(self, conversation: str, previous: str = "") -> Summary:
        """Ask the first, then the extractive one; Refused if neither makes it shorter."""
        try:
            return self._first.summarize(conversation, previous)
        except Exception as error:  # noqa: BLE001  a summary is never worth the conversation
            try:
                summary = Extractive().summarize(conversation, previous)
            except Refused as refused:
                raise Refused(f"{error} Nor would the {NAME} one: {refused}") from error
            return msgspec.structs.replace(summary, note=f"instead of {self.name}: {error}")


class _Endpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a configuration file names a model."""

    endpoint: str
    model: str
    api_key_env: str = ""
    timeout: float = TIMEOUT_SECONDS
    tries: int = MAX_ATTEMPTS
    most_tokens: int = MOST_TOKENS


def make_summarizer(said: object = None) -> Summarizer:
    """Make a summarizer of a name, a function, an endpoint's settings or a summarizer.

    All but the extractive one are guarded: if they fail, the extractive one is used.
    """
    if said is None or said == NAME:
        return Extractive()
    if isinstance(said, Summarizer):
        return said if isinstance(said, Extractive | Guarded) else Guarded(said)
    if isinstance(said, Mapping):
        return Guarded(_from_settings(said))
    if callable(said):
        return Guarded(CallableSummarizer(said))
    raise BadInput(
        f"summarizer is {said!r}; expected {NAME!r}, a function from text to text, or an object "
        "with endpoint and model."
    )


def _from_settings(said: Mapping[str, object]) -> Summarizer:
    try:
        settings = msgspec.convert(dict(said), _Endpoint)
    except msgspec.ValidationError as error:
        known = ", ".join(_Endpoint.__struct_fields__)
        raise BadInput(f"summarizer: {error}; known keys are {known}.") from error
    options = msgspec.structs.asdict(settings)
    return EndpointSummarizer(options.pop("endpoint"), **options)
