"""A GC plugin as a face over a strategy: history in, scene, ranking, plan, history out.

Every built-in plugin is this class with another strategy. One algorithm decides for all of them
what may go, what belongs together and where to stop; a plugin only says what goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from marksweep.core.budget import Budget
from marksweep.core.plan import Strategy, make_plan
from marksweep.core.trigger import Backoff, after_pass
from marksweep.heaps.conversation_weight import count_message
from marksweep.ledger import InstructionBudget, InstructionSource
from marksweep.messages import Message
from marksweep.model import GCPolicy
from marksweep.plugins.base import ContextUsage, GCConfig, GCResult, GCTriggerReason
from marksweep.plugins.digest import Digester
from marksweep.plugins.goal import Request, due, set_goal
from marksweep.plugins.masking import Masker
from marksweep.plugins.options import Options, read_options
from marksweep.plugins.outcome import Teller, result_of, write_out
from marksweep.plugins.view import Outside, look
from marksweep.strategies.mask import Masked, Outcomes
from marksweep.strategies.summarize import Digest

WHOLE = 10_000
"""Usage is measured in hundredths of a percent where no limit is known."""


class Task(msgspec.Struct, frozen=True):
    """What one collection has to do, and the means a strategy may need for it."""

    options: Options
    digest: Digest
    outcomes: Outcomes
    masked: Masked
    budget: InstructionBudget | None
    """The budget that was passed in, if one was."""


MakeStrategy = Callable[[Task], Strategy]


class HistoryPlugin:
    """Collects a history by a strategy."""

    def __init__(
        self, name: str, strategy: MakeStrategy, *, options: frozenset[str] = frozenset()
    ) -> None:
        self._name = name
        self._make = strategy
        self._own_options = options
        self._options = Options()
        self._own_budget = InstructionBudget()
        self._backoff: Backoff | None = None
        self._looks = 0

    @property
    def name(self) -> str:
        """The name it is loaded by."""
        return self._name

    def initialize(self, config: Mapping[str, object] | None = None) -> None:
        """Take the plugin's options."""
        self._options = read_options(self._name, config, self._own_options)

    def shutdown(self) -> None:
        """Forget the conversation: turn numbers, summaries, waits."""
        self._own_budget = InstructionBudget()
        self._backoff = None
        self._looks = 0

    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        """Say whether it is time. After a pass that freed nothing, wait a while; never for good."""
        self._looks += 1
        reason = due(context_usage, config)
        waiting = self._backoff is not None and not self._backoff.over(
            _used(context_usage), self._looks, Budget.of(WHOLE)
        )
        return (False, None) if reason is None or waiting else (True, reason)

    def collect(
        self,
        history: Sequence[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        """Plan, and carry the plan out on a copy of the history."""
        counter = (budget.counter if budget else None) or count_message
        ledger = budget or self._own_budget
        request = Request(history, context_usage, config, reason, budget)
        goal = set_goal(request, ledger, self._options)
        view = look(
            history,
            counter,
            ledger=ledger,
            outside=goal.outside,
            protection=goal.protection,
            pressure=goal.pressure,
            yielding=self._yielding(goal.outside, ledger),
            now=datetime.now(UTC),
        )
        digester = Digester(view, self._options.summarizer, ledger, counter)
        masker = Masker(view, counter)
        target = goal.target(view.total)
        teller = Teller(self._name, reason, self._options, counter).unless_over(view.total - target)
        room = view.scene.tokens if view.total <= target else max(0, target - teller.weight())
        task = Task(
            self._options,
            digester,
            masker.outcomes,
            masker.masked,
            budget,
        )
        plan = make_plan(view.scene, self._make(task), room)
        written = write_out(view, plan, {**digester.made, **masker.made}, teller)
        if reason is not GCTriggerReason.MANUAL:
            freed = view.total - written.tokens
            self._backoff = after_pass(freed, _used(context_usage), self._looks, self._backoff)
        return written.history, result_of(view, plan, written, digester, teller)

    def _yielding(self, outside: Sequence[Outside], ledger: InstructionBudget) -> frozenset[str]:
        """Ask the owners of CONDITIONAL entries which may go."""
        said = ledger.declared(InstructionSource.CONVERSATION)
        entries = [*said.items(), *((item.key or item.source, item.entry) for item in outside)]
        return frozenset(
            key
            for key, entry in entries
            if entry.gc_policy is GCPolicy.CONDITIONAL and self._options.owner_agrees(key, entry)
        )


def _used(usage: ContextUsage) -> int:
    return int(usage.get("percent_used", 0.0) * WHOLE / 100)
