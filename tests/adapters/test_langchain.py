"""LangChain and LangGraph: their own agent loop, checkpointer and fake model."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain.tools import tool
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from marksweep.adapters.core import Adapter
from marksweep.adapters.langchain import MarksweepMiddleware, _message, _value
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


def read(path: str) -> str:
    """Read a file."""
    return content(path)


class Scripted(GenericFakeChatModel):
    """LangChain's fake model, extended with tools and streamed calls."""

    agent: Any
    model_name: str = "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatResult:
        made = self.agent.answer(messages)
        return ChatResult(generations=[ChatGeneration(message=made)])

    def _stream(self, messages: list[Any], *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        made = self.agent.answer(messages)
        for word in re.split(r"(?<= )", made.text):
            yield ChatGenerationChunk(message=AIMessageChunk(word, id=made.id))
        chunks = [
            {"name": c["name"], "args": json.dumps(c["args"]), "id": c["id"], "index": n}
            for n, c in enumerate(made.tool_calls)
        ]
        last = AIMessageChunk("", id=made.id, tool_call_chunks=chunks, chunk_position="last")
        yield ChatGenerationChunk(message=last)


class Recorder(AgentMiddleware):
    """Records what the agent would send by itself; it runs before marksweep."""

    def __init__(self, agent: Any) -> None:
        super().__init__()
        self.agent = agent

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self.agent.own = list(request.messages)
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self.agent.own = list(request.messages)
        return await handler(request)


def said(messages: list[AnyMessage]) -> str:
    """Return the text of messages, including calls."""
    lines = [
        f"{m.type} {m.content} "
        + " ".join(f"{c['args'].get('path', '')} {c['id']}" for c in getattr(m, "tool_calls", ()))
        for m in messages
    ]
    return "\n".join(lines).replace("\\n", "\n")


@dataclass
class LangChainAgent(Agent):
    middleware: Any = None
    saver: Any = field(default_factory=InMemorySaver)
    tools: list[Any] = field(default_factory=lambda: [read])
    more: dict[str, Any] = field(default_factory=dict)
    own: list[Any] = field(default_factory=list)
    rewound: dict[str, Any] = field(default_factory=dict)
    profile: dict[str, Any] | None = None
    usage: Any = None

    def __post_init__(self) -> None:
        self.middleware = self.middleware or MarksweepMiddleware(self.limit, **self.options)
        self.build()

    def build(self) -> None:
        extra = self.more.get("middleware", [])
        self.graph = create_agent(
            Scripted(messages=iter(()), agent=self, profile=self.profile),
            self.tools,
            checkpointer=self.saver,
            **{**self.more, "middleware": [Recorder(self), self.middleware, *extra]},
        )

    @property
    def adapter(self) -> Adapter:
        made: Adapter = self.middleware.adapter
        return made

    def answer(self, messages: list[AnyMessage]) -> AIMessage:
        sent = [m for m in messages if not isinstance(m, SystemMessage)]
        calls = [c["id"] for m in sent if isinstance(m, AIMessage) for c in m.tool_calls]
        results = [m.tool_call_id for m in sent if isinstance(m, ToolMessage)]
        self.requests.append(
            Request(sent, calls, results, said(sent), own=self.own, own_text=said(self.own))
        )
        made = self.answers[len(self.requests) - 1]
        if not isinstance(made, Answer):
            return made
        asked = [
            {"name": "read", "args": {"path": path}, "id": f"call_{next(NUMBERS)}"}
            for path in made.reads
        ]
        usage = self.usage and {**self.usage(said(sent)), "total_tokens": 0}
        return AIMessage(made.text, tool_calls=asked, usage_metadata=usage or None)

    def config(self, thread: str) -> Any:
        point, self.rewound = self.rewound, {}
        return {"configurable": {"thread_id": thread, **point}, "recursion_limit": 500}

    def ask(self, prompt: Any, thread: str = "a") -> Any:
        given = prompt if isinstance(prompt, Command) else {"messages": [HumanMessage(prompt)]}
        return self.graph.invoke(given, self.config(thread))

    def stream(self, prompt: str, thread: str = "a") -> None:
        async def streamed() -> list[Any]:
            given = {"messages": [HumanMessage(prompt)]}
            stream = self.graph.astream(given, self.config(thread), stream_mode="messages")
            return [part async for part in stream]

        assert len(asyncio.run(streamed())) > len(self.requests)

    def history(self, thread: str = "a") -> list[Any]:
        messages: list[Any] = self.graph.get_state(self.config(thread)).values["messages"]
        return messages

    def restarted(self) -> LangChainAgent:
        return LangChainAgent([], self.limit, self.options, saver=self.saver)

    def rewind(self, messages: int, thread: str = "a") -> None:
        states = self.graph.get_state_history(self.config(thread))
        state = next(s for s in states if len(s.values["messages"]) == messages)
        self.rewound = {"checkpoint_id": state.config["configurable"]["checkpoint_id"]}

    def recall(self, what: str, thread: str = "a") -> str:
        before = len(self.requests)
        call = {"name": "recall", "args": {"what": what}, "id": f"recall_{before}"}
        self.answers = [*[Answer()] * before, AIMessage("", tool_calls=[call]), Answer("so")]
        self.ask("Look it up.", thread)
        return str(self.history(thread)[-2].content)


class TestLangChain(AdapterContract):
    make = LangChainAgent
    example = "langchain_agent"

    def share(self, agent: Agent, shared: Agent) -> None:
        agent.middleware = shared.middleware  # type: ignore[attr-defined]
        agent.build()  # type: ignore[attr-defined]

    def test_a_call_that_waits_for_approval_is_left_alone(self) -> None:
        asks = HumanInTheLoopMiddleware(interrupt_on={"read": True})
        agent = LangChainAgent(reading(22), more={"middleware": [asks]})
        result = agent.ask("Read all files of the project.")
        while "__interrupt__" in result:
            result = agent.ask(Command(resume={"decisions": [{"type": "approve"}]}))
        assert len(agent.requests) == 23
        assert all(request.is_paired for request in agent.requests)
        assert swept(agent.requests[-1])
        assert agent.adapter.failures == 0

    def test_a_hand_off_to_another_agent_is_a_separate_conversation(self) -> None:
        middleware = MarksweepMiddleware(LIMIT)
        other = LangChainAgent(reading(22, 100), middleware=middleware)

        def delegate(task: str) -> str:
            """Delegate a task to another agent."""
            return str(other.ask(task, "a")["messages"][-1].content)

        call = {"name": "delegate", "args": {"task": "Read the rest."}, "id": "hand_off"}
        steps = [*reading(22)[:-1], AIMessage("", tool_calls=[call]), Answer("done")]
        agent = LangChainAgent(steps, middleware=middleware, tools=[read, delegate])
        agent.ask("Read all files of the project.")
        assert "src/100.py" not in agent.requests[-1].text
        assert "src/0.py" not in other.requests[-1].text
        assert all(request.is_paired for request in [*agent.requests, *other.requests])
        assert middleware.adapter.failures == 0

    def test_images_thoughts_and_metadata_come_through(self) -> None:
        picture = {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}
        thinks = {"type": "thinking", "thinking": "hm " * 50, "signature": "sig"}
        call = {"name": "read", "args": {"path": "src/0.py"}, "id": "first"}
        use = {"type": "tool_use", "id": "first", "name": "read", "input": call["args"]}
        words = {"type": "text", "text": "\n\n".join(f"Paragraph {n}. " * 30 for n in range(60))}
        first = AIMessage(
            [thinks, words, use], tool_calls=[call], response_metadata={"model_name": "m"}, id="ai1"
        )
        agent = LangChainAgent([first, *reading(25, 1)])
        agent.ask([{"type": "text", "text": "What is this?"}, picture])
        sent = agent.requests[-1].objects
        assert sent[0].content[1] == picture
        assert sent[1].id == "ai1"
        assert sent[1].response_metadata["model_name"] == "m"
        assert sent[1].content[0] == thinks
        assert sent[1].content[-1] == use
        assert len(sent[1].content[1]["text"]) < len(words["text"])
        assert all(request.is_paired for request in agent.requests)

    def test_a_shortened_result_keeps_its_picture(self) -> None:
        picture = {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}

        def photograph(path: str) -> list[Any]:
            """Read a file and take a picture of it."""
            return [{"type": "text", "text": content(path)}, picture]

        agent = LangChainAgent(reading(25), tools=[tool("read")(photograph)])
        agent.ask("Read all files of the project.")
        sent = [m.content for r in agent.requests for m in r.objects if isinstance(m, ToolMessage)]
        changed = [said for said in sent if isinstance(said, list) and "left out" in str(said)]
        assert changed
        for text, *rest in changed:
            assert text.keys() == {"type", "text"}
            assert rest == [picture]

    def test_a_changed_result_keeps_its_id_name_artifact_and_status(self) -> None:
        agent = LangChainAgent(reading(25))
        agent.ask("Read all files of the project.")
        request = agent.requests[-1]
        own = {message.id: message for message in request.own}
        changed = [m for m in request.objects if m.id in own and m is not own[m.id]]
        assert changed
        for message in changed:
            assert isinstance(message, ToolMessage)
            assert own[message.id].content == content(_path(own[message.id]))
            alike = own[message.id].model_copy(update={"content": message.content})
            assert message == alike

    def test_structured_output_is_still_made(self) -> None:
        class Found(BaseModel):
            files: int

        call = {"name": "Found", "args": {"files": 25}, "id": "found"}
        steps = [*reading(25)[:-1], AIMessage("", tool_calls=[call])]
        agent = LangChainAgent(steps, more={"response_format": ToolStrategy(Found)})
        assert agent.ask("Read all files of the project.")["structured_response"] == Found(files=25)
        assert swept(agent.requests[-1])

    def test_a_checkpoint_alone_is_enough_to_continue(self) -> None:
        """Without a store, what was collected is in the thread's checkpoint, with its messages."""
        agent = LangChainAgent(reading(18))
        agent.ask("Read all files of the project.")
        again = agent.restarted()
        again.answers = reading(1, 100)
        again.ask("Read one more.")
        assert again.requests[0].text.startswith(agent.requests[-1].text)
        assert swept(again.requests[0]) == swept(agent.requests[-1])
        gone = swept(again.requests[0])
        assert content(gone.path) in again.recall(gone.id)

    def test_percent_is_of_the_window_that_the_model_declares(self) -> None:
        agent = LangChainAgent(reading(25), limit="30%")
        agent.profile = {"max_input_tokens": LIMIT * 10 // 3}
        agent.build()
        agent.ask("Read all files of the project.")
        assert swept(agent.requests[-1])
        assert agent.adapter.failures == 0

    def test_usage_calibrates_the_limit(self) -> None:
        """A provider that counts twice what we count is sent half."""
        agent = LangChainAgent(reading(25))
        agent.usage = lambda text: {"input_tokens": 2 * count(text), "output_tokens": 1}
        agent.ask("Read all files of the project.")
        assert largest(agent) < 0.6 * LIMIT

    def test_a_custom_graph_can_use_it_too(self) -> None:
        middleware = MarksweepMiddleware(LIMIT)
        agent = LangChainAgent(reading(25), limit=10**6)
        agent.ask("Read all files of the project.")
        history = agent.history()
        sent = middleware.fitted(history, "mine")
        assert count(said(sent)) < count(said(history)) / 2
        assert middleware.fitted([], "mine") == []


def _path(message: ToolMessage) -> str:
    return str(message.content).split(":")[0]


def test_what_a_rewind_brings_back_is_a_message_of_its_own_kind() -> None:
    """A thread whose history was rewritten does not have these messages any more."""
    asked = {"id": "c1", "name": "read", "args": {"path": "a.py"}, "type": "tool_call"}
    calls = AIMessage("", tool_calls=[asked])
    result = ToolMessage([{"type": "text", "text": "1: x"}], tool_call_id="c1", name="read")
    said = AIMessage("It is fixed.")
    for message in (calls, result, said, HumanMessage("go on")):
        assert _message(None, _value(message)) == message
