"""Budget: how much room there is, where a collection starts and stops, and whether one is due.

Usage crosses a limit only if it is above it; usage exactly at a limit has not crossed it. So a
collection that stops exactly where the next one would start does not trigger it. The hard limit is
reached at it: no collection stops there.

Few deep collections are cheaper than many small ones: every sweep makes the provider read again
what follows its first cut. If its prompt cache is cold, that happens anyway, so then a collection
starts sooner.

Between soft and hard limit there is room to wait. A sweep that cuts early makes the provider
read all behind the cut again, at the price of writing its cache; the longer it waits, the more it
frees for that price. So a plan that would not pay soon is put off, to the hard limit at the latest.

A pass that could not free anything is futile. Repeating it on every change would be a loop; giving
up for good would let the window overflow. So a futile pass waits: until the heap has grown
noticeably, the pressure has risen, or a number of changes have gone by, doubling up to a ceiling.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import IntEnum
from typing import NamedTuple

import msgspec

from marksweep.errors import BadInput
from marksweep.model import Cost, Pressure, Segment

SOFT_PERCENT = 90.0
"""Share of the limit above which a collection starts; at least TARGET_PERCENT.

Higher collects later and frees more at once. Lower keeps replies quick but invalidates the prompt
cache more often.
"""

TARGET_PERCENT = 60.0
"""Share of the limit at which a collection stops. Lower frees more and collects less often."""

HARD_PERCENT = 95.0
"""Share of the limit from which PRESERVABLE segments may go, and a step becomes a full collection.

Higher protects them longer, at the risk that a request does not fit.
"""

COLD_PERCENT = 75.0
"""Share of the limit above which a collection starts while the prompt cache is cold.

Lower uses more chances to rewrite the prompt for free, and loses more that would have fitted.
"""

CACHE_MINUTES = 5.0
"""Minutes that a provider's prompt cache is assumed to live after a request."""

SMALLEST_BATCH = 2.0
"""Steps that must fit between target and limit before a learning strategy frees more than needed.

With fewer, sweeps come at nearly every request however much each frees: freeing more loses what
would have fitted and saves little. Higher keeps more in small windows and rewrites them more often.
"""

MAX_LIMIT = 10**15
"""Tokens a limit may have: up to here its percentages are exact to a token."""


class Budget(msgspec.Struct, frozen=True):
    """The limit, and where a collection starts, stops and gets urgent, in tokens."""

    limit: int
    soft_limit: int
    """Above this a collection is due."""
    target: int
    """Where a collection stops."""
    hard_limit: int
    """From here on PRESERVABLE content may go."""
    cold_limit: int = MAX_LIMIT
    """Over this a collection is due while the prompt cache is cold; at most the soft limit counts.
    """

    @classmethod
    def of(
        cls,
        limit: int,
        *,
        threshold_percent: float = SOFT_PERCENT,
        target_percent: float = TARGET_PERCENT,
        pressure_percent: float = HARD_PERCENT,
        cold_percent: float = COLD_PERCENT,
    ) -> Budget:
        """Set the thresholds at shares of the limit. The cold one stays between target and soft."""
        if not isinstance(limit, int | float) or not 0 <= limit <= MAX_LIMIT:
            shown = reprlib.repr(limit)
            raise BadInput(f"limit is {shown}; expected a number of tokens, 0 to {MAX_LIMIT:,}.")
        limit = int(limit)
        shares = {
            "threshold_percent": threshold_percent,
            "target_percent": target_percent,
            "pressure_percent": pressure_percent,
            "cold_percent": cold_percent,
        }
        for name, value in shares.items():
            if not (math.isfinite(value) and 0 <= value <= 100):
                raise BadInput(f"{name} is {value}; expected a number from 0 to 100.")
        if target_percent > threshold_percent:
            raise BadInput(
                f"target_percent is {target_percent}, above threshold_percent "
                f"{threshold_percent}. A collection must land below where it starts: lower the "
                "target or raise the threshold."
            )
        return cls(
            limit,
            int(limit * threshold_percent / 100),
            int(limit * target_percent / 100),
            int(limit * pressure_percent / 100),
            int(limit * min(max(cold_percent, target_percent), threshold_percent) / 100),
        )

    @classmethod
    def at_limit(cls, limit: int) -> Budget:
        """Set all at the limit: collect only when needed, and only as much."""
        return cls.of(limit, threshold_percent=100, target_percent=100, pressure_percent=100)

    @property
    def threshold(self) -> int:
        """The soft limit, by its older name."""
        return self.soft_limit

    @property
    def pressure(self) -> int:
        """The hard limit, by its older name."""
        return self.hard_limit

    def beside(self, held: int, step: float = 0.0) -> Budget:
        """Apply the same shares to the room that is left beside so many tokens that must stay.

        Otherwise a large system prompt would leave a collection nothing to keep. All thresholds are
        at the limit if there is no room, since then what must stay is trimmed, as little as
        possible; or if there is room for less than a few steps of so many tokens.
        """
        room = self.limit - held
        if room * (self.limit - self.target) < SMALLEST_BATCH * step * self.limit or room <= 0:
            return Budget.at_limit(self.limit)
        if held <= 0:
            return self
        soft, target, hard, cold = (
            held + line * room // self.limit
            for line in (self.soft_limit, self.target, self.hard_limit, self.cold_limit)
        )
        return Budget(self.limit, soft, target, hard, cold)

    def calibrated(self, ratio: float) -> Budget:
        """Convert the limits, given how many tokens a provider counts for one counted here."""
        if ratio == 1:
            return self
        lines = (self.limit, self.soft_limit, self.target, self.hard_limit, self.cold_limit)
        return Budget(*(round(line / ratio) for line in lines))

    def pressure_at(self, used: int) -> Pressure:
        """Return the pressure at this usage."""
        if used > self.hard_limit or used == self.hard_limit > self.soft_limit:
            return Pressure.HARD
        return Pressure.SOFT if used > self.soft_limit else Pressure.NONE


class Line(msgspec.Struct, frozen=True):
    """One line of a ledger: a kind of segment, how many there are and their tokens."""

    name: str
    segments: int
    tokens: int


def tally(segments: Iterable[Segment]) -> tuple[Line, ...]:
    """Tokens per type, right now, heaviest first."""
    counts: dict[str, list[int]] = {}
    for segment in segments:
        line = counts.setdefault(segment.type, [0, 0])
        line[0] += 1
        line[1] += segment.tokens
    lines = (Line(name, count, tokens) for name, (count, tokens) in counts.items())
    return tuple(sorted(lines, key=lambda line: (-line.tokens, line.name)))


FIRST_WAIT = 4
"""Changes to wait after a first futile pass. Higher wastes fewer passes and reacts later."""

LONGEST_WAIT = 256
"""The most changes to wait: however often a pass was futile, it is retried after these."""

GROWTH_SHARE = 0.05
"""Share of the limit by which the heap must grow to end a back-off early."""


PAYS_WITHIN_TURNS = 10.0
"""Turns within which a sweep between the limits must pay for the prompt cache it invalidates.

Higher collects sooner and keeps the window emptier; lower waits longer and keeps the cache.
"""


class Due(IntEnum):
    """What the trigger asks for."""

    NOTHING = 0
    STEP = 1
    """A small batch: over the soft limit."""
    FULL = 2
    """A full collection: over the hard limit, or the prompt cache is cold."""


class Backoff(NamedTuple):
    """Wait after a futile pass."""

    used: int
    change: int
    wait: int = FIRST_WAIT

    def over(self, used: int, change: int, budget: Budget) -> bool:
        """Return whether the wait has ended."""
        if budget.pressure_at(used) > budget.pressure_at(self.used):
            return True
        grown = used - self.used > budget.limit * GROWTH_SHARE
        return grown or change - self.change >= self.wait


class PromptCache(msgspec.Struct, frozen=True):
    """What is known of the provider's prompt cache. Cold until a request was made.

    A restart does not make it cold: only the time since the last request does.
    """

    minutes: float = CACHE_MINUTES
    last_request: datetime | None = None
    requests: int = 0
    """Requests since the cache was last known to be empty."""
    is_missed: bool = False
    """Whether the last report said that a request found nothing of the one before."""

    def is_cold(self, now: datetime) -> bool:
        """Return whether nothing is cached for the next request, so that rewriting is free."""
        if self.last_request is None or self.is_missed:
            return True
        return now - self.last_request > timedelta(minutes=self.minutes)

    def reported(self, cached_tokens: int) -> PromptCache:
        """Record how much of the last request came from the cache. A first one cannot find any."""
        is_missed = cached_tokens == 0 and self.requests > 1
        return msgspec.structs.replace(self, is_missed=is_missed)

    def requested(self, now: datetime) -> PromptCache:
        """Record a request, which leaves its prompt in the cache."""
        return msgspec.structs.replace(self, last_request=now, requests=self.requests + 1)

    def requested_before(self, at: datetime) -> PromptCache:
        """Record a request that another process made."""
        return msgspec.structs.replace(self, last_request=max(self.last_request or at, at))

    def lost(self) -> PromptCache:
        """Record that the cache is lost: another model or account."""
        return PromptCache(self.minutes)


def due(
    used: int,
    budget: Budget,
    change: int,
    backoff: Backoff | None = None,
    *,
    is_cold: bool = False,
) -> Due:
    """Return what is due at this usage, after this many changes; on a cold cache, at once."""
    pressure = budget.pressure_at(used)
    if pressure is Pressure.NONE and not (is_cold and used > budget.cold_limit):
        return Due.NOTHING
    if backoff is not None and not backoff.over(used, change, budget):
        return Due.NOTHING
    return Due.FULL if is_cold or pressure is Pressure.HARD else Due.STEP


def is_time(wanted: Due, cost: Cost, pays_within_turns: float = PAYS_WITHIN_TURNS) -> bool:
    """Return whether to carry out a plan of this cost now. A full collection always is."""
    if wanted is not Due.STEP:
        return wanted is Due.FULL
    return cost.pays_after_turns is not None and cost.pays_after_turns <= pays_within_turns


def after_pass(
    freed: int, used: int, change: int, backoff: Backoff | None = None
) -> Backoff | None:
    """Wait after a pass that freed nothing or was put off, twice as long each time in a row."""
    if freed > 0:
        return None
    wait = FIRST_WAIT if backoff is None else min(backoff.wait * 2, LONGEST_WAIT)
    return Backoff(used, change, wait)
