"""Roots: the segments that must stay. A rule is a plain function that returns a reason or None.

The rules need to know what the agent is doing right now: the `Focus`. Rules are tried in order and
the first reason counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from marksweep.errors import BadInput
from marksweep.model import GCPolicy, Segment, in_line_order

RECENT_MESSAGES = 10
"""How many of the last messages are roots. Higher keeps more of the conversation and frees less."""

RECENT_DECISIONS = timedelta(hours=1)
"""How long a decision is a root. Longer protects decisions that may be outdated."""

INVARIANT_TAGS = frozenset({"invariant", "overview", "constraint"})
"""Tags that make a segment a session invariant: the project overview, the constraints."""


class Focus(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent is working on, as far as the rules need it."""

    now: datetime
    task_id: str | None = None
    active_file: str | None = None
    active_lines: tuple[int, int] | None = None
    """The lines being worked on. None: the whole active file."""
    open_files: frozenset[str] = frozenset()
    """Files opened or edited recently."""
    breakpoints: frozenset[tuple[str, int]] = frozenset()
    """Files and lines where the debugger stops."""
    recent_messages: frozenset[str] = frozenset()
    """Ids of the last messages; see `last_messages`."""
    recent_decisions: timedelta = RECENT_DECISIONS
    invariant_tags: frozenset[str] = INVARIANT_TAGS
    cited: Mapping[str, str] = {}
    """Segments that something outside the heap refers to, by id, with the reason they stay."""

    def __post_init__(self) -> None:
        """Put the lines in order; refuse lines of no file."""
        if self.active_lines is None:
            return
        if self.active_file is None:
            raise BadInput("active_lines without active_file. Name the file the lines are in.")
        lines = in_line_order("active_lines", self.active_lines)
        msgspec.structs.force_setattr(self, "active_lines", lines)


def breakpoint_at(text: str) -> tuple[str, int]:
    """Read a breakpoint as an editor writes it: a file and a line."""
    path, _, line = text.rpartition(":")
    if not path or not line.isdecimal():
        raise BadInput(f"breakpoint {text!r}; expected a file and a line, such as src/app.py:42.")
    return path, int(line)


Rule = Callable[[Segment, Focus], str | None]
"""Why a segment must stay, or None."""


def pinned(segment: Segment, focus: Focus) -> str | None:  # noqa: ARG001
    """Keep pinned segments."""
    if not segment.pinned:
        return None
    return f"pinned by {segment.pinned_by}" if segment.pinned_by else "pinned"


def locked(segment: Segment, focus: Focus) -> str | None:  # noqa: ARG001
    """Keep segments that their policy locks."""
    return "locked by its policy" if segment.policy == GCPolicy.LOCKED else None


def current_task(segment: Segment, focus: Focus) -> str | None:
    """Keep what belongs to the current task."""
    if focus.task_id is None or segment.task_id != focus.task_id:
        return None
    return f"part of the current task {focus.task_id}"


def active_file(segment: Segment, focus: Focus) -> str | None:
    """Keep the active file: the lines being worked on, or all of it if no lines are named."""
    if focus.active_file is None or segment.file_path != focus.active_file:
        return None
    if focus.active_lines is None or segment.line_range is None:
        return f"in the active file {focus.active_file}"
    first, last = focus.active_lines
    if segment.line_range[0] <= last and first <= segment.line_range[1]:
        return f"in the active lines {first}-{last} of {focus.active_file}"
    return None


def open_file(segment: Segment, focus: Focus) -> str | None:
    """Keep files opened or edited recently."""
    if segment.file_path is None or segment.file_path not in focus.open_files:
        return None
    return f"in {segment.file_path}, opened or edited recently"


def at_breakpoint(segment: Segment, focus: Focus) -> str | None:
    """Keep code with a breakpoint; the whole segment if its lines are unknown."""
    for path, line in focus.breakpoints:
        if path == segment.file_path:
            first, last = segment.line_range or (line, line)
            if first <= line <= last:
                return f"has a breakpoint at {path}:{line}"
    return None


def recent_message(segment: Segment, focus: Focus) -> str | None:
    """Keep the last messages."""
    if segment.segment_id not in focus.recent_messages:
        return None
    return f"one of the last {len(focus.recent_messages)} messages"


def recent_decision(segment: Segment, focus: Focus) -> str | None:
    """Keep decisions made recently."""
    if segment.type != "decision" or focus.now - segment.created_at > focus.recent_decisions:
        return None
    return "a decision made recently"


def invariant(segment: Segment, focus: Focus) -> str | None:
    """Keep what applies to the whole session: the project overview, the constraints."""
    for tag in segment.tags:
        if tag in focus.invariant_tags:
            return f"holds for the whole session ({tag})"
    return None


def cited(segment: Segment, focus: Focus) -> str | None:
    """Keep what something outside the heap refers to."""
    return focus.cited.get(segment.segment_id)


RULES: tuple[Rule, ...] = (
    pinned,
    locked,
    current_task,
    active_file,
    open_file,
    at_breakpoint,
    recent_message,
    recent_decision,
    invariant,
    cited,
)
"""The rules for context segments."""

BY_NAME: tuple[Rule, ...] = (pinned, locked, cited)
"""The rules for segments that somebody names to be swept: what the agent is working on does not
protect them.
"""


def reason_to_stay(segment: Segment, focus: Focus, rules: Sequence[Rule] = RULES) -> str | None:
    """Return the reason of the first rule that makes the segment a root."""
    for rule in rules:
        reason = rule(segment, focus)
        if reason is not None:
            return reason
    return None


def find_roots(
    segments: Iterable[Segment], focus: Focus, rules: Sequence[Rule] = RULES
) -> dict[int, str]:
    """Map the index of each root to its reason."""
    roots: dict[int, str] = {}
    for i, segment in enumerate(segments):
        reason = reason_to_stay(segment, focus, rules)
        if reason is not None:
            roots[i] = reason
    return roots


def last_messages(segments: Sequence[Segment], count: int = RECENT_MESSAGES) -> frozenset[str]:
    """Return the ids of the last `count` messages of segments in heap order."""
    found: list[str] = []
    for segment in reversed(segments):
        if len(found) >= count:
            break
        if segment.type == "message":
            found.append(segment.segment_id)
    return frozenset(found)
