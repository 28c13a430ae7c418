"""An agent of Google's ADK whose requests stay within a limit: one line in its App.

Run it: python examples/adapters/google_adk_agent.py. The model is fake.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from google.adk.agents import Agent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from marksweep.adapters.google_adk import MarksweepPlugin
from marksweep.tokens import count


class FakeModel(BaseLlm):
    """Reads thirty files, and prints how much it was sent."""

    step: int = 0

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002
    ) -> AsyncGenerator[LlmResponse, None]:
        size = sum(count(content.model_dump_json()) for content in llm_request.contents)
        print(f"{len(llm_request.contents):3} contents, {size:6,} tokens")
        self.step += 1
        part = types.Part(text="All read.")
        if self.step <= 30:
            call = types.FunctionCall(name="read", args={"path": f"{self.step}.py"})
            part = types.Part(function_call=call)
        yield LlmResponse(
            content=types.Content(role="model", parts=[part]),
            usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=size),
        )


def read(path: str) -> str:
    """Read a file."""
    return "\n".join(f"{path}, line {n}: {n * 7919 % 1000}" for n in range(60))


async def main() -> None:
    app = App(
        name="reader",
        root_agent=Agent(name="reader", model=FakeModel(model="fake"), tools=[read]),
        plugins=[MarksweepPlugin(limit=10_000)],
    )
    runner = InMemoryRunner(app=app)
    session = await runner.session_service.create_session(app_name="reader", user_id="me")
    asked = types.Content(role="user", parts=[types.Part(text="Read all files.")])
    events = runner.run_async(user_id="me", session_id=session.id, new_message=asked)
    number = len([event async for event in events])
    print(f"The session keeps all {number} events; marksweep kept the requests within the limit.")


if __name__ == "__main__":
    asyncio.run(main())
