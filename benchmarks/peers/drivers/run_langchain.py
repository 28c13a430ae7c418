"""LangChain: `trim_messages` and `ClearToolUsesEdit`, each with its own approximate counter."""

from __future__ import annotations

from langchain.agents.middleware.context_editing import (
    ClearToolUsesEdit,
)
from langchain_core.messages import (
    convert_to_messages,
    trim_messages,
)
from langchain_core.messages.utils import (
    count_tokens_approximately,
)
from stopwatch import Messages, Work, main  # type: ignore[import-not-found]


def trim(messages: Messages, budget: int) -> Work:
    """The newest messages that fit, and the system prompt."""
    built = convert_to_messages(messages)
    return lambda: trim_messages(
        built,
        max_tokens=budget,
        token_counter=count_tokens_approximately,
        strategy="last",
        include_system=True,
    )


def clear(messages: Messages, budget: int) -> Work:
    """Old results cleared until as much is freed as the budget asks."""
    built = convert_to_messages(messages)
    free = count_tokens_approximately(built) - budget
    edit = ClearToolUsesEdit(trigger=budget, keep=3, clear_at_least=max(1, free))

    def work() -> Messages:
        edit.apply(built, count_tokens=count_tokens_approximately)
        return built

    return work


if __name__ == "__main__":
    main("langchain", {"trim": trim, "clear": clear})
