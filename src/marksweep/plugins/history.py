"""A GC plugin as an adapter of a strategy: history in, plan, history out.

Every built-in plugin is this class with another strategy. The history becomes a conversation heap
in memory (run.py); the one planner decides what may go, what belongs together and where to stop,
and the one collector carries that out. A plugin only says what goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from marksweep.core.budget import Backoff, after_pass
from marksweep.core.strategy import Strategy
from marksweep.heaps.forms import InMemoryForm
from marksweep.ledger import InstructionBudget
from marksweep.messages import Message
from marksweep.plugins.base import ContextUsage, GCConfig, GCResult, GCTriggerReason
from marksweep.plugins.options import Options, read_options
from marksweep.plugins.result import removals, result_of
from marksweep.plugins.run import FULL_BASIS_POINTS, Request, Run, due, used_of
from marksweep.strategies.registry import MessageTools


class Task(msgspec.Struct, frozen=True):
    """What one collection has to do, and the tools a strategy may need for it."""

    options: Options
    tools: MessageTools
    budget: InstructionBudget | None
    """The budget that was passed in, if one was."""
    last: Strategy | None
    """The strategy of the previous collection, for one that continues from what it learnt."""


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
        self._overrides: tuple[Mapping[str, object], Options] = {}, self._options
        """The `plugin_config` seen last, and the options with it."""
        self._forget()

    @property
    def name(self) -> str:
        """The name it is loaded by."""
        return self._name

    def initialize(self, config: Mapping[str, object] | None = None) -> None:
        """Take the plugin's options."""
        self._options = read_options(self._name, config, self._own_options)
        self._given = config or {}
        self._overrides = {}, self._options

    def shutdown(self) -> None:
        """Forget the conversation: turn numbers, summaries, waits, what was learnt."""
        self._forget()

    def _forget(self) -> None:
        self._own_budget = InstructionBudget()
        self._backoff: Backoff | None = None
        self._looks = 0
        self._form = InMemoryForm()
        self._last: Strategy | None = None

    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        """Return whether a collection is due. Back off for a while after a pass freed nothing."""
        self._looks += 1
        config = self._options_for(config).applied_to(config)
        reason = due(context_usage, config)
        waiting = self._backoff is not None and not self._backoff.over(
            used_of(context_usage), self._looks, config.limits(FULL_BASIS_POINTS)
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
        """Plan, and carry out the plan on a copy of the history."""
        options = self._options_for(config)
        config = options.applied_to(config)
        request = Request(
            self._name, tuple(history), context_usage, config, reason, budget, options
        )
        form = self._form if self._learns else InMemoryForm()
        run = self._run = Run(request, budget or self._own_budget, form)
        strategy = self._make(Task(options, self._tools(), budget, self._last))
        plan = run.plan(strategy)
        removed = removals(run, plan) if not request.should_wait(plan) else ()
        if removed:
            run.carry_out(plan, removed)
        if self._learns:
            self._last = strategy
            live = run.heap.snapshot().segments
            form.forget_all_but(s.raw for s in (*run.before.segments, *live))
        if reason is not GCTriggerReason.MANUAL:
            freed = run.tokens_before - run.tokens_after
            used = used_of(context_usage)
            self._backoff = after_pass(freed, used, self._looks, self._backoff)
        return run.history, result_of(run, plan, removed)

    def _tools(self) -> MessageTools:
        """Return tools that look the current run up: a strategy that learns outlives its run."""
        return MessageTools(
            lambda segment: self._run.heap.outcomes(segment),  # noqa: PLW0108
            lambda segments, earlier: self._run.digester(segments, earlier),  # noqa: PLW0108
            lambda segment: self._run.heap.texts(segment),  # noqa: PLW0108
            lambda segment, texts: self._run.heap.trimmed(segment, texts),  # noqa: PLW0108
            limit=lambda: self._run.request.window(self._run.tokens_before),
        )

    def _options_for(self, config: GCConfig) -> Options:
        """Its options; those in the configuration take precedence."""
        said = config.plugin_config
        if not said:
            return self._options
        if said is not self._overrides[0]:
            given = {**self._given, **said}
            self._overrides = said, read_options(self._name, given, self._own_options)
        return self._overrides[1]
