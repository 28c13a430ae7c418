"""LiteLLM: a callback that keeps requests within a limit, in the proxy and in programs.

    litellm_settings:                                        # config.yaml of the proxy
      callbacks: marksweep.adapters.litellm.hook
      marksweep: {limit: 60%, store: /var/lib/marksweep.db}

    litellm.callbacks = [MarksweepHook(limit="60%")]         # in a program, for async calls
    litellm.completion(**hook.fit({"model": …, "messages": …}))

Chat completions, Responses and Anthropic messages are supported. The client owns the history and
sends all of it each time. In LiteLLM a callback cannot change the request of a synchronous call:
there, call `fit` yourself.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any, Unpack

import msgspec

from marksweep.adapters.core import (
    DESCRIPTION,
    MOST_KEYS,
    Adapter,
    Options,
    Sent,
    logger,
    missing,
)
from marksweep.dialects.base import Json
from marksweep.dialects.history import LISTS, STORED
from marksweep.errors import BadInput, in_a_line

try:
    import litellm
    from litellm.integrations.custom_logger import CustomLogger
except ImportError as error:
    raise missing("litellm", error) from error

__all__ = ["RECALL", "MarksweepHook", "hook"]

LIMIT = "80%"
"""Default limit, of the model's window. LiteLLM knows the windows of most models."""

SETTINGS = "marksweep"
"""Name of the options in `litellm_settings`; LiteLLM makes it an attribute of its module."""

DIALECTS = {
    "completion": "openai_chat",
    "acompletion": "openai_chat",
    "responses": "openai_responses",
    "aresponses": "openai_responses",
    "anthropic_messages": "anthropic",
    "aanthropic_messages": "anthropic",
}
"""By type of call. Other calls are not changed."""

RECALL: Json = {
    "type": "function",
    "function": {
        "name": "recall",
        "description": DESCRIPTION,
        "parameters": {
            "type": "object",
            "properties": {"what": {"type": "string"}, "start": {"type": "integer"}},
            "required": ["what"],
        },
    },
}
"""The tool, for a program's `tools`. Answer its calls with `MarksweepHook.recall`."""


class MarksweepHook(CustomLogger):
    """Collects the history of every request, separately for each session and API key."""

    def __init__(self, limit: int | str | None = None, **options: Unpack[Options]) -> None:
        """Set `limit` in tokens or percent; None reads all options from `litellm_settings`."""
        super().__init__()
        self._adapter = None if limit is None else _adapter({**options, "limit": limit})
        self._is_refused = False
        self._sent: OrderedDict[str, Sent] = OrderedDict()
        """By call id, until usage is reported, which may be after the next request."""
        self._lock = Lock()

    @property
    def adapter(self) -> Adapter | None:
        """The shared part; None if the proxy's settings are wrong, which is logged."""
        with self._lock:
            if self._adapter is None and not self._is_refused:
                try:
                    self._adapter = _adapter(getattr(litellm, SETTINGS, None) or {})
                except Exception as error:  # noqa: BLE001 - the run must continue
                    self._is_refused = True
                    logger.error("requests are sent unchanged: %s", in_a_line(error))
            return self._adapter

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: object
    ) -> dict[str, Any] | None:
        """Return a request that fits, just before it is sent to a deployment."""
        adapter, kind = self.adapter, str(getattr(call_type, "value", call_type))
        if adapter is None:
            return None
        return await adapter.guarded_async(lambda: self._fitted(adapter, kwargs, kind), kwargs)

    def fit(self, kwargs: dict[str, Any], call_type: str = "completion") -> dict[str, Any]:
        """Return arguments for `litellm.completion` or `litellm.responses` that fit."""
        adapter = self.adapter
        if adapter is None:
            return kwargs
        return adapter.guarded(lambda: self._fitted(adapter, kwargs, call_type), kwargs)

    def _fitted(self, adapter: Adapter, kwargs: dict[str, Any], kind: str) -> dict[str, Any]:
        dialect = DIALECTS.get(kind)
        if dialect is None or any(kwargs.get(name) for name in STORED):
            return kwargs
        field = LISTS[dialect]
        if field not in kwargs:
            raise BadInput(
                f"callbacks do not see positional arguments. Expected {field}=…, by keyword."
            )
        values = kwargs[field]
        if not isinstance(values, list) or not values:
            return kwargs
        fitted = adapter.fit(
            values,
            _key(kwargs),
            window=_window(kwargs),
            model=str(kwargs.get("model") or ""),
            fixed=[
                kwargs[name] for name in ("system", "instructions", "tools") if kwargs.get(name)
            ],
            dialect=dialect,
        )
        self._note(kwargs.get("litellm_call_id"), Sent.of(fitted))
        return {**kwargs, field: [kept.message for kept in fitted.kept]}

    def _note(self, call: str | None, sent: Sent) -> None:
        if call is None:
            return
        with self._lock:
            self._sent[call] = sent
            while len(self._sent) > MOST_KEYS:
                self._sent.popitem(last=False)

    def log_success_event(
        self,
        kwargs: dict[str, Any],
        response_obj: Any,  # noqa: ANN401 - whatever LiteLLM returns
        start_time: object,  # noqa: ARG002
        end_time: object,  # noqa: ARG002
    ) -> None:
        """Record the usage that was reported."""
        with self._lock:
            sent = self._sent.pop(kwargs.get("litellm_call_id") or "", None)
        adapter = self._adapter
        if sent is not None and adapter is not None:
            adapter.guarded(lambda: adapter.observe(sent, *_usage(response_obj)), None)

    async def async_log_success_event(
        self,
        kwargs: dict[str, Any],
        response_obj: Any,  # noqa: ANN401
        start_time: object,
        end_time: object,
    ) -> None:
        """Record the usage that was reported."""
        self.log_success_event(kwargs, response_obj, start_time, end_time)

    def recall(self, what: str, session: str = "", start: int = 0) -> str:
        """Answer a call of `recall`, for the session that was passed as `litellm_session_id`."""
        adapter = self.adapter
        if adapter is None:
            return "recall failed: the settings of marksweep are wrong."
        return adapter.recall(what, _key({"litellm_session_id": session}), start)


def _adapter(settings: Json) -> Adapter:
    known = {"limit", *Options.__annotations__}
    if not isinstance(settings, dict) or not known.issuperset(settings):
        found = ", ".join(sorted(settings)) if isinstance(settings, dict) else repr(settings)
        raise BadInput(
            f"litellm_settings: {SETTINGS} has {found}; expected only {', '.join(sorted(known))}."
        )
    if settings.get("rewrite_history"):
        raise BadInput(
            "rewrite_history=True: LiteLLM keeps no history, and passes callbacks a copy of the "
            "messages. Omit it: every request is collected anyway. A program can keep what is "
            "sent: messages = hook.fit({…})['messages']."
        )
    return Adapter(dialect="openai_chat", **{"limit": LIMIT, **settings})


def _key(kwargs: dict[str, Any]) -> str:
    """Return LiteLLM's session id, within the API key of the client."""
    notes = {**(kwargs.get("litellm_metadata") or {}), **(kwargs.get("metadata") or {})}
    session = kwargs.get("litellm_session_id") or notes.get("session_id")
    named = [str(each or "") for each in (notes.get("user_api_key"), session)]
    return msgspec.json.encode(named).decode()


def _window(kwargs: dict[str, Any]) -> int | None:
    """Return the window that the deployment declares, or the one in LiteLLM's table."""
    name, provider = str(kwargs.get("model") or ""), kwargs.get("custom_llm_provider")
    known = (
        kwargs.get("model_info") or {},
        *(litellm.model_cost.get(each) or {} for each in (name, f"{provider}/{name}")),
        litellm.model_cost.get(name.partition("/")[2]) or {},
    )
    windows = (each.get("max_input_tokens") for each in known)
    return next((window for window in windows if isinstance(window, int)), None)


def _usage(response: Any) -> tuple[int | None, int | None]:  # noqa: ANN401
    """Return the input tokens and how many of them were cached, by either API's names."""
    usage = getattr(response, "usage", None)
    if usage is None:
        return None, None
    total = getattr(usage, "prompt_tokens", None) or getattr(usage, "input_tokens", None)
    details = getattr(usage, "prompt_tokens_details", None)
    details = details or getattr(usage, "input_tokens_details", None)
    return total, getattr(details, "cached_tokens", None)


hook = MarksweepHook()
"""For the proxy's `callbacks`."""
