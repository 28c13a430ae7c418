"""The groups of settings. Each value documents what changing it does, and is always valid.

A group checks itself when it is made, so the rest of marksweep need not.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from marksweep.core.budget import (
    CACHE_MINUTES,
    COLD_PERCENT,
    HARD_PERCENT,
    PAYS_WITHIN_TURNS,
    SOFT_PERCENT,
    TARGET_PERCENT,
    Budget,
)
from marksweep.core.plan import Prices
from marksweep.core.roots import INVARIANT_TAGS, RECENT_DECISIONS, RECENT_MESSAGES
from marksweep.core.score import (
    DISPENSABLE,
    HALF_LIFE_HOURS,
    IMPORTANCE,
    Scorer,
    SeedAge,
    SeedRetention,
    Weights,
    scorer_named,
)
from marksweep.errors import BadInput
from marksweep.heaps.graph import CAP_PERCENT, RECENTLY_READ
from marksweep.heaps.graph import GRACE as MEMORY_GRACE
from marksweep.heaps.segments import GRACE
from marksweep.increment import MAX_BATCH_UNITS, SAMPLE_SEGMENTS
from marksweep.settings.checks import (
    Count,
    Days,
    Group,
    Hours,
    Percent,
    Positive,
    Price,
    Share,
    checked,
)
from marksweep.stores.base import DEFAULT_WORKSPACE, KEEP_PLANS, PlanRetention
from marksweep.strategies.scored import COLD_HOURS, DELETE_AFTER_HOURS, VERBOSE_TOKENS

if TYPE_CHECKING:
    from marksweep.strategies.registry import Choice

HOUR = 3600.0
DAY = 24 * HOUR


class Window(Group, frozen=True):
    """The size of the context, and the limits at which it is collected."""

    limit_tokens: Count = 128_000
    """The most tokens allowed. The percentages below are shares of it.

    In a conversation they are shares of what is left beside what must stay, such as the system
    prompt.
    """
    threshold_percent: Percent = SOFT_PERCENT
    """The soft limit: above it a collection starts. Higher collects later and frees more at once.

    In the working set, collections are small sweeps after every change.
    """
    target_percent: Percent = TARGET_PERCENT
    """Size after a collection; at most the threshold. Lower frees more and collects less often."""
    pressure_percent: Percent = HARD_PERCENT
    """The hard limit: above it everything is considered and PRESERVABLE segments may go.

    At least the threshold. Higher protects them longer, at the risk that a request does not fit.
    """
    cold_percent: Percent = COLD_PERCENT
    """Size from which a conversation with a cold prompt cache is collected: rewriting is free.

    Between target and threshold. Lower collects more often then, and keeps less.
    """
    cache_minutes: Positive = CACHE_MINUTES
    """Minutes for which the provider's prompt cache lives after a request."""
    pays_within_turns: Positive = PAYS_WITHIN_TURNS
    """Turns within which a sweep between soft and hard limit must pay off; otherwise it waits.

    Higher collects sooner; lower waits for the hard limit and keeps the prompt cache longer.
    """

    def __post_init__(self) -> None:
        """Refuse limits in the wrong order."""
        Group.__post_init__(self)
        if self.target_percent > self.threshold_percent:
            raise BadInput(
                f"window.target_percent is {self.target_percent:g}, above "
                f"window.threshold_percent {self.threshold_percent:g}; expected a number from 0 to "
                f"{self.threshold_percent:g}. Lower the target or raise the threshold."
            )
        if self.pressure_percent < self.threshold_percent:
            raise BadInput(
                f"window.pressure_percent is {self.pressure_percent:g}, below "
                f"window.threshold_percent {self.threshold_percent:g}; expected a number from "
                f"{self.threshold_percent:g} to 100. Raise the pressure or lower the threshold."
            )

    def budget(self, limit_tokens: int | None = None) -> Budget:
        """Return the limits in tokens, for this window size or another."""
        return Budget.of(
            self.limit_tokens if limit_tokens is None else limit_tokens,
            threshold_percent=self.threshold_percent,
            target_percent=self.target_percent,
            pressure_percent=self.pressure_percent,
            cold_percent=self.cold_percent,
        )


class Conversation(Group, frozen=True):
    """How a conversation is collected; its limits are those of the window."""

    strategy: str = "coverage"
    """Names of strategies, joined by + for tiers that are tried in order."""
    options: Mapping[str, int] = {}
    """Options of the strategies, such as how many results `mask` spares."""
    preserve_recent_turns: Count = 0
    """Turns at the end that stay. More keeps more of the conversation and frees less."""

    def __post_init__(self) -> None:
        """Refuse strategies and options that do not exist."""
        Group.__post_init__(self)
        if self.strategy != "coverage" or self.options:
            self.choice()

    def named(self, strategy: str) -> Conversation:
        """Return the same with other strategies, joined by + or commas, and their own options."""
        return msgspec.structs.replace(self, strategy=strategy.replace(",", "+"), options={})

    def choice(self) -> Choice:
        """Return what a Conversation takes as its strategy."""
        from marksweep.strategies.registry import with_options

        return with_options(self.strategy, self.options)


class Roots(Group, frozen=True):
    """What must stay beyond what is pinned, locked, or part of the current task."""

    last_messages: Count = RECENT_MESSAGES
    """How many of the last messages stay. Higher keeps more of the conversation and frees less."""
    decision_hours: Hours = RECENT_DECISIONS.total_seconds() / HOUR
    """How long a decision stays. Longer protects decisions that may be out of date."""
    recent_file_hours: Hours = 1.0
    """How long a file stays after it was opened or edited. Longer keeps more code."""
    invariant_tags: tuple[str, ...] = tuple(sorted(INVARIANT_TAGS))
    """Tags of what holds for the whole session, such as the project overview."""


class Scoring(Group, frozen=True):
    """How dispensable a segment is; the highest score goes first."""

    scorer: str = "seed_age"
    """Which formula: seed_age or seed_retention."""
    weights: Weights = Weights()
    """Weights of recency, type, references and generation; 0 or more, together at most 1."""
    half_life_hours: Positive = HALF_LIFE_HOURS
    """Age at which recency has lost half its weight. Shorter gives old segments up sooner."""
    dispensable: Mapping[str, Share] = {}
    """Per type, from 0 to 1: how dispensable it is, for seed_age. Others keep their defaults."""
    importance: Mapping[str, Share] = {}
    """Per type, from 0 to 1: how important it is, for seed_retention. Others keep theirs."""

    def __post_init__(self) -> None:
        """Refuse an unknown scorer, and weights or importance that push scores out of 0 to 1."""
        Group.__post_init__(self)
        scorer_named(self.scorer)
        weights = msgspec.structs.asdict(self.weights)
        for name, weight in weights.items():
            checked(f"scoring.weights.{name}", weight, Share)
        if sum(weights.values()) > 1 + 1e-9:
            raise BadInput(
                f"scoring.weights add up to {sum(weights.values()):g}; expected at most 1, so that "
                "scores stay between 0 and 1. Divide each by their sum."
            )

    def build(self) -> Scorer:
        """Make the scorer that these settings describe."""
        if self.scorer == "seed_retention":
            return SeedRetention(
                self.weights, self.half_life_hours, {**IMPORTANCE, **self.importance}
            )
        if self.scorer == "seed_age":
            return SeedAge(self.weights, self.half_life_hours, {**DISPENSABLE, **self.dispensable})
        return scorer_named(self.scorer)


class Retention(Group, frozen=True):
    """What happens to swept segments, and which are shortened instead."""

    delete_after_hours: Hours = DELETE_AFTER_HOURS
    """Age at which a log or note that nothing refers to may be deleted. Lower deletes more."""
    grace_hours: Hours = GRACE.total_seconds() / HOUR
    """How long a deleted segment can still be restored. Longer keeps more in the stash."""
    cold_hours: Hours = COLD_HOURS
    """Hours untouched after which a segment in use is cold. Lower compresses sooner."""
    verbose_tokens: Count = VERBOSE_TOKENS
    """Tokens from which a cold segment is compressed. Lower compresses more, for less gain each."""

    @property
    def grace(self) -> timedelta:
        """The grace period."""
        return timedelta(hours=self.grace_hours)


class Steps(Group, frozen=True):
    """The small sweep that follows a change."""

    batch: Annotated[int, Meta(ge=5, le=20)] = MAX_BATCH_UNITS
    """Most segments one step takes. More frees faster, and makes single changes slower."""
    sample: Annotated[int, Meta(ge=0, le=1_000)] = SAMPLE_SEGMENTS
    """Old segments each step looks at again. More finds better candidates, and takes longer."""


class Store(Group, frozen=True):
    """Where segments, stash and journal are, and how long plans that nobody applied are kept."""

    location: str = ".marksweep/store.db"
    """A file (`.db` SQLite, `.json`), or a URL such as redis://host:6379/0."""
    workspace: str = DEFAULT_WORKSPACE
    """The workspace of the segments; workspaces of a store are isolated from each other."""
    plan_days: Days = KEEP_PLANS.days
    """How long a plan that was only shown can be collected by its id. Longer takes more space."""
    plans: Annotated[int, Meta(ge=1, le=10_000)] = KEEP_PLANS.plans
    """How many of the newest shown plans the journal keeps. What was done is kept for good."""

    @property
    def retention(self) -> PlanRetention:
        """What the journal keeps."""
        return PlanRetention(self.plan_days, self.plans)

    def __post_init__(self) -> None:
        """Refuse empty names."""
        Group.__post_init__(self)
        for field in ("location", "workspace"):
            if not getattr(self, field).strip():
                raise BadInput(f"store.{field} is empty; expected a name.")


class Memory(Group, frozen=True):
    """The long-term memory: where it is, what protects it, when it is collected."""

    location: str = ""
    """A folder, `falkordb://host:6379`, or `falkordb:FOLDER` for an embedded server.

    Empty: the folder of the store.
    """
    grace_days: Days = MEMORY_GRACE.total_seconds() / DAY
    """How long deleted memories can be restored. Longer keeps more in the graph."""
    cap_percent: Percent = CAP_PERCENT
    """Share of a workspace that one deletion may take, or 100 nodes if that is more.

    Higher lets a mistake take more at once.
    """
    recently_read_hours: Hours = RECENTLY_READ.total_seconds() / HOUR
    """How long reading a memory protects it. Longer keeps stale ones that are still read."""
    life_days: Mapping[str, Days] = {}
    """Days after which memories of a source expire; other sources never expire."""
    keeps_segments: bool = False
    """Whether segments and memories that refer to each other by id keep each other.

    On, a segment in use keeps the memories it cites, and a memory the segments it is tagged with
    (`ref:ID`); what only a deleted memory kept may go.
    """
    collect_every_hours: Hours = 0.0
    """How often `marksweep serve` collects the memory automatically; 0: never."""


LeftOut = Literal["secrets", "minified", "locks", "build", "vendored"]
"""What indexing leaves out by default; `indexing.left_out` recognises each."""


class Index(Group, frozen=True):
    """How a codebase is read into the long-term memory."""

    include: tuple[LeftOut, ...] = ()
    """Kinds of files that are indexed although they are left out by default.

    Each adds more files of less value. A project's own file may ask for secrets only after
    the user has agreed to that.
    """


class Settings(msgspec.Struct, frozen=True):
    """All settings. Those not given have their defaults."""

    window: Window = Window()
    conversation: Conversation = Conversation()
    roots: Roots = Roots()
    scoring: Scoring = Scoring()
    retention: Retention = Retention()
    steps: Steps = Steps()
    prices: Prices = Prices()
    """Prices of input, cached input and cache writes, relative to each other; see `core.plan`.

    With more expensive writes, a sweep takes longer to pay off.
    """
    store: Store = Store()
    memory: Memory = Memory()
    index: Index = Index()

    def __post_init__(self) -> None:
        """Refuse prices below 0."""
        for name, price in msgspec.structs.asdict(self.prices).items():
            checked(f"prices.{name}", price, Price)
