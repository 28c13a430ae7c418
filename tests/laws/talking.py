"""Helpers for the laws about conversations: every strategy, in every dialect.

The laws look at provider messages alone. A message is split into the pieces its provider sees,
because messages may be joined where others were removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from marksweep.conversation import Conversation
from marksweep.core.strategy import Strategy
from marksweep.dialects import read
from marksweep.messages import Message, Role
from marksweep.strategies.mask import Mask
from marksweep.strategies.registry import STRATEGIES, Choice, strategy_of
from marksweep.testing.builders import Clock

PROVIDERS = ("openai_chat", "openai_responses", "anthropic", "gemini")
TIERS: tuple[Choice, ...] = (
    ("superseded", "mask", "truncate"),
    ("superseded", "mask", "summarize", "truncate"),
)

few = settings(max_examples=max(30, settings().max_examples * 3 // 10))
"""Histories for each strategy and law: ten laws make a few hundred for each strategy."""

each_strategy = pytest.mark.parametrize("strategy", [*sorted(STRATEGIES), *TIERS], ids=str)
dialects = st.sampled_from(PROVIDERS)
shares = st.integers(0, 100)
names = st.sampled_from([*sorted(STRATEGIES), "mask all"])

Raws = list[Any]


def weigh(message: Message) -> int:
    """Weigh the content of a message, so that joined messages weigh as much as separate ones."""
    return sum(len(json.dumps(part.raw)) for part in message.parts)


def conversation(dialect: str, strategy: Choice, **options: Any) -> Conversation:
    """Begin a conversation that collects only on request."""
    chosen = {"limit": 10**9, "counter": weigh, "clock": Clock(), **options}
    return Conversation(dialect=dialect, strategy=strategy, **chosen)


def holding(messages: Raws, dialect: str, strategy: Choice, **options: Any) -> Conversation:
    """Begin a conversation with these messages."""
    talk = conversation(dialect, strategy, **options)
    talk.extend(messages)
    return talk


def holding_readable(messages: Raws, dialect: str, strategy: Choice) -> Conversation:
    """Begin a conversation with those of these messages that can be read."""
    return holding(list(read(messages, dialect).messages), dialect, strategy)


def another(talk: Conversation, name: str) -> Strategy:
    """Draw another strategy for a conversation."""
    tools = talk._tools()
    if name == "mask all":
        return Mask(tools.outcomes, tools.trimmed, bulky=80, spare=0)
    return strategy_of(name, tools)


def raws(talk: Conversation) -> Raws:
    """Return the current messages, without a collection."""
    return [message.raw for message in talk.history]


def pieces(messages: Iterable[Message]) -> list[str]:
    """Return what a provider sees, piece by piece."""
    return [json.dumps(part.raw, sort_keys=True) for m in messages for part in m.parts]


def must_stay(messages: Raws, dialect: str) -> list[Message]:
    """Return the system prompt, the first request, and what the model has not answered."""
    found = read(messages, dialect).messages
    request = next((at for at, m in enumerate(found) if m.role is Role.USER), None)
    answers = [at for at, m in enumerate(found) if m.role is Role.MODEL]
    last = answers[-1] if answers else len(found) - 1
    return [
        message
        for at, message in enumerate(found)
        if message.role is Role.SYSTEM or at == request or at >= last
    ]


def is_in_order(some: list[str], whole: list[str]) -> bool:
    """Whether the pieces of `some` that are in `whole` are in the same order."""
    known = set(whole)
    rest = iter(whole)
    return all(piece in rest for piece in some if piece in known)
