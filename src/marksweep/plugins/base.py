"""The protocol of a GC plugin, and the nouns it speaks: GCConfig, GCResult, GCTriggerReason."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol, TypedDict, runtime_checkable

import msgspec

from marksweep.core.budget import Budget
from marksweep.errors import BadInput
from marksweep.ledger import InstructionBudget, InstructionSource
from marksweep.messages import Message
from marksweep.plugins.checks import (
    PRESSURE,
    TARGET,
    THRESHOLD,
    Assumed,
    Default,
    check_flag,
    check_object,
    check_percent,
    check_turns,
    from_environment,
)

PRESERVE_RECENT_TURNS = 5
"""Newest turns that a collection spares, if nobody says otherwise.

More keeps the agent's footing; fewer frees more, and may take what it is working on.
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
    """Somebody asked for it."""


class ContextUsage(TypedDict, total=False):
    """How full the context is. A plugin may be given any part of it."""

    percent_used: float
    total_tokens: int
    context_limit: int
    tokens_remaining: int
    turns: int


class GCConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When to collect, how far, and what to leave alone.

    Percentages are of the context limit. Where one is not given, the environment is asked
    (MARKSWEEP_GC_THRESHOLD, _TARGET, _PRESSURE, then the same with JAATO_), then 80, 60 and 90
    apply. A target or pressure that does not fit beside the threshold gives way if it is from a
    lower source: a default to the environment, both to what was given.
    """

    threshold_percent: float = msgspec.field(default_factory=lambda: from_environment(THRESHOLD))
    """Collect above this: the soft limit."""
    target_percent: float = msgspec.field(default_factory=lambda: from_environment(TARGET))
    """Land here."""
    pressure_percent: float = msgspec.field(default_factory=lambda: from_environment(PRESSURE))
    """Above this PRESERVABLE content may go too: the hard limit."""
    max_turns: int | None = None
    """Collect when there are more turns than this."""
    auto_trigger: bool = True
    """Collect without being asked."""
    check_before_send: bool = True
    """Look before each request, not only after each answer."""
    preserve_recent_turns: int = PRESERVE_RECENT_TURNS
    """Newest turns whose words stay, and their newest work; above the hard limit the user's words.
    """
    pinned_turn_indices: tuple[int, ...] = ()
    """Turns that stay whole, by number from 0. A turn keeps its number when others go."""
    plugin_config: Mapping[str, object] = {}
    """Options of the plugin; they go before those it was initialised with."""
    continuous: bool = False
    """Collect whenever usage is above the target, a little at a time, instead of waiting for the
    threshold."""

    def limits(self, limit: int) -> Budget:
        """Say where a collection of a window of that size starts, lands and presses hard."""
        return Budget.of(
            limit,
            threshold_percent=self.threshold_percent,
            target_percent=self.target_percent,
            pressure_percent=self.pressure_percent,
        )

    def __post_init__(self) -> None:
        """Refuse what cannot be, and fit the defaults to what was given."""
        put = msgspec.structs.force_setattr
        if not isinstance(self.pinned_turn_indices, list | tuple):
            raise BadInput(
                f"pinned_turn_indices is {self.pinned_turn_indices!r}; expected a list of turns."
            )
        put(self, "pinned_turn_indices", tuple(self.pinned_turn_indices))
        check_object("plugin_config", self.plugin_config)
        check_percent("threshold_percent", self.threshold_percent, above=0.0)
        gives_way = Default if isinstance(self.threshold_percent, Assumed) else Assumed
        if isinstance(self.target_percent, gives_way):
            fitting = self.threshold_percent * TARGET.default / THRESHOLD.default
            if self.target_percent > self.threshold_percent:
                put(self, "target_percent", fitting)
        if isinstance(self.pressure_percent, gives_way):
            put(self, "pressure_percent", max(self.pressure_percent, self.threshold_percent))
        check_percent(
            "target_percent", self.target_percent, most=self.threshold_percent, most_is="threshold"
        )
        check_percent(
            "pressure_percent",
            self.pressure_percent,
            least=self.threshold_percent,
            least_is="threshold",
        )
        for name in ("target_percent", "pressure_percent", "threshold_percent"):
            put(self, name, float(getattr(self, name)))
        if self.max_turns is not None:
            check_turns("max_turns", self.max_turns, least=1)
        check_turns("preserve_recent_turns", self.preserve_recent_turns)
        for index in self.pinned_turn_indices:
            check_turns("pinned_turn_indices", index)
        for name in ("auto_trigger", "check_before_send", "continuous"):
            check_flag(name, getattr(self, name))


class GCRemovalItem(msgspec.Struct, frozen=True, gc=False):
    """One thing that left the context."""

    source: InstructionSource
    child_key: str | None = None
    """The child that went; None: the whole source."""
    tokens_freed: int = 0
    reason: str = ""
    """One word: truncated, summarized, ephemeral, partial_turn, …"""
    message_ids: tuple[str, ...] = ()
    """The messages of the history that went with it."""


class GCResult(msgspec.Struct, frozen=True):
    """What a collection did, counted on the result."""

    success: bool
    items_collected: int
    tokens_before: int
    tokens_after: int
    plugin_name: str
    trigger_reason: GCTriggerReason
    notification: str | None = None
    """What was said about it in the history."""
    details: dict[str, object] = {}
    """What the plugin reports beyond this, as JSON values."""
    error: str | None = None
    removal_list: Sequence[GCRemovalItem] = ()

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
        """Say whether it is time, and why."""
        ...

    def collect(
        self,
        history: Sequence[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
        budget: InstructionBudget | None = None,
    ) -> tuple[list[Message], GCResult]:
        """Return a new history and what was done; the one passed in stays as it is.

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


def apply_removals(budget: InstructionBudget, removed: Sequence[GCRemovalItem]) -> None:
    """Take what left the context out of the budget too.

    Entries of the conversation that are read off a history have gone with their messages.
    """
    for item in removed:
        if item.child_key:
            budget.remove_child(item.source, item.child_key)
        elif item.source is not InstructionSource.CONVERSATION:
            budget.clear(item.source)
