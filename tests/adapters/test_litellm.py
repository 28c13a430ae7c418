"""LiteLLM: its library with a custom provider as the model, and its proxy as a process."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import litellm
import pytest
from litellm import CustomLLM, ModelResponse

from marksweep.adapters.core import Adapter
from marksweep.adapters.litellm import RECALL, MarksweepHook
from marksweep.dialects import validate
from marksweep.errors import BadInput
from marksweep.testing.histories import Answered, Call, Said, Script, render_script
from marksweep.tokens import count
from tests.adapters.contract import (
    LIMIT,
    NUMBERS,
    AdapterContract,
    Agent,
    Request,
    content,
    reading,
)
from tests.clients.upstream import Upstream, serving
from tests.servers import free_port

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pydantic")

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
    """Records a request before or after the callback under test."""

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
    """Return the text of messages, including calls."""
    return "\n".join(
        f"{m['role']} {m.get('content') or ''} "
        + " ".join(c["function"]["arguments"] for c in m.get("tool_calls") or ())
        for m in messages
    )


@dataclass
class Loop(Agent):
    """A program's own loop around LiteLLM, which has no loop."""

    hook: Any = None
    threads: dict[str, list[Any]] = field(default_factory=dict)
    own: list[Any] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)

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
        return ModelResponse(choices=[{"message": message}])

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
        """LiteLLM keeps no history, so that is an error; a program keeps what `fit` returns."""
        with pytest.raises(BadInput, match=r"messages = hook\.fit"):
            MarksweepHook(1_000, rewrite_history=True)
        hook, messages = MarksweepHook(LIMIT), list[Any]()
        for message in render_script(work(), "openai_chat"):
            messages = hook.fit({"messages": [*messages, message]})["messages"]
            assert count(said(messages)) <= LIMIT
        assert not validate(messages, "openai_chat")
        assert "content of files 3" in hook.recall("content of files 3")

    def test_calls_that_are_not_awaited_are_fitted_by_hand(self) -> None:
        agent = Loop(reading(40), limit=10**6)
        agent.ask("Read all files of the project.")
        hook, messages = MarksweepHook(LIMIT), agent.history()
        given = {"model": "m", "messages": messages, "litellm_session_id": "x", "temperature": 0}
        fitted = hook.fit(given)
        assert given["messages"] is messages
        assert fitted["temperature"] == 0
        assert count(said(fitted["messages"])) < LIMIT * 1.05
        assert not validate(fitted["messages"], "openai_chat")
        assert hook.fit({"model": "m", "input": "hello"}, "embedding") == {
            "model": "m",
            "input": "hello",
        }

    @pytest.mark.parametrize("name", ["previous_response_id", "conversation"])
    def test_a_request_that_continues_a_stored_one_passes_unchanged(self, name: str) -> None:
        hook = MarksweepHook(100)
        given = {"input": render_script(work(), "openai_responses"), name: "r"}
        assert hook.fit(given, "responses") is given
        assert hook.fit({**given, name: None}, "responses") != given

    def test_percent_is_of_the_window_that_litellm_knows(self) -> None:
        known = litellm.model_cost["claude-sonnet-4-5"]["max_input_tokens"]
        hook = MarksweepHook(f"{LIMIT * 100 / known}%")
        given = {"messages": render_script(work(), "openai_chat")}
        for model in ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"):
            fitted = hook.fit({**given, "model": model})["messages"]
            assert count(json.dumps(fitted)) < LIMIT * 1.2
        assert hook.adapter is not None
        assert hook.adapter.failures == 0
        assert hook.fit({**given, "model": "nobody/knows"})["messages"] is given["messages"]
        assert hook.adapter.failures == 1

    @pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnraisableExceptionWarning", "ignore:coroutine:RuntimeWarning"
    )
    def test_six_threads_at_once_send_what_each_sends_alone(self) -> None:
        """LiteLLM's own logger serves one event loop, and drops records of other loops."""
        super().test_six_threads_at_once_send_what_each_sends_alone()

    def test_usage_calibrates_its_own_conversation_even_if_it_is_reported_late(self) -> None:
        """Without sessions, only the provider that counts twice what we count is sent half."""
        hook, largest, late = MarksweepHook(LIMIT), {1: 0, 2: 0}, list[Any]()
        histories = {n: render_script(work(f"files {n}"), "openai_chat") for n in largest}
        for end, n in itertools.product(range(1, len(histories[1]) + 1, 2), histories):
            call = {"messages": histories[n][:end], "litellm_call_id": f"{n}, {end}"}
            tokens = count(json.dumps(hook.fit(call)["messages"]))
            largest[n] = max(largest[n], tokens)
            usage = {"prompt_tokens": n * tokens, "completion_tokens": 1, "total_tokens": 1}
            late.append(hook.async_log_success_event(call, ModelResponse(usage=usage), 0, 1))
            if len(late) > 3:
                asyncio.run(late.pop(0))
        for event in late:
            event.close()
        assert largest[2] < 0.6 * LIMIT < 0.8 * LIMIT < largest[1] <= LIMIT

    @pytest.mark.parametrize(
        "settings", [{"limt": 5}, {"limit": "much"}, "60%", {"rewrite_history": True}]
    )
    def test_invalid_settings_of_the_proxy_are_logged_once_and_requests_pass(
        self, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(litellm, "marksweep", settings, raising=False)
        hook, given = (
            MarksweepHook(),
            {"model": "m", "messages": render_script(work(), "openai_chat")},
        )
        assert hook.fit(given) is given
        assert asyncio.run(hook.async_pre_call_deployment_hook(given, "acompletion")) is None
        assert [record.name for record in caplog.records] == ["marksweep.adapters"]
        assert "settings" in hook.recall("m3")

    def test_two_api_keys_with_the_same_session_stay_separate(self) -> None:
        hook = MarksweepHook(LIMIT)
        for key in ("one", "other"):
            hook.fit(
                {
                    "messages": render_script(work(key), "openai_chat"),
                    "litellm_session_id": "s",
                    "metadata": {"user_api_key": key},
                }
            )
        assert hook.adapter is not None
        found = hook.adapter.recall("content of one", '["other","s"]')
        assert "content of one" not in found.replace("'content of one'", "")


class Capture(litellm.integrations.custom_logger.CustomLogger):
    """Keeps the arguments of the last request, after the callback under test."""

    async def async_pre_call_deployment_hook(self, kwargs: Any, call_type: Any) -> None:
        self.kwargs = kwargs


def requested(hook: MarksweepHook, messages: list[Any], **more: Any) -> dict[str, Any]:
    """Send messages through LiteLLM with a mock answer; return what it would send."""
    capture = Capture()
    litellm.callbacks = [hook, capture]
    given = {"model": "gpt-4o", "mock_response": '{"files": 40}', **more}
    asyncio.run(litellm.acompletion(messages=messages, **given))
    sent: dict[str, Any] = capture.kwargs
    assert hook.adapter is not None
    assert hook.adapter.failures == 0
    assert "[marksweep: " in json.dumps(sent["messages"])
    return sent


def test_a_call_that_waits_for_approval_is_left_alone() -> None:
    function = {"name": "bash", "arguments": '{"command": "rm 1"}'}
    asks = {
        "role": "assistant",
        "content": "May I?",
        "tool_calls": [{"id": "waits", "type": "function", "function": function}],
    }
    hook, history = MarksweepHook(LIMIT), [*render_script(work(), "openai_chat"), asks]
    assert requested(hook, history)["messages"][-1] == asks
    answer = {"role": "tool", "tool_call_id": "waits", "content": "approved"}
    sent = requested(hook, [*history, answer])["messages"]
    assert sent[-2:] == [asks, answer]
    assert not validate(sent, "openai_chat")


def test_a_hand_off_to_another_model_continues_the_same_conversation() -> None:
    hook, history = MarksweepHook(LIMIT), render_script(work(), "openai_chat")
    first = requested(hook, history, litellm_session_id="s")["messages"]
    more = [*history, {"role": "user", "content": "Go on."}]
    other = requested(hook, more, litellm_session_id="s", model="claude-sonnet-4-5")["messages"]
    assert other[-1] == more[-1]
    assert count(json.dumps(other)) <= count(json.dumps(first)) + count(json.dumps(more[-1]))
    assert not validate(other, "openai_chat")
    assert "content of files 3" in hook.recall("content of files 3", "s")


def test_images_and_thoughts_come_through() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    asked = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}
    block = {"type": "thinking", "thinking": "hm " * 50, "signature": "signed"}
    thinks = {
        "role": "assistant",
        "content": "A picture.",
        "reasoning_content": "hm " * 50,
        "thinking_blocks": [block],
    }
    history = [asked, thinks, *render_script(work(), "openai_chat")]
    assert requested(MarksweepHook(LIMIT), history)["messages"][:2] == [asked, thinks]


def test_structured_output_is_still_asked_for() -> None:
    schema = {"type": "object", "properties": {"files": {"type": "integer"}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "found", "schema": schema}}
    history = render_script(work(), "openai_chat")
    assert (
        requested(MarksweepHook(LIMIT), history, response_format=wanted)["response_format"]
        == wanted
    )


def test_messages_passed_by_position_are_sent_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    litellm.callbacks = [MarksweepHook(LIMIT)]
    given = render_script(work(), "openai_chat")
    for _ in range(2):
        asyncio.run(litellm.acompletion("gpt-4o", given, mock_response="so"))
    logged = [r.message for r in caplog.records if r.name == "marksweep.adapters"]
    assert len(logged) == 1
    assert "by keyword" in logged[0]


def test_a_deployment_can_declare_its_window() -> None:
    hook = MarksweepHook("50%")
    given = {"model": "nobody/knows", "model_info": {"max_input_tokens": 2 * LIMIT}}
    fitted = hook.fit({**given, "messages": render_script(work(), "openai_chat")})
    assert count(said(fitted["messages"])) <= LIMIT


def work(task: str = "files") -> Script:
    beats: list[Said | Answered] = [Said(f"Read {task}.")]
    for n in range(40):
        calls = (Call("bash", {"command": f"cat {n}"}, f"content of {task} {n}\n" * 120),)
        beats.append(Answered(f"Step {n}.", calls=calls))
    return Script(tuple(beats))


TOOLS = {
    "openai_chat": [{"type": "function", "function": {"name": "bash", "parameters": {}}}],
    "openai_responses": [{"type": "function", "name": "bash", "parameters": {}}],
    "anthropic": [{"name": "bash", "input_schema": {"type": "object"}}],
}
ROUTES = {
    "openai_chat": ("/v1/chat/completions", "messages"),
    "openai_responses": ("/v1/responses", "input"),
    "anthropic": ("/v1/messages", "messages"),
}


@contextmanager
def proxy(folder: Path, upstream: str) -> Iterator[httpx.Client]:
    """Run LiteLLM's proxy, with the callback in its configuration."""
    models = [
        {
            "model_name": provider,
            "litellm_params": {"model": f"{provider}/m", "api_base": url, "api_key": "x"},
        }
        for provider, url in (("openai", f"{upstream}/v1"), ("anthropic", upstream))
    ]
    settings = {
        "callbacks": "marksweep.adapters.litellm.hook",
        "marksweep": {"limit": LIMIT, "store": str(folder / "swept.db")},
    }
    config = folder / "config.yaml"
    key = f"sk-{secrets.token_hex(32)}"
    general = {"master_key": key}
    config.write_text(
        json.dumps(
            {"model_list": models, "litellm_settings": settings, "general_settings": general}
        )
    )
    port = free_port()
    program = str(Path(sys.executable).parent / "litellm")
    command = [program, "--config", str(config), "--port", str(port)]
    log = folder / "log"
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as server:
        try:
            with httpx.Client(
                base_url=f"http://127.0.0.1:{port}",
                headers={"authorization": f"Bearer {key}"},
                timeout=60,
            ) as client:
                deadline = time.monotonic() + 120
                while not _is_alive(client):
                    assert server.poll() is None, log.read_text()[-3_000:]
                    assert time.monotonic() < deadline, log.read_text()[-3_000:]
                    time.sleep(0.2)
                yield client
        finally:
            server.terminate()


def _is_alive(client: httpx.Client) -> bool:
    try:
        return client.get("/health/liveliness").is_success
    except httpx.TransportError:
        return False


def test_the_proxy_sends_what_fits_on_every_route(tmp_path: Path) -> None:
    with serving(Upstream(1_000, str)) as upstream, proxy(tmp_path, upstream.url) as client:
        for dialect, (route, name) in ROUTES.items():
            model = "anthropic" if dialect == "anthropic" else "openai"
            history = render_script(work(dialect), dialect)
            ends = [n for n, m in enumerate(history, 1) if _is_result(m)][::4]
            for end in ends:
                body = {"model": model, "stream": True, "max_tokens": 9, "tools": TOOLS[dialect]}
                answer = client.post(
                    route,
                    json={**body, name: history[:end]},
                    headers={"x-litellm-session-id": dialect},
                )
                assert answer.is_success, answer.text
            sent = upstream.requests[-len(ends) :]
            assert [each.dialect for each in sent] == [dialect] * len(ends)
            assert not any(each.fault for each in sent)
            assert "[marksweep: " in json.dumps(sent[-1].messages)
            assert count(json.dumps(sent[-1].messages)) < LIMIT * 1.2
    assert (tmp_path / "swept.db").exists()


def _is_result(message: Any) -> bool:
    return "content of" in json.dumps(message) and message.get("role") != "assistant"
