"""The nouns. Frozen, compact, and the same for every heap.

A heap gives a `Snapshot` of `Segment`s, joined by `Reference`s. Deciding turns it into a `Plan` of
`Step`s; applying the plan yields a `Report`. Swept segments are in the stash as `Stashed`, and the
journal records everything in `Entry`s.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from operator import index
from typing import TypeVar

import msgspec

from marksweep.errors import BadInput

T = TypeVar("T")


class Hold(StrEnum):
    """How firmly a reference keeps its target."""

    STRONG = "strong"
    """The target lives as long as the source does."""
    WEAK = "weak"
    """The target is related: it goes after unrelated garbage, but it may go."""
    PAIRED = "paired"
    """Source and target are one unit: they live or die together."""


class Link(StrEnum):
    """What a reference means; `why` shows it."""

    REFERS = "refers to"
    DERIVED = "derived from"
    REPLY = "reply to"
    ANSWERS = "answers"
    PART = "part of"
    RELATED = "related to"


class GCPolicy(StrEnum):
    """How easily a segment may be given up."""

    LOCKED = "locked"
    """Never."""
    PRESERVABLE = "preservable"
    """Only under pressure, when the next request may fail."""
    PARTIAL = "partial"
    """When the budget asks for it."""
    EPHEMERAL = "ephemeral"
    """First: it can be regenerated, or has served its purpose."""
    CONDITIONAL = "conditional"
    """Its owner is asked."""


class Generation(StrEnum):
    """Young until it has survived OLD_AFTER collections."""

    YOUNG = "young"
    OLD = "old"


OLD_AFTER = 3
"""Collections a segment survives before it is old, and its survivals are no longer counted.

Higher keeps segments young, and each full collection writes more of them back.
"""


class Action(StrEnum):
    """What a step does with its segments."""

    STASH = "stash"
    """Out of the heap, into the stash; restorable without limit of time."""
    DELETE = "delete"
    """Out of the heap; restorable until the grace period is over."""
    COMPRESS = "compress"
    """Replaced by one shorter text; the originals go to the stash."""
    MASK = "mask"
    """The content replaced by one line that says what it was; the original goes to the stash."""
    TRIM = "trim"
    """Only the parts worth keeping stay, one marker per dropped run; the original is stashed."""
    RECALL = "recall"
    """Parts that were swept come back in a separate note; nothing goes."""


IN_PLACE = frozenset({Action.MASK, Action.TRIM})
"""Actions that shorten one segment and leave it where it is, under its id."""


class Unit(StrEnum):
    """What the sizes of a heap count."""

    TOKENS = "tokens"
    NODES = "nodes"


class Pressure(IntEnum):
    """How hard a collection may press."""

    NONE = 0
    """Below the threshold. Nothing has to go."""
    SOFT = 1
    """Over the threshold. PRESERVABLE segments stay."""
    HARD = 2
    """The next request may fail. PRESERVABLE segments may go."""


class Reference(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A link from the segment that owns it to another, by id. The target may be absent."""

    target: str
    link: Link = Link.REFERS
    hold: Hold = Hold.STRONG


NEVER = datetime.min.replace(tzinfo=UTC)
"""Placeholder for a time that was not given."""


def utc_now() -> datetime:
    """Read the clock: the default where no other is passed."""
    return datetime.now(UTC)


REFERENCE_TAG = "ref:"
"""A tag that starts with this names a segment that is referred to."""


class Segment(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The smallest thing that can be kept or given up.

    `type` is message, code, log, note, decision or summary for context segments; other heaps have
    their own words. `tokens` 0 means not counted yet. Naive times are read as UTC and sequences
    become tuples. A plain string in `references` is a strong reference; so is a tag `ref:<id>`.
    """

    segment_id: str
    type: str
    created_at: datetime
    text: str = ""
    raw: str = ""
    """The original in its own format, where `text` is only its words."""
    last_touched_at: datetime = NEVER
    """When it was last read or written; `created_at` if not given."""
    tokens: int = 0
    pinned: bool = False
    pinned_by: str = ""
    """Who pinned it and why, for people to read."""
    generation: Generation = Generation.YOUNG
    gc_survival_count: int = 0
    """Full collections survived, counted up to OLD_AFTER."""
    refcount: int = 0
    """How many live segments refer to it, not counting those paired with it."""
    file_path: str | None = None
    line_range: tuple[int, int] | None = None
    symbol: str | None = None
    tags: tuple[str, ...] = ()
    topic_id: str | None = None
    project_id: str | None = None
    task_id: str | None = None
    references: tuple[Reference, ...] = ()
    policy: GCPolicy = GCPolicy.PARTIAL
    position: int = 0
    """Order in the heap, ties broken by id. A restored segment goes back to its position."""

    def __post_init__(self) -> None:
        """Normalize what callers pass, so that nothing else has to."""
        put = msgspec.structs.force_setattr
        try:
            is_naive = self.created_at.tzinfo is None
        except AttributeError:
            raise BadInput(f"created_at is {self.created_at!r}; expected a datetime.") from None
        if is_naive:
            put(self, "created_at", self.created_at.replace(tzinfo=UTC))
        if self.last_touched_at is NEVER:
            put(self, "last_touched_at", self.created_at)
        elif self.last_touched_at.tzinfo is None:
            put(self, "last_touched_at", self.last_touched_at.replace(tzinfo=UTC))
        if type(self.tags) is not tuple:
            put(self, "tags", listed("tags", self.tags))
        if self.references and not (
            type(self.references) is tuple and type(self.references[0]) is Reference
        ):
            put(self, "references", _references(self.references))
        if self.line_range is not None:
            put(self, "line_range", in_line_order("line_range", self.line_range))

    @property
    def all_references(self) -> tuple[Reference, ...]:
        """The references, and those written as tags."""
        for tag in self.tags:
            if tag.startswith(REFERENCE_TAG):
                break
        else:
            return self.references
        named = (tag[len(REFERENCE_TAG) :] for tag in self.tags if tag.startswith(REFERENCE_TAG))
        return (*self.references, *(Reference(target) for target in named if target))


def in_line_order(name: str, given: Iterable[int]) -> tuple[int, int]:
    """Return the first and the last line of a range, whichever of them comes first."""
    try:
        first, last = map(index, given)
    except (TypeError, ValueError):
        raise BadInput(
            f"{name} is {given!r}; expected two line numbers, such as (10, 20)."
        ) from None
    return min(first, last), max(first, last)


def _references(given: Iterable[Reference | str]) -> tuple[Reference, ...]:
    return tuple(
        item if isinstance(item, Reference) else Reference(str(item))
        for item in listed("references", given)
    )


def listed(name: str, given: Iterable[T]) -> tuple[T, ...]:
    """Take a list; BadInput if it is one text, whose letters would be its items.

    A set, which has no order, is sorted: same input, same output.
    """
    if isinstance(given, str):
        raise BadInput(f"{name} is {given!r}; expected a list of texts.")
    return tuple(sorted(given, key=str) if isinstance(given, set | frozenset) else given)


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A heap at one moment: its segments in order."""

    segments: tuple[Segment, ...]
    fingerprint: str
    """Of the content: changes whenever any segment does."""
    workspace: str = ""
    heap: str = "segments"
    rest_size: int | None = None
    """Size of the rest of the heap, if this is only a part of it; None: it is whole."""
    rest_segments: int = 0
    """How many segments the rest has."""
    unit: Unit = Unit.TOKENS


class Step(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What happens to one unit, and why."""

    segments: tuple[str, ...]
    action: Action
    size: int
    """Size freed, net of the replacement; below 0 for RECALL, which takes room."""
    reason: str
    replacement: Segment | None = None
    """What replaces it, for COMPRESS, MASK and TRIM; for RECALL, the note; for STASH, the one line
    that stands where a run of segments was."""
    stand_in: str | None = None
    """The id of the line that stands for its run, whichever step of the run puts that in."""


class Blocker(msgspec.Struct, frozen=True, gc=False):
    """One reason why a plan misses its target: how many segments stay for it, and their size."""

    reason: str
    segments: int
    size: int


class Cost(msgspec.Struct, frozen=True, gc=False):
    """What a sweep costs in the prompt cache, and when it has paid for itself."""

    edits_from: int | None
    """Index of the first segment that changes: everything after it is read uncached once."""
    reread_tokens: int = 0
    pays_after_turns: float | None = None
    """Turns until the tokens saved outweigh the tokens re-read. None: it never pays."""


class _Sized:
    """What a plan would do to the size of a heap, or a report says was done; also in tokens."""

    __slots__ = ()
    size_before: int
    size_after: int
    unit: Unit

    @property
    def freed(self) -> int:
        """What goes from the heap."""
        return self.size_before - self.size_after

    @property
    def tokens_before(self) -> int:
        """The size before, if it is in tokens."""
        return _in_tokens(self.size_before, self.unit)

    @property
    def tokens_after(self) -> int:
        """The size after, if it is in tokens."""
        return _in_tokens(self.size_after, self.unit)

    @property
    def tokens_freed(self) -> int:
        """What goes from the heap, if it is in tokens."""
        return _in_tokens(self.freed, self.unit)


def _in_tokens(size: int, unit: Unit) -> int:
    """Return a size if its unit is tokens."""
    if unit is not Unit.TOKENS:
        raise BadInput(
            f"the size is {size} {unit}, not tokens. Read size_before, size_after, target_size or "
            "freed, and the unit."
        )
    return size


class Plan(_Sized, msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a sweep would do, and why. Nothing has happened yet. Sizes are in its unit."""

    plan_id: str
    fingerprint: str
    """Of the snapshot it was made from. A heap that has moved refuses the plan."""
    made_at: datetime
    strategy: str
    size_before: int
    size_after: int
    target_size: int
    """The size it aimed for: the caller's, or that of taking all the strategy offered."""
    steps: tuple[Step, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    """If the target was not reached: why not, largest first."""
    cost: Cost = Cost(None)
    workspace: str = ""
    heap: str = "segments"
    unit: Unit = Unit.TOKENS

    @property
    def short_by(self) -> int:
        """By how much the plan misses its target; 0 if it gets there."""
        return max(0, self.size_after - self.target_size)

    @property
    def deletes(self) -> bool:
        """Whether anything would be deleted rather than stashed."""
        return any(step.action is Action.DELETE for step in self.steps)

    @property
    def target_tokens(self) -> int:
        """The target of a plan in tokens."""
        return _in_tokens(self.target_size, self.unit)


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A segment that a plan takes, or that is worth shortening, and why."""

    segment_id: str
    type: str
    tokens: int
    action: Action
    reason: str
    score: float
    """Prune score from 0 to 1; high goes first."""


class Report(_Sized, msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What a sweep did, counted on the result. Sizes are in its unit."""

    plan_id: str
    size_before: int
    size_after: int
    swept: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    """Ids of the replacements that are now in the heap."""
    unit: Unit = Unit.TOKENS


class Stashed(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A swept segment, whole, with what is needed to put it back."""

    segment: Segment
    plan_id: str
    stashed_at: datetime
    reason: str = ""
    expires_at: datetime | None = None
    """When a confirmed deletion becomes final; None: never."""
    replaced_by: str | None = None
    """The segment that replaces it in the heap."""


class Event(StrEnum):
    """What an entry of the journal records. An intent is written before its operation."""

    PLANNED = "planned"
    """A plan was shown. Nothing has happened."""
    SWEEPING = "sweeping"
    """Intent: the stash holds the content, the heap is about to remove it."""
    SWEPT = "swept"
    """The heap has removed it."""
    RESTORING = "restoring"
    """Intent: the heap is about to take segments back."""
    RESTORED = "restored"
    """Segments came back from the stash."""
    UNDONE = "undone"
    """All that a plan swept came back."""
    ROLLED_BACK = "rolled back"
    """An operation that was cut off had not happened; its traces are cleared."""
    PURGED = "purged"
    """Deleted segments are past their grace period and gone for good."""
    VANISHED = "vanished"
    """A root of the memory was first seen to be gone from the disk."""
    RETURNED = "returned"
    """A root that had vanished was seen again."""


class Entry(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One line of the journal."""

    event: Event
    at: datetime
    plan_id: str = ""
    actor: str = ""
    segments: tuple[str, ...] = ()
    plan: Plan | None = None
    report: Report | None = None
    seq: int = 0
    """Given by the journal: 1, 2, 3, …"""


ContextSegment = Segment
"""A segment of the working set: its name in the public surface."""


_encode = msgspec.msgpack.Encoder().encode


def packed(noun: object) -> bytes:
    """Encode all that nouns hold, including lone surrogates and numbers beyond 64 bits."""
    try:
        return _encode(noun)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(msgspec.to_builtins(noun)).encode()
