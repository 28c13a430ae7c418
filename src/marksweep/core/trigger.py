"""Trigger: is it time to collect? With hysteresis, and a back-off that ends by itself.

Between soft and hard limit there is room to wait. A sweep that cuts early makes the provider
read all behind the cut again, at the price of writing its cache; the longer it waits, the more it
frees for that price. So a plan that would not pay soon is put off, to the hard limit at the latest.

A pass that could not free anything is futile. Repeating it on every change would be a loop; giving
up for good would let the window overflow. So a futile pass waits: until the heap has grown
noticeably, the pressure has risen, or a number of changes have gone by, doubling up to a ceiling.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from marksweep.core.budget import Budget
from marksweep.model import Cost, Pressure

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
