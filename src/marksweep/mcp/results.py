"""Results of the tools on the working set: data with a schema, and text for people."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from marksweep.core.budget import Budget
from marksweep.mcp.tool import Result
from marksweep.model import Segment, Stashed

LISTED = 8
"""Lines of a list that the text shows; the data has them all."""

SHOWN_CHARS = 300
"""Characters of a live segment that a list shows."""


class Part(BaseModel):
    """A part of a result."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)


class Usage(Part):
    """How full the working set is, in tokens."""

    current: int
    soft_limit: int = Field(description="Above this, every change is followed by a small sweep.")
    hard_limit: int = Field(description="Above this, a sweep considers everything.")
    limit: int
    target: int = Field(description="Where a collection stops.")

    @classmethod
    def of(cls, tokens: int, budget: Budget) -> Usage:
        """Compare tokens with a budget."""
        return cls(
            current=tokens,
            soft_limit=budget.soft_limit,
            hard_limit=budget.hard_limit,
            limit=budget.limit,
            target=budget.target,
        )

    def words(self) -> str:
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


class Protected(Result):
    """Segments whose pin was set or removed."""

    segment_ids: list[str]
    pinned: bool

    def words(self) -> str:
        """Render it in a line."""
        state = "Pinned: never collected" if self.pinned else "No longer pinned"
        return f"{state}: {', '.join(self.segment_ids)}"


class Configured(Result):
    """The settings in force."""

    settings: dict[str, dict[str, object]]
    usage: Usage
    changed: list[str]

    def words(self) -> str:
        """Render what changed, and the limits."""
        changed = f"Changed until the server ends: {', '.join(self.changed)}. " * bool(self.changed)
        return f"{changed}Working set: {self.usage.words()}."


class Added(Result):
    """Segments that were added."""

    segment_ids: list[str]
    tokens: int
    usage: Usage
    evicted: list[str] = Field(description="Segments that were swept to make room.")

    def words(self) -> str:
        """Render it in a line, and what made room."""
        room = f" Swept to make room, for context_recall: {_named(self.evicted)}."
        return (
            f"Added {len(self.segment_ids)} ({self.tokens:,} tokens): {_named(self.segment_ids)}. "
            f"Working set: {self.usage.words()}.{room if self.evicted else ''}"
        )


class Focused(Result):
    """What the agent works on."""

    task: str
    active_file: str
    open_files: list[str]
    breakpoints: list[str]

    def words(self) -> str:
        """Render it in a line."""
        named = {
            "task": self.task,
            "file": self.active_file,
            "open": ", ".join(self.open_files),
            "breakpoints": ", ".join(self.breakpoints),
        }
        at = "; ".join(f"{what} {which}" for what, which in named.items() if which)
        return f"Focus: {at}. What belongs to it stays." if at else "Focus: nothing in particular."


class Live(Part):
    """A segment of the working set."""

    segment_id: str
    type: str
    tokens: int
    text: str = Field(description="Its beginning, if it is long.")
    file_path: str
    task_id: str
    tags: list[str]
    created_at: datetime
    pinned: bool

    @classmethod
    def of(cls, segment: Segment) -> Live:
        """Render a live segment."""
        text = segment.text
        return cls(
            segment_id=segment.segment_id,
            type=segment.type,
            tokens=segment.tokens,
            text=text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…",
            file_path=segment.file_path or "",
            task_id=segment.task_id or "",
            tags=list(segment.tags),
            created_at=segment.created_at,
            pinned=segment.pinned,
        )


class Listed(Result):
    """Segments of the working set."""

    segments: list[Live]
    usage: Usage

    def words(self) -> str:
        """Count them, and say how full it is."""
        if not self.segments:
            return "Nothing in the working set matches. context_recall searches the stash."
        return f"{len(self.segments)} segments. Working set: {self.usage.words()}."


class Found(Part):
    """A segment from the stash."""

    segment_id: str
    type: str
    tokens: int
    text: str
    swept_because: str

    @classmethod
    def of(cls, entry: Stashed) -> Found:
        """Render what the stash holds."""
        segment = entry.segment
        return cls(
            segment_id=segment.segment_id,
            type=segment.type,
            tokens=segment.tokens,
            text=segment.text,
            swept_because=entry.reason,
        )


class Recalled(Result):
    """What was found in the stash, and what was restored to the working set."""

    found: list[Found]
    restored: list[str]
    evicted: list[str] = Field(description="Segments that were swept to make room.")
    usage: Usage

    def words(self) -> str:
        """Write how many there are and where."""
        if not self.found:
            return "Nothing in the stash matches. Try other words."
        back = f"{len(self.restored)} back in the working set." if self.restored else "Only shown."
        room = f" Swept to make room: {_named(self.evicted)}." * bool(self.evicted)
        return f"{len(self.found)} found. {back}{room}"


def _named(names: list[str]) -> str:
    """Write the first names in a line."""
    return ", ".join(names[:LISTED]) + ("" if len(names) <= LISTED else " …")
