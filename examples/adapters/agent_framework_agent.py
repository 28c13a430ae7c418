"""An agent of Microsoft's Agent Framework whose requests stay within a limit.

Run it: python examples/adapters/agent_framework_agent.py. The chat client is fake.
"""

from __future__ import annotations

import asyncio
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    InMemoryHistoryProvider,
    Message,
)

from marksweep.adapters.agent_framework import MarksweepStrategy
from marksweep.tokens import count


class FakeClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Reads thirty files, and prints how much it was sent."""

    step = 0

    async def _inner_get_response(self, *, messages: Any, **_: Any) -> ChatResponse:
        contents = [content for message in messages for content in message.contents]
        size = sum(count(f"{c.text} {c.arguments} {c.result}") for c in contents)
        print(f"{len(messages):3} messages, {size:6,} tokens")
        self.step += 1
        said = Content.from_text("All read.")
        if self.step <= 30:
            given = {"path": f"{self.step}.py"}
            said = Content.from_function_call(f"c{self.step}", "read", arguments=given)
        return ChatResponse(messages=[Message("assistant", [said])])


def read(path: str) -> str:
    """Read a file."""
    return "\n".join(f"{path}, line {n}: {n * 7919 % 1000}" for n in range(60))


async def main() -> None:
    agent = Agent(
        client=FakeClient(),
        tools=[read],
        context_providers=[MarksweepStrategy(limit=10_000), InMemoryHistoryProvider()],
    )
    answer = await agent.run("Read all files.", session=agent.create_session())
    print(f"{answer.text} marksweep kept the requests within the limit.")


if __name__ == "__main__":
    asyncio.run(main())
