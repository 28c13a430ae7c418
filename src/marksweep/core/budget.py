"""Budget: how much room there is, where a collection starts and lands, and whether it is time.

A limit is crossed by what is over it; usage that is exactly at a limit has not crossed it. So a
collection that lands exactly where the next one would start is not followed by one.

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
from enum import IntEnum

import msgspec

from marksweep.errors import BadInput
from marksweep.model import Cost, Pressure, Segment

SOFT_PERCENT = 80.0
"""Share of the limit above which a collection starts; at least TARGET_PERCENT.

Higher collects later and frees more at once. Lower keeps replies quick but throws the prompt cache
away more often.
"""

TARGET_PERCENT = 60.0
"""Share of the limit at which a collection lands. Lower frees more and collects less often."""

HARD_PERCENT = 90.0
"""Share of the limit above which PRESERVABLE segments may go, and a step becomes a full collection.

Higher protects them longer, at the risk that a request does not fit.
"""

MAX_LIMIT = 10**15
"""Tokens a limit may have: up to here its percentages are exact to a token."""


class Budget(msgspec.Struct, frozen=True):
    """The limit, where a collection starts and lands, and from where it presses hard, in tokens."""

    limit: int
    soft_limit: int
    """Over this a collection is due."""
    target: int
    """Where a collection lands."""
    hard_limit: int
    """Over this PRESERVABLE content may go."""

    @classmethod
    def of(
        cls,
        limit: int,
        *,
        threshold_percent: float = SOFT_PERCENT,
        target_percent: float = TARGET_PERCENT,
        pressure_percent: float = HARD_PERCENT,
    ) -> Budget:
        """Set the three at shares of the limit."""
        if not isinstance(limit, int | float) or not 0 <= limit <= MAX_LIMIT:
            shown = reprlib.repr(limit)
            raise BadInput(f"limit is {shown}; expected a number of tokens, 0 to {MAX_LIMIT:,}.")
        limit = int(limit)
        shares = {
            "threshold_percent": threshold_percent,
            "target_percent": target_percent,
            "pressure_percent": pressure_percent,
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
        )

    @classmethod
    def at_limit(cls, limit: int) -> Budget:
        """Set all three at the limit: collect no sooner and no deeper than needed."""
        return cls.of(limit, threshold_percent=100, target_percent=100, pressure_percent=100)

    @property
    def threshold(self) -> int:
        """The soft limit, by its older name."""
        return self.soft_limit

    @property
    def pressure(self) -> int:
        """The hard limit, by its older name."""
        return self.hard_limit

    def pressure_at(self, used: int) -> Pressure:
        """Say how hard a collection may press at this usage."""
        if used > self.hard_limit:
            return Pressure.HARD
        return Pressure.SOFT if used > self.soft_limit else Pressure.NONE


class Line(msgspec.Struct, frozen=True):
    """One line of a ledger: a kind of segment, how many there are and what they weigh."""

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
"""Changes to wait after a first futile pass. Higher wastes fewer passes, notices chances later."""

LONGEST_WAIT = 256
"""The most changes to wait: however often a pass was futile, it is tried again after these."""

GROWTH_SHARE = 0.05
"""Share of the limit by which the heap must grow to end a back-off early."""


PAYS_WITHIN_TURNS = 20.0
"""Turns within which a sweep between the limits must have paid for the prompt cache it gives up.

Higher collects sooner and keeps the window emptier; lower waits longer and keeps the cache.
"""


class Due(IntEnum):
    """What the trigger asks for."""

    NOTHING = 0
    STEP = 1
    """A small batch: over the soft limit."""
    FULL = 2
    """A full collection: over the hard limit."""


class Backoff(msgspec.Struct, frozen=True):
    """Wait after a futile pass."""

    used: int
    change: int
    wait: int = FIRST_WAIT

    def over(self, used: int, change: int, budget: Budget) -> bool:
        """Say whether the wait has ended."""
        if budget.pressure_at(used) > budget.pressure_at(self.used):
            return True
        grown = used - self.used > budget.limit * GROWTH_SHARE
        return grown or change - self.change >= self.wait


def due(used: int, budget: Budget, change: int, backoff: Backoff | None = None) -> Due:
    """Say what is due at this usage, after this many changes."""
    pressure = budget.pressure_at(used)
    if pressure is Pressure.NONE:
        return Due.NOTHING
    if backoff is not None and not backoff.over(used, change, budget):
        return Due.NOTHING
    return Due.FULL if pressure is Pressure.HARD else Due.STEP


def is_time(wanted: Due, cost: Cost, pays_within_turns: float = PAYS_WITHIN_TURNS) -> bool:
    """Say whether to carry out a plan of this cost now. Over the hard limit it always is."""
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
