"""LangChain's middleware on recorded runs: clearing old results, and summarizing."""

from __future__ import annotations

from copy import deepcopy
from itertools import repeat
from typing import Any

from langchain.agents.middleware import (
    ClearToolUsesEdit,
    SummarizationMiddleware,
)
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, convert_to_messages
from langchain_core.messages.utils import count_tokens_approximately
from recorded import LAND, START, SUMMARY, Collect, Messages, main  # type: ignore[import-not-found]


def clear(limit: int) -> Collect:
    """`ContextEditingMiddleware` with its edit, before each request on the whole history."""
    edit = ClearToolUsesEdit(trigger=int(limit * START), keep=3)

    def collect(history: Messages) -> Messages:
        built = _built(history)
        edit.apply(built, count_tokens=count_tokens_approximately)
        return [
            {**was, "content": now.content} if was["role"] == "tool" else was
            for was, now in zip(history, built, strict=True)
        ]

    return collect


def summarize(limit: int) -> Collect:
    """`SummarizationMiddleware`, whose summaries stay in the state, after the system prompt."""
    middleware = SummarizationMiddleware(
        GenericFakeChatModel(messages=repeat(AIMessage(SUMMARY))),
        trigger=("tokens", int(limit * START)),
        keep=("tokens", int(limit * LAND)),
    )
    state: list[Any] = []
    seen = 0

    def collect(history: Messages) -> Messages:
        nonlocal state, seen
        state += [m for m in _built(history)[seen:] if m.type != "system"]
        seen = len(history)
        changed = middleware.before_model({"messages": state}, None)
        if changed:
            state = list(changed["messages"][1:])
        return [m for m in history if m["role"] == "system"] + [
            history[int(m.id)] if _is_own(m) else {"role": "user", "content": m.content}
            for m in state
        ]

    return collect


def _is_own(message: Any) -> bool:  # noqa: ANN401
    return (message.id or "").isdigit()


def _built(history: Messages) -> list[Any]:
    built = deepcopy(convert_to_messages(history))
    for number, message in enumerate(built):
        message.id = str(number)
    return list(built)


if __name__ == "__main__":
    main({"clear": clear, "summarize": summarize})
