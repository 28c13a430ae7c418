"""Google's Agent Development Kit: a plugin that keeps the requests of an app within a limit.

    plugin = MarksweepPlugin(limit=100_000)
    App(name="…", root_agent=agent, plugins=[plugin])

Contents are the framework's own `types.Content`. The session keeps all events. With
`rewrite_history` the plugin adds compaction events, ADK's own way to replace events: from then on,
ADK itself builds requests from the collected contents. Agents also get the tool `recall`;
those without tools get it at their first collection, when the prompt changes anyway.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Unpack

import msgspec

from marksweep.adapters.core import DESCRIPTION, MOST_KEYS, Adapter, Options, Sent, missing
from marksweep.dialects.base import Json
from marksweep.errors import BadInput
from marksweep.following import Kept

try:
    from google.adk import __version__
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.events.event import Event
    from google.adk.events.event_actions import EventActions, EventCompaction
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.function_tool import FunctionTool
    from google.adk.tools.tool_context import ToolContext
    from google.genai import types
except ImportError as error:
    raise missing("google-adk", error) from error

__all__ = ["MarksweepPlugin"]

REWRITES = (2, 7)
"""First version of ADK that shows an agent a compacted content unchanged. Older ones show it as
a quotation of another agent, which separates calls from their results."""

CLIENT_ID = "adk-"
"""Prefix of the call ids that ADK generates. It omits them from requests."""


_request: ContextVar[Sent | None] = ContextVar("marksweep_request", default=None)
"""The last request in this context: agents that run side by side have one each."""


class _Sending(NamedTuple):
    """The last request of a run: what ADK built, and what was sent."""

    counted: Sent
    contents: list[types.Content]
    kept: list[Kept]
    sent: list[types.Content]
    """One for each of `kept`."""
    is_changed: bool


class MarksweepPlugin(BasePlugin):
    """Collects requests when that is due, for all agents and sessions of an app."""

    def __init__(
        self, limit: int | str, *, name: str = "marksweep", **options: Unpack[Options]
    ) -> None:
        """Set `limit` in tokens, or in percent of `window`; see `adapters.core.Options`."""
        if options.get("rewrite_history") and _version() < REWRITES:
            raise BadInput(
                f"rewrite_history=True: this is google-adk {__version__}; expected 2.7 or later. "
                "Upgrade it, or omit the option: every request is collected anyway."
            )
        super().__init__(name=name)
        self.adapter = Adapter(limit, dialect="gemini", **options)
        self._recall = FunctionTool(self.recall)
        self._sendings: OrderedDict[str, _Sending] = OrderedDict()
        """By invocation, until it ends. Only with `rewrite_history`."""

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Make the contents of a request fit; unchanged ones are the same objects."""
        contents = list(llm_request.contents)

        def fit() -> _Sending:
            values = [_value(content) for content in contents]
            config = llm_request.config.model_dump(
                mode="json", exclude_none=True, include={"system_instruction", "tools"}
            )
            fitted = self.adapter.fit(
                values,
                _key(callback_context),
                model=llm_request.model or "",
                fixed=config or None,
            )
            sent = [_content(each, contents) for each in fitted.kept]
            return _Sending(Sent.of(fitted), contents, fitted.kept, sent, fitted.is_changed)

        sending = await self.adapter.guarded_async(fit, None) if contents else None
        _request.set(sending.counted if sending else None)
        if sending is not None:
            llm_request.contents = sending.sent
            if self.adapter.rewrite_history:
                self._note(callback_context.invocation_id, sending)
        is_collected = sending is not None and sending.is_changed
        if llm_request.tools_dict or (is_collected and _takes_tools(llm_request)):
            self.adapter.guarded(lambda: self._offer(llm_request), None)

    def _note(self, invocation: str, sending: _Sending) -> None:
        self._sendings[invocation] = sending
        while len(self._sendings) > MOST_KEYS:
            self._sendings.popitem(last=False)

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """With `rewrite_history`, replace events of the session with what was sent."""
        sending = self._sendings.pop(invocation_context.invocation_id, None)
        if sending is None:
            return
        session = invocation_context.session
        none: list[Event] = []
        events = await self.adapter.guarded_async(
            lambda: _compactions(session.events, sending), none
        )
        try:
            for event in events:
                await invocation_context.session_service.append_event(session, event)
        except Exception as error:  # noqa: BLE001 - the run must continue
            self.adapter.failed(error)

    def _offer(self, llm_request: LlmRequest) -> None:
        if self._recall.name not in llm_request.tools_dict:
            llm_request.append_tools([self._recall])

    async def after_model_callback(
        self,
        *,
        callback_context: CallbackContext,  # noqa: ARG002 - the framework's signature
        llm_response: LlmResponse,
    ) -> None:
        """Record the usage that the model reported."""
        usage = llm_response.usage_metadata
        if usage is not None and not llm_response.partial:
            cached = usage.cached_content_token_count
            self.adapter.observe(_request.get(), usage.prompt_token_count, cached)

    def recall(self, what: str, tool_context: ToolContext, start: int = 0) -> str:  # noqa: D102
        return self.adapter.recall(what, _key(tool_context), start)

    recall.__doc__ = DESCRIPTION

    async def close(self) -> None:
        """Close the store."""
        self.adapter.close()


def _key(context: CallbackContext) -> str:
    """Identify the history of one agent in one session: each agent sees its own view of it."""
    session = context.session
    return msgspec.json.encode(
        [session.app_name, session.user_id, session.id, context.agent_name]
    ).decode()


def _takes_tools(request: LlmRequest) -> bool:
    """Whether a request without function tools may get one. Gemini refuses some combinations."""
    config = request.config
    return not (config.tools or config.response_schema or config.response_json_schema)


def _value(content: types.Content) -> Json:
    return content.model_dump(mode="json", by_alias=True, exclude_none=True)


def _content(kept: Kept, contents: Sequence[types.Content]) -> types.Content:
    """Return the framework's own object if unchanged, else a copy with the parts that are left."""
    if kept.key is None:
        return types.Content.model_validate_json(msgspec.json.encode(kept.message))
    content = contents[kept.key]
    if not kept.is_changed:
        return content
    old = [(_value(part), part) for part in content.parts or ()]
    parts = [_part(value, old) for value in kept.message["parts"]]
    return content.model_copy(update={"parts": parts})


def _part(value: Json, old: Sequence[tuple[Json, Any]]) -> types.Part:
    """Return the old part that equals a value, or a new one."""
    same = next((part for said, part in old if said == value), None)
    return same or types.Part.model_validate_json(msgspec.json.encode(value))


def _version() -> tuple[int, ...]:
    return tuple(int(number) for number in __version__.split(".")[:2])


class _Replacement(NamedTuple):
    """A content, and the range of contents that it replaces."""

    first: int
    last: int
    content: types.Content
    origin: int
    """Index of the content that it is made from."""


def _compactions(events: Sequence[Event], sending: _Sending) -> list[Event]:
    """Return the compaction events that make ADK build what was sent."""
    replacements = list(_replacements(sending))
    if not replacements:
        return []
    if len(authors := {event.author for event in events} - {"user"}) > 1:
        raise BadInput(
            f"the session has events of {', '.join(sorted(authors))}. rewrite_history expects one "
            "agent in a session, because ADK shows each agent a different form of the events."
        )
    sources = _sources(events, sending.contents)
    if any(sources[at] is None for each in replacements for at in (each.first, each.last)):
        raise BadInput(
            "a content of the request is not in any event of the session, so the session is not "
            "rewritten. Requests are still collected."
        )
    return [_compaction(each, sources) for each in replacements]


def _compaction(replacement: _Replacement, sources: Sequence[Event]) -> Event:
    origin = sources[replacement.origin]
    compaction = EventCompaction(
        start_timestamp=_range(sources[replacement.first])[0],
        end_timestamp=_range(sources[replacement.last])[1],
        compacted_content=_with_ids(replacement.content, origin),
    )
    return Event(
        author="user",
        invocation_id=Event.new_id(),
        branch=origin.branch,
        actions=EventActions(compaction=compaction),
    )


def _replacements(sending: _Sending) -> Iterator[_Replacement]:
    """Yield the replacements. A dropped content joins its neighbour, since none may be empty."""
    start, added = 0, list[types.Content]()
    pending: _Replacement | None = None
    """The last content that was kept."""
    is_changed = False
    for kept, content in zip(sending.kept, sending.sent, strict=True):
        if kept.key is None:
            added.append(content)
            continue
        if start < kept.key and not added and pending is not None:
            pending, is_changed, start = pending._replace(last=kept.key - 1), True, kept.key
        if pending is not None and is_changed:
            yield pending
        if start < kept.key and added:
            parts = [part for each in added for part in each.parts or ()]
            whole = types.Content(role=added[0].role, parts=parts)
            yield _Replacement(start, kept.key - 1, whole, start)
            start = kept.key
        pending = _Replacement(start, kept.key, content, kept.key)
        is_changed = kept.is_changed or start < kept.key
        start, added = kept.key + 1, []
    if pending is not None and is_changed:
        yield pending


def _sources(events: Sequence[Event], contents: Sequence[types.Content]) -> list[Any]:
    """Find the event of each content; None if it has none. Both are in order of time.

    The search goes backwards: of two equal events, a rewind leaves the later one.
    """
    ordered = sorted(events, key=lambda event: _range(event)[1])
    values = [_anonymous(_said_by(event)) for event in ordered]
    end, found = len(ordered), list[Event | None]()
    for content in reversed(contents):
        wanted = _value(content)
        at = next((n for n in range(end - 1, -1, -1) if values[n] == wanted), None)
        found.append(None if at is None else ordered[at])
        end = end if at is None else at
    return found[::-1]


def _said_by(event: Event) -> types.Content | None:
    compaction = event.actions.compaction
    return event.content if compaction is None else compaction.compacted_content


def _range(event: Event) -> tuple[float, float]:
    compaction = event.actions.compaction
    if compaction is None:
        return event.timestamp, event.timestamp
    return compaction.start_timestamp, compaction.end_timestamp


def _anonymous(content: types.Content | None) -> Json:
    """Return a content as in a request: without the ids that ADK generated."""
    value = _value(content) if content is not None else {}
    for part in value.get("parts", ()):
        for field in ("functionCall", "functionResponse"):
            if str(part.get(field, {}).get("id", "")).startswith(CLIENT_ID):
                del part[field]["id"]
    return value


def _with_ids(content: types.Content, source: Event) -> types.Content:
    """Set the ids of a content's calls and results to those in the session."""
    old = [part for part in (_said_by(source) or content).parts or () if _exchange(part)]
    new = [part for part in content.parts or () if _exchange(part)]
    if len(old) != len(new):
        return content
    ids = {id(part): _exchange(was).id for part, was in zip(new, old, strict=True)}
    return content.model_copy(
        update={"parts": [_identified(part, ids.get(id(part))) for part in content.parts or ()]}
    )


def _exchange(part: types.Part) -> Any:  # noqa: ANN401 - a call or a result
    return part.function_call or part.function_response


def _identified(part: types.Part, name: str | None) -> types.Part:
    if name is None or (given := _exchange(part)).id == name:
        return part
    field = "function_call" if part.function_call else "function_response"
    return part.model_copy(update={field: given.model_copy(update={"id": name})})
