"""Asks a model behind any OpenAI-compatible URL."""

from __future__ import annotations

import os

import msgspec

from marksweep.errors import BadInput, ModelError
from marksweep.summarizers.base import Summary, shrunk
from marksweep.wire import TIMEOUT, TRIES, Endpoint

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


class _Said(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Said


class _Answer(msgspec.Struct):
    choices: list[_Choice]


class EndpointSummarizer:
    """Summarises by asking a model."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key_env: str = "",
        timeout: float = TIMEOUT,
        tries: int = TRIES,
        most_tokens: int = MOST_TOKENS,
    ) -> None:
        headers = {}
        if api_key_env:
            key = os.environ.get(api_key_env)
            if not key:
                raise BadInput(f"{api_key_env} is not set; it should hold the key for {url}.")
            headers["Authorization"] = f"Bearer {key}"
        self._model = model
        self._most_tokens = most_tokens
        self._endpoint = Endpoint(_completions(url), headers, timeout, tries)

    @property
    def name(self) -> str:
        """What results call it."""
        return self._model

    def summarize(self, conversation: str, previous: str = "") -> Summary:
        """Ask the model; ModelError if it does not answer."""
        system = f"{INSTRUCTION}\n\n{ANCHOR}\n\n{previous}" if previous else INSTRUCTION
        plain = self._endpoint.post(
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
        try:
            answer = msgspec.convert(plain, _Answer)
            text = answer.choices[0].message.content or ""
        except (msgspec.ValidationError, IndexError) as error:
            raise ModelError(f"{self._model} answered in no known form: {error}.") from error
        return shrunk(Summary(text, self._model), conversation)


def _completions(url: str) -> str:
    """Accept the base of an API as well as the full address."""
    base = url.rstrip("/")
    return base if base.endswith("/chat/completions") else f"{base}/chat/completions"
