"""Results of the memory tools."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec
from pydantic import Field, PrivateAttr

from marksweep.mcp.results import Part
from marksweep.mcp.tool import Result

if TYPE_CHECKING:
    from marksweep.graph.pruning import PruneResult
    from marksweep.heaps.graph import Limits
    from marksweep.indexing.report import IndexReport
    from marksweep.stores.graph.base import Counts, GraphHit


class Indexed(Result):
    """What a run of the indexer did."""

    path: str
    workspace_id: str
    files: int = Field(description="New or changed.")
    unchanged: int
    renamed: int
    functions: int
    classes: int
    languages: dict[str, int]
    lines: int
    seconds: float
    newly_stale: int
    stale: int = Field(description="Memories of this repository that are stale now.")
    skipped: list[str]
    left_out: dict[str, int] = Field(description="Secrets, build output and the like, by reason.")
    _text: str = PrivateAttr(default="")

    @classmethod
    def of(cls, report: IndexReport) -> Indexed:
        """Render what a report says."""
        made = cls(
            path=report.path,
            workspace_id=report.workspace_id,
            files=report.files,
            unchanged=report.unchanged,
            renamed=report.renamed,
            functions=report.functions,
            classes=report.classes,
            languages=dict(report.languages),
            lines=report.lines,
            seconds=round(report.seconds, 3),
            newly_stale=report.newly_stale,
            stale=report.stale,
            skipped=[f"{each.path}: {each.reason}" for each in report.skipped],
            left_out=dict(Counter(each.reason for each in report.left_out)),
        )
        made._text = str(report)
        return made

    def words(self) -> str:
        """Render it as the indexer does."""
        return self._text


class MemoryHit(Part):
    """A piece of memory that matches."""

    memory_id: str
    source: str
    file: str
    lines: list[int] = Field(description="First and last; empty for notes.")
    symbol: str
    text: str
    score: float
    mentions: list[str]
    stale: bool

    @classmethod
    def of(cls, hit: GraphHit) -> MemoryHit:
        """Render what a hit holds."""
        chunk = hit.chunk
        return cls(
            memory_id=hit.memory.memory_id,
            source=hit.memory.source,
            file=hit.memory.relative_path,
            lines=[chunk.start_line, chunk.end_line] if chunk.end_line else [],
            symbol=chunk.symbol,
            text=chunk.text,
            score=round(hit.score, 4),
            mentions=[entity.name for entity in hit.entities],
            stale=hit.memory.stale,
        )


class SearchResult(Result):
    """What a search found, best first."""

    hits: list[MemoryHit]

    def words(self) -> str:
        """Count them."""
        if not self.hits:
            return "Nothing found. Try other words, or index the codebase first."
        return f"{len(self.hits)} found, best first."


class NodeIds(Part):
    """Nodes by kind."""

    memories: list[str]
    chunks: list[str]
    entities: list[str]


class PreviewItem(Part):
    """A memory that a prune would delete, and why."""

    memory_id: str
    file: str
    lines: int
    chunks: int
    reason: str


class MemoryPruned(Result):
    """What a prune would delete, or has deleted."""

    workspace_id: str
    strategy: str
    plan_id: str
    planned: NodeIds = Field(description="What a deletion would take (dry run).")
    deleted: NodeIds
    left_alone: NodeIds = Field(description="Changed since the preview, so not deleted.")
    not_taken: list[str] = Field(description="How many nodes are kept, and why.")
    preview: list[PreviewItem] = Field(description="The first of what a deletion would take.")
    _text: str = PrivateAttr(default="")

    @classmethod
    def of(
        cls, response: PruneResult, workspace: str, strategy: str, limits: Limits
    ) -> MemoryPruned:
        """Render what a response says."""
        from marksweep.graph.pruning import blockers_text

        made = cls(
            workspace_id=workspace,
            strategy=strategy,
            plan_id=response.plan_id,
            planned=NodeIds.model_validate(response.planned),
            deleted=NodeIds.model_validate(response.deleted),
            left_alone=NodeIds.model_validate(response.left_alone),
            not_taken=blockers_text(response.plan),
            preview=[
                PreviewItem(
                    memory_id=row.memory_id,
                    file=row.relative_path,
                    lines=row.lines,
                    chunks=row.chunk_count,
                    reason=row.reason,
                )
                for row in response.rows
            ],
        )
        made._text = prune_text(response, limits)
        return made

    def words(self) -> str:
        """Render it as the memory does."""
        return self._text


def prune_text(response: PruneResult, limits: Limits) -> str:
    """Write what would be deleted and how to do so, or what was deleted."""
    from marksweep.graph.pruning import blockers_text, deletion_text

    plan = response.plan
    if response.restorable_until is not None:
        return deletion_text(response)
    lines = ["Dry run complete. Preview of items to delete:", ""]
    if not plan.steps:
        lines.append(f"Nothing: strategy {plan.strategy} finds nothing in {plan.workspace!r}.")
        return "\n".join([*lines, *blockers_text(plan)])
    nodes = response.planned
    lines += [
        f"Workspace: {plan.workspace}",
        f"Strategy: {plan.strategy}",
        f"Memories: {len(nodes.memories)}",
        f"Chunks: {len(nodes.chunks)}",
        f"Entities: {len(nodes.entities)}",
        "",
    ]
    lines += [
        f"- {row.relative_path or row.memory_id} ({row.lines} lines, {row.chunk_count} chunks, "
        f"created {row.created_at:%Y-%m-%d %H:%M}): {row.reason}"
        for row in response.rows
    ]
    if more := len(nodes.memories) - len(response.rows):
        lines.append(f"- and {more} more")
    limit = f", limit={plan.freed}" if plan.freed > limits.cap(plan.size_before) else ""
    lines += [
        *blockers_text(plan),
        "",
        f"Plan: {plan.plan_id}",
        f"To delete exactly this: prune_memory(workspace_id={plan.workspace!r}, "
        f"strategy={str(plan.strategy)!r}, dry_run=false, confirm=true{limit}).",
        f"Deleted items can be restored for {limits.grace.days} days.",
    ]
    return "\n".join(lines)


class MemoryStats(Result):
    """What a workspace's memory holds."""

    workspace_id: str
    memories: int
    chunks: int
    entities: int
    mentions: int
    relations: int
    stale: int
    pinned: int
    deleted: int = Field(description="Deleted, and still in their grace period.")

    @classmethod
    def of(cls, workspace: str, counts: Counts) -> MemoryStats:
        """Render what was counted."""
        return cls(workspace_id=workspace, **msgspec.structs.asdict(counts))

    def words(self) -> str:
        """Render it in a line, and what to do about what is stale."""
        rows = (f"{value:,} {name}" for name, value in self if isinstance(value, int))
        hint = " Clean up: prune_memory." if self.stale else ""
        return f"Workspace {self.workspace_id!r}: {', '.join(rows)}.{hint}"
