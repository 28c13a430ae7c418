"""Google ADK on recorded runs: `ContextFilterPlugin`, and the compaction of events.

The plugin keeps the last requests of the user. Compaction replaces older events with a summary that
a model writes; the model here is a fake one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.events.event import Event
from google.adk.flows.llm_flows.compaction import request_processor
from google.adk.flows.llm_flows.contents import _process_compaction_events
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
from google.adk.sessions import InMemorySessionService
from google.genai import types
from recorded import START, SUMMARY, Collect, Messages, main  # type: ignore[import-not-found]

AGENT = "agent"
RETAINED_EVENTS = 10
"""Newest events that a compaction keeps. ADK has no target in tokens; more keeps more."""


def keep_last(limit: int) -> Collect:  # noqa: ARG001
    """Keep the last three requests of the user. It has no budget."""
    plugin = ContextFilterPlugin(num_invocations_to_keep=3)

    def collect(history: Messages) -> Messages:
        system = [message for message in history if message["role"] == "system"]
        others = [message for message in history if message["role"] != "system"]
        contents = [_built(message) for message in others]
        request = LlmRequest(contents=contents)
        asyncio.run(plugin.before_model_callback(callback_context=None, llm_request=request))
        left = {id(content) for content in request.contents}
        return system + [m for m, c in zip(others, contents, strict=True) if id(c) in left]

    return collect


class FakeModel(BaseLlm):  # type: ignore[misc]
    """Writes the same summary each time."""

    async def generate_content_async(
        self,
        llm_request: LlmRequest,  # noqa: ARG002
        stream: bool = False,  # noqa: ARG002
    ) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=SUMMARY)]))


def compact(limit: int) -> Collect:
    """Run ADK's own step before each request; its summaries stay in the session."""
    model = FakeModel(model="fake")
    agent = LlmAgent(name=AGENT, model=model)
    config = EventsCompactionConfig(
        token_threshold=int(limit * START),
        event_retention_size=RETAINED_EVENTS,
        summarizer=LlmEventSummarizer(llm=model),
    )
    service = InMemorySessionService()
    session = asyncio.run(service.create_session(app_name="app", user_id="user"))
    own: dict[str, dict[str, Any]] = {}
    """Messages by the id of their event."""

    seen = 0

    async def step(history: Messages) -> Messages:
        nonlocal seen
        for number, message in enumerate(history[seen:], seen):
            if message["role"] != "system":
                event = _event(message, number)
                own[event.id] = message
                await service.append_event(session, event)
        seen = len(history)
        context = InvocationContext(
            session_service=service,
            session=session,
            agent=agent,
            invocation_id="step",
            events_compaction_config=config,
        )
        async for _ in request_processor.run_async(context, LlmRequest()):
            pass
        left = _process_compaction_events(session.events, AGENT)
        return [m for m in history if m["role"] == "system"] + [
            own.get(event.id) or {"role": "assistant", "content": event.content.parts[0].text}
            for event in left
        ]

    return lambda history: asyncio.run(step(history))


def _event(message: dict[str, Any], number: int) -> Event:
    is_user = message["role"] == "user"
    return Event(
        author="user" if is_user else AGENT,
        content=_built(message),
        invocation_id=str(number),
        timestamp=float(number + 1),
    )


def _built(message: dict[str, Any]) -> types.Content:
    if message["role"] == "tool":
        answer = types.FunctionResponse(
            id=message["tool_call_id"], name="tool", response={"result": message["content"]}
        )
        return types.Content(role="user", parts=[types.Part(function_response=answer)])
    parts = [types.Part(text=message.get("content") or "")]
    for call in message.get("tool_calls") or ():
        given = call["function"]
        made = types.FunctionCall(id=call["id"], name=given["name"], args=_arguments(given))
        parts.append(types.Part(function_call=made))
    return types.Content(role="user" if message["role"] == "user" else "model", parts=parts)


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    try:
        found = json.loads(given["arguments"])
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


if __name__ == "__main__":
    main({"keep_last": keep_last, "compact": compact})
