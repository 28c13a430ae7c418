"""Tools that fill and steer the working set: add, focus, pin, recall, configure."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import uuid4

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from marksweep.core.budget import Budget
from marksweep.core.roots import breakpoint_at
from marksweep.errors import BadInput
from marksweep.mcp.asking import CurrentWorkspace
from marksweep.mcp.tool import ADDS, READS, SETS, Answer, Ctx, StrictTool
from marksweep.model import Event, GCPolicy, Hold, Link, Reference, Segment, Stashed, utc_now
from marksweep.segments import FocusArgs, Segments

LONGEST_TEXT = 2_000_000
"""Maximum characters of one segment."""

NEWEST = 20
"""Journal entries to search for the sweeps that follow one change."""

MOST_AT_ONCE = 1_000
"""Maximum segments that one call may name."""

LISTED = 8
"""Names that a sentence lists; the data has them all."""

SHOWN_CHARS = 300
"""Characters of a live segment that a list shows."""

Name = Annotated[str, Field(min_length=1, max_length=500)]
Names = Annotated[list[Name], Field(min_length=1, max_length=MOST_AT_ONCE)]
Kind = Literal["message", "code", "log", "note", "decision", "summary"]


class Usage(msgspec.Struct, frozen=True):
    """How full the working set is, in tokens."""

    current: int
    soft_limit: int
    hard_limit: int
    limit: int
    target: int

    @classmethod
    def of(cls, tokens: int, budget: Budget) -> Usage:
        """Compare tokens with a budget."""
        return cls(tokens, budget.soft_limit, budget.hard_limit, budget.limit, budget.target)

    def __str__(self) -> str:
        """Render it in a line."""
        state = (
            "above the hard limit"
            if self.current > self.hard_limit
            else "above the soft limit"
            if self.current > self.soft_limit
            else "within limits"
        )
        return (
            f"{self.current:,} of {self.limit:,} tokens, {state} "
            f"(soft {self.soft_limit:,}, hard {self.hard_limit:,})"
        )


def usage(context: Segments) -> Usage:
    """Return how full a working set is."""
    return Usage.of(context.tokens, context.budget)


class _Given(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewLink(_Given):
    """A reference to another segment."""

    target: Name
    link: Link = Link.REFERS
    hold: Hold = Field(
        default=Hold.STRONG,
        description="strong keeps the target alive; paired: both are swept or neither",
    )


class NewSegment(_Given):
    """A piece of context to keep track of."""

    text: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
    type: Kind = "note"
    segment_id: Name | None = Field(default=None, description="Chosen for you if left out.")
    file_path: str | None = None
    line_range: tuple[int, int] | None = None
    symbol: str | None = None
    tags: list[str] = Field(default=[], max_length=100)
    topic_id: str | None = None
    task_id: str | None = None
    references: list[Name | NewLink] = Field(
        default=[], description="What this builds on: ids or links."
    )
    policy: GCPolicy = Field(default=GCPolicy.PARTIAL, description="How easily it may be swept.")


class Added(msgspec.Struct, frozen=True):
    """Segments that were added, and those that were swept to make room."""

    segment_ids: list[str]
    tokens: int
    usage: Usage
    evicted: list[str]


def context_add(
    here: CurrentWorkspace,
    segments: Annotated[list[NewSegment], Field(min_length=1, max_length=MOST_AT_ONCE)],
) -> Answer[Added]:
    """Add pieces of context (messages, code, logs, notes, decisions, summaries) to the working set,
    all or none, with links to what they build on. What is linked from something in use is kept.
    Call for what this task may need again; a fact for later sessions: remember."""
    now = utc_now()
    with here.segments() as context:
        before = _last_entry(context)
        added = context.add(*(_segment(given, now) for given in segments))
        evicted = _evicted(context, before)
        names = [segment.segment_id for segment in added]
        done = Added(names, sum(segment.tokens for segment in added), usage(context), evicted)
    room = f" Swept to make room, for context_recall: {_named(evicted)}." if evicted else ""
    words = f"Added {len(names)} ({done.tokens:,} tokens): {_named(names)}."
    return Answer(f"{words} Working set: {done.usage}.{room}", done)


def _named(names: list[str]) -> str:
    """Write the first names in a line."""
    return ", ".join(names[:LISTED]) + ("" if len(names) <= LISTED else " …")


def _last_entry(context: Segments) -> int:
    return max((entry.seq for entry in context.history(1)), default=0)


def _evicted(context: Segments, since: int) -> list[str]:
    """Return what was swept to make room after a journal entry."""
    swept = (e for e in context.history(NEWEST) if e.seq > since and e.event is Event.SWEPT)
    return [each for entry in swept if entry.report for each in entry.report.swept]


def _segment(given: NewSegment, now: datetime) -> Segment:
    return Segment(
        segment_id=given.segment_id or str(uuid4()),
        created_at=now,
        references=tuple(
            Reference(each)
            if isinstance(each, str)
            else Reference(each.target, each.link, each.hold)
            for each in given.references
        ),
        tags=tuple(given.tags),
        **given.model_dump(exclude={"segment_id", "references", "tags"}),
    )


class Focused(msgspec.Struct, frozen=True):
    """What the agent works on."""

    task: str
    active_file: str
    open_files: list[str]
    breakpoints: list[str]


def context_focus(
    here: CurrentWorkspace,
    *,
    task: Annotated[str, Field(description="Id of the task at hand.")] = "",
    active_file: Annotated[str, Field(description="The file being worked on.")] = "",
    active_lines: Annotated[
        tuple[int, int] | None, Field(description="First and last line of the part at hand.")
    ] = None,
    open_files: Annotated[list[str], Field(max_length=MOST_AT_ONCE)] = [],  # noqa: B006
    breakpoints: Annotated[
        list[str], Field(max_length=MOST_AT_ONCE, description="Where the debugger stops: file:line")
    ] = [],  # noqa: B006
) -> Answer[Focused]:
    """Say what you are working on now. Segments of this task, file or lines, with a breakpoint in
    them, and all they refer to, are not collected. Call when you turn to another task or file."""
    stops = tuple(map(breakpoint_at, breakpoints))
    here.focus(FocusArgs(task or None, active_file or None, active_lines, tuple(open_files), stops))
    named = {
        "task": task,
        "file": active_file,
        "open": ", ".join(open_files),
        "breakpoints": ", ".join(breakpoints),
    }
    at = "; ".join(f"{what} {which}" for what, which in named.items() if which)
    words = f"Focus: {at}. What belongs to it stays." if at else "Focus: nothing in particular."
    return Answer(words, Focused(task, active_file, open_files, breakpoints))


class Protected(msgspec.Struct, frozen=True):
    """Segments whose pin was set or removed."""

    segment_ids: list[str]
    pinned: bool


def context_gc_pin(
    ctx: Ctx,
    here: CurrentWorkspace,
    segment_ids: Names,
    reason: Annotated[str, Field(max_length=500, description="Why it must stay.")] = "",
) -> Answer[Protected]:
    """Protect segments: no collection ever takes a pinned one. Call for what must outlast the task,
    such as the user's constraints; what you work on is kept by context_focus."""
    by = _client(ctx)
    with here.segments() as context:
        _all_live(context, segment_ids)
        for segment_id in segment_ids:
            context.pin(segment_id, by=by, why=reason)
    words = f"Pinned: never collected: {', '.join(segment_ids)}"
    return Answer(words, Protected(segment_ids, pinned=True))


def context_gc_unpin(here: CurrentWorkspace, segment_ids: Names) -> Answer[Protected]:
    """Remove the protection of context_gc_pin. Call when it no longer needs to stay."""
    with here.segments() as context:
        _all_live(context, segment_ids)
        for segment_id in segment_ids:
            context.unpin(segment_id)
    words = f"No longer pinned: {', '.join(segment_ids)}"
    return Answer(words, Protected(segment_ids, pinned=False))


def _all_live(context: Segments, segment_ids: list[str]) -> None:
    missing = [name for name in segment_ids if context.get(name) is None]
    if missing:
        raise BadInput(
            f"not in the working set: {', '.join(missing)}. Nothing was changed. Swept segments "
            "come back with context_recall."
        )


def _client(ctx: Ctx) -> str:
    params = ctx.session.client_params
    return params.client_info.name if params else "agent"


Types = Annotated[list[Kind], Field(max_length=10, description="Only these types.")]
FilePath = Annotated[str, Field(max_length=4_096, description="Only of this file.")]
TaskId = Annotated[str, Field(max_length=500, description="Only of this task.")]
Tags = Annotated[list[str], Field(max_length=100, description="Only with all of these.")]
Since = Annotated[datetime | None, Field(description="Only created at or after.")]
Until = Annotated[datetime | None, Field(description="Only created before.")]


class Live(msgspec.Struct, frozen=True):
    """A segment of the working set, with the beginning of its text."""

    segment_id: str
    type: str
    tokens: int
    text: str
    file_path: str
    task_id: str
    tags: tuple[str, ...]
    created_at: datetime
    pinned: bool


def _live(found: Segment) -> Live:
    text = found.text if len(found.text) <= SHOWN_CHARS else f"{found.text[:SHOWN_CHARS]}…"
    named = (found.file_path or "", found.task_id or "", found.tags, found.created_at)
    return Live(found.segment_id, found.type, found.tokens, text, *named, found.pinned)


class Listed(msgspec.Struct, frozen=True):
    """Segments of the working set."""

    segments: list[Live]
    usage: Usage


def context_search(
    here: CurrentWorkspace,
    *,
    words: Annotated[str, Field(max_length=1_000, description="What to look for.")] = "",
    types: Types = [],  # noqa: B006
    file_path: FilePath = "",
    task_id: TaskId = "",
    tags: Tags = [],  # noqa: B006
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
) -> Answer[Listed]:
    """List or search the live working set, by words and by what segments are about. Call before you
    add what may be there. Without words, newest first. Swept segments: context_recall."""
    filters = _filters(
        types=types, file_path=file_path, task_id=task_id, tags=tags, since=since, until=until
    )
    with here.segments() as context:
        hits = context.search(words, limit=limit, **filters)
        found = Listed([_live(hit.found) for hit in hits], usage(context))
    words = f"{len(hits)} segments. Working set: {found.usage}."
    nothing = "Nothing in the working set matches. context_recall searches the stash."
    return Answer(words if hits else nothing, found)


def _filters(**given: object) -> dict[str, object]:
    """Return the filters that were set, under their names in `Query`."""
    return {name: value for name, value in given.items() if value}


class Found(msgspec.Struct, frozen=True):
    """A segment from the stash."""

    segment_id: str
    type: str
    tokens: int
    text: str
    swept_because: str


class Recalled(msgspec.Struct, frozen=True):
    """What was found in the stash, what was restored, and what was swept to make room."""

    found: list[Found]
    restored: tuple[str, ...]
    evicted: list[str]
    usage: Usage


def context_recall(
    here: CurrentWorkspace,
    *,
    words: Annotated[str, Field(max_length=1_000, description="What it was about.")] = "",
    segment_ids: Annotated[list[Name], Field(max_length=MOST_AT_ONCE)] = [],  # noqa: B006
    types: Types = [],  # noqa: B006
    file_path: FilePath = "",
    task_id: TaskId = "",
    tags: Tags = [],  # noqa: B006
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, Field(ge=1, le=100, description="At most this many by words.")] = 3,
    action: Annotated[
        Literal["restore", "show"], Field(description="Restore it, or only show it.")
    ] = "restore",
) -> Answer[Recalled]:
    """Find swept segments in the stash, by words, by what they are about or by id, and bring them
    back to where they were in the working set. Call when you miss what you had; notes and code:
    recall."""
    filters = _filters(
        types=types, file_path=file_path, task_id=task_id, tags=tags, since=since, until=until
    )
    if bool(words.strip() or filters) == bool(segment_ids):
        raise BadInput("expected either words or filters, or segment_ids. Pass one of them.")
    with here.segments() as context:
        entries = (
            _by_id(context, segment_ids)
            if segment_ids
            else [hit.found for hit in context.search_stash(words, limit=limit, **filters)]
        )
        newest = {entry.segment.segment_id: entry for entry in reversed(entries)}
        found = [
            Found(name, entry.segment.type, entry.segment.tokens, entry.segment.text, entry.reason)
            for name, entry in reversed(newest.items())
        ]
        before = _last_entry(context)
        names = [each.segment_id for each in found]
        restored = context.restore(*names) if names and action == "restore" else ()
        if restored:
            context.touch(*restored)
        evicted = _evicted(context, before)
        done = Recalled(found, restored, evicted, usage(context))
    if not found:
        return Answer("Nothing in the stash matches. Try other words.", done)
    back = f"{len(restored)} back in the working set." if restored else "Only shown."
    room = f" Swept to make room: {_named(evicted)}." * bool(evicted)
    return Answer(f"{len(found)} found. {back}{room}", done)


def _by_id(context: Segments, segment_ids: list[str]) -> list[Stashed]:
    wanted = list(dict.fromkeys(segment_ids))
    entries = list(context.store.stash.get(context.workspace, wanted))
    missing = set(wanted) - {entry.segment.segment_id for entry in entries}
    live = sorted(name for name in missing if context.get(name) is not None)
    if live:
        raise BadInput(f"already in the working set: {', '.join(live)}. Leave these out.")
    if missing:
        raise BadInput(f"not in the stash: {', '.join(sorted(missing))}. Nothing was restored.")
    return entries


Percent = Annotated[float, Field(ge=0, le=100)]
Hours = Annotated[float, Field(ge=0, le=876_000)]


class Configured(msgspec.Struct, frozen=True):
    """The settings in force."""

    settings: dict[str, dict[str, object]]
    usage: Usage
    changed: list[str]


def context_gc_configure(
    here: CurrentWorkspace,
    *,
    limit_tokens: Annotated[int, Field(ge=0, le=10**12)] | None = None,
    soft_percent: Percent | None = None,
    hard_percent: Percent | None = None,
    target_percent: Percent | None = None,
    last_messages: Annotated[int, Field(ge=0, le=100_000)] | None = None,
    decision_hours: Hours | None = None,
    recent_file_hours: Hours | None = None,
    scorer: Annotated[str, Field(description="seed_age or seed_retention.")] | None = None,
    half_life_hours: Annotated[float, Field(gt=0, le=876_000)] | None = None,
    delete_after_hours: Hours | None = None,
    batch: Annotated[int, Field(ge=5, le=20)] | None = None,
) -> Answer[Configured]:
    """Change the limits (tokens; soft, hard and target as percent of them), the recency windows
    (messages, hours) and the most segments a small sweep takes. Without parameters: show them. Call
    when asked to; to make room, context_gc_prune. To keep a change beyond this server, write it to
    .marksweep/settings.toml."""
    given: dict[str, dict[str, float | str | None]] = {
        "window": {
            "limit_tokens": limit_tokens,
            "threshold_percent": soft_percent,
            "pressure_percent": hard_percent,
            "target_percent": target_percent,
        },
        "roots": {
            "last_messages": last_messages,
            "decision_hours": decision_hours,
            "recent_file_hours": recent_file_hours,
        },
        "scoring": {"scorer": scorer, "half_life_hours": half_life_hours},
        "retention": {"delete_after_hours": delete_after_hours},
        "steps": {"batch": batch},
    }
    changes = {
        group: {name: value for name, value in values.items() if value is not None}
        for group, values in given.items()
    }
    if any(changes.values()):
        here.configure(changes)
    with here.segments() as context:
        shown = msgspec.to_builtins(context.settings)
        changed = [f"{group}.{name}" for group, values in changes.items() for name in values]
        done = Configured({group: shown[group] for group in given}, usage(context), changed)
    words = f"Changed until the server ends: {', '.join(changed)}. " * bool(changed)
    return Answer(f"{words}Working set: {done.usage}.", done)


TOOLS = (
    StrictTool.of(context_add, "Add context", ADDS),
    StrictTool.of(context_focus, "Say what you work on", SETS),
    StrictTool.of(context_search, "Search the working set", READS),
    StrictTool.of(context_recall, "Recall swept context", ADDS),
    StrictTool.of(context_gc_pin, "Pin segments", SETS),
    StrictTool.of(context_gc_unpin, "Unpin segments", SETS),
    StrictTool.of(context_gc_configure, "Change the limits", SETS),
)
