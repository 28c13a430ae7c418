"""Collectors by name: the fixed references, coverage, and installed strategies.

    truncate, mask last 10, original score, GDSF, random     fixed references
    coverage economy, coverage quality                       the lab's collector: pages back in, too
    coverage, superseded+mask+truncate                       strategies of a Conversation; tiers
    gc_hybrid:preserve_recent_turns=2                        a GC plugin, with options
    clairvoyant                                              the bound; sees what comes

Case, blanks, hyphens and underscores in a reference's name do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from marksweep.conversation import Conversation
from marksweep.core.budget import Budget
from marksweep.errors import UnknownName
from marksweep.messages import Message
from marksweep.replay.apart import Apart, spec_of
from marksweep.replay.collectors import economy, quality
from marksweep.replay.drive import Collector
from marksweep.replay.lab import CLAIRVOYANT, COLLECTORS
from marksweep.replay.records import Count, Wire, price
from marksweep.replay.references import Mask
from marksweep.strategies.named import NAMED

Make = Callable[[Count], Collector]

TRUNCATE = "truncate"
ECONOMY, QUALITY = "coverage economy", "coverage quality"
OWN: dict[str, Make] = {ECONOMY: economy, QUALITY: quality}
REFERENCES = (TRUNCATE, "mask last 10", "GDSF", "original score", "random")
DEFAULT = (ECONOMY, QUALITY, "coverage", *REFERENCES)
"""What is replayed if nothing is named; the clairvoyant bound is always there."""

PLUGIN = "gc_"
"""How the names of GC plugins begin."""

_MASK = re.compile(r"mask last (\d+)")


def canonical(name: str) -> str:
    """The name that a collector goes by in tables; UnknownName lists what there is."""
    if name in NAMED and name != TRUNCATE:
        return name
    if name.startswith(PLUGIN):
        spec_of(name).load()
        return name
    plain = _plain(name)
    known = {_plain(each): each for each in (*COLLECTORS, *OWN, CLAIRVOYANT)}
    if plain in known:
        return known[plain]
    if _MASK.fullmatch(plain):
        return plain
    tiers = [tier.strip() for tier in name.split("+")]
    if all(tier in NAMED for tier in tiers):
        return "+".join(tiers)
    raise UnknownName(
        f"no strategy named {name!r}; known are {', '.join(sorted(known.values()))}, mask last N, "
        f"tiers of {', '.join(sorted(NAMED))}, such as superseded+mask+truncate, and GC plugins "
        "such as gc_hybrid."
    )


def register(name: str) -> None:
    """Let the lab build this collector. Called in every process that drives one."""
    if name != CLAIRVOYANT and name not in COLLECTORS:
        COLLECTORS[name] = maker(name)


def maker(name: str) -> Make:
    """How a collector is built, by its canonical name."""
    if name in COLLECTORS:
        return COLLECTORS[name]
    if name in OWN:
        return OWN[name]
    masked = _MASK.fullmatch(name)
    if masked:
        last = int(masked[1])
        return lambda count: Mask(count, last)
    if name.startswith(PLUGIN):
        return lambda _: Apart(name)
    return lambda count: Installed(count, tuple(name.split("+")))


def is_usable(name: str) -> bool:
    """Whether a program can have this strategy, rather than only compare itself with it."""
    return name not in (CLAIRVOYANT, "GDSF", "original score", "random")


class Installed:
    """Installed strategies, tiers in turn, as the conversation of a program would have them."""

    def __init__(self, count: Count, tiers: tuple[str, ...]) -> None:
        self._count = count
        self._tiers = tiers

    def start(self, pinned: list[Wire], limit: int) -> None:
        """Begin a conversation that lands at its limit."""
        self._talk = Conversation(
            limit=limit,
            budget=Budget.of(
                limit, threshold_percent=100.0, target_percent=100.0, pressure_percent=100.0
            ),
            strategy=self._tiers if len(self._tiers) > 1 else self._tiers[0],
            counter=self._tokens,
            dialect="openai_chat",
        )
        self._talk.extend(pinned, pin=True)
        self._tail: list[str] = []

    def add(self, messages: list[Wire]) -> None:
        """Take new messages; they stay until the next come."""
        for message_id in self._tail:
            self._talk.unpin(message_id)
        self._tail = self._talk.extend(messages, pin=True)

    def context(self) -> list[Wire]:
        """The messages for the next request."""
        if self._talk.tokens > self._talk.budget.limit:
            self._talk.collect()
        return self._talk.messages

    def _tokens(self, message: Message) -> int:
        return price(message.raw, self._count)


def _plain(name: str) -> str:
    return " ".join(re.split(r"[\s_-]+", name.strip().lower()))
