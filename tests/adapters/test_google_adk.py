"""Google's ADK: its own runner, sessions and model class."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.adk.agents import Agent as AdkAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import LongRunningFunctionTool
from google.genai import types
from pydantic import BaseModel

from marksweep.adapters.core import Adapter, Sent
from marksweep.adapters.google_adk import REWRITES, MarksweepPlugin, _version
from marksweep.errors import BadInput
from marksweep.tokens import count
from tests.adapters.contract import (
    CALLS,
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

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:google", "ignore:.*EXPERIMENTAL")

APP, USER = "demo", "u"


def read(path: str) -> str:
    """Read a file."""
    return content(path)


class Scripted(BaseLlm):
    """A model that answers from a list."""

    agent: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = self.agent.answer(llm_request)
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=self.agent.reported * count(self.agent.requests[-1].text)
        )
        if stream:
            words = types.Content(role="model", parts=[types.Part(text="I")])
            yield LlmResponse(content=words, partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=usage)


class Recorder(BasePlugin):
    """Records what would be sent; it runs before marksweep."""

    def __init__(self, agent: Any) -> None:
        super().__init__(name="recorder")
        self.agent = agent

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        self.agent.own = list(llm_request.contents)


def said(contents: list[types.Content]) -> str:
    """Return the text of contents, including calls."""
    lines = [
        f"{each.role} {part.text or ''} {_texts(part.function_call and part.function_call.args)} "
        f"{_texts(part.function_response and part.function_response.response)}"
        for each in contents
        for part in each.parts or ()
    ]
    return "\n".join(lines).replace("\\n", "\n")


def _texts(given: dict[str, Any] | None) -> str:
    return " ".join(map(str, (given or {}).values()))


@dataclass
class ADK(Agent):
    plugin: Any = None
    service: Any = field(default_factory=InMemorySessionService)
    more: dict[str, Any] = field(default_factory=dict)
    own: list[Any] = field(default_factory=list)
    reported: int = 1
    """Ratio of the tokens it reports to the tokens that we count."""

    def __post_init__(self) -> None:
        self.plugin = self.plugin or MarksweepPlugin(self.limit, **self.options)
        self.build()

    def build(self) -> None:
        settings: dict[str, Any] = {"tools": [read], "name": "reader", **self.more}
        root = AdkAgent(model=Scripted(model="scripted", agent=self), **settings)
        app = App(name=APP, root_agent=root, plugins=[Recorder(self), self.plugin])
        self.runner = Runner(app=app, session_service=self.service)

    @property
    def adapter(self) -> Adapter:
        made: Adapter = self.plugin.adapter
        return made

    def answer(self, request: LlmRequest) -> Any:
        sent = list(request.contents)
        parts = [part for each in sent for part in each.parts or ()]
        calls = [part.function_call.id for part in parts if part.function_call]
        results = [part.function_response.id for part in parts if part.function_response]
        self.requests.append(
            Request(sent, calls, results, said(sent), own=self.own, own_text=said(self.own))
        )
        made = self.answers[len(self.requests) - 1]
        if not isinstance(made, Answer):
            return made
        asked = [
            types.FunctionCall(id=f"call_{next(NUMBERS)}", name="read", args={"path": path})
            for path in made.reads
        ]
        return [types.Part(text=made.text), *(types.Part(function_call=call) for call in asked)]

    def ask(self, prompt: Any, thread: str = "a", mode: Any = StreamingMode.NONE) -> Any:
        return asyncio.run(self._run(prompt, thread, mode))

    async def _run(self, prompt: Any, thread: str, mode: Any) -> list[Any]:
        given = [types.Part(text=prompt)] if isinstance(prompt, str) else prompt
        if await self._session(thread) is None:
            await self.service.create_session(app_name=APP, user_id=USER, session_id=thread)
        events = self.runner.run_async(
            user_id=USER,
            session_id=thread,
            new_message=types.Content(role="user", parts=given),
            run_config=RunConfig(streaming_mode=mode),
        )
        return [event async for event in events]

    async def _session(self, thread: str) -> Any:
        return await self.service.get_session(app_name=APP, user_id=USER, session_id=thread)

    def stream(self, prompt: str, thread: str = "a") -> None:
        assert any(event.partial for event in self.ask(prompt, thread, StreamingMode.SSE))

    def history(self, thread: str = "a") -> list[Any]:
        return [e.content for e in asyncio.run(self._session(thread)).events if e.content]

    def restarted(self) -> ADK:
        return ADK([], self.limit, self.options, service=self.service)

    def rewind(self, messages: int, thread: str = "a") -> None:
        del self.service.sessions[APP][USER][thread].events[messages:]

    def recall(self, what: str, thread: str = "a") -> str:
        call = types.FunctionCall(id="recall", name="recall", args={"what": what})
        before: list[Any] = [Answer()] * len(self.requests)
        self.answers = [*before, [types.Part(function_call=call)], Answer("so")]
        self.ask("Look it up.", thread)
        return str(self.history(thread)[-2].parts[0].function_response.response["result"])


class TestADK(AdapterContract):
    make = ADK
    example = "google_adk_agent"

    def share(self, agent: Agent, shared: Agent) -> None:
        agent.plugin = shared.plugin  # type: ignore[attr-defined]
        agent.build()  # type: ignore[attr-defined]

    def test_rewriting_the_history_keeps_it_small_and_paired(self) -> None:
        """The session gets compaction events: from then on, ADK itself builds the same request."""
        if _version() < REWRITES:
            with pytest.raises(BadInput, match=r"expected 2\.7"):
                MarksweepPlugin(1_000, rewrite_history=True)
            return
        agent = ADK([*reading(CALLS), *reading(3, 100)], options={"rewrite_history": True})
        agent.ask("Read all files of the project.")
        agent.ask("And these.")
        assert all(request.is_paired for request in agent.requests)
        gone, first = swept(agent.requests[CALLS]), agent.requests[CALLS + 1]
        assert content(gone.path) not in first.own_text
        assert first.own_text == first.text
        assert first.text.startswith(agent.requests[CALLS].text)
        assert content(gone.path) in agent.recall(gone.id)
        assert agent.adapter.failures == 0

    def test_a_call_that_waits_for_approval_is_left_alone(self) -> None:
        """A long-running tool has no answer yet; the user's answer comes in a later turn."""

        def approve(path: str) -> None:
            """Ask somebody, who answers later."""

        tools = [read, LongRunningFunctionTool(approve)]
        call = types.FunctionCall(id="wait", name="approve", args={"path": "src/0.py"})
        steps: list[Any] = [*reading(30)[:-1], [types.Part(function_call=call)], Answer("waiting")]
        agent = ADK([*steps, *reading(3, 100)], more={"tools": tools})
        agent.ask("Read all files of the project.")
        given = types.FunctionResponse(id="wait", name="approve", response={"status": "approved"})
        agent.ask([types.Part(function_response=given)])
        assert "approved" in agent.requests[-1].text
        assert swept(agent.requests[-1])
        assert agent.adapter.failures == 0

    def test_a_hand_off_to_another_agent_is_a_separate_conversation(self) -> None:
        agent = handing_off()
        agent.ask("Read all files of the project.")
        assert len(agent.requests) == 62
        assert all(request.is_paired for request in agent.requests)
        assert "For context" in agent.requests[-1].text
        assert largest(agent) <= LIMIT
        assert agent.adapter.failures == 0

    def test_images_thoughts_and_signatures_come_through(self) -> None:
        picture = types.Part(inline_data=types.Blob(mime_type="image/png", data=b"\x89PNG"))
        first = [
            types.Part(text="hm " * 50, thought=True),
            types.Part(
                function_call=types.FunctionCall(id="c", name="read", args={"path": "src/0.py"}),
                thought_signature=b"signed",
            ),
        ]
        agent = ADK([first, *reading(40, 1)])
        agent.ask([types.Part(text="What is this?"), picture])
        sent = agent.requests[-1].objects
        assert sent[0].parts[1].inline_data.data == b"\x89PNG"
        signed = [p.thought_signature for each in sent for p in each.parts if p.thought_signature]
        assert signed in ([b"signed"], [])
        assert swept(agent.requests[-1])
        assert all(request.is_paired for request in agent.requests)

    def test_a_changed_content_keeps_its_other_parts(self) -> None:
        paths = [("src/0a.py", "src/0b.py"), *((f"src/{n}.py",) for n in range(1, 40))]
        agent = ADK([*(Answer("so", each) for each in paths), Answer("done")])
        agent.ask("Read all files of the project.")
        request = agent.requests[-1]
        own = {id(part) for each in request.own for part in each.parts}
        parts = [part for each in request.objects for part in each.parts]
        changed = [part for part in parts if id(part) not in own and part.function_response]
        assert changed
        assert all(part.function_response.id.startswith("call_") for part in changed)
        assert all(isinstance(each, types.Content) for each in request.objects)

    def test_structured_output_is_still_made(self) -> None:
        class Found(BaseModel):
            files: int

        given = types.FunctionCall(id="f", name="set_model_response", args={"files": 40})
        steps = [*reading(40)[:-1], [types.Part(function_call=given)]]
        agent = ADK(steps, more={"output_schema": Found, "output_key": "found"})
        events = agent.ask("Read all files of the project.")
        assert '"files":40' in events[-1].content.parts[0].text.replace(" ", "")
        assert swept(agent.requests[-1])

    def test_its_own_rewind_takes_back_a_turn(self) -> None:
        agent = ADK([*reading(40), *reading(1, 200), *reading(2, 100)])
        agent.ask("Read all files of the project.")
        second = agent.ask("Read one more.")
        asyncio.run(
            agent.runner.rewind_async(
                user_id=USER,
                session_id="a",
                rewind_before_invocation_id=second[0].invocation_id,
            )
        )
        agent.ask("Read something else.")
        assert "src/200.py" not in agent.requests[-1].text
        assert "src/101.py: line 20" in agent.requests[-1].text
        assert all(request.is_paired for request in agent.requests)

    @pytest.mark.parametrize("is_structured", [False, True])
    def test_an_agent_without_tools_gets_recall_once_something_was_left_out(
        self, is_structured: bool
    ) -> None:
        """Not with an output schema, which Gemini does not accept together with tools."""

        class Found(BaseModel):
            files: int

        offered: list[bool] = []

        class Watched(ADK):
            def answer(self, request: LlmRequest) -> Any:
                offered.append("recall" in request.tools_dict)
                return super().answer(request)

        words = "\n\n".join(f"Paragraph {n}. " * 30 for n in range(60))
        schema = {"output_schema": Found} if is_structured else {}
        said = [types.Part(text=words, thought=True), types.Part(text='{"files": 1}')]
        agent = Watched(
            [said if is_structured else Answer(words)] * 8, more={"tools": [], **schema}
        )
        for n in range(8):
            agent.ask(f"Question {n}. {content('x')}", "a")
        assert agent.requests[-1].text != agent.requests[-1].own_text
        assert not offered[0]
        assert offered[-1] is not is_structured
        assert offered == sorted(offered)
        assert agent.adapter.failures == 0

    def test_usage_calibrates_the_limit(self) -> None:
        """A provider that counts twice what we count is sent half."""
        agent = ADK(reading(40), reported=2)
        agent.ask("Read all files of the project.")
        assert largest(agent) < 0.6 * LIMIT

    def test_usage_is_compared_with_its_own_request_where_two_runs_of_a_session_overlap(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plugin = MarksweepPlugin(LIMIT)
        short, long = ADK([Answer("Hello.")], plugin=plugin), ADK([Answer("So.")], plugin=plugin)
        seen = list[tuple[int, int]]()

        def noted(report: Sent, tokens: int, _: Any) -> None:
            seen.append((report.tokens, tokens))
            reported.set()

        async def both() -> None:
            runs = [short._run("Hi.", "a", StreamingMode.NONE)]
            runs.append(long._run(f"Look: {content('src/0.py')}", "a", StreamingMode.NONE))
            await asyncio.gather(*runs)

        answer = Scripted.generate_content_async

        async def late(self: Any, llm_request: LlmRequest, stream: bool = False) -> Any:
            (long_sent if self.agent is long else short_sent).set()
            await (short_sent if self.agent is long else long_sent).wait()
            if self.agent is short:
                await reported.wait()
            async for response in answer(self, llm_request, stream):
                yield response

        short_sent, long_sent, reported = asyncio.Event(), asyncio.Event(), asyncio.Event()
        monkeypatch.setattr(plugin.adapter, "observe", noted)
        monkeypatch.setattr(Scripted, "generate_content_async", late)
        asyncio.run(both())
        (long_counted, of_long), (short_counted, of_short) = seen
        assert of_long > 2 * of_short
        assert long_counted > 2 * short_counted

    def test_percent_is_of_the_window_that_is_passed(self) -> None:
        agent = ADK(reading(40), "30%", {"window": LIMIT * 10 // 3})
        agent.ask("Read all files of the project.")
        assert swept(agent.requests[-1])
        assert agent.adapter.failures == 0


def handing_off(**options: Any) -> ADK:
    """Return an agent that reads thirty files and hands off to another, which reads thirty more."""
    call = types.FunctionCall(id="hand_off", name="transfer_to_agent", args={"agent_name": "other"})
    steps = [*reading(30)[:-1], [types.Part(function_call=call)], *reading(30, 100)]
    agent = ADK(steps, options=options)
    other = AdkAgent(name="other", model=Scripted(model="s", agent=agent), tools=[read])
    agent.more = {"sub_agents": [other]}
    agent.build()
    return agent


if _version() >= REWRITES:

    def test_a_rewritten_session_alone_is_enough_to_continue() -> None:
        """Two calls at once, with ids that ADK generated; another process has no store of ours."""
        calls = [types.FunctionCall(name="read", args={"path": f"src/{n}.py"}) for n in range(60)]
        parts = [types.Part(function_call=call) for call in calls]
        steps: list[Any] = [[parts[n], parts[n + 1]] for n in range(0, 60, 2)]
        agent = ADK([*steps, Answer("done")], options={"rewrite_history": True})
        agent.ask("Read all files of the project.")
        again = ADK([Answer("so")], 10**6, service=agent.service)
        again.ask("Go on.")
        request = again.requests[0]
        assert request.own_text.startswith(agent.requests[-1].text)
        assert swept(request)
        assert len(request.calls) == len(request.results) > 0
        assert agent.adapter.failures == 0

    def test_a_session_of_several_agents_is_not_rewritten_which_is_logged_once(
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        agent = handing_off(rewrite_history=True)
        agent.ask("Read all files of the project.")
        assert all(request.is_paired for request in agent.requests)
        logged = [r.message for r in caplog.records if r.name == "marksweep.adapters"]
        assert len(logged) == 1
        assert "events of other, reader" in logged[0]
