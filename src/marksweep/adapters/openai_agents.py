"""OpenAI Agents SDK: a filter that keeps requests within a limit, and a session that names them.

    marksweep = MarksweepFilter(limit=100_000)
    agent = Agent(name="…", tools=[…, marksweep.recall_tool])
    session = MarksweepSession("id", inner=SQLiteSession("id"))
    await Runner.run(
        agent,
        "…",
        session=session,
        hooks=marksweep.hooks,                                     # optional: learns from usage
        run_config=RunConfig(call_model_input_filter=marksweep),
    )

The filter runs before every call of the model, the session between runs. Without a session, or with
another kind of session, conversations are distinguished by their content.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any, NamedTuple, Unpack

from marksweep.adapters.core import DESCRIPTION, Adapter, Options, Sent, missing
from marksweep.dialects.base import Json, plain
from marksweep.fit import Fitted

try:
    from agents import FunctionTool, RunHooks, function_tool
    from agents.memory import Session
    from agents.run import CallModelData, ModelInputData
except ImportError as error:
    raise missing("openai-agents", error) from error

UNSTABLE = ("id", "status")
"""Fields that a session may omit when it stores an item. They are not compared."""

TEXTS = ("content", "output")
"""Fields that a collection changes."""


class _Opened(NamedTuple):
    """A session whose items were loaded in this context, and its first item."""

    session_id: str
    first: Json


_session: ContextVar[_Opened | None] = ContextVar("marksweep_session", default=None)
_request: ContextVar[Sent | None] = ContextVar("marksweep_request", default=None)
"""The last request in this context."""


class MarksweepFilter:
    """Collects requests when that is due. One may serve many agents, runs and event loops."""

    def __init__(self, limit: int | str, **options: Unpack[Options]) -> None:
        self.adapter = Adapter(limit, dialect="openai_responses", **options)
        self.recall_tool: FunctionTool = function_tool(
            self._recall, name_override="recall", description_override=DESCRIPTION
        )
        """Finds what was swept from the current conversation. Add it to your agents' tools."""
        self.hooks: RunHooks[Any] = _Hooks(self.adapter)
        """Record the usage that the provider reports. Pass them to `Runner.run`."""

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return an input that fits."""
        given = data.model_data
        fixed = [given.instructions, *map(_schema, data.agent.tools)]
        items = list(given.input)
        key = _key(items)
        model = str(getattr(data.agent.model, "model", data.agent.model) or "")
        fitted = await self.adapter.guarded_async(
            lambda: self._fit(items, key, fixed=fixed, model=model), None
        )
        _request.set(Sent.of(fitted) if fitted else None)
        if fitted is None or not fitted.is_changed:
            return given
        sent = self.adapter.guarded(lambda: _sent(items, fitted), items)
        return ModelInputData(input=sent, instructions=given.instructions)

    def _fit(self, items: list[Json], key: str, **more: Json) -> Fitted:
        return self.adapter.fit([_value(item) for item in items], key, **more)

    def fitted(self, items: list[Json], key: str) -> list[Json]:
        """Return what to keep of a session's items; the same list if nothing changes."""
        fitted = self._fit(items, key)
        return _sent(items, fitted) if fitted.is_changed else items

    async def _recall(self, what: str, start: int = 0) -> str:
        request = _request.get()
        if request is None:
            return "nothing was left out of this conversation yet."
        return await self.adapter.guarded_async(
            lambda: self.adapter.recall(what, talk=request.conversation, start=start),
            "recall failed.",
        )


class MarksweepSession:
    """Wraps another session and names the conversation by its id. It keeps the full history.

    With a filter whose `rewrite_history` is set, the history is collected when a run begins.
    """

    def __init__(
        self, session_id: str, inner: Session, filter: MarksweepFilter | None = None
    ) -> None:
        self.session_id = session_id
        self.inner = inner
        self._filter = filter

    @property
    def session_settings(self) -> Json:
        """The settings of the inner session."""
        return getattr(self.inner, "session_settings", None)

    async def get_items(self, limit: int | None = None) -> list[Json]:
        """Return the stored items, and tell the filter which session they belong to."""
        items: list[Json]
        if self._filter is not None and self._filter.adapter.rewrite_history:
            items = await self._rewritten(self._filter)
            items = items if limit is None else items[max(0, len(items) - limit) :]
        else:
            items = await self.inner.get_items(limit)
        _session.set(_Opened(self.session_id, _value(items[0]) if items else None))
        return items

    async def _rewritten(self, made: MarksweepFilter) -> list[Json]:
        items: list[Json] = await self.inner.get_items()
        left = await made.adapter.guarded_async(
            lambda: made.fitted(items, self.session_id) if items else items, items
        )
        if left is items:
            return items
        # A run that is cancelled between the two steps would leave an empty session.
        return await asyncio.shield(self._replaced(made, items, left))

    async def _replaced(
        self, made: MarksweepFilter, items: list[Json], left: list[Json]
    ) -> list[Json]:
        """Store other items instead, or else the old ones again; return what is stored."""
        for stored in (left, items):
            try:
                await self.inner.clear_session()
                await self.inner.add_items(stored)
            except Exception as error:  # noqa: BLE001 - the run must continue
                made.adapter.failed(error)
            else:
                return stored
        return items

    async def add_items(self, items: list[Json]) -> None:
        """Store more items."""
        await self.inner.add_items(items)

    async def pop_item(self) -> Json:
        """Remove and return the newest item."""
        return await self.inner.pop_item()

    async def clear_session(self) -> None:
        """Remove all items."""
        await self.inner.clear_session()


class _Hooks(RunHooks[Any]):
    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    async def on_llm_end(self, context: Json, agent: Json, response: Json) -> None:  # noqa: ARG002
        """Record the usage."""
        usage = response.usage
        cached = getattr(usage.input_tokens_details, "cached_tokens", None)
        self._adapter.observe(_request.get(), usage.input_tokens, cached)


def _key(items: list[Json]) -> str:
    """Return the id of the session that items come from; empty if it is not known."""
    opened = _session.get()
    if opened is None or not items:
        return ""
    is_its = opened.first is None or opened.first == _value(items[0])
    return opened.session_id if is_its else ""


def _schema(tool: Json) -> Json:
    """Return what is sent of a tool; only the name of one that the provider runs."""
    schema = getattr(tool, "params_json_schema", None)
    return [tool.name, getattr(tool, "description", ""), schema]


def _value(item: Json) -> Json:
    """Return an item without the fields that may differ between requests."""
    value = plain(item)
    if not isinstance(value, dict):
        return value
    return {name: each for name, each in value.items() if name not in UNSTABLE}


def _sent(items: list[Json], fitted: Fitted) -> list[Json]:
    """Return the runner's own items where unchanged, and copies with new text elsewhere."""
    return [
        kept.message
        if kept.key is None
        else {**plain(items[kept.key]), **_texts(kept.message)}
        if kept.is_changed
        else items[kept.key]
        for kept in fitted.kept
    ]


def _texts(value: Json) -> Json:
    return {name: value[name] for name in TEXTS if name in value}
