"""Evidence recall: whether a conversation's gold turns are in context when questions come.

Turns are added one by one and nothing is pinned. Blind: the context alone, the question unknown.
With recall: half the budget for the context, the other half for what `recall` returns.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

import msgspec

from marksweep.replay.atoms import squeeze
from marksweep.replay.drive import Collector
from marksweep.replay.records import PER_MESSAGE, Conversation, Count, Wire, content_of, price

COLLECT_EVERY_MESSAGES = 8
"""Turns between two requests."""


class Recalling(Collector, Protocol):
    """A collector that can also bring back what it dropped."""

    def recall(self, query: str, limit: int) -> list[str]:
        """Texts that answer a query, within a limit in tokens."""


class Evidence(msgspec.Struct, frozen=True):
    """Share of gold turns found per question of one conversation."""

    conversation: str
    shares: tuple[float, ...]
    over_limit: int = 0
    """Recalls that were over their limit and counted as nothing."""
    said: str = ""
    """What the collector said when it failed; then nothing was found."""


def blind(talk: Conversation, collector: Collector, percent: float, count: Count) -> Evidence:
    """Evidence in the context under the whole budget, the question unknown."""
    context = _replay(talk, collector, int(percent / 100 * tokens_of(talk, count)))
    return _shares(talk, [context] * len(talk.questions))


def recalled(talk: Conversation, collector: Recalling, percent: float, count: Count) -> Evidence:
    """Evidence in a context under half the budget, or in what recall returns for the other half."""
    limit = int(percent / 100 * tokens_of(talk, count))
    kept = _replay(talk, collector, limit // 2)
    rest = limit - limit // 2
    shown = []
    over = 0
    for question in talk.questions:
        texts = collector.recall(question.q, rest)
        if sum(count(text) + PER_MESSAGE for text in texts) > rest:
            over += 1
            texts = []
        shown.append("\n".join([kept, *map(squeeze, texts)]))
    return _shares(talk, shown, over)


def nothing(talk: Conversation, said: str) -> Evidence:
    """What a collector that failed has found."""
    found = _shares(talk, [""] * len(talk.questions))
    return msgspec.structs.replace(found, said=said)


def wire(talk: Conversation) -> list[Wire]:
    """The turns as messages: the assistant speaks as such, everybody else as user."""
    return [
        {"role": "assistant" if turn.speaker == "assistant" else "user", "content": turn.text}
        for turn in talk.turns
    ]


def tokens_of(talk: Conversation, count: Count) -> int:
    """Tokens of all turns."""
    return sum(price(message, count) for message in wire(talk))


def _replay(talk: Conversation, collector: Collector, limit: int) -> str:
    """Send a collector all turns; the squeezed text of its last context."""
    collector.start([], limit)
    context: list[Wire] = []
    messages = wire(talk)
    for number, message in enumerate(messages, 1):
        collector.add([message])
        if number % COLLECT_EVERY_MESSAGES == 0 or number == len(messages):
            context = collector.context()
    return "\n".join(squeeze(content_of(message)) for message in context)


def _shares(talk: Conversation, shown: list[str], over: int = 0) -> Evidence:
    flat = [squeeze(turn.text) for turn in talk.turns]
    often = Counter(flat)
    shares = []
    for question, text in zip(talk.questions, shown, strict=True):
        gold = [flat[i] for i in question.evidence if i < len(flat) and often[flat[i]] == 1]
        if gold:
            shares.append(sum(turn in text for turn in gold) / len(gold))
    return Evidence(talk.id, tuple(shares), over)
