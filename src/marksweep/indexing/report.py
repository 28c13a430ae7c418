"""What a run of the indexer did, as data and as text."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import msgspec

from marksweep.indexing.walk import Skipped

SKIPPED_SHOWN = 10
"""Skipped files named in the text; the rest are counted."""


class Progress(NamedTuple):
    """The progress of a run."""

    done: int
    """Files processed, including unchanged ones."""
    total: int
    path: str
    """The last file processed."""


class IndexReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a complete run did. Functions, classes, languages and lines count the files read."""

    path: str
    repository: str
    workspace_id: str
    run_id: str
    files: int
    """Files that were new or changed."""
    unchanged: int
    renamed: int
    """Files recognised under a new path; they count as files too."""
    functions: int
    classes: int
    languages: tuple[tuple[str, int], ...]
    """Files per language, most first."""
    lines: int
    seconds: float
    newly_stale: int
    """Files that this run found missing."""
    stale: int
    """Memories of this repository that are stale now."""
    ignored: int
    skipped: tuple[Skipped, ...] = ()
    left_out: tuple[Skipped, ...] = ()
    """Secrets, minified files, lock files, build output and vendored code; folders as a whole."""
    as_text: tuple[Skipped, ...] = ()
    """Files whose grammar failed and that were read as text."""

    def __str__(self) -> str:
        """Render it as text."""
        return render(self)


def render(report: IndexReport) -> str:
    """Write a report for people and models."""
    more = [f"{report.unchanged:,} unchanged"] if report.unchanged else []
    more += [f"{report.renamed:,} renamed"] if report.renamed else []
    languages = ", ".join(f"{name} ({count:,})" for name, count in report.languages)
    stale = f"{report.stale:,}" + (" (run prune_memory to clean up)" if report.stale else "")
    lines = [
        "Repository indexed successfully.",
        f"Path: {report.path}",
        f"Files indexed: {report.files:,}" + (f" ({', '.join(more)})" if more else ""),
        f"Functions: {report.functions:,}",
        f"Classes: {report.classes:,}",
        f"Languages: {languages or 'none'}",
        f"Total lines: {report.lines:,}",
        f"Indexing time: {report.seconds:.2f}s",
        f"Stale memories: {stale}",
    ]
    lines += _listed("Skipped", report.skipped)
    lines += _left_out(report.left_out)
    lines += _listed("Read as text", report.as_text)
    return "\n".join(lines)


def _listed(heading: str, skipped: tuple[Skipped, ...]) -> list[str]:
    if not skipped:
        return []
    shown = [f"  {_one_line(each.path)}: {each.reason}" for each in skipped[:SKIPPED_SHOWN]]
    rest = len(skipped) - len(shown)
    shown += [f"  and {rest:,} more"] if rest else []
    return [f"{heading}: {len(skipped):,}", *shown]


def _left_out(left_out: tuple[Skipped, ...]) -> list[str]:
    if not left_out:
        return []
    counts = Counter(each.reason for each in left_out)
    kinds = ", ".join(f"{reason} ({count:,})" for reason, count in sorted(counts.items()))
    return [f"Left out: {kinds}. The setting index.include brings a kind in."]


def _one_line(path: str) -> str:
    """Write a path so that it stays on its line whatever characters it has."""
    return path if path.isprintable() else repr(path)
