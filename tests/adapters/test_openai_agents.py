"""OpenAI Agents SDK: its own runner and sessions, with our fake model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import agents
import pytest
from agents import Model, ModelResponse, RunConfig, Runner, SQLiteSession, Usage
from agents.run import ModelInputData
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response_reasoning_item import Summary
from pydantic import BaseModel

from marksweep.adapters.core import Adapter, Sent
from marksweep.adapters.openai_agents import MarksweepFilter, MarksweepSession
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

agents.set_tracing_disabled(disabled=True)

OPENED: list[SQLiteSession] = []
"""Sessions that are to be closed."""


def said(items: list[Any]) -> str:
    """Return the text of items, including calls."""
    lines = []
    for item in items:
        words = item.get("arguments") or item.get("output") or item.get("content") or item
        if isinstance(words, list):
            words = " ".join(str(block.get("text", block)) for block in words)
        lines.append(f"{item.get('type', 'message')} {words} {item.get('call_id', '')}")
    return "\n".join(lines)


def message(text: str) -> ResponseOutputMessage:
    block = ResponseOutputText(text=text, type="output_text", annotations=[])
    name = f"msg_{next(NUMBERS)}"
    return ResponseOutputMessage(
        id=name, content=[block], role="assistant", status="completed", type="message"
    )


def call(tool: str, name: str | None = None, **args: Any) -> ResponseFunctionToolCall:
    call_id = name or f"call_{next(NUMBERS)}"
    arguments = json.dumps(args)
    return ResponseFunctionToolCall(
        id=f"fc_{call_id}", call_id=call_id, name=tool, arguments=arguments, type="function_call"
    )


@agents.function_tool
def read(path: str) -> str:
    """Read a file."""
    return content(path)


class Scripted(Model):
    """Answers from a list, also as a stream."""

    def __init__(self, agent: OpenAIAgent) -> None:
        self.agent = agent

    async def get_response(
        self, system_instructions: Any, input: Any, *_: Any, **__: Any
    ) -> ModelResponse:
        output, tokens = self.agent.answer(input)
        usage = Usage(requests=1, input_tokens=tokens, output_tokens=1, total_tokens=tokens)
        return ModelResponse(output=output, usage=usage, response_id=None)

    async def stream_response(
        self, system_instructions: Any, input: Any, *_: Any, **__: Any
    ) -> AsyncIterator[Any]:
        output, _tokens = self.agent.answer(input)
        response = Response(
            id="r",
            created_at=0,
            model="scripted",
            object="response",
            output=output,
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=True,
        )
        yield ResponseCompletedEvent(
            response=response, type="response.completed", sequence_number=0
        )


@dataclass
class OpenAIAgent(Agent):
    filter: Any = None
    tools: list[Any] = field(default_factory=lambda: [read])
    more: dict[str, Any] = field(default_factory=dict)
    sessions: dict[str, SQLiteSession] = field(default_factory=dict)
    own: list[Any] = field(default_factory=list)
    factor: int = 0

    def __post_init__(self) -> None:
        self.filter = self.filter or MarksweepFilter(self.limit, **self.options)
        self.build()

    def build(self) -> None:
        self.agent: agents.Agent[Any] = agents.Agent(
            name="agent",
            model=Scripted(self),
            tools=[*self.tools, self.filter.recall_tool],
            instructions="Be brief.",
            **self.more,
        )
        self.config = RunConfig(call_model_input_filter=self.noted)

    async def noted(self, data: Any) -> ModelInputData:
        self.own = list(data.model_data.input)
        made: ModelInputData = await self.filter(data)
        return made

    @property
    def adapter(self) -> Adapter:
        made: Adapter = self.filter.adapter
        return made

    def answer(self, items: list[Any]) -> tuple[list[Any], int]:
        calls = [i["call_id"] for i in items if i.get("type") == "function_call"]
        results = [i["call_id"] for i in items if i.get("type") == "function_call_output"]
        self.requests.append(Request(items, calls, results, said(items), self.own, said(self.own)))
        made = self.answers[len(self.requests) - 1]
        tokens = self.factor * count(self.requests[-1].text)
        if not isinstance(made, Answer):
            return made, tokens
        return [message(made.text), *(call("read", path=path) for path in made.reads)], tokens

    def given(self, thread: str) -> dict[str, Any]:
        if thread not in self.sessions:
            self.sessions[thread] = SQLiteSession(thread)
            OPENED.append(self.sessions[thread])
        inner = self.sessions[thread]
        return {
            "session": MarksweepSession(thread, inner, filter=self.filter),
            "run_config": self.config,
            "hooks": self.filter.hooks,
            "max_turns": 200,
        }

    def ask(self, prompt: Any, thread: str = "a") -> Any:
        return asyncio.run(Runner.run(self.agent, prompt, **self.given(thread)))

    def stream(self, prompt: str, thread: str = "a") -> None:
        async def streamed() -> list[Any]:
            result = Runner.run_streamed(self.agent, prompt, **self.given(thread))
            return [event async for event in result.stream_events()]

        assert len(asyncio.run(streamed())) > len(self.requests)

    def history(self, thread: str = "a") -> list[Any]:
        session = self.given(thread)["session"]
        items: list[Any] = asyncio.run(session.get_items())
        return items

    def restarted(self) -> OpenAIAgent:
        return OpenAIAgent([], self.limit, self.options, sessions=self.sessions)

    def rewind(self, messages: int, thread: str = "a") -> None:
        async def rewound() -> None:
            session = self.sessions[thread]
            items = (await session.get_items())[: messages + 2]  # a message is a separate item
            await session.clear_session()
            await session.add_items(items[: messages + 2])  # each of the two answers adds an item

        asyncio.run(rewound())

    def recall(self, what: str, thread: str = "a") -> str:
        before = len(self.requests)
        self.answers = [*[Answer()] * before, [call("recall", what=what)], Answer("so")]
        self.ask("Look it up.", thread)
        return str(self.history(thread)[-2]["output"])


class TestOpenAIAgents(AdapterContract):
    make = OpenAIAgent
    example = "openai_agents_agent"

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def closing(cls) -> Iterator[None]:
        yield
        while OPENED:
            OPENED.pop().close()

    def share(self, agent: Agent, shared: Agent) -> None:
        agent.filter = shared.filter  # type: ignore[attr-defined]
        agent.build()  # type: ignore[attr-defined]

    def test_a_call_that_waits_for_approval_is_left_alone(self) -> None:
        asks = agents.function_tool(_read, name_override="read", needs_approval=True)
        agent = OpenAIAgent(reading(22), tools=[asks])
        result = agent.ask("Read all files of the project.")
        while result.interruptions:
            state = result.to_state()
            for item in result.interruptions:
                state.approve(item)
            result = agent.ask(state)
        assert len(agent.requests) == 23
        assert all(request.is_paired for request in agent.requests)
        assert swept(agent.requests[-1])
        assert agent.adapter.failures == 0

    def test_every_output_is_sent_to_a_conversation_that_the_provider_stores(self) -> None:
        """A request then has only what is new: outputs without their calls."""
        paths = tuple(f"src/{n}.py" for n in range(40))
        agent = OpenAIAgent([Answer("all at once", paths), Answer("done")])
        given = {**agent.given("a"), "session": None, "conversation_id": "conv_1"}
        asyncio.run(Runner.run(agent.agent, "Read all files of the project.", **given))
        first, last = agent.requests
        assert (len(first.own), len(last.own)) == (1, 40)
        assert len(last.results) == 40
        assert largest(agent) <= LIMIT

    def test_a_hand_off_continues_the_same_conversation(self) -> None:
        other = OpenAIAgent([])
        first = [*reading(22)[:-1], [call("transfer_to_other", "hand_off")], *reading(20, 100)]
        agent = OpenAIAgent(first, filter=other.filter)
        other.agent.model = agent.agent.model
        other.agent.name = "other"
        agent.agent.handoffs = [other.agent]
        agent.ask("Read all files of the project.")
        assert len(agent.requests) == 44
        assert all(request.is_paired for request in agent.requests)
        assert "src/119.py: line 20" in agent.requests[-1].text
        assert largest(agent) <= LIMIT
        assert agent.adapter.failures == 0

    def test_images_and_thoughts_come_through(self) -> None:
        picture = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
        question = {"type": "input_text", "text": "What is this?"}
        summary = Summary(text="hm " * 50, type="summary_text")
        thinks = ResponseReasoningItem(
            id="rs_1", summary=[summary], type="reasoning", encrypted_content="secret"
        )
        words = message("\n\n".join(f"Paragraph {n}. " * 30 for n in range(60)))
        agent = OpenAIAgent([[thinks, words, call("read", path="src/0.py")], *reading(25, 1)])
        agent.ask([{"role": "user", "content": [question, picture]}])
        request = agent.requests[-1]
        prompt, thought, answer, *_ = request.objects
        assert prompt["content"] == [question, picture]
        assert thought["encrypted_content"] == "secret"
        assert answer["id"] == words.id
        assert len(answer["content"][0]["text"]) < len(words.content[0].text)
        assert all(request.is_paired for request in agent.requests)

    def test_structured_output_is_still_made(self) -> None:
        class Found(BaseModel):
            files: int

        steps = [*reading(25)[:-1], [message('{"files": 25}')]]
        agent = OpenAIAgent(steps, more={"output_type": Found})
        assert agent.ask("Read all files of the project.").final_output == Found(files=25)
        assert swept(agent.requests[-1])

    def test_usage_calibrates_the_limit(self) -> None:
        """A provider that counts twice what we count is sent half."""
        agent = OpenAIAgent(reading(25), factor=2)
        agent.ask("Read all files of the project.")
        assert largest(agent) < 0.6 * LIMIT

    def test_usage_is_compared_with_its_own_request_although_another_was_sent_since(self) -> None:
        """Two runs of one conversation at once; the first answer comes last."""
        made = MarksweepFilter(LIMIT)
        first, second = (OpenAIAgent([Answer("so")], filter=made) for _ in "ab")
        short: list[Any] = [{"role": "user", "content": "Hi."}]
        long = [*short, {"role": "assistant", "content": "Hello."}]
        long.append({"role": "user", "content": content("src/0.py")})
        sent, seen = asyncio.Event(), list[tuple[int, int]]()

        class Waiting(Scripted):
            async def get_response(self, *given: Any, **more: Any) -> ModelResponse:
                if self.agent is first:
                    await sent.wait()
                response = await super().get_response(*given, **more)
                response.usage.input_tokens = 100 if self.agent is first else 1_000
                return response

        def noted(report: Sent, tokens: int, _: Any) -> None:
            seen.append((report.tokens, tokens))
            sent.set()

        made.adapter.observe = noted  # type: ignore[assignment]
        for each in (first, second):
            each.agent.model = Waiting(each)

        async def both() -> None:
            config: dict[str, Any] = {"run_config": first.config, "hooks": made.hooks}
            runs = [Runner.run(a.agent, g, **config) for a, g in ((first, short), (second, long))]
            await asyncio.gather(*runs)

        asyncio.run(both())
        (long_counted, of_long), (short_counted, of_short) = seen
        assert (of_long, of_short) == (1_000, 100)
        assert long_counted > 2 * short_counted

    def test_without_our_session_recall_is_limited_to_the_current_conversation(self) -> None:
        made = MarksweepFilter(LIMIT)
        first = OpenAIAgent(reading(25), filter=made)
        second = OpenAIAgent([[call("recall", what="line 3 of src")], Answer("so")], filter=made)

        async def both() -> Any:
            more: dict[str, Any] = {"max_turns": 200}
            run, config = Runner.run, first.config
            await run(first.agent, "Read all files.", run_config=config, **more)
            return await run(second.agent, "Read all files.", run_config=second.config, **more)

        result = asyncio.run(both())
        assert swept(first.requests[-1])
        assert "nothing that was swept" in result.to_input_list()[-2]["output"]

    def test_percent_without_a_window_is_logged_and_nothing_is_changed(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        agent = OpenAIAgent(reading(22), limit="60%")
        agent.ask("Read all files of the project.")
        assert "Pass window=" in caplog.text
        assert len(caplog.records) == 1
        assert content("src/0.py") in agent.requests[-1].text

    @pytest.mark.parametrize("failures", [1, 9])
    def test_a_session_that_cannot_be_rewritten_does_not_stop_the_run(self, failures: int) -> None:
        class Full(SQLiteSession):
            failures = 0

            async def add_items(self, items: list[Any]) -> None:
                if self.failures:
                    self.failures -= 1
                    raise OSError("disk full")
                await super().add_items(items)

        agent = OpenAIAgent(reading(25), options={"rewrite_history": True})
        inner = agent.sessions["a"] = Full("a")
        OPENED.append(inner)
        agent.ask("Read all files of the project.")
        before = asyncio.run(inner.get_items())
        inner.failures = failures
        assert agent.history() == before
        assert agent.adapter.failures == min(failures, 2)
        if failures == 1:
            assert asyncio.run(inner.get_items()) == before

    def test_a_run_that_is_cancelled_while_its_session_is_rewritten_does_not_empty_it(self) -> None:
        class Slow(SQLiteSession):
            is_cleared: asyncio.Event | None = None

            async def clear_session(self) -> None:
                await super().clear_session()
                if self.is_cleared is not None:
                    self.is_cleared.set()
                    await asyncio.sleep(0.05)

        agent = OpenAIAgent(reading(25), options={"rewrite_history": True})
        inner = agent.sessions["a"] = Slow("a")
        OPENED.append(inner)
        agent.ask("Read all files of the project.")
        session = MarksweepSession("a", inner, agent.filter)

        async def cancel() -> list[Any]:
            inner.is_cleared = asyncio.Event()
            loading = asyncio.create_task(session.get_items())
            await inner.is_cleared.wait()
            loading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await loading
            await asyncio.sleep(0.5)
            left: list[Any] = await inner.get_items()
            return left

        assert "src/24.py" in said(asyncio.run(cancel()))


def _read(path: str) -> str:
    """Read a file."""
    return content(path)
