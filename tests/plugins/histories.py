"""Small histories whose sizes are easy to see: the counter counts words."""

from __future__ import annotations

from collections.abc import Sequence

from marksweep.ledger import InstructionBudget
from marksweep.messages import (
    FunctionCall,
    Message,
    Part,
    Role,
    ToolResult,
    left_out_in,
    starts_turn,
)
from marksweep.plugins import ContextUsage

ASKED = 5
"""Words of a question: user messages are short."""


def words(message: Message) -> int:
    """Count one token per word of text, calls and results."""
    total = 0
    for part in message.parts:
        if part.text:
            total += len(part.text.split())
        if part.thought:
            total += len(part.thought.split())
        if part.function_call:
            total += 1
        if part.function_response:
            total += len(str(part.function_response.result).split())
    return total


def text(count: int, word: str = "w") -> str:
    """Return this many words."""
    return " ".join([word] * count)


def say(role: Role, id_: str, count: int = 50) -> Message:
    """Make a message of this many words."""
    return Message(role, (Part(text=text(count)),), id_)


def turn(n: int, *, size: int = 50, tools: int = 0, output: int = 100) -> list[Message]:
    """Make a short question, calls with their results, and a long answer: twice `size` words."""
    asked = min(size, ASKED)
    messages = [say(Role.USER, f"u{n}", asked)]
    for k in range(tools):
        call = FunctionCall(f"c{n}.{k}", "run", {"n": k})
        result = ToolResult(call.id, "run", text(output, "out"))
        messages.append(Message(Role.MODEL, (Part(function_call=call),), f"call{n}.{k}"))
        messages.append(Message(Role.TOOL, (Part(function_response=result),), f"result{n}.{k}"))
    messages.append(say(Role.MODEL, f"m{n}", 2 * size - asked))
    return messages


def talk(turns: int, *, size: int = 50, tools: int = 0, output: int = 100) -> list[Message]:
    """Make a system message and this many turns."""
    messages = [say(Role.SYSTEM, "system", 10)]
    for n in range(turns):
        messages += turn(n, size=size, tools=tools, output=output)
    return messages


def ids(history: Sequence[Message]) -> list[str]:
    """Return the ids of messages, without the lines that replace others."""
    return [message.message_id for message in history if left_out_in(message) is None]


def weigh(history: Sequence[Message]) -> int:
    """Count the words of a history."""
    return sum(map(words, history))


def full(history: Sequence[Message], limit: int) -> ContextUsage:
    """Return the usage of a window of this size."""
    total = weigh(history)
    return {
        "percent_used": 100 * total / limit,
        "total_tokens": total,
        "context_limit": limit,
        "turns": sum(map(starts_turn, history)),
    }


def budget_for(history: Sequence[Message], limit: int) -> InstructionBudget:
    """Make a budget that follows the history and counts words."""
    budget = InstructionBudget.create_default(limit)
    budget.follow(lambda: history, words)
    return budget


def unpaired(history: Sequence[Message]) -> set[str]:
    """Return calls without results and results without calls, found from the messages alone."""
    asked = [call.id for message in history for call in message.function_calls]
    answered = [result.call_id for message in history for result in message.function_responses]
    return set(asked) ^ set(answered)
