"""pydantic-ai: a capability that keeps requests within a limit.

    agent = Agent(model, capabilities=[Marksweep(limit=100_000)])

A request of pydantic-ai has several parts, and each of them is a message here: a prompt, or the
result of one call. Requests and responses without a changed part are the same objects. The run
keeps the full history, unless `rewrite_history` is set.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Unpack

from marksweep.adapters.core import DESCRIPTION, Adapter, Options, Sent, missing
from marksweep.dialects.base import Json
from marksweep.following import Kept

try:
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        BinaryContent,
        ImageUrl,
        ModelMessage,
        ModelRequest,
        ModelResponse,
        RetryPromptPart,
        SystemPromptPart,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.toolsets import FunctionToolset
except ImportError as error:
    raise missing("pydantic-ai", error) from error

replace = dataclasses.replace

AT = "at"
"""The field of a value's block that holds the index of the part or item."""

AGAIN = "\n\nFix the errors and try again."
"""What pydantic-ai adds to every retry when it is sent."""


class Place(NamedTuple):
    """Where a value comes from."""

    message: int
    part: int | None
    """Index in the request's parts; None: the whole message."""


class _Sending(NamedTuple):
    """What the model is sent, and what the reported usage is compared with."""

    messages: list[ModelMessage]
    sent: Sent


class Marksweep(AbstractCapability[Any]):
    """Collects requests when that is due. One may serve many agents, runs and event loops."""

    def __init__(self, limit: int | str, **options: Unpack[Options]) -> None:
        super().__init__()
        self.adapter = Adapter(limit, dialect="openai_chat", **options)

    def get_toolset(self) -> FunctionToolset[Any]:
        """Offer the tool `recall`."""
        toolset: FunctionToolset[Any] = FunctionToolset()
        toolset.add_function(self._recall, takes_ctx=True, name="recall", description=DESCRIPTION)
        return toolset

    def _recall(self, ctx: RunContext[Any], what: str, start: int = 0) -> str:
        return self.adapter.recall(what, _key(ctx), start)

    async def wrap_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        handler: Callable[[ModelRequestContext], Awaitable[ModelResponse]],
    ) -> ModelResponse:
        """Send a request that fits."""
        given, key = request_context.messages, _key(ctx)
        sending = await self.adapter.guarded_async(
            lambda: self._sending(given, key, request_context), None
        )
        if sending is not None and sending.messages is not given:
            request_context = replace(request_context, messages=list(sending.messages))
            if self.adapter.rewrite_history:
                ctx.messages[:] = sending.messages
        response = await handler(request_context)
        if sending is not None:
            usage = response.usage
            cached = usage.cache_read_tokens or None
            self.adapter.observe(sending.sent, usage.input_tokens, cached)
        return response

    def _sending(
        self, messages: list[ModelMessage], key: str, request: ModelRequestContext
    ) -> _Sending:
        places = list(_places(messages))
        values = [_value(messages[place.message], place.part) for place in places]
        model = request.model
        fitted = self.adapter.fit(
            values,
            key,
            window=getattr(model, "context_window", None),
            model=model.model_name,
            fixed=_fixed(messages, request),
        )
        left = _rebuilt(messages, places, fitted.kept) if fitted.is_changed else messages
        return _Sending(left, Sent.of(fitted))


def _key(ctx: RunContext[Any]) -> str:
    return ctx.conversation_id or ctx.run_id or ""


def _fixed(messages: Sequence[ModelMessage], request: ModelRequestContext) -> list[Json]:
    """Return what is part of every request: instructions and tools."""
    parameters = request.model_request_parameters
    instructions = getattr(messages[-1], "instructions", None) or ""
    tools = [*parameters.function_tools, *parameters.output_tools]
    return [instructions, *([t.name, t.description, t.parameters_json_schema] for t in tools)]


def _places(messages: Sequence[ModelMessage]) -> Iterator[Place]:
    for at, message in enumerate(messages):
        if isinstance(message, ModelRequest) and message.parts:
            yield from (Place(at, part) for part in range(len(message.parts)))
        else:
            yield Place(at, None)


def _value(message: ModelMessage, part: int | None) -> Json:
    """Convert a part of a request, or a whole response, to a provider's format."""
    if isinstance(message, ModelResponse):
        return _answer(message)
    return _request_part(message.parts[part]) if part is not None else _locked("")


def _locked(content: Json) -> Json:
    """Return a message that is never collected."""
    return {"role": "system", "content": content}


def _request_part(part: Json) -> Json:
    if isinstance(part, UserPromptPart):
        return {"role": "user", "content": _items(part.content)}
    if isinstance(part, ToolReturnPart):
        files, said = getattr(part, "files", None) or (), _said(part)
        return _result(part, _items([said, *files]) if files else said)
    if isinstance(part, RetryPromptPart):
        said = _said(part)
        return _result(part, said) if part.tool_name else {"role": "user", "content": said}
    return _locked(part.content if isinstance(part, SystemPromptPart) else str(part))


def _said(part: Json) -> str:
    """Return what a result or a retry says, without what is added to it when it is sent."""
    if type(part) is ToolReturnPart:  # an error is sent as {"error": …}
        part = replace(part, outcome="success")
    if isinstance(part, ToolReturnPart):
        return str(part.model_response_str())
    if isinstance(part.content, str):
        return part.content
    return str(part.model_response()).removesuffix(AGAIN)


def _result(part: Json, said: Json) -> Json:
    return {"role": "tool", "tool_call_id": part.tool_call_id, "content": said}


def _items(content: Json) -> Json:
    if isinstance(content, str):
        return content
    return [_item(item, at) for at, item in enumerate(content)]


def _item(item: Json, at: int) -> Json:
    """Convert an item of a prompt or a result to a block: text, an image, or a file."""
    if isinstance(item, str):
        return {"type": "text", "text": item, AT: at}
    if isinstance(item, BinaryContent):
        data = base64.b64encode(item.data).decode()
        if item.media_type.startswith("image/"):
            url = f"data:{item.media_type};base64,{data}"
            return {"type": "image_url", "image_url": {"url": url}, AT: at}
        return {"type": "file", "file": {"file_data": data}, AT: at}
    if isinstance(item, ImageUrl):
        return {"type": "image_url", "image_url": {"url": item.url}, AT: at}
    if isinstance(words := getattr(item, "content", None), str):
        return {"type": "text", "text": words, AT: at}
    return {"type": "file", "file": {"file_data": str(item)}, AT: at}


def _answer(response: ModelResponse) -> Json:
    value: dict[str, Json] = {"role": "assistant", "content": []}
    for at, part in enumerate(response.parts):
        if isinstance(part, TextPart):
            value["content"].append({"type": "text", "text": part.content, AT: at})
        elif isinstance(part, ThinkingPart):
            said = part.content or part.signature or ""
            value["reasoning_content"] = f"{value.get('reasoning_content', '')}{said}"
        elif isinstance(part, ToolCallPart):
            function = {"name": part.tool_name, "arguments": part.args}
            call = {"id": part.tool_call_id, "type": "function", "function": function}
            value.setdefault("tool_calls", []).append(call)
        else:
            value["content"].append({"type": "other", "other": str(part), AT: at})
    return value


def _rebuilt(
    messages: list[ModelMessage], places: list[Place], kept: list[Kept]
) -> list[ModelMessage]:
    """Return the messages that are left; what the host does not have becomes separate ones."""
    out: list[ModelMessage] = []
    calls = [call for each in kept for call in each.message.get("tool_calls") or ()]
    names = {call["id"]: call["function"]["name"] for call in calls}
    for at, group in groupby(kept, lambda k: None if k.key is None else places[k.key].message):
        if at is None:
            out += _made([each.message for each in group], names)
        else:
            out.append(_message(messages[at], [(places[k.key].part, k) for k in group]))
    return out


def _made(values: list[Json], names: dict[str, str]) -> Iterator[ModelMessage]:
    """Make messages that the host does not have: a line, or what a rewind brought back."""
    for is_answer, group in groupby(values, lambda value: value["role"] == "assistant"):
        if is_answer:
            answers = [_made_answer(value) for value in group]
            yield from (ModelResponse(parts=parts) for parts in answers if parts)
        elif parts := [part for value in group for part in _made_part(value, names)]:
            yield ModelRequest(parts=parts)


def _made_answer(value: Json) -> list[Json]:
    asked = [(call["id"], call["function"]) for call in value.get("tool_calls") or ()]
    return [
        *(TextPart(block["text"]) for block in value["content"] or () if block["type"] == "text"),
        *(ToolCallPart(f["name"], f["arguments"], tool_call_id=id_) for id_, f in asked),
    ]


def _made_part(value: Json, names: dict[str, str]) -> Iterator[Json]:
    said = value["content"]
    if isinstance(said, list):
        said = [item for block in said if (item := _made_item(block)) is not None]
    if value["role"] == "tool":
        name = value["tool_call_id"]
        yield ToolReturnPart(names.get(name, ""), said, tool_call_id=name)
    elif said:
        yield UserPromptPart(said)


def _made_item(block: Json) -> Json:
    """Make an item from its block; None for a file, whose kind is not known any more."""
    if block["type"] == "text":
        return block["text"]
    if block["type"] != "image_url":
        return None
    url = block["image_url"]["url"]
    return BinaryContent.from_data_uri(url) if ";base64," in url else ImageUrl(url)


def _message(message: ModelMessage, kept: list[tuple[int | None, Kept]]) -> ModelMessage:
    """Return a message with the parts that are left; the same object if nothing changed."""
    is_changed = any(each.is_changed for _, each in kept)
    if isinstance(message, ModelResponse):
        return _shorter_answer(message, kept[0][1].message) if is_changed else message
    if not is_changed and len(kept) >= len(message.parts):
        return message
    parts = [
        _shorter(message.parts[at], each.message) if each.is_changed else message.parts[at]
        for at, each in kept
        if at is not None
    ]
    return replace(message, parts=parts)


def _shorter(part: Json, value: Json) -> Json:
    """Return a part with the content of a value. Parts of typed content are unchanged."""
    said = value["content"]
    if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
        left = {block[AT]: block.get("text") for block in said}
        items = [
            left[at] if isinstance(item, str) else item
            for at, item in enumerate(part.content)
            if at in left
        ]
        return replace(part, content=items)
    if type(part) is ToolReturnPart and isinstance(said, list):
        given = [None, *part.files]
        said = [given[block[AT]] if AT in block else block["text"] for block in said]
    if type(part) in (UserPromptPart, ToolReturnPart, RetryPromptPart):
        return replace(part, content=said)
    return part


def _shorter_answer(response: ModelResponse, value: Json) -> ModelResponse:
    said = value["content"] or []
    left = {block[AT]: block.get("text") for block in said}
    parts = [
        replace(part, content=left[at]) if isinstance(part, TextPart) else part
        for at, part in enumerate(response.parts)
        if at in left or isinstance(part, ThinkingPart | ToolCallPart)
    ]
    return replace(response, parts=parts)
