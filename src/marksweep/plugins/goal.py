"""What a collection is for: when it is due, how far it goes, how hard it may press."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from marksweep.ledger import InstructionBudget
from marksweep.messages import Message
from marksweep.messages.turns import TurnNumbers, split_turns, user_messages
from marksweep.model import GCPolicy, Pressure
from marksweep.plugins.base import ContextUsage, GCConfig, GCTriggerReason
from marksweep.plugins.options import Options
from marksweep.plugins.view import Outside, Protection, outside_of

WHOLE = 10_000
"""What a full context is measured as: usage counts in hundredths of a percent."""

OVERFLOW_SHARE = 0.75
"""What may be left when a provider refused a request that we thought would fit.

Our count was too low, so the limit is of no use. Higher frees less, and the next try may fail too.
"""


class Request(msgspec.Struct, frozen=True):
    """What a plugin was asked to collect."""

    history: Sequence[Message]
    usage: ContextUsage
    config: GCConfig
    reason: GCTriggerReason
    budget: InstructionBudget | None = None


class Goal(msgspec.Struct, frozen=True):
    """Where to land, and what may be touched on the way."""

    request: Request
    outside: tuple[Outside, ...]
    protection: Protection
    pressure: Pressure

    def target(self, total: int) -> int:
        """Tokens that may be left of so many.

        Where no limit is known, all that is not protected goes. Tokens that the host reports and
        nobody showed us cannot be collected, so they lower the target.
        """
        usage, budget, reason = self.request.usage, self.request.budget, self.request.reason
        if reason is GCTriggerReason.TURN_LIMIT:
            return 0
        share = self.request.config.target_percent
        window = budget.context_limit if budget else usage.get("context_limit", 0)
        percent = usage.get("percent_used", 0.0)
        if window:
            unseen = 0 if budget else max(0, usage.get("total_tokens", 0) - total)
            allowed = int(window * share / 100) - unseen
        elif percent:
            allowed = int(total * share / percent)
        else:
            allowed = 0
        most = int(total * OVERFLOW_SHARE) if reason is GCTriggerReason.OVERFLOW else total
        return max(0, min(allowed, most))


def set_goal(request: Request, ledger: InstructionBudget, options: Options) -> Goal:
    """Read the goal off a request.

    A turn limit is about turns alone: what stands beside the history is left alone, and all but
    the oldest turns are protected.
    """
    config, reason = request.config, request.reason
    outside = tuple(outside_of(request.budget.standing())) if request.budget else ()
    recent = options.recent_turns(config)
    if reason is GCTriggerReason.TURN_LIMIT:
        recent = max(recent, _turns_to_keep(request, ledger.turns))
        outside = tuple(map(_locked, outside))
    pressure = config.limits(WHOLE).pressure_at(used_of(request.usage))
    is_hard = reason is GCTriggerReason.OVERFLOW or pressure is Pressure.HARD
    return Goal(
        request,
        outside,
        Protection(recent, config.pinned_turn_indices),
        Pressure.HARD if is_hard else Pressure.SOFT,
    )


def _turns_to_keep(request: Request, numbers: TurnNumbers) -> int:
    """How many of the newest turns stay, so that the turn limit is met with room to spare.

    The room is that between target and threshold: without it every new turn would be one too many.
    """
    config = request.config
    history = request.history
    turns = split_turns(history, user_messages(history).starts, numbers)
    most = config.max_turns if config.max_turns is not None else len(turns)
    goal = int(most * config.target_percent / config.threshold_percent)
    excess = len(turns) - goal
    removable = [
        at for at, turn in enumerate(turns) if at and turn.number not in config.pinned_turn_indices
    ]
    if excess <= 0 or not removable:
        return len(turns)
    last_to_go = removable[min(excess, len(removable)) - 1]
    return len(turns) - last_to_go - 1


def _locked(item: Outside) -> Outside:
    entry = msgspec.structs.replace(item.entry, gc_policy=GCPolicy.LOCKED)
    return msgspec.structs.replace(item, entry=entry)


def due(usage: ContextUsage, config: GCConfig) -> GCTriggerReason | None:
    """Say why a collection should start now; None if it should not."""
    used, limits = used_of(usage), config.limits(WHOLE)
    if not config.auto_trigger:
        return None
    if limits.pressure_at(used) > Pressure.NONE:
        return GCTriggerReason.THRESHOLD
    if config.max_turns is not None and usage.get("turns", 0) > config.max_turns:
        return GCTriggerReason.TURN_LIMIT
    if config.continuous and used > limits.target:
        return GCTriggerReason.CONTINUOUS
    return None


def used_of(usage: ContextUsage) -> int:
    """Say how full the context is, as a share of WHOLE."""
    return int(usage.get("percent_used", 0.0) * WHOLE / 100)
