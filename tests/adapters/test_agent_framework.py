"""Microsoft's Agent Framework: its own agent, sessions and chat client class."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from agent_framework import Agent as FrameworkAgent
from agent_framework import (
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    CompactionProvider,
    Content,
    FunctionInvocationLayer,
    InMemoryHistoryProvider,
    Message,
    ResponseStream,
    tool,
)
from pydantic import BaseModel

from marksweep.adapters.agent_framework import MarksweepStrategy
from marksweep.adapters.core import Adapter
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


class Answering:
    """Answers from a list."""

    def __init__(self, agent: Any) -> None:
        super().__init__(function_invocation_configuration={"max_iterations": 100})  # type: ignore[call-arg]
        self.agent = agent
        self.model = "scripted"

    def _inner_get_response(self, *, messages: Any, stream: bool, **_: Any) -> Any:
        contents = self.agent.answer(list(messages))
        if stream:
            return ResponseStream(_updates(contents), finalizer=ChatResponse.from_updates)
        return _response(contents)


class Scripted(Answering, FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """A chat client with the layers that the framework's own clients have."""


class Bare(Answering, FunctionInvocationLayer, BaseChatClient):
    """A chat client that runs no chat middleware."""


async def _response(contents: list[Content]) -> ChatResponse:
    return ChatResponse(messages=[Message("assistant", contents)])


async def _updates(contents: list[Content]) -> AsyncIterable[ChatResponseUpdate]:
    name = f"message_{next(NUMBERS)}"
    for each in contents:
        yield ChatResponseUpdate(role="assistant", contents=[each], message_id=name)


class Recorded(MarksweepStrategy):
    """Records what the framework would send by itself."""

    async def __call__(self, messages: list[Message]) -> bool:
        own = [m for m in messages if "_marksweep" not in m.additional_properties]
        NOTED[asyncio.current_task()] = own
        return await super().__call__(messages)


NOTED: dict[Any, list[Message]] = {}


def said(messages: list[Message]) -> str:
    """Return the text of messages, including calls."""
    lines = [
        f"{m.role} {c.text or ''} {c.arguments or ''} {c.result or ''}"
        for m in messages
        for c in m.contents
    ]
    return "\n".join(lines)


@dataclass
class Framework(Agent):
    strategy: Any = None
    sessions: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.strategy = self.strategy or Recorded(self.limit, **self.options)
        self.build()

    def build(self) -> None:
        self.agent = FrameworkAgent(
            client=Scripted(self),
            **{
                "tools": [read],
                "compaction_strategy": self.strategy,
                "context_providers": [self.strategy, InMemoryHistoryProvider()],
                **self.more,
            },
        )

    @property
    def adapter(self) -> Adapter:
        made: Adapter = self.strategy.adapter
        return made

    def answer(self, messages: list[Message]) -> Any:
        own = NOTED.pop(asyncio.current_task(), messages)
        contents = [c for m in messages for c in m.contents]
        calls = [c.call_id for c in contents if c.type == "function_call"]
        results = [c.call_id for c in contents if c.type == "function_result"]
        self.requests.append(
            Request(messages, calls, results, said(messages), own=own, own_text=said(own))
        )
        made = self.answers[len(self.requests) - 1]
        if not isinstance(made, Answer):
            return made
        asked = [
            Content.from_function_call(f"call_{next(NUMBERS)}", "read", arguments={"path": path})
            for path in made.reads
        ]
        return [Content.from_text(made.text), *asked]

    def session(self, thread: str) -> Any:
        return self.sessions.setdefault(thread, AgentSession(session_id=thread))

    def ask(self, prompt: Any, thread: str = "a") -> Any:
        async def run() -> Any:
            return await self.agent.run(prompt, session=self.session(thread))

        return asyncio.run(run())

    def stream(self, prompt: str, thread: str = "a") -> None:
        async def streamed() -> list[Any]:
            stream = self.agent.run(prompt, session=self.session(thread), stream=True)
            return [update async for update in stream]

        assert len(asyncio.run(streamed())) > len(self.requests)

    def history(self, thread: str = "a") -> list[Any]:
        return [message.to_dict() for message in self.stored(thread)]

    def stored(self, thread: str) -> list[Any]:
        messages: list[Any] = self.session(thread).state["in_memory"]["messages"]
        return messages

    def restarted(self) -> Framework:
        stored = {k: json.dumps(s.to_dict(), default=str) for k, s in self.sessions.items()}
        sessions = {k: AgentSession.from_dict(json.loads(s)) for k, s in stored.items()}
        return Framework([], self.limit, self.options, sessions=sessions)

    def rewind(self, messages: int, thread: str = "a") -> None:
        del self.stored(thread)[messages:]

    def recall(self, what: str, thread: str = "a") -> str:
        name = f"recall_{next(NUMBERS)}"
        call = Content.from_function_call(name, "recall", arguments={"what": what})
        before: list[Any] = [Answer()] * len(self.requests)
        self.answers = [*before, [call], Answer("so")]
        self.ask("Look it up.", thread)
        return str(self.stored(thread)[-2].contents[0].result)


class TestAgentFramework(AdapterContract):
    make = Framework
    example = "agent_framework_agent"

    def share(self, agent: Agent, shared: Agent) -> None:
        agent.strategy = shared.strategy  # type: ignore[attr-defined]
        agent.build()  # type: ignore[attr-defined]

    @pytest.mark.parametrize("is_streamed", [False, True])
    def test_as_a_context_provider_alone_it_sends_the_same_and_offers_recall(
        self, is_streamed: bool
    ) -> None:
        """One line is enough: it compacts requests as a chat middleware."""
        as_both, alone = (Framework([*reading(25), *reading(15, 100)]) for _ in range(2))
        alone.more = {"compaction_strategy": None}
        alone.build()
        for agent in (as_both, alone):
            for prompt in ("Read all files of the project.", "And the others."):
                agent.stream(prompt) if is_streamed else agent.ask(prompt)
        path, name = swept(alone.requests[-1])
        assert [request.text for request in alone.requests] == [
            request.text for request in as_both.requests
        ]
        assert content(path).splitlines()[7] in alone.recall(name)
        assert alone.adapter.failures == 0

    def test_alone_with_a_client_that_runs_no_middleware_it_says_what_to_do(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        agent = Framework(reading(25), more={"compaction_strategy": None})
        agent.agent.client = Bare(agent)
        agent.ask("Read all files of the project.")
        assert agent.requests[-1].text == agent.requests[-1].own_text
        logged = [r.message for r in caplog.records if r.name == "marksweep.adapters"]
        assert len(logged) == 1
        assert "compaction_strategy" in logged[0]

    def test_a_history_that_cannot_be_rewritten_is_logged_once(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        agent = Framework([*reading(25), Answer("so")], options={"rewrite_history": True})
        agent.more = {"context_providers": [InMemoryHistoryProvider(), agent.strategy]}
        agent.build()
        agent.ask("Read all files of the project.")
        agent.ask("And?")
        assert content("src/0.py") in said(agent.stored("a"))
        logged = [r.message for r in caplog.records if r.name == "marksweep.adapters"]
        assert len(logged) == 1
        assert "[strategy, InMemoryHistoryProvider()]" in logged[0]

    def test_its_provider_rewrites_the_stored_history_with_the_strategy(self) -> None:
        """It rewrites before it stores a run, so a run is rewritten after the next one."""
        agent = Framework([*reading(40), *reading(3, 100), *reading(3, 200)])
        history = InMemoryHistoryProvider(skip_excluded=True)
        rewriting = CompactionProvider(after_strategy=agent.strategy)
        agent.more = {"context_providers": [history, agent.strategy, rewriting]}
        agent.build()
        agent.ask("Read all files of the project.")
        assert not any(m.additional_properties.get("_excluded") for m in agent.stored("a"))
        gone = swept(agent.requests[-1])
        agent.ask("And these.")
        marked = [m for m in agent.stored("a") if m.additional_properties.get("_excluded")]
        assert content(gone.path) in said(marked)
        agent.ask("And those.")
        assert all(request.is_paired for request in agent.requests)
        assert content(gone.path) not in said(agent.requests[-1].own)
        assert content(gone.path) in agent.recall(gone.id)
        assert agent.adapter.failures == 0

    def test_a_call_that_waits_for_approval_is_left_alone(self) -> None:
        agent = Framework(reading(20), more={"tools": [tool(read, approval_mode="always_require")]})
        result = agent.ask("Read all files of the project.")
        while result.user_input_requests:
            asked = result.user_input_requests
            responses = [each.to_function_approval_response(approved=True) for each in asked]
            result = agent.ask([Message("user", responses)])
        assert len(agent.requests) == 21
        assert all(request.is_paired for request in agent.requests)
        assert swept(agent.requests[-1])
        assert agent.adapter.failures == 0

    def test_a_hand_off_to_another_agent_is_a_separate_conversation(self) -> None:
        strategy = Recorded(LIMIT)
        other = Framework(reading(30, 100), strategy=strategy)

        async def delegate(task: str) -> str:
            """Delegate a task to another agent."""
            answer = await other.agent.run(task, session=other.session("b"))
            return str(answer.text)

        call = Content.from_function_call("hand_off", "delegate", arguments={"task": "The rest."})
        steps: list[Any] = [*reading(30)[:-1], [call], *reading(10, 30)]
        agent = Framework(steps, strategy=strategy, more={"tools": [read, delegate]})
        agent.ask("Read all files of the project.")
        assert "src/100.py" not in agent.requests[-1].text
        assert "src/0.py" not in other.requests[-1].text
        assert len(other.requests) == 31
        assert len(agent.requests) == 42
        assert all(request.is_paired for request in [*agent.requests, *other.requests])
        assert agent.requests[31].text.startswith(agent.requests[30].text)
        assert strategy.adapter.failures == 0

    def test_images_thoughts_and_metadata_come_through(self) -> None:
        picture = Content.from_data(b"\x89PNG", "image/png")
        words = "\n\n".join(f"Paragraph {n}. " * 30 for n in range(60))
        first = [
            Content.from_text_reasoning(text="hm " * 50, protected_data="signed"),
            Content.from_text(words),
            Content.from_function_call("first", "read", arguments={"path": "src/0.py"}),
        ]
        agent = Framework([first, *reading(40, 1)])
        agent.ask([Message("user", ["What is this?", picture], author_name="me")])
        request = agent.requests[-1]
        assert request.objects[0].contents[1].uri == picture.uri
        assert request.objects[0].author_name == "me"
        said_first = next(m for m in request.objects if m.contents[0].type == "text_reasoning")
        assert said_first.contents[0].protected_data == "signed"
        assert said_first.contents[2] is next(
            c for m in request.own for c in m.contents if c.call_id == "first"
        )
        assert len(said_first.contents[1].text) < len(words)
        assert all(each.is_paired for each in agent.requests)

    def test_a_shortened_result_keeps_its_picture(self) -> None:
        picture = Content.from_data(b"\x89PNG", "image/png")

        def photograph(path: str) -> list[Content]:
            """Read a file and take a picture of it."""
            return [Content.from_text(content(path)), picture]

        agent = Framework(reading(25), more={"tools": [tool(photograph, name="read")]})
        agent.ask("Read all files of the project.")
        sent = [c for r in agent.requests for m in r.objects for c in m.contents if c.result]
        changed = [c for c in sent if "left out" in c.result and "line 39" in c.result]
        assert changed
        for result in changed:
            text, *rest = result.items
            assert text.text == result.result
            assert "iVBO" not in result.result
            assert rest == [picture]

    def test_what_a_rewind_brings_back_is_sent_as_what_it_was(self) -> None:
        """A history that was rewritten does not have it any more. Signed thoughts stay away."""
        thinks = Content.from_text_reasoning(text="hm", protected_data="signed")
        steps: list[Any] = [
            [
                thinks,
                Content.from_text(f"I read {n}."),
                Content.from_function_call(f"{n}", "read", arguments={"path": f"{n}.py"}),
            ]
            for n in range(30)
        ]
        options = {"rewrite_history": True, "strategy": "truncate"}
        agent = Framework([*steps, Answer("done"), *reading(2, 100)], 4_000, options)
        agent.ask("Read all files of the project.")
        agent.rewind(2)
        assert "line 39" not in said(agent.stored("a"))
        agent.ask("Read something else.")
        _, answer, outcome, _ = agent.requests[31].objects
        assert (answer.role, outcome.role) == ("assistant", "tool")
        words, call = answer.contents
        (result,) = outcome.contents
        assert words.text == f"I read {call.call_id}."
        assert (call.name, call.parse_arguments()) == ("read", {"path": f"{call.call_id}.py"})
        assert (result.call_id, result.result) == (call.call_id, content(f"{call.call_id}.py"))
        noted = [m.additional_properties.get("_group", {}) for m in agent.requests[32].objects[1:3]]
        assert noted[0].get("id") == noted[1].get("id"), "1.0 notes neither"
        assert all(request.is_paired for request in agent.requests)
        assert agent.adapter.failures == 0

    def test_structured_output_is_still_made(self) -> None:
        class Found(BaseModel):
            files: int

        steps = [*reading(40)[:-1], Answer('{"files": 40}')]
        agent = Framework(steps, more={"default_options": {"response_format": Found}})
        assert agent.ask("Read all files of the project.").messages[-1].text == '{"files": 40}'
        assert swept(agent.requests[-1])

    def test_a_session_alone_is_enough_to_continue(self) -> None:
        """Without a store, what was collected is in the session's state: a fraction of its size."""
        agent = Framework(reading(40))
        agent.ask("Read all files of the project.")
        state = agent.session("a").state
        assert len(state["marksweep"]["checkpoint"]) < len(str(agent.history())) / 4
        again = agent.restarted()
        again.answers = reading(1, 100)
        again.ask("Read one more.")
        gone = swept(agent.requests[-1])
        assert content(gone.path) not in again.requests[0].text
        assert content(gone.path) in again.recall(gone.id)
        assert again.adapter.failures == 0

    def test_what_another_strategy_excluded_stays_excluded(self) -> None:
        strategy, excluded = MarksweepStrategy(LIMIT), Message("user", ["an aside"])
        excluded.additional_properties["_excluded"] = True
        messages = [Message("user", ["hello"]), excluded, Message("assistant", ["hi"])]
        asked = Content.from_function_approval_request("r", Content.from_function_call("c", "read"))
        messages.append(Message("assistant", [asked]))
        before = list(messages)
        assert not asyncio.run(strategy(messages))
        assert messages == before
        assert strategy.adapter.failures == 0
        assert excluded.additional_properties["_excluded"]

    def test_without_the_provider_it_still_collects_and_recall_says_what_to_do(self) -> None:
        agent = Framework(reading(40), more={"context_providers": [InMemoryHistoryProvider()]})
        agent.ask("Read all files of the project.")
        assert swept(agent.requests[-1])
        assert largest(agent) <= LIMIT
        assert "context_providers" in agent.strategy.recall("m3")
