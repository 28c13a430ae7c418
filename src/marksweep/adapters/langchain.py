"""LangChain and LangGraph: a middleware that keeps requests within a limit.

    agent = create_agent(model, tools, middleware=[MarksweepMiddleware(limit="60%")])

Messages keep their ids and metadata; those that a collection does not change are the agent's own
objects. The agent's state keeps the full history, unless `rewrite_history` is set. A conversation
is identified by its thread, and the thread's checkpoints include what was collected.

In your own graph, without middleware: `middleware.fitted(state["messages"], thread_id)`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Annotated, NamedTuple, NotRequired, Unpack

from marksweep.adapters.core import DESCRIPTION, Adapter, Options, Sent, missing
from marksweep.dialects.base import Json
from marksweep.fit import Fitted

try:
    from langchain.agents.middleware import (
        AgentMiddleware,
        AgentState,
        ExtendedModelResponse,
        ModelRequest,
        ModelResponse,
    )
    from langchain.agents.middleware.types import PrivateStateAttr
    from langchain.tools import ToolRuntime, tool
    from langchain_core.messages import (
        AIMessage,
        AnyMessage,
        BaseMessage,
        HumanMessage,
        RemoveMessage,
        ToolCall,
        ToolMessage,
    )
    from langgraph.config import get_config
    from langgraph.graph.message import REMOVE_ALL_MESSAGES
    from langgraph.types import Command
except ImportError as error:
    raise missing("langchain", error) from error

ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
"""Providers' names of LangChain's message types. Messages of other types are locked."""

THOUGHTS = {"thinking": "thinking", "reasoning": "reasoning", "redacted_thinking": "data"}
"""Types of blocks that hold reasoning, and the field that has it."""

CALLS = ("tool_use", "tool_call", "function_call", "tool_call_chunk", "input_json_delta")
"""Types of blocks that repeat what is in `tool_calls`."""

AT = "at"
"""The field of a value's block that holds the index of the block in the message."""


class MarksweepState(AgentState):
    """The agent's state, with what was collected from the thread and its last request's time."""

    marksweep: NotRequired[Annotated[Json, PrivateStateAttr]]  # type: ignore[valid-type]
    marksweep_requested_at: NotRequired[Annotated[float, PrivateStateAttr]]  # type: ignore[valid-type]


class _Sending(NamedTuple):
    """What the model is sent, and how it was made."""

    messages: list[AnyMessage]
    fitted: Fitted


class MarksweepMiddleware(AgentMiddleware):
    """Collects requests when that is due. One may serve many agents, threads and event loops."""

    state_schema = MarksweepState

    def __init__(self, limit: int | str, **options: Unpack[Options]) -> None:
        super().__init__()
        self.adapter = Adapter(limit, dialect="openai_chat", **options)
        self.tools = [self._recall_tool()]

    def _recall_tool(self) -> Json:
        def recall(what: str, runtime: ToolRuntime, start: int = 0) -> str:
            key = _key(runtime.config, runtime.state.get("messages") or [])
            return self.adapter.recall(what, key, start)

        recall.__annotations__ = {"what": str, "runtime": ToolRuntime, "start": int, "return": str}
        return tool("recall", description=DESCRIPTION)(recall)

    def wrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]
    ) -> ModelResponse | ExtendedModelResponse:
        """Send a request that fits."""
        key = _key(_config(), request.messages)
        sending = self.adapter.guarded(lambda: self._sending(request, key), None)
        response = handler(_with(request, sending))
        return self.adapter.guarded(lambda: self._noted(request, sending, response), response)

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse | ExtendedModelResponse:
        """Send a request that fits, without blocking the event loop."""
        key = _key(_config(), request.messages)
        sending = await self.adapter.guarded_async(lambda: self._sending(request, key), None)
        response = await handler(_with(request, sending))
        return await self.adapter.guarded_async(
            lambda: self._noted(request, sending, response), response
        )

    def fitted(self, messages: Sequence[AnyMessage], key: str) -> list[AnyMessage]:
        """Return what to send of a thread's messages, in your own graph."""
        given = list(messages)
        return self.adapter.guarded(lambda: self._fit(given, key).messages, given)

    def _sending(self, request: ModelRequest, key: str) -> _Sending:
        profile = getattr(request.model, "profile", None)
        window = profile.get("max_input_tokens") if isinstance(profile, dict) else None
        system = [request.system_message.text] if request.system_message else []
        return self._fit(
            request.messages,
            key,
            window=window,
            model=_name(request.model),
            fixed=[*system, *map(_schema, request.tools)],
            state=request.state.get("marksweep"),
            requested_at=request.state.get("marksweep_requested_at"),
        )

    def _fit(self, messages: list[AnyMessage], key: str, **more: Json) -> _Sending:
        fitted = self.adapter.fit([_value(message) for message in messages], key, **more)
        sent = [
            messages[kept.key]
            if kept.key is not None and not kept.is_changed
            else _message(None if kept.key is None else messages[kept.key], kept.message)
            for kept in fitted.kept
        ]
        return _Sending(sent, fitted)

    def _noted(
        self, request: ModelRequest, sending: _Sending | None, response: ModelResponse
    ) -> ModelResponse | ExtendedModelResponse:
        """Record the usage; update the thread's checkpoint."""
        if sending is None:
            return response
        answers = [m for m in response.result if isinstance(m, AIMessage) and m.usage_metadata]
        for answer in answers[-1:]:
            usage = answer.usage_metadata
            cached = (usage.get("input_token_details") or {}).get("cache_read")
            self.adapter.observe(Sent.of(sending.fitted), usage["input_tokens"], cached)
        known = request.state.get("marksweep")
        state = self.adapter.checkpoint(sending.fitted, known)
        update: dict[str, Json] = {"marksweep_requested_at": time.time()}
        if state is not known:
            update["marksweep"] = state
        if self.adapter.rewrite_history and sending.fitted.is_changed:
            everything = RemoveMessage(id=REMOVE_ALL_MESSAGES)
            update["messages"] = [everything, *sending.messages, *response.result]
        return ExtendedModelResponse(model_response=response, command=Command(update=update))


def _with(request: ModelRequest, sending: _Sending | None) -> ModelRequest:
    if sending is None or not sending.fitted.is_changed:
        return request
    return request.override(messages=sending.messages)


def _config() -> Json:
    try:
        return get_config()
    except RuntimeError:  # called outside of a graph
        return {}


def _key(config: Json, messages: Sequence[AnyMessage]) -> str:
    """Return the thread's id; without one, the id of the first message."""
    thread = (config.get("configurable") or {}).get("thread_id")
    return str(thread or (messages[0].id if messages else None) or "")


def _name(model: Json) -> str:
    return str(getattr(model, "model_name", None) or getattr(model, "model", None) or "")


def _schema(given: Json) -> Json:
    """Return what is sent of a tool."""
    if isinstance(given, dict):
        return given
    return {"name": given.name, "description": given.description, "args": given.args}


def _value(message: BaseMessage) -> Json:
    """Convert a message to a provider's format, each block with its index."""
    role = ROLES.get(message.type, "system")
    value: dict[str, Json] = {"role": role}
    if isinstance(message, ToolMessage):
        value |= {"tool_call_id": message.tool_call_id, "name": message.name}
    content = message.content
    if isinstance(content, str):
        value["content"] = content
    else:
        value["content"] = [_block(block, at) for at, block in _said(content)]
        if thoughts := "\n".join(_thoughts(content)):
            value["reasoning_content"] = thoughts
    if isinstance(message, AIMessage) and message.tool_calls:
        value["content"] = value["content"] or None
        value["tool_calls"] = [
            {
                "id": call["id"] or "",
                "type": "function",
                "function": {"name": call["name"], "arguments": call["args"]},
            }
            for call in message.tool_calls
        ]
    return value


def _said(content: list[Json]) -> Iterator[tuple[int, Json]]:
    """Yield the blocks that are neither reasoning nor calls, with their indices."""
    for at, block in enumerate(content):
        kind = block.get("type") if isinstance(block, dict) else "text"
        if kind not in THOUGHTS and kind not in CALLS:
            yield at, block


def _thoughts(content: list[Json]) -> Iterator[str]:
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else ""
        if kind in THOUGHTS and (said := block.get(THOUGHTS[kind]) or block.get("summary")):
            yield said if isinstance(said, str) else str(said)


def _block(block: Json, at: int) -> Json:
    """Convert a block to a provider's format: text, an image, or something that is only counted."""
    if isinstance(block, str):
        return {"type": "text", "text": block, AT: at}
    if block.get("type") == "image":
        source = block.get("source") or block
        data = source.get("base64") or source.get("data") or source.get("url") or ""
        return {"type": "image_url", "image_url": {"url": data}, AT: at}
    return {**block, AT: at}


def _message(message: BaseMessage | None, value: Json) -> AnyMessage:
    """Return a copy of a message with the content of a value. All other fields are unchanged."""
    said = value.get("content")
    if message is None:
        return _made(value)
    if isinstance(message, ToolMessage) and isinstance(said, list):
        said = [message.content[block[AT]] if AT in block else block for block in said]
    if isinstance(message.content, str) or isinstance(message, ToolMessage):
        return message.model_copy(update={"content": said or ""})
    left = {block[AT]: block for block in said or ()}
    gone = {at for at, _ in _said(message.content)} - left.keys()
    content = [
        _reworded(block, left[at]) if at in left else block
        for at, block in enumerate(message.content)
        if at not in gone
    ]
    return message.model_copy(update={"content": content})


def _made(value: Json) -> AnyMessage:
    """Make a message that the thread does not have: a line, or what a rewind brought back."""
    said = value.get("content") or ""
    if isinstance(said, list):
        said = [{k: v for k, v in block.items() if k != AT} for block in said]
    if value["role"] == "tool":
        return ToolMessage(said, tool_call_id=value["tool_call_id"], name=value.get("name"))
    if value["role"] == "assistant":
        asked = [(call["id"], call["function"]) for call in value.get("tool_calls") or ()]
        calls = [ToolCall(id=id_, name=f["name"], args=f["arguments"]) for id_, f in asked]
        return AIMessage(said, tool_calls=calls)
    return HumanMessage(said)


def _reworded(block: Json, value: Json) -> Json:
    if isinstance(block, str):
        return value["text"]
    return {**block, "text": value["text"]} if block.get("type") == "text" else block
