"""A summarizer from what a configuration says."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from marksweep.errors import BadInput
from marksweep.summarizers.base import Summarizer
from marksweep.summarizers.callables import CallableSummarizer
from marksweep.summarizers.endpoint import MOST_TOKENS, EndpointSummarizer
from marksweep.summarizers.extractive import NAME, Extractive
from marksweep.summarizers.guarded import Guarded
from marksweep.wire import TIMEOUT, TRIES


class _Endpoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a configuration file names a model."""

    endpoint: str
    model: str
    api_key_env: str = ""
    timeout: float = TIMEOUT
    tries: int = TRIES
    most_tokens: int = MOST_TOKENS


def make_summarizer(said: object = None) -> Summarizer:
    """Make a summarizer of a name, a function, an endpoint's settings or a summarizer.

    All but the extractive one are guarded: should they fail, the extractive one steps in.
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
    return EndpointSummarizer(
        settings.endpoint,
        settings.model,
        api_key_env=settings.api_key_env,
        timeout=settings.timeout,
        tries=settings.tries,
        most_tokens=settings.most_tokens,
    )
