"""A pydantic-ai agent whose requests stay within a limit: one line.

Run it: python examples/adapters/pydantic_ai_agent.py. The model is pydantic-ai's FunctionModel.
"""

from __future__ import annotations

import asyncio

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from marksweep.adapters.pydantic_ai import Marksweep
from marksweep.tokens import count

answers = [
    *(ToolCallPart("read", {"path": f"{n}.py"}, tool_call_id=f"c{n}") for n in range(30)),
    TextPart("All read."),
]


def fake_model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Answer from a list, and print how much was sent."""
    said = [str(getattr(part, "content", "")) for message in messages for part in message.parts]
    tokens = sum(map(count, said))
    print(f"{len(messages):3} messages, {tokens:6,} tokens")
    return ModelResponse(parts=[answers.pop(0)], usage=RequestUsage(input_tokens=tokens))


def read(path: str) -> str:
    """Read a file."""
    return "\n".join(f"{path}, line {n}: {n * 7919 % 1000}" for n in range(60))


async def main() -> None:
    agent = Agent(
        FunctionModel(fake_model),
        tools=[read],
        capabilities=[Marksweep(limit=10_000)],
    )
    result = await agent.run("Read all files.", usage_limits=UsageLimits(request_limit=None))
    kept = len(result.all_messages())
    print(f"The run keeps all {kept} messages; marksweep kept the requests within the limit.")


if __name__ == "__main__":
    asyncio.run(main())
