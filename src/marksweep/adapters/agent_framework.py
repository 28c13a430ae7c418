"""Microsoft's Agent Framework: a context provider that is also a compaction strategy.

    Agent(client=…, context_providers=[MarksweepStrategy(limit=100_000)])

A provider is passed the session: it keeps a checkpoint in the session's state, adds the tool
`recall`, and compacts each request of a run as a chat middleware. As the agent's
`compaction_strategy` it compacts the same way without the middleware, but the framework passes a
strategy only messages: without the provider there is no `recall`. Messages are marked as excluded,
like the framework's own strategies do, and their replacements inserted.
"""

from __future__ import annotations

import copy
import json
import time
import zlib
from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Unpack

import msgspec

from marksweep.adapters.core import DESCRIPTION, Adapter, Options, missing
from marksweep.dialects.base import Json
from marksweep.errors import BadInput
from marksweep.following import Kept, digest

try:
    from agent_framework import (
        EXCLUDE_REASON_KEY,
        EXCLUDED_KEY,
        GROUP_ANNOTATION_KEY,
        AgentSession,
        ChatContext,
        ChatMiddleware,
        ChatMiddlewareLayer,
        Content,
        ContextProvider,
        FunctionTool,
        InMemoryHistoryProvider,
        Message,
        SessionContext,
    )
except ImportError as error:
    raise missing("agent-framework", error) from error

__all__ = ["MarksweepStrategy"]

REASON = "marksweep"
"""The reason on messages that this strategy excluded. Messages that others excluded stay so."""

STAND_IN = "_marksweep"
"""The property of a stand-in that holds a digest of its content, so that it is made only once."""

CHECKPOINT = "checkpoint"
"""Key of the checkpoint in the session's state. It is one compressed string, because the framework
converts objects in its own way."""

REQUESTED_AT = "requested_at"
"""Key of the time of the last request in the session's state, in seconds since 1970."""

READ = frozenset({"text", "text_reasoning", "data", "uri", "function_call", "function_result"})
"""Types of content that are read. A message without any of them is never changed."""


@dataclass
class Run:
    """The run in which the strategy is called: its session, and our data in the session's state."""

    key: str = ""
    model: str = ""
    state: dict[str, Any] = field(default_factory=dict)
    checkpoint: Json = None


class Origin(NamedTuple):
    """Where a value comes from: the index of a message, and of a result in it."""

    message: int
    content: int | None


class Placed(NamedTuple):
    """A message of the new list."""

    message: Message
    is_sent: bool | None
    """None: not ours to decide."""


class MarksweepStrategy(ContextProvider):
    """Collects requests when that is due. One may serve any number of agents and sessions."""

    after_run_once_per_turn = True
    """The framework's loop uses the stored history, so it is rewritten only after the loop."""

    def __init__(
        self, limit: int | str, *, source_id: str = "marksweep", **options: Unpack[Options]
    ) -> None:
        """Set `limit` in tokens, or in percent of `window`; see `adapters.core.Options`."""
        super().__init__(source_id)
        self.adapter = Adapter(limit, dialect="openai_chat", **options)
        self._run: ContextVar[Run | None] = ContextVar("marksweep_run", default=None)
        self._recall = FunctionTool(name="recall", description=DESCRIPTION, func=self.recall)

    async def __call__(self, messages: list[Message]) -> bool:
        """Exclude messages and insert stand-ins; return whether the request changed."""
        run, before = self._run.get(), list(messages)
        placed = await self.adapter.guarded_async(lambda: self._compacted(before, run), None)
        if placed is None:
            return False
        sent = [id(message) for message in messages if not _is_excluded(message)]
        messages[:] = [_marked(each) for each in placed]
        return sent != [id(message) for message in messages if not _is_excluded(message)]

    def _compacted(self, messages: Sequence[Message], run: Run | None) -> list[Placed]:
        """Return all messages in order, with stand-ins for those that are not sent."""
        made: dict[str, Message] = {}
        owned = list(messages)
        if any(map(_is_ours, messages)):
            made = {m.additional_properties[STAND_IN]: m for m in messages if _stands_in(m)}
            owned = [message for message in messages if not _stands_in(message)]
        for message in owned:  # its original is gone, so it is an ordinary message
            message.additional_properties.pop(STAND_IN, None)
        values: list[Json] = []
        origins: list[Origin] = []
        for at, message in enumerate(owned):
            if not _is_excluded(message) or _is_ours(message):
                for value, content in _values(message):
                    values.append(value)
                    origins.append(Origin(at, content))
        run = run or Run()
        fitted = self.adapter.fit(
            values,
            run.key,
            model=run.model,
            state=run.checkpoint,
            requested_at=run.state.get(REQUESTED_AT),
        )
        run.state[REQUESTED_AT] = time.time()
        checkpoint = self.adapter.checkpoint(fitted, run.checkpoint)
        if checkpoint is not run.checkpoint:
            run.checkpoint = checkpoint
            run.state[CHECKPOINT] = _packed(checkpoint)
        return _placed(owned, origins, fitted.kept, made)

    async def before_run(
        self,
        *,
        agent: object,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Note the session and the model of the run, add `recall`, and see to the requests."""
        packed = state.get(CHECKPOINT)
        checkpoint = await self.adapter.guarded_async(lambda: _unpacked(packed), None)
        model = self.adapter.guarded(lambda: _model(agent, context), "")
        self._run.set(Run(session.session_id, model, state, checkpoint))
        context.extend_tools(self.source_id, [self._recall])
        if getattr(agent, "compaction_strategy", None) is self:
            return
        if isinstance(getattr(agent, "client", None), ChatMiddlewareLayer):
            context.extend_middleware(self.source_id, [_Compacting(self)])
        else:
            self.adapter.failed(
                BadInput(
                    "the agent's client runs no chat middleware. Expected the strategy also as "
                    "compaction_strategy."
                )
            )

    async def after_run(
        self,
        *,
        agent: object,
        session: AgentSession,
        context: SessionContext,  # noqa: ARG002 - the framework's signature
        state: dict[str, Any],  # noqa: ARG002
    ) -> None:
        """With `rewrite_history`, replace the stored history with what is sent."""
        run = self._run.get()
        if self.adapter.rewrite_history and run is not None:
            await self.adapter.guarded_async(lambda: self._rewrite(agent, session, run), None)

    def _rewrite(self, agent: object, session: AgentSession, run: Run) -> None:
        providers = list(getattr(agent, "context_providers", None) or ())
        later = providers[providers.index(self) + 1 :]
        histories = [each for each in later if isinstance(each, InMemoryHistoryProvider)]
        if not histories:
            raise BadInput(
                "rewrite_history=True: there is no InMemoryHistoryProvider after the strategy in "
                "context_providers, and other providers only add messages. Expected "
                "[strategy, InMemoryHistoryProvider()]. Requests are still collected."
            )
        for history in histories:
            stored = session.state.get(history.source_id, {})
            if messages := stored.get("messages"):
                placed = self._compacted(messages, run)
                stored["messages"] = [each.message for each in placed if each.is_sent is not False]

    def recall(self, what: str, start: int = 0) -> str:
        """Return what was swept from the current session."""
        run = self._run.get()
        if run is None:
            return "recall needs the session: add the strategy to context_providers too."
        return self.adapter.recall(what, run.key, start)


class _Compacting(ChatMiddleware):
    """Compacts each request of a run whose agent has no compaction strategy of ours."""

    def __init__(self, strategy: MarksweepStrategy) -> None:
        self._strategy = strategy

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Send what is left of the messages."""
        messages = list(context.messages)
        if await self._strategy(messages):
            context.messages = [message for message in messages if not _is_excluded(message)]
        await call_next()


def _model(agent: object, context: SessionContext) -> str:
    """Return the model of a run: from its options, or the agent's."""
    defaults = getattr(agent, "default_options", None) or {}
    return str(context.options.get("model") or defaults.get("model") or "")


def _packed(checkpoint: Json) -> str:
    return b64encode(zlib.compress(msgspec.json.encode(checkpoint))).decode()


def _unpacked(packed: str | None) -> Json:
    return msgspec.json.decode(zlib.decompress(b64decode(packed))) if packed else None


def _is_excluded(message: Message) -> bool:
    return bool(message.additional_properties.get(EXCLUDED_KEY))


def _is_ours(message: Message) -> bool:
    """Whether we excluded it. The framework may include it again with its group."""
    return bool(message.additional_properties.get(EXCLUDE_REASON_KEY) == REASON)


def _stands_in(message: Message) -> bool:
    return STAND_IN in message.additional_properties


def _marked(placed: Placed) -> Message:
    """Exclude a message, or include it again. Excludes a copy, because others hold the message."""
    message, notes = placed.message, placed.message.additional_properties
    if placed.is_sent is False and not _is_excluded(message):
        message = copy.copy(message)
        message.additional_properties = {**notes, EXCLUDED_KEY: True, EXCLUDE_REASON_KEY: REASON}
    elif placed.is_sent and _is_ours(message):
        notes[EXCLUDED_KEY], notes[EXCLUDE_REASON_KEY] = False, None
    return message


def _placed(
    messages: Sequence[Message],
    origins: Sequence[Origin],
    kept: Sequence[Kept],
    made: dict[str, Message],
) -> list[Placed]:
    """Return all messages of the host, each followed by its stand-in if it has one."""
    values: dict[int, int] = defaultdict(int)
    for origin in origins:
        values[origin.message] += 1
    left: dict[int, list[Kept]] = defaultdict(list)
    added: dict[int, list[Kept]] = defaultdict(list)
    loose: list[Kept] = []
    for each in kept:
        if each.key is None:
            loose.append(each)
            continue
        at = origins[each.key].message
        left[at].append(each)
        added[at] += loose
        loose = []
    out: list[Placed] = []
    for at, message in enumerate(messages):
        out += _added(added[at], made)
        found = left[at]
        is_whole = len(found) == values.get(at, 0) and not any(each.is_changed for each in found)
        out.append(Placed(message, is_whole if at in values else None))
        if found and not is_whole:
            out.append(Placed(_changed(message, found, origins, made), is_sent=True))
    return [*out, *_added(loose, made)]


def _changed(
    message: Message, found: Sequence[Kept], origins: Sequence[Origin], made: dict[str, Message]
) -> Message:
    """Return a copy of a message with the contents that are left."""
    name = digest([message.message_id, *(each.message for each in found)]).hex()
    if name in made:
        return made[name]
    if message.role == "tool":
        contents = [_result(each, message.contents[origins[each.key].content]) for each in found]
    else:
        contents = _contents(found[0].message, message.contents)
    new = copy.copy(message)
    new.contents = contents
    new.additional_properties = {
        **message.additional_properties,
        EXCLUDED_KEY: False,
        EXCLUDE_REASON_KEY: None,
        STAND_IN: name,
    }
    return new


def _added(kept: Sequence[Kept], made: dict[str, Message]) -> Iterator[Placed]:
    """Make messages that the host does not have: a line, or what a rewind brought back."""
    for value in (each.message for each in kept):
        name = digest(value).hex()
        if name in made:
            yield Placed(made[name], is_sent=True)
        elif contents := _made(value):
            notes = {STAND_IN: name, EXCLUDED_KEY: False, **_group(value, name)}
            new = Message(
                value["role"],
                contents,
                message_id=f"marksweep_{name}",
                additional_properties=notes,
            )
            yield Placed(new, is_sent=True)


def _group(value: Json, name: str) -> dict[str, Json]:
    """Return the note of a separate group; none for calls and results, which are one group."""
    role = value["role"]
    if role == "tool" or value.get("tool_calls"):
        return {}
    kind = role if role in ("system", "user") else "assistant_text"
    group = {"id": f"group_{name}", "kind": kind, "index": 0, "has_reasoning": False}
    return {GROUP_ANNOTATION_KEY: group}


def _made(value: Json) -> list[Content]:
    """Make the contents of a value, without those whose original form is not known."""
    said = value.get("content") or ""
    blocks = [{"type": "text", "text": said}] if isinstance(said, str) else said
    contents = [content for block in blocks if (content := _made_content(block)) is not None]
    if value["role"] == "tool":
        result = contents if isinstance(said, list) else said
        return [Content.from_function_result(value["tool_call_id"], result=result)]
    asked = [(call["id"], call["function"]) for call in value.get("tool_calls") or ()]
    calls = [
        Content.from_function_call(id_, f["name"], arguments=f["arguments"]) for id_, f in asked
    ]
    return [*contents, *calls]


def _made_content(block: Json) -> Content | None:
    if block["type"] == "text":
        return Content.from_text(block["text"]) if block["text"] else None
    kind = {"image_url": "url", "file": "file_data"}.get(block["type"])
    uri = block[block["type"]][kind] if kind else ""
    return Content.from_uri(uri) if uri.startswith("data:") else None


def _values(message: Message) -> list[tuple[Json, int | None]]:
    """Convert a message to chat completions, one value for each result; none if nothing is read.

    Contents without an equivalent there are kept in the value, so that they are counted.
    """
    if not any(content.type in READ for content in message.contents):
        return []
    if message.role == "tool":
        return [
            ({"role": "tool", "tool_call_id": content.call_id, "content": _said(content)}, at)
            for at, content in enumerate(message.contents)
            if content.type == "function_result"
        ]
    value: dict[str, Json] = {
        "role": message.role if message.role in ("system", "user") else "assistant",
        "content": [block for c in message.contents if (block := _block(c)) is not None],
    }
    thoughts = [c for c in message.contents if c.type == "text_reasoning"]
    if thoughts:
        value["reasoning_content"] = "\n".join(c.text or c.protected_data or "" for c in thoughts)
    calls = [_call(c) for c in message.contents if _is_call(c)]
    if calls:
        value["tool_calls"] = calls
    return [(value, None)]


def _is_call(content: Content) -> bool:
    """Whether a content is a call that the framework runs."""
    return (
        content.type == "function_call"
        and not getattr(content, "hosted", None)
        and not getattr(content, "informational_only", None)
    )


def _call(content: Content) -> Json:
    given = content.arguments
    arguments = given if isinstance(given, str) else json.dumps(given or {}, default=str)
    function = {"name": content.name, "arguments": arguments}
    return {"id": content.call_id, "type": "function", "function": function}


def _block(content: Content) -> Json:
    """Convert a content; None for calls and reasoning."""
    if content.type == "text":
        return {"type": "text", "text": content.text or ""}
    if content.type in ("data", "uri"):
        if (content.media_type or "").startswith("image/"):
            return {"type": "image_url", "image_url": {"url": content.uri}}
        return {"type": "file", "file": {"file_data": content.uri}}
    if content.type == "text_reasoning" or _is_call(content):
        return None
    return {"type": content.type, content.type: content.to_dict(exclude={"raw_representation"})}


def _said(content: Content) -> Json:
    """Return the content of a result: a text, or blocks if there is more than text."""
    items = content.items or ()
    if any(item.type != "text" for item in items):
        return [_block(item) for item in items]
    return content.result if isinstance(content.result, str) else json.dumps(content.result)


def _result(kept: Kept, content: Content) -> Content:
    """Return a result, or a copy with the text that is left."""
    if not kept.is_changed:
        return content
    new = copy.copy(content)
    new.items = _contents(kept.message, content.items or ())
    new.result = "\n".join(item.text for item in new.items if item.type == "text" and item.text)
    return new


def _contents(value: Json, old: Sequence[Content]) -> list[Content]:
    """Return the contents of a value: the old ones that are left, and new texts."""
    said = value.get("content") or []
    blocks = [{"type": "text", "text": said}] if isinstance(said, str) else said
    calls = {call["id"] for call in value.get("tool_calls") or ()}
    known = [(block, content) for content in old if (block := _block(content)) is not None]
    thoughts = [c for c in old if c.type == "text_reasoning" and value.get("reasoning_content")]
    return [
        *thoughts,
        *(
            next((c for known_as, c in known if known_as == block), None)
            or Content.from_text(block["text"])
            for block in blocks
        ),
        *(c for c in old if _is_call(c) and c.call_id in calls),
    ]
