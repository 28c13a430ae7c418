"""A LangChain agent whose requests stay within 60 % of the model's window: one line.

Run it: python examples/adapters/langchain_agent.py. The model is LangChain's fake one.
"""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from marksweep.adapters.langchain import MarksweepMiddleware
from marksweep.tokens import count


class FakeModel(GenericFakeChatModel):
    """Answers from a list, and prints how much it was sent."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:  # noqa: ARG002
        return self

    def _generate(self, messages: list[Any], *args: Any, **more: Any) -> ChatResult:
        print(f"{len(messages):3} messages, {sum(count(m.text) for m in messages):6,} tokens")
        return super()._generate(messages, *args, **more)


def read(path: str) -> str:
    """Read a file."""
    return "\n".join(f"{path}, line {n}: {n * 7919 % 1000}" for n in range(60))


def reads(n: int) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "read", "args": {"path": f"{n}.py"}, "id": f"c{n}"}])


def main() -> None:
    answers = iter([*map(reads, range(30)), AIMessage("All read.")])
    agent = create_agent(
        FakeModel(messages=answers, profile={"max_input_tokens": 16_000}),
        [read],
        middleware=[MarksweepMiddleware(limit="60%")],
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 100}
    result = agent.invoke({"messages": [HumanMessage("Read all files.")]}, config)
    whole = [m for m in result["messages"] if isinstance(m, ToolMessage)]
    print(
        f"The thread keeps all {len(whole)} results; marksweep kept the requests within the limit."
    )


if __name__ == "__main__":
    main()
