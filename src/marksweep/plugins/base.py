"""The protocol of a GC plugin, and its types: GCConfig, GCResult, GCTriggerReason."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol, TypedDict, runtime_checkable

import msgspec

from marksweep.core.budget import Budget
from marksweep.errors import BadInput
from marksweep.ledger import InstructionBudget, InstructionSource
from marksweep.ledger.conversation import CREATED_BY, SUMMARY_LABEL
from marksweep.messages import SUMMARY, Message
from marksweep.model import GCPolicy
from marksweep.plugins.checks import (
    PRESSURE,
    TARGET,
    THRESHOLD,
    Default,
    FromEnvironment,
    check_flag,
    check_object,
    check_percent,
    check_turns,
    clamp,
    from_environment,
    is_given,
)

PRESERVE_RECENT_TURNS = 5
"""Newest turns that a collection keeps by default.

More keeps the agent's context; fewer frees more, and may take what it is working on.
"""


class GCTriggerReason(StrEnum):
    """Why a collection was started."""

    THRESHOLD = "threshold"
    """The context is fuller than `threshold_percent`."""
    TURN_LIMIT = "turn_limit"
    """There are more turns than `max_turns`."""
    CONTINUOUS = "continuous"
    """The context is fuller than `target_percent`, and the configuration says never to wait."""
    OVERFLOW = "overflow"
    """The provider refused the request as too long."""
    MANUAL = "manual"
    """It was requested."""


class ContextUsage(TypedDict, total=False):
    """How full the context is. A plugin may be given any part of it."""

    percent_used: float
    total_tokens: int
    context_limit: int
    tokens_remaining: int
    turns: int
    is_cache_cold: bool
    """Whether the provider has nothing of the next request in its prompt cache."""


class GCConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When to collect, how far, and what to leave alone.

    Percentages are of the context limit. Where one is not given, the environment is read
    (MARKSWEEP_GC_THRESHOLD, _TARGET, _PRESSURE, then the same with JAATO_), then 80, 60 and 90
    apply. Where they contradict each other, what was given wins over the environment and the
    environment over a default, with a warning in the log.
    """

    threshold_percent: float = msgspec.field(default_factory=lambda: from_environment(THRESHOLD))
    """Collect above this: the soft limit."""
    target_percent: float = msgspec.field(default_factory=lambda: from_environment(TARGET))
    """Stop here."""
    pressure_percent: float = msgspec.field(default_factory=lambda: from_environment(PRESSURE))
    """From here on PRESERVABLE content may go too: the hard limit. 0: not before the window
    overflows, and collect continuously."""
    max_turns: int | None = None
    """Collect when there are more turns than this."""
    auto_trigger: bool = True
    """Collect without being asked."""
    check_before_send: bool = True
    """Check before each request, not only after each answer."""
    preserve_recent_turns: int = PRESERVE_RECENT_TURNS
    """Newest turns whose words stay, and their newest work; from the hard limit on, the user's
    words, of which bulky pastes are trimmed."""
    pinned_turn_indices: Sequence[int] = []
    """Turns that stay whole, by number from 0. A turn keeps its number when others go."""
    plugin_config: Mapping[str, object] = {}
    """Options of the plugin; they take precedence over those it was initialised with."""
    continuous: bool = False
    """Collect whenever usage is above the target, a little at a time, instead of waiting for the
    threshold."""

    def limits(self, limit: int) -> Budget:
        """Return where a collection of a window of that size starts, stops and gets urgent."""
        return Budget.of(
            limit,
            threshold_percent=self.threshold_percent,
            target_percent=self.target_percent,
            pressure_percent=self.pressure_percent or 100.0,
        )

    def __post_init__(self) -> None:
        """Refuse impossible values, and fit the defaults to what was given."""
        put = msgspec.structs.force_setattr
        if not isinstance(self.pinned_turn_indices, list | tuple):
            raise BadInput(
                f"pinned_turn_indices is {self.pinned_turn_indices!r}; expected a list of turns."
            )
        put(self, "pinned_turn_indices", list(self.pinned_turn_indices))
        check_object("plugin_config", self.plugin_config)
        if not self.pressure_percent and not isinstance(self.pressure_percent, str | bool):
            put(self, "pressure_percent", 0.0)
            put(self, "continuous", True)
        self._fit()
        for name in ("target_percent", "pressure_percent", "threshold_percent"):
            put(self, name, float(getattr(self, name)))
        if self.max_turns is not None:
            check_turns("max_turns", self.max_turns, least=1)
        check_turns("preserve_recent_turns", self.preserve_recent_turns)
        for index in self.pinned_turn_indices:
            check_turns("pinned_turn_indices", index)
        for name in ("auto_trigger", "check_before_send", "continuous"):
            check_flag(name, getattr(self, name))

    def _fit(self) -> None:
        """Fit defaults to given values; refuse given values that contradict each other."""
        put = msgspec.structs.force_setattr
        check_percent("threshold_percent", self.threshold_percent, above=0.0)
        check_percent("target_percent", self.target_percent)
        check_percent("pressure_percent", self.pressure_percent)
        target, pressure = self.target_percent, self.pressure_percent or 100.0
        if isinstance(self.threshold_percent, FromEnvironment):
            low = target if is_given(target) else 0.0
            high = pressure if is_given(pressure) else 100.0
            fitting = clamp(self.threshold_percent, low, high, "the target or pressure given")
            put(self, "threshold_percent", fitting)
        threshold = self.threshold_percent
        if isinstance(target, Default) and target > threshold:
            put(self, "target_percent", threshold * TARGET.default / THRESHOLD.default)
        elif not is_given(target):
            beside = f"the threshold {threshold:g}"
            put(self, "target_percent", clamp(target, 0.0, threshold, beside))
        if not is_given(pressure):
            beside = f"the threshold {threshold:g}"
            put(self, "pressure_percent", clamp(pressure, threshold, 100.0, beside))
        check_percent("target_percent", self.target_percent, most=threshold, most_is="threshold")
        if self.pressure_percent:
            check_percent(
                "pressure_percent", self.pressure_percent, least=threshold, least_is="threshold"
            )


class GCRemovalItem(msgspec.Struct, frozen=True, gc=False):
    """One thing that left the context."""

    source: InstructionSource
    child_key: str | None = None
    """The child that went; None: the whole source."""
    tokens_freed: int = 0
    reason: str = ""
    """One word: truncated, summarized, ephemeral, partial_turn, …"""
    message_ids: tuple[str, ...] = ()
    """The messages of the history that were removed with it."""


class GCResult(msgspec.Struct, frozen=True):
    """What a collection did, counted on the result."""

    success: bool
    items_collected: int
    tokens_before: int
    tokens_after: int
    plugin_name: str
    trigger_reason: GCTriggerReason
    notification: str | None = None
    """The notice that was put into the history."""
    details: dict[str, object] = {}
    """What the plugin reports beyond this, as JSON values."""
    error: str | None = None
    removal_list: Sequence[GCRemovalItem] = []

    @property
    def tokens_freed(self) -> int:
        """Tokens that are gone."""
        return self.tokens_before - self.tokens_after


PLUGIN_NEEDS = "it needs name, initialize, shutdown, should_collect and collect"
"""The error text for something that is not a plugin."""


@runtime_checkable
class GCPlugin(Protocol):
    """A way to free context. Anything with these five members is one."""

    @property
    def name(self) -> str:
        """The name it is loaded by."""
        ...

    def initialize(self, config: Mapping[str, object] | None = None) -> None:
        """Take the plugin's own options."""
        ...

    def shutdown(self) -> None:
        """Release everything held."""
        ...

    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        """Return whether a collection is due, and why."""
        ...

    def collect(
        self,
        history: Sequence[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        """Return a new history and what was done; the one passed in is not changed.

        A plugin that does not know budgets may leave the last parameter out.
        """
        ...


def takes_budget(plugin: GCPlugin) -> bool:
    """Whether a plugin's `collect` can be given a budget."""
    try:
        parameters = inspect.signature(plugin.collect).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        parameter.name == "budget" or parameter.kind is inspect.Parameter.VAR_KEYWORD
        for parameter in parameters
    )


def apply_result(budget: InstructionBudget, result: GCResult, history: Sequence[Message]) -> None:
    """Update a budget after a collection, from the history it left.

    What left the context leaves the budget: a child, or the whole source. An entry of which
    messages are left stays, less what was freed. Summaries become entries. Where the budget follows
    a history, the entries of the conversation have gone and come with their messages.
    """
    left = {message.message_id for message in history}
    for item in result.removal_list:
        if item.child_key:
            _apply_removal(budget, item, left)
        elif not (budget.follows and item.source is InstructionSource.CONVERSATION):
            budget.clear(item.source)
    tokens, keys = result.details.get("summary_tokens"), result.details.get("summary_keys")
    if not isinstance(tokens, int):
        return
    if not isinstance(keys, list):
        keys = [] if budget.follows else [f"{SUMMARY}{budget.next_summary()}"]
    known = budget.declared(InstructionSource.CONVERSATION)
    for key in [str(key) for key in keys if key not in known]:
        budget.add_child(
            InstructionSource.CONVERSATION,
            key,
            tokens // len(keys),
            GCPolicy.PRESERVABLE,
            label=SUMMARY_LABEL,
            metadata={CREATED_BY: result.plugin_name},
            message_ids=[key],
        )


def _apply_removal(budget: InstructionBudget, item: GCRemovalItem, left: set[str]) -> None:
    key = item.child_key or ""
    child = budget.declared(item.source).get(key)
    rest = [name for name in child.message_ids if name in left] if child else []
    if child is None or not rest:
        budget.remove_child(item.source, key)
        return
    budget.add_child(
        item.source,
        key,
        max(0, child.tokens - item.tokens_freed),
        child.gc_policy,
        label=child.label,
        metadata=child.metadata,
        created_at=child.created_at,
        message_ids=rest,
    )
