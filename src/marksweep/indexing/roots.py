"""Roots inside roots, and roots that moved: a file on disk is one memory.

A folder inside a known root is indexed as a part of that root. A root around others takes over
their files, and so does a folder that the root around it ignores from now on. A root indexed for
the first time takes over files with the same path and content from a root that no longer exists.
What is taken over keeps its pin, its tags and its times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from marksweep.indexing.delta import Below, content_of
from marksweep.indexing.gather import Job
from marksweep.indexing.walk import Skipped, Walk, ignores
from marksweep.paths import is_gone
from marksweep.stores.graph.base import GraphStore, MemoryRow, Nodes
from marksweep.stores.graph.nouns import Memory
from marksweep.stores.leases import this_host


def enclosed(store: GraphStore, job: Job) -> Job:
    """Return the job as a part of the root around it, if that root has files in the folder.

    A folder that the root around it ignores was named on purpose: it is a root.
    """
    if job.repository != str(job.root):
        return job
    for outer in job.root.parents:
        under = f"{job.root.relative_to(outer).as_posix()}/"
        rows = store.files(job.workspace_id, str(outer))
        has_files = any(row.relative_path.startswith(under) and not row.deleted for row in rows)
        if has_files and not ignores(outer, under):
            return msgspec.structs.replace(job, root=outer, repository=str(outer), under=under)
    return job


def from_folder(skipped: Iterable[Skipped], job: Job) -> tuple[Skipped, ...]:
    """Rename what was skipped to its path from the requested folder, sorted."""
    named = (
        Skipped(each.path.removeprefix(job.under) or ".", each.reason, each.unknown)
        for each in skipped
    )
    return tuple(sorted(named, key=lambda each: each.path))


class Adoptions:
    """Memories of other roots that files of this one continue."""

    def __init__(self, store: GraphStore, job: Job, walked: Walk, *, is_new: bool) -> None:
        self._selection = job.selection
        self._same: dict[str, MemoryRow] = {}
        """Memories of the files on disk that this root has, by their paths here."""
        self._moved: dict[str, list[MemoryRow]] = {}
        self._taken: set[str] = set()
        there = {found.path for found in walked.found}
        is_unnamed = job.repository == str(job.root)
        for other, is_ours in _other_roots(store, job):
            is_inner = job.root in other.parents
            is_outer = is_unnamed and other in job.root.parents
            is_lost = is_new and is_ours and is_gone(other)
            if not (is_inner or is_outer or is_lost):
                continue
            rows = [row for row in store.files(job.workspace_id, str(other)) if not row.deleted]
            if is_inner or is_outer:
                same = {
                    path.relative_to(job.root).as_posix(): row
                    for row in rows
                    if (path := other / row.relative_path).is_relative_to(job.root)
                }
                if there.intersection(same):
                    self._same |= same
            else:
                for row in rows:
                    self._moved.setdefault(row.relative_path, []).append(row)

    def claim(self, path: str, content_hash: str) -> str:
        """Return the memory that a new file continues; '' if there is none."""
        if (same := self._same.get(path)) is not None:
            self._taken.add(same.memory_id)
            return same.memory_id
        for row in self._moved.get(path, ()):
            is_equal = content_of(row.content_hash) == content_of(content_hash)
            if is_equal and row.memory_id not in self._taken:
                self._taken.add(row.memory_id)
                return row.memory_id
        return ""

    def left(self, skipped: Iterable[Skipped]) -> list[str]:
        """Return the memories of other roots that the run covers and no file of it continues.

        What was skipped because it could not be read stays as it was.
        """
        hidden = Below(skip.path for skip in skipped if skip.unknown)
        return [
            row.memory_id
            for path, row in self._same.items()
            if row.memory_id not in self._taken
            and self._selection.takes(path)
            and path not in hidden
        ]


class Twins:
    """Files of other roots with the path and content of a new file, as in worktrees.

    Their part of the graph is known: it is copied, not parsed again.
    """

    def __init__(self, store: GraphStore, job: Job, *, has_new: bool) -> None:
        self._store = store
        self._workspace_id = job.workspace_id
        self._ids: dict[tuple[str, str], str] = {}
        names = {run.repository for run in store.runs(job.workspace_id)} if has_new else set()
        for name in sorted(names - {job.repository}):
            for row in store.files(job.workspace_id, name):
                if not row.deleted:
                    self._ids[row.relative_path, row.content_hash] = row.memory_id

    def find(self, path: str, content_hash: str) -> Memory | None:
        """Return the memory of such a file. One with tags does not match: tags are searched."""
        known = self._ids.get((path, content_hash))
        found = self._store.find(self._workspace_id, Nodes((known,))) if known else ()
        return next((each for each in found if isinstance(each, Memory) and not each.tags), None)


def _other_roots(store: GraphStore, job: Job) -> Iterator[tuple[Path, bool]]:
    """Return the known roots by path, and whether this machine indexed them."""
    runs = store.runs(job.workspace_id)
    ours = {run.repository for run in runs if run.host == this_host()}
    for name in sorted({run.repository for run in runs}):
        if name != job.repository and Path(name).is_absolute():
            yield Path(name), name in ours
