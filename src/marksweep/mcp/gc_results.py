"""Results of the tools that collect."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from marksweep.mcp.results import LISTED, Part, Usage
from marksweep.mcp.tool import Result
from marksweep.model import Entry, Plan, Report


class Candidate(Part):
    """A segment that could be swept, and why."""

    segment_id: str
    type: str
    tokens: int
    action: str = Field(description="stash, delete, compress, mask or trim")
    reason: str
    score: float | None = Field(
        default=None, description="Prune score from 0 to 1; high goes first."
    )


class Blocker(Part):
    """What keeps a plan from its target."""

    reason: str
    segments: int
    tokens: int


class DeadWeight(Part):
    """One reason why messages of a session are no longer needed."""

    reason: str
    messages: int
    tokens: int


class Transcript(Part):
    """A recorded session, and its dead weight."""

    path: str
    dialect: str
    messages: int
    skipped_lines: int
    dead_tokens: int
    dead_weight: list[DeadWeight] = Field(description="Heaviest first.")

    def words(self, tokens: int) -> str:
        """Render the share."""
        share = self.dead_tokens / tokens if tokens else 0.0
        return (
            f"{self.path} ({self.dialect}, {self.messages:,} messages, {tokens:,} tokens): "
            f"{self.dead_tokens:,} tokens ({share:.0%}) are dead weight."
        )


class Analysis(Result):
    """What would be swept, and why."""

    usage: Usage
    plan_id: str = Field(description="Pass it to context_gc_prune to do exactly this.")
    candidates: list[Candidate]
    candidates_total: int
    tokens_before: int
    tokens_after: int
    blockers: list[Blocker] = Field(description="What blocks the target, if it is missed.")
    applied: bool = Field(description="Whether the plan was carried out (dry_run false).")
    compressible: list[Candidate] = Field(
        default=[], description="Cold but important: in use, long, untouched. context_gc_compress."
    )
    transcript: Transcript | None = Field(default=None, description="If a session was analyzed.")

    def words(self) -> str:
        """Render usage and plan."""
        if self.transcript:
            return self.transcript.words(self.tokens_before)
        used = f"Working set: {self.usage.words()}."
        worth = f" {len(self.compressible)} worth shortening." * bool(self.compressible)
        if not self.candidates_total:
            return f"{used} Nothing to prune.{worth}"
        did = "Done" if self.applied else "Plan"
        return (
            f"{did} {self.plan_id}: {self.candidates_total} segments, "
            f"{self.tokens_before:,} → {self.tokens_after:,} tokens. {used}{worth}"
        )


class Kept(Part):
    """A segment that was requested and must stay."""

    segment_id: str
    reason: str


class Pruned(Result):
    """What was swept, and how much that freed."""

    plan_id: str
    deleted: list[str]
    stashed: list[str]
    compressed: list[str] = Field(description="Replaced by a shorter text.")
    kept: list[Kept] = Field(description="Requested, but must stay.")
    tokens_before: int
    tokens_after: int
    tokens_freed: int

    @classmethod
    def of(cls, plan: Plan, report: Report, kept: Mapping[str, str]) -> Pruned:
        """Render what a report says of its plan, and why other segments were kept."""
        went: dict[str, list[str]] = {}
        for step in plan.steps:
            went.setdefault(step.action.value, []).extend(step.segments)
        deleted, stashed = went.pop("delete", []), went.pop("stash", [])
        return cls(
            plan_id=report.plan_id,
            deleted=deleted,
            stashed=stashed,
            compressed=[name for names in went.values() for name in names],
            kept=[Kept(segment_id=name, reason=reason) for name, reason in kept.items()],
            tokens_before=report.tokens_before,
            tokens_after=report.tokens_after,
            tokens_freed=report.tokens_freed,
        )

    def words(self) -> str:
        """Render counts, tokens, and how to undo it."""
        went = f"{len(self.stashed)} stashed, {len(self.deleted)} deleted"
        if self.compressed:
            went += f", {len(self.compressed)} shortened"
        named = [f"{each.segment_id} ({each.reason})" for each in self.kept[:LISTED]]
        kept = f" Must stay: {', '.join(named)}." if named else ""
        return (
            f"{went}; {self.tokens_before:,} → {self.tokens_after:,} tokens, "
            f"{self.tokens_freed:,} freed.{kept} Undo: context_gc_undo {self.plan_id}"
        )


class Undone(Result):
    """A sweep that was reversed."""

    plan_id: str
    restored: list[str]
    usage: Usage

    def words(self) -> str:
        """Render it in a line."""
        return f"Undid {self.plan_id}: {len(self.restored)} segments are back."


class Event(Part):
    """One line of the journal."""

    seq: int
    at: str
    event: str
    plan_id: str
    actor: str
    segments: int
    tokens_freed: int | None

    @classmethod
    def of(cls, entry: Entry) -> Event:
        """Render what an entry says."""
        report, plan = entry.report, entry.plan
        count = len(report.swept) if report else len(plan.steps) if plan else len(entry.segments)
        return cls(
            seq=entry.seq,
            at=entry.at.isoformat(timespec="seconds"),
            event=entry.event.value,
            plan_id=entry.plan_id,
            actor=entry.actor,
            segments=count,
            tokens_freed=report.tokens_freed if report else None,
        )


class History(Result):
    """What was planned and done, newest first."""

    events: list[Event]

    def words(self) -> str:
        """Count them."""
        return f"{len(self.events)} events." if self.events else "The journal is empty."


class Compressed(Result):
    """A segment that was replaced by a shorter text."""

    segment_id: str
    replacement_id: str
    plan_id: str
    text: str
    made_by: str = Field(description="agent, extractive, or the model that was asked")
    note: str
    tokens_before: int
    tokens_after: int

    def words(self) -> str:
        """Render what it saved, and how to undo it."""
        note = f" {self.note}" if self.note else ""
        return (
            f"{self.segment_id}: {self.tokens_before:,} → {self.tokens_after:,} tokens, by "
            f"{self.made_by}.{note} Undo: context_gc_undo {self.plan_id}"
        )
