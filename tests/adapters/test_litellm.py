"""LiteLLM: its library with a custom provider as the model, and its proxy as a process."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import litellm
import pytest
from litellm import CustomLLM, ModelResponse

from marksweep.adapters.core import Adapter
from marksweep.adapters.litellm import RECALL, MarksweepHook
from marksweep.errors import BadInput
from tests.adapters.contract import AdapterContract, Agent, Request, content

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pydantic")

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # nothing is asked of the network

NUMBERS = itertools.count()
READ = {
    "type": "function",
    "function": {
        "name": "read",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    },
}
AGENTS: dict[str, Any] = {}
"""Agents by the name of their model."""


class Recorder(litellm.integrations.custom_logger.CustomLogger):
    """Notes a request as it is before or after the callback under test."""

    def __init__(self, field: str) -> None:
        super().__init__()
        self.field = field

    async def async_pre_call_deployment_hook(self, kwargs: Any, call_type: Any) -> None:
        setattr(AGENTS[kwargs["model"]], self.field, list(kwargs["messages"]))


BEFORE, AFTER = Recorder("own"), Recorder("sent")


class Scripted(CustomLLM):
    """A provider whose models answer from a list."""

    async def acompletion(self, model: str, *_: Any, **__: Any) -> ModelResponse:
        return AGENTS[f"scripted/{model}"].response()

    async def astreaming(self, model: str, *_: Any, **__: Any) -> AsyncIterator[Any]:
        message = AGENTS[f"scripted/{model}"].response().choices[0].message
        none: dict[str, Any] = {"tool_use": None, "is_finished": False, "finish_reason": ""}
        yield {**none, "text": message.content or "", "usage": None, "index": 0}
        for at, call in enumerate(message.tool_calls or ()):
            asked = {"id": call.id, "type": "function", "index": at, "function": call.function}
            yield {**none, "text": "", "tool_use": asked, "usage": None, "index": 0}
        done = {"text": "", "tool_use": None, "is_finished": True, "usage": None, "index": 0}
        yield {**done, "finish_reason": "tool_calls" if message.tool_calls else "stop"}


def said(messages: list[Any]) -> str:
    """Give all that messages say, also in calls."""
    return "\n".join(
        f"{m['role']} {m.get('content') or ''} "
        + " ".join(c["function"]["arguments"] for c in m.get("tool_calls") or ())
        for m in messages
    )


@dataclass
class Loop(Agent):
    """A program's own loop around LiteLLM, which has none."""

    hook: Any = None
    threads: dict[str, list[Any]] = field(default_factory=dict)
    own: list[Any] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)
    reported: int = 0

    def __post_init__(self) -> None:
        self.hook = self.hook or MarksweepHook(self.limit, **self.options)
        self.model = f"scripted/{id(self)}"
        AGENTS[self.model] = self
        litellm.custom_provider_map = [{"provider": "scripted", "custom_handler": Scripted()}]
        litellm.utils.custom_llm_setup()

    @property
    def adapter(self) -> Adapter:
        made: Adapter = self.hook.adapter
        return made

    def response(self) -> ModelResponse:
        calls = [c["id"] for m in self.sent for c in m.get("tool_calls") or ()]
        results = [m["tool_call_id"] for m in self.sent if m["role"] == "tool"]
        self.requests.append(
            Request(self.sent, calls, results, said(self.sent), self.own, said(self.own))
        )
        made = self.answers[len(self.requests) - 1]
        asked = [
            {
                "id": f"call_{next(NUMBERS)}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps({key: value})},
            }
            for name, key, value in [("read", "path", path) for path in made.reads]
        ]
        message = {"role": "assistant", "content": made.text, "tool_calls": asked or None}
        usage = {"prompt_tokens": self.reported, "completion_tokens": 1, "total_tokens": 1}
        return ModelResponse(choices=[{"message": message}], usage=usage)

    def ask(self, prompt: Any, thread: str = "a", stream: bool = False) -> Any:
        litellm.callbacks = [BEFORE, self.hook, AFTER]
        return asyncio.run(self._run(prompt, thread, stream))

    async def _run(self, prompt: Any, thread: str, stream: bool) -> str:
        history = self.threads.setdefault(thread, [])
        history.append({"role": "user", "content": prompt})
        while True:
            answer = await litellm.acompletion(
                model=self.model,
                messages=history,
                tools=[READ, RECALL],
                litellm_session_id=thread,
                stream=stream,
            )
            if stream:
                answer = litellm.stream_chunk_builder([chunk async for chunk in answer])
            message = answer.choices[0].message.model_dump(exclude_none=True)
            history.append(message)
            if not message.get("tool_calls"):
                return str(message["content"])
            history += [self._answered(call, thread) for call in message["tool_calls"]]

    def _answered(self, call: Any, thread: str) -> Any:
        given = json.loads(call["function"]["arguments"])
        is_read = call["function"]["name"] == "read"
        text = content(**given) if is_read else self.hook.recall(session=thread, **given)
        return {"role": "tool", "tool_call_id": call["id"], "content": text}

    def stream(self, prompt: str, thread: str = "a") -> None:
        self.ask(prompt, thread, stream=True)

    def history(self, thread: str = "a") -> list[Any]:
        return self.threads[thread]

    def restarted(self) -> Loop:
        return Loop([], self.limit, self.options, threads=self.threads)

    def rewind(self, messages: int, thread: str = "a") -> None:
        del self.threads[thread][messages:]

    def recall(self, what: str, thread: str = "a") -> str:
        return str(self.hook.recall(what, thread))


class TestLiteLLM(AdapterContract):
    make = Loop
    example = "litellm_loop"

    def share(self, agent: Agent, shared: Agent) -> None:
        agent.hook = shared.hook  # type: ignore[attr-defined]

    def test_rewriting_the_history_keeps_it_small_and_paired(self) -> None:
        """The history is the client's, which is said at once."""
        with pytest.raises(BadInput, match="the history is the client's"):
            MarksweepHook(1_000, rewrite_history=True)
