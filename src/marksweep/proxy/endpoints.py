"""Which requests ask a model, of which provider, and in which conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from marksweep.dialects.base import Json
from marksweep.errors import BadInput, NotFound

PROVIDERS = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
"""Default upstream of each provider."""

ENDINGS = {
    "/messages": "anthropic",
    "/messages/count_tokens": "anthropic",
    "/chat/completions": "openai_chat",
    "/responses": "openai_responses",
    ":generateContent": "gemini",
    ":streamGenerateContent": "gemini",
    ":countTokens": "gemini",
}
"""Path endings of requests that hold a history, with its dialect."""

SESSION_HEADERS = ("x-claude-code-session-id", "session-id", "session_id", "x-session-id")
"""Headers that hold the client's conversation id, in lower case."""

SESSION_FIELDS = ("prompt_cache_key",)
"""Fields of a request's body that hold the conversation id."""

ANTHROPIC_KEY = "bearer sk-ant-"
"""Prefix of an authorization header with a key of Anthropic, in lower case."""

SUBSCRIPTION = f"{ANTHROPIC_KEY}oat"
"""Prefix of the authorization header of a subscription."""


class Upstreams(msgspec.Struct, frozen=True):
    """Where requests go: by provider, or all to one URL."""

    only: str = ""
    named: Mapping[str, str] = {}
    """Upstreams for paths that begin with `/@NAME/`."""

    def __post_init__(self) -> None:
        """Refuse what is not an HTTP URL."""
        for url in filter(None, (self.only, *self.named.values())):
            if not _is_http(url):
                raise BadInput(f"upstream is {url!r}; expected http://… or https://….")

    @classmethod
    def read(cls, only: str, routes: Sequence[str]) -> Upstreams:
        """Read routes as `NAME=URL`."""
        bad = [route for route in routes if not all(route.partition("="))]
        if bad:
            raise BadInput(f"--route {bad[0]} is not a route; expected NAME=URL.")
        pairs = [route.partition("=") for route in routes]
        return cls(only, {name: url for name, _, url in pairs})

    def url(self, path: str, query: str, headers: Mapping[str, str]) -> str:
        """Return the URL to forward a request to; NotFound if its upstream is unknown."""
        if path.startswith("/@"):
            name, _, path = path[2:].partition("/")
            if name not in self.named:
                raise NotFound(f"no upstream named {name!r}; known are {', '.join(self.named)}.")
            base, path = self.named[name], f"/{path}"
        else:
            base = self.only or PROVIDERS[_provider(path, headers)]
        return f"{base.rstrip('/')}{path}" + (f"?{query}" if query else "")


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a bracket that is not closed, a port that is no number
        return False


def _provider(path: str, headers: Mapping[str, str]) -> str:
    """Return the provider of a request: of its key, which no other may get, or of its path."""
    if (
        {"anthropic-version", "x-api-key"} & headers.keys()
        or _authorized(headers, ANTHROPIC_KEY)
        or path.startswith("/v1/messages")
    ):
        return "anthropic"
    if "x-goog-api-key" in headers or path.startswith("/v1beta/") or dialect_at(path) == "gemini":
        return "gemini"
    return "openai"


def dialect_at(path: str) -> str | None:
    """Return the dialect of the history that a request to this path holds; None: it holds none."""
    found = [dialect for ending, dialect in ENDINGS.items() if path.endswith(ending)]
    return found[0] if found else None


def model_at(path: str) -> str:
    """Return the model that a path names, as Gemini's do; empty if it names none."""
    _, found, rest = path.rpartition("/models/")
    return rest.partition(":")[0] if found else ""


def session_of(headers: Mapping[str, str], body: Mapping[str, Json]) -> str:
    """Return the client's id of the conversation; empty if it sends none."""
    named = [headers[name] for name in SESSION_HEADERS if headers.get(name)]
    named += [value for name in SESSION_FIELDS if isinstance(value := body.get(name), str)]
    return named[0] if named else ""


def is_subscription(headers: Mapping[str, str]) -> bool:
    """Whether a subscription pays for a request, rather than an API key."""
    return _authorized(headers, SUBSCRIPTION)


def _authorized(headers: Mapping[str, str], prefix: str) -> bool:
    return headers.get("authorization", "").lower().startswith(prefix)
