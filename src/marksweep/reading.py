"""A history that was read, made to fit, and written back in the form it came.

messages = tidy(messages, limit=100_000)
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable

import msgspec

from marksweep.conversation import COVERAGE, Conversation
from marksweep.core.budget import Budget
from marksweep.core.plan import Prices
from marksweep.dialects import History, read, write
from marksweep.dialects.base import Json
from marksweep.dialects.history import insist_on
from marksweep.messages import count_message
from marksweep.model import Plan
from marksweep.strategies.registry import Choice


def tidy(
    messages: Json,
    *,
    limit: int,
    strategy: Choice = COVERAGE,
    counter: Callable[..., float] = count_message,
    dialect: str | None = None,
) -> Json:
    """Return messages that fit the limit, in the form they were given; the input is left alone.

    Takes what `Conversation.extend` takes. A history that fits is returned unchanged. One that
    cannot fit, because too much of it must stay, is made as small as possible, with an
    OverLimitWarning. A message that cannot be read stays where it is, with a warning.
    """
    history = insist_on(read(messages, dialect))
    talk = Reading(history, limit=limit, strategy=strategy, counter=counter)
    report = talk.conversation.collect_if_due()
    return copy.copy(messages) if report is None or not report.swept else talk.written()


class Reading:
    """A history that was read, as a conversation that lands at its limit, and the way back."""

    def __init__(
        self,
        history: History,
        *,
        limit: int,
        strategy: Choice = COVERAGE,
        counter: Callable[..., float] = count_message,
        preserve_recent_turns: int = 0,
        prices: Prices | None = None,
    ) -> None:
        self.history = history
        self.conversation = Conversation(
            limit=limit,
            budget=Budget.at_limit(limit),
            prices=prices,
            strategy=strategy,
            counter=counter,
            dialect=history.dialect,
            preserve_recent_turns=preserve_recent_turns,
            **history.overhead,
        )
        names = self.conversation.extend(list(history.messages))
        self._names = dict(zip(names, history.messages, strict=True))

    def land_at(self, limit: int, strategy: Choice) -> None:
        """Set another limit and strategy: one that learns cuts what it reads to fit the window."""
        self.conversation.budget = Budget.at_limit(limit)
        self.conversation.use(strategy)

    def written(self) -> Json:
        """Write what is left in the form the history was given."""
        left = [
            msgspec.structs.replace(m, message_id=self._names[m.message_id].message_id)
            if m.message_id in self._names
            else m
            for m in self.conversation.history
        ]
        return write(self.history, left)


DEAD = "dead"
"""The strategy that finds dead weight."""

QUICK_DEAD = "superseded"
"""Finds what of it can be found without reading every text."""


class DeadWeight(msgspec.Struct, frozen=True):
    """One reason why messages are no longer needed, with their ids and tokens."""

    reason: str
    messages: tuple[str, ...]
    tokens: int


def dead_weight(plan: Plan) -> tuple[DeadWeight, ...]:
    """Gather what a plan would take by its reasons, heaviest first."""
    messages: dict[str, list[str]] = {}
    tokens: Counter[str] = Counter()
    for step in plan.steps:
        reason = step.reason.partition(";")[0]
        messages.setdefault(reason, []).extend(step.segments)
        tokens[reason] += step.size
    found = (DeadWeight(reason, tuple(messages[reason]), tokens[reason]) for reason in messages)
    return tuple(sorted(found, key=lambda each: (-each.tokens, each.reason)))
