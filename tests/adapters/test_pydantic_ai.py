"""pydantic-ai: its own agent loop and its FunctionModel."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import (
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    Tool,
    ToolOutput,
)
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits

from marksweep.adapters.core import Adapter
from marksweep.adapters.pydantic_ai import Marksweep
from marksweep.tokens import count
from tests.adapters.contract import (
    LIMIT,
    NUMBERS,
    AdapterContract,
    Agent,
    Answer,
    Request,
    content,
    largest,
    reading,
    swept,
)

FREE = UsageLimits(request_limit=None)


def said(messages: list[ModelMessage]) -> str:
    """Return the text of messages, including calls."""
    lines = []
    for message in messages:
        for part in message.parts:
            is_call = isinstance(part, ToolCallPart)
            words = part.args_as_dict().get("path") if is_call else getattr(part, "content", part)
            lines.append(f"{part.part_kind} {words} {getattr(part, 'tool_call_id', '')}")
    return "\n".join(lines).replace("\\n", "\n")


class Recorder(AbstractCapability[Any]):
    """Records what the agent would send by itself; it runs before marksweep."""

    def __init__(self, agent: Any) -> None:
        super().__init__()
        self.agent = agent

    async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:
        self.agent.own = list(request_context.messages)
        return await handler(request_context)


@dataclass
class PydanticAIAgent(Agent):
    capability: Any = None
    more: dict[str, Any] = field(default_factory=dict)
    threads: dict[str, list[ModelMessage]] = field(default_factory=dict)
    own: list[Any] = field(default_factory=list)
    factor: int = 0
    deferred: DeferredToolResults | None = None

    def __post_init__(self) -> None:
        self.capability = self.capability or Marksweep(self.limit, **self.options)
        self.build()

    def build(self) -> None:
        self.agent: PydanticAgent[Any, Any] = PydanticAgent(
            FunctionModel(self.answer, stream_function=self.streamed),
            capabilities=[Recorder(self), self.capability],
            instructions="Be brief.",
            **{"tools": [read], **self.more},
        )

    @property
    def adapter(self) -> Adapter:
        made: Adapter = self.capability.adapter
        return made

    def note(self, messages: list[ModelMessage]) -> Any:
        parts = [part for message in messages for part in message.parts]
        calls = [p.tool_call_id for p in parts if isinstance(p, ToolCallPart)]
        results = [p.tool_call_id for p in parts if isinstance(p, ToolReturnPart)]
        text, own_text = said(messages), said(self.own)
        self.requests.append(Request(messages, calls, results, text, self.own, own_text))
        return self.answers[len(self.requests) - 1]

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        made = self.note(messages)
        usage = RequestUsage(
            input_tokens=self.factor * count(self.requests[-1].text), output_tokens=1
        )
        if not isinstance(made, Answer):
            return ModelResponse(parts=made, usage=usage)
        calls = [
            ToolCallPart("read", {"path": path}, tool_call_id=f"call_{next(NUMBERS)}")
            for path in made.reads
        ]
        return ModelResponse(parts=[TextPart(made.text), *calls], usage=usage)

    async def streamed(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        made = self.note(messages)
        yield made.text
        for at, path in enumerate(made.reads, 1):
            call_id = f"call_{next(NUMBERS)}"
            yield {at: DeltaToolCall("read", json.dumps({"path": path}), tool_call_id=call_id)}

    def given(self, thread: str) -> dict[str, Any]:
        return {
            "message_history": self.threads.get(thread),
            "usage_limits": FREE,
            "conversation_id": thread,
        }

    def ask(self, prompt: Any, thread: str = "a") -> Any:
        run = self.agent.run(prompt, deferred_tool_results=self.deferred, **self.given(thread))
        result = asyncio.run(run)
        self.threads[thread] = result.all_messages()
        return result.output

    def stream(self, prompt: str, thread: str = "a") -> None:
        seen: list[Any] = []
        # The fake model reports what it guesses for an empty request.
        self.adapter.observe = lambda *_: None  # type: ignore[method-assign]

        async def handler(_: Any, events: AsyncIterator[Any]) -> None:
            seen.extend([event async for event in events])

        asyncio.run(self.agent.run(prompt, event_stream_handler=handler, **self.given(thread)))
        assert len(seen) > len(self.requests)

    def history(self, thread: str = "a") -> list[Any]:
        return self.threads[thread]

    def restarted(self) -> PydanticAIAgent:
        return PydanticAIAgent([], self.limit, self.options, threads=self.threads)

    def rewind(self, messages: int, thread: str = "a") -> None:
        self.threads[thread] = self.threads[thread][:messages]

    def recall(self, what: str, thread: str = "a") -> str:
        before = len(self.requests)
        call = ToolCallPart("recall", {"what": what}, tool_call_id=f"recall_{before}")
        self.answers = [*[Answer()] * before, [call], Answer("so")]
        self.ask("Look it up.", thread)
        return str(self.history(thread)[-2].parts[0].content)


def read(path: str) -> str:
    """Read a file."""
    return content(path)


class TestPydanticAI(AdapterContract):
    make = PydanticAIAgent
    example = "pydantic_ai_agent"

    def share(self, agent: Agent, shared: Agent) -> None:
        agent.capability = shared.capability  # type: ignore[attr-defined]
        agent.build()  # type: ignore[attr-defined]

    def test_a_call_that_waits_for_approval_is_left_alone(self) -> None:
        approved = Tool(read, requires_approval=True)
        more = {"tools": [approved], "output_type": [str, DeferredToolRequests]}
        agent = PydanticAIAgent(reading(22), more=more)
        result = agent.ask("Read all files of the project.")
        while isinstance(result, DeferredToolRequests):
            calls = {call.tool_call_id: True for call in result.approvals}
            agent.deferred = DeferredToolResults(approvals=calls)
            result = agent.ask(None)
        assert len(agent.requests) == 23
        assert all(request.is_paired for request in agent.requests)
        assert swept(agent.requests[-1])
        assert agent.adapter.failures == 0

    def test_a_hand_off_to_another_agent_is_a_separate_conversation(self) -> None:
        capability = Marksweep(LIMIT)
        other = PydanticAIAgent(reading(22, 100), capability=capability)

        async def delegate(task: str) -> str:
            """Delegate a task to another agent."""
            return str((await other.agent.run(task, usage_limits=FREE)).output)

        call = ToolCallPart("delegate", {"task": "Read the rest."}, tool_call_id="hand_off")
        agent = PydanticAIAgent(
            [*reading(22)[:-1], [call], Answer("done")],
            capability=capability,
            more={"tools": [read, delegate]},
        )
        agent.ask("Read all files of the project.")
        assert "src/100.py" not in agent.requests[-1].text
        assert "src/0.py" not in other.requests[-1].text
        assert all(request.is_paired for request in [*agent.requests, *other.requests])
        assert capability.adapter.failures == 0

    def test_images_thoughts_and_metadata_come_through(self) -> None:
        picture = BinaryContent(b"\x89PNG\r\n", media_type="image/png")
        thinks = ThinkingPart("hm " * 50, signature="sig", provider_name="p")
        words = TextPart("\n\n".join(f"Paragraph {n}. " * 30 for n in range(60)))
        call = ToolCallPart("read", {"path": "src/0.py"}, tool_call_id="first")
        agent = PydanticAIAgent([[thinks, words, call], *reading(25, 1)])
        agent.ask(["What is this?", picture])
        prompt, answer, *_ = agent.requests[-1].objects
        own = agent.requests[-1].own[1]
        assert prompt is agent.requests[-1].own[0]
        assert prompt.parts[0].content[1] is picture
        assert answer.parts[0] is thinks
        assert answer.parts[2] is call
        assert len(answer.parts[1].content) < len(words.content)
        assert (answer.usage, answer.timestamp) == (own.usage, own.timestamp)
        assert all(request.is_paired for request in agent.requests)

    def test_a_shortened_result_keeps_its_picture(self) -> None:
        picture = BinaryContent(b"\x89PNG\r\n", media_type="image/png")

        def photograph(path: str) -> list[Any]:
            """Read a file and take a picture of it."""
            return [content(path), picture]

        tools = [Tool(photograph, name="read")]
        agent = PydanticAIAgent(reading(25), more={"tools": tools})
        agent.ask("Read all files of the project.")
        sent = [p for r in agent.requests for m in r.objects for p in m.parts if is_result(p)]
        changed = [p.content for p in sent if isinstance(p.content, list) and "left out" in str(p)]
        assert changed
        for text, *rest in changed:
            assert "left out" in text
            assert rest == [picture]

    def test_a_changed_result_keeps_its_id_name_and_metadata(self) -> None:
        agent = PydanticAIAgent(reading(25))
        agent.ask("Read all files of the project.")
        request = agent.requests[-1]
        own = {p.tool_call_id: p for m in request.own for p in m.parts if is_result(p)}
        sent = [p for m in request.objects for p in m.parts if is_result(p)]
        changed = [part for part in sent if part is not own[part.tool_call_id]]
        assert changed
        for part in changed:
            assert part == replace(own[part.tool_call_id], content=part.content)
        for before, after in zip(request.own, request.objects, strict=True):
            assert replace(before, parts=[]) == replace(after, parts=[])

    def test_structured_output_is_still_made(self) -> None:
        class Found(BaseModel):
            files: int

        call = ToolCallPart("final_result", {"files": 25}, tool_call_id="found")
        agent = PydanticAIAgent(
            [*reading(25)[:-1], [call]], more={"output_type": ToolOutput(Found)}
        )
        assert agent.ask("Read all files of the project.") == Found(files=25)
        assert swept(agent.requests[-1])

    def test_a_retry_that_the_framework_asks_for_is_paired(self) -> None:
        def odd(path: str) -> str:
            """Read a file; fail at the first attempt."""
            if path.endswith("5.py") and len(agent.requests) % 2:
                raise ModelRetry("Try again: " + content(path))
            return content(path)

        twice = [Answer("again", (f"src/{n // 2}.py",)) for n in range(60)]
        agent = PydanticAIAgent(
            [*twice, Answer("done")], more={"tools": [Tool(odd, name="read", max_retries=3)]}
        )
        agent.ask("Read all files of the project.")
        assert largest(agent) <= LIMIT
        assert agent.adapter.failures == 0
        retries = [
            p.content for r in agent.requests for m in r.objects for p in filter(asks, m.parts)
        ]
        shortened = [said for said in retries if "left out" in said]
        assert shortened
        assert not [said for said in shortened if "Fix the errors" in said or '"error"' in said]

    def test_what_a_rewind_brings_back_is_sent_as_what_it_was(self) -> None:
        """A history that was rewritten does not have it any more. Signed thoughts stay away."""
        thinks = ThinkingPart("hm", signature="sig", provider_name="p")
        calls = [ToolCallPart("read", {"path": f"{n}.py"}, tool_call_id=f"{n}") for n in range(30)]
        steps = [[thinks, TextPart(f"I read {call.tool_call_id}."), call] for call in calls]
        options = {"rewrite_history": True, "strategy": "truncate"}
        agent = PydanticAIAgent([*steps, Answer("done"), *reading(2, 100)], 4_000, options)
        agent.ask("Read all files of the project.")
        agent.rewind(2)
        assert "line 39" not in said(agent.history())
        agent.ask("Read something else.")
        request = agent.requests[31]
        (answer,) = (m for m in request.objects if isinstance(m, ModelResponse))
        words, call = answer.parts
        assert call in calls
        assert words == TextPart(f"I read {call.tool_call_id}.")
        (result,) = (p for m in request.objects for p in m.parts if is_result(p))
        assert (result.tool_name, result.tool_call_id) == ("read", call.tool_call_id)
        assert result.content == content(call.args["path"])
        assert all(request.is_paired for request in agent.requests)
        assert agent.adapter.failures == 0

    def test_usage_calibrates_the_limit(self) -> None:
        """A provider that counts twice what we count is sent half."""
        agent = PydanticAIAgent(reading(25), factor=2)
        agent.ask("Read all files of the project.")
        assert largest(agent) < 0.6 * LIMIT


def asks(part: Any) -> bool:
    """Whether a part asks the model to try again; older versions have a kind of part for it."""
    return part.part_kind == "retry-prompt" or getattr(part, "outcome", "") == "retried"


def is_result(part: Any) -> bool:
    return isinstance(part, ToolReturnPart)
