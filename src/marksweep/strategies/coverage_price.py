"""Where to cut into a prompt, and how deep: the price of a sweep against what it loses.

A provider's cache holds the prompt up to the first change; everything behind it is read again. So a
sweep at the front is dear, one near the end is cheap, and a deep one is rarely needed again. Each
choice is judged by one number: what is lost, plus what is read again, per token of room gained.
Nothing switches batching off at a tiny budget; there it simply does not pay.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import neg

import msgspec

FRONTS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.17, 0.12, 0.08, 0.05, 0.03)
"""Shares of the old context, counted from its end, within which a sweep may stay."""
DEPTHS = (0.0, 0.05, 0.1)
"""Shares of the budget that a sweep may free beyond what it must."""


class Setting(msgspec.Struct, frozen=True):
    """How a collector weighs what it keeps against what it costs."""

    name: str
    reread: float
    """What reading a token again costs, in worths of a middling kept token. 0: cost is no matter.

    Higher makes sweeps rarer, deeper and nearer to the end of the prompt.
    """
    recall: float = 0.2
    """Share of the budget that may come back at a step, because the agent speaks of it again."""


ECONOMY = Setting("economy", reread=0.75)
QUALITY = Setting("quality", reread=0.0)
SETTINGS = {setting.name: setting for setting in (ECONOMY, QUALITY)}


Offer = tuple[float, int, int, int]
"""A block that may go: its worth per token, its number, where its message stands, its tokens.

Plain numbers, ready for a heap: there are many, and Python's cycle collector passes them by.
"""


class Choice(msgspec.Struct, frozen=True, gc=False):
    """Sweep among messages from `first` on, until `free` tokens are gone."""

    first: int
    free: int


def choose(
    offers: Sequence[Offer],
    sizes: Sequence[int],
    span: tuple[int, int],
    *,
    must: int,
    budget: int,
    setting: Setting,
) -> Choice:
    """Choose the sweep with the least price per token of room. Offers come the least worth first.

    `sizes` are the tokens of all messages in order; those in `span` may go. `must` is what has to
    be freed, `budget` the tokens that all of them may take.
    """
    start, end = span
    if not setting.reread or not offers:
        return Choice(start, must)
    behind = [*accumulate(reversed(sizes[start:end]), initial=0)][::-1]
    order = offers
    toll = setting.reread * _middling(order)
    best: tuple[float, Choice] | None = None
    for share in FRONTS:
        most = share * behind[0]
        first = start + bisect_left(behind, -most, key=neg)
        order = [offer for offer in order if offer[2] >= first]
        goals = [must + int(depth * budget) for depth in DEPTHS]
        sweeps = list(_sweeps(order, goals))
        for free, (freed, lost, edge) in zip(goals, sweeps, strict=False):
            price = (lost + toll * (behind[edge - start] - freed)) / free
            if best is None or price < best[0]:
                best = price, Choice(first, free)
        if not sweeps:
            break
    return best[1] if best else Choice(start, must)


def _sweeps(order: Sequence[Offer], goals: Sequence[int]) -> Iterator[tuple[int, float, int]]:
    """Give for each goal that can be met what is freed and lost, and where the first cut is."""
    freed, lost, edge, met, goal = 0, 0.0, order[0][2] if order else 0, 0, goals[0]
    for worth, _, at, tokens in order:
        freed += tokens
        lost += worth * tokens
        if at < edge:  # noqa: PLR1730  # min() doubles the time of a choice
            edge = at
        while freed >= goal:
            yield freed, lost, edge
            met += 1
            if met == len(goals):
                return
            goal = goals[met]


def _middling(order: Sequence[Offer]) -> float:
    """Give the worth that half of the tokens do not reach. `order` is by worth.

    A few names that the agent used often are worth a hundred times the rest; a mean would follow
    them.
    """
    tokens = [offer[3] for offer in order]
    half = sum(tokens) / 2
    for offer, seen in zip(order, accumulate(tokens), strict=True):
        if seen >= half:
            return offer[0]
    return 0.0
