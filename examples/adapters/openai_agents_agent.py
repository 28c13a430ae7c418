"""An agent of the OpenAI Agents SDK whose requests stay within a limit.

Run it: python examples/adapters/openai_agents_agent.py. The model is fake.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from agents import (
    Agent,
    Model,
    ModelResponse,
    RunConfig,
    Runner,
    SQLiteSession,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from marksweep.adapters.openai_agents import MarksweepFilter, MarksweepSession
from marksweep.tokens import count


class FakeModel(Model):
    """Reads thirty files, and prints how much it was sent."""

    async def get_response(
        self,
        system_instructions: Any,  # noqa: ARG002
        input: Any,
        *_: Any,
        **__: Any,
    ) -> ModelResponse:
        items = input
        tokens = sum(count(str(item)) for item in items)
        print(f"{len(items):3} items, {tokens:6,} tokens")
        number = sum(item.get("type") == "function_call" for item in items)
        made = called(number) if number < 30 else said("All read.")
        return ModelResponse(output=[made], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def called(number: int) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        call_id=f"c{number}",
        name="read",
        arguments=f'{{"path": "{number}.py"}}',
        type="function_call",
    )


def said(text: str) -> ResponseOutputMessage:
    return ResponseOutputMessage(
        id="m",
        content=[ResponseOutputText(text=text, type="output_text", annotations=[])],
        role="assistant",
        status="completed",
        type="message",
    )


@function_tool
def read(path: str) -> str:
    """Read a file."""
    return "\n".join(f"{path}, line {n}: {n * 7919 % 1000}" for n in range(60))


async def main() -> None:
    set_tracing_disabled(disabled=True)
    marksweep = MarksweepFilter(limit=10_000)
    stored = SQLiteSession("1")
    session = MarksweepSession("1", inner=stored)
    await Runner.run(
        Agent(name="reader", model=FakeModel(), tools=[read, marksweep.recall_tool]),
        "Read all files.",
        session=session,
        hooks=marksweep.hooks,
        run_config=RunConfig(call_model_input_filter=marksweep),
        max_turns=100,
    )
    kept = len(await session.get_items())
    print(f"The session keeps all {kept} items; marksweep kept the requests within the limit.")
    stored.close()


if __name__ == "__main__":
    asyncio.run(main())
