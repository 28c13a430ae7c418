"""A GC plugin as a face over a strategy: history in, context, ranking, plan, history out.

Every built-in plugin is this class with another strategy. One algorithm decides for all of them
what may go, what belongs together and where to stop; a plugin only says what goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from marksweep.clock import utc_now
from marksweep.core.plan import plan_with_indices
from marksweep.core.strategy import Strategy
from marksweep.core.trigger import Backoff, Due, after_pass, is_time
from marksweep.ledger import InstructionBudget, InstructionSource
from marksweep.messages import Message
from marksweep.messages.weight import count_message
from marksweep.model import GCPolicy, Plan, Pressure
from marksweep.plugins.base import ContextUsage, GCConfig, GCResult, GCTriggerReason
from marksweep.plugins.digest import Digester
from marksweep.plugins.goal import WHOLE, Goal, Request, due, set_goal, used_of
from marksweep.plugins.masking import Masker
from marksweep.plugins.options import Options, read_options
from marksweep.plugins.outcome import Deed, Teller, result_of, write_out
from marksweep.plugins.view import Outside, look
from marksweep.strategies.registry import MessageTools

AT_LEISURE = frozenset({GCTriggerReason.THRESHOLD, GCTriggerReason.CONTINUOUS})
"""Reasons for a collection that leave room to wait."""


class Task(msgspec.Struct, frozen=True):
    """What one collection has to do, and the means a strategy may need for it."""

    options: Options
    means: MessageTools
    budget: InstructionBudget | None
    """The budget that was passed in, if one was."""
    last: Strategy | None
    """The strategy of the collection before, for one that goes on from what it learnt."""


MakeStrategy = Callable[[Task], Strategy]


class HistoryPlugin:
    """Collects a history by a strategy."""

    def __init__(
        self,
        name: str,
        strategy: MakeStrategy,
        *,
        options: frozenset[str] = frozenset(),
        learns: bool = False,
    ) -> None:
        """Begin. `learns`: the strategy remembers messages from one collection to the next."""
        self._name = name
        self._make = strategy
        self._own_options = options
        self._learns = learns
        self._given: Mapping[str, object] = {}
        self._options = Options()
        self._forget()

    @property
    def name(self) -> str:
        """The name it is loaded by."""
        return self._name

    def initialize(self, config: Mapping[str, object] | None = None) -> None:
        """Take the plugin's options."""
        self._options = read_options(self._name, config, self._own_options)
        self._given = config or {}

    def shutdown(self) -> None:
        """Forget the conversation: turn numbers, summaries, waits, what was learnt."""
        self._forget()

    def _forget(self) -> None:
        self._own_budget = InstructionBudget()
        self._backoff: Backoff | None = None
        self._looks = 0
        self._masker = Masker()
        self._last: Strategy | None = None

    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        """Say whether it is time. After a pass that freed nothing, wait a while; never for good."""
        self._looks += 1
        reason = due(context_usage, config)
        waiting = self._backoff is not None and not self._backoff.over(
            used_of(context_usage), self._looks, config.limits(WHOLE)
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
        return self._collect(Request(history, context_usage, config, reason, budget))

    def _collect(self, request: Request) -> tuple[list[Message], GCResult]:
        budget = request.budget
        counter = (budget.counter if budget else None) or count_message
        ledger = budget or self._own_budget
        options = self._options_for(request.config)
        masker = self._masker if self._learns else Masker()
        goal = set_goal(request, ledger, options)
        view = look(
            request.history,
            counter,
            ledger=ledger,
            outside=goal.outside,
            protection=goal.protection,
            pressure=goal.pressure,
            yielding=_yielding(goal.outside, ledger, options),
            now=utc_now(),
            form=masker.form if self._learns else None,
        )
        digester = Digester(view, options.summarizer, ledger, counter)
        masker.begin(view, counter)
        target = goal.target(view.total)
        teller = Teller(self._name, request.reason, options, counter)
        teller = teller.unless_over(view.total - target)
        room = view.context.size if view.total <= target else max(0, target - teller.weight())
        means = MessageTools(masker.outcomes, digester, masker.texts, masker.trimmed)
        strategy = self._make(Task(options, means, budget, self._last))
        context = view.context.aiming_at(room)
        deed = Deed(*plan_with_indices(context, strategy.name, strategy.rank(context)))
        if _should_wait(goal, deed.plan, options):
            deed = deed.put_off()
        written = write_out(view, deed, {**digester.made, **masker.made}, teller)
        if self._learns:
            self._last = strategy
            masker.end(deed.plan)
        if request.reason is not GCTriggerReason.MANUAL:
            freed = view.total - written.tokens
            self._backoff = after_pass(freed, used_of(request.usage), self._looks, self._backoff)
        return written.history, result_of(view, deed, written, digester, teller)

    def _options_for(self, config: GCConfig) -> Options:
        """The options it was given; those in the configuration go before them."""
        if not config.plugin_config:
            return self._options
        said = {**self._given, **config.plugin_config}
        return read_options(self._name, said, self._own_options)


def _should_wait(goal: Goal, plan: Plan, options: Options) -> bool:
    """Whether a later moment is better: nobody asked, and the prompt cache is worth more."""
    most = options.pays_within_turns
    if most is None or goal.pressure is Pressure.HARD or goal.request.reason not in AT_LEISURE:
        return False
    return bool(plan.steps) and not is_time(Due.STEP, plan.cost, most)


def _yielding(
    outside: Sequence[Outside], ledger: InstructionBudget, options: Options
) -> frozenset[str]:
    """Ask the owners of CONDITIONAL entries which may go."""
    said = ledger.declared(InstructionSource.CONVERSATION)
    entries = [*said.items(), *((item.key or item.source, item.entry) for item in outside)]
    return frozenset(
        key
        for key, entry in entries
        if entry.gc_policy is GCPolicy.CONDITIONAL and options.owner_agrees(key, entry)
    )
