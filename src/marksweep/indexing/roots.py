"""Roots inside roots, and roots that moved: a file on disk is one memory.

A folder inside a known root is indexed as a part of that root. A root around others takes over
their files. A root indexed for the first time takes over files with the same path and content from
a root that no longer exists. What is taken over keeps its pin, its tags and its times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from marksweep.indexing.gather import Job
from marksweep.indexing.walk import Found, Skipped, Walk
from marksweep.stores.graph.base import GraphStore, MemoryRow, Nodes
from marksweep.stores.graph.nouns import Memory
from marksweep.stores.leases import this_host


def enclosed(store: GraphStore, job: Job) -> Job:
    """Return the job as a part of the root around it, if that root has files in the folder."""
    if job.repository != str(job.root):
        return job
    for outer in job.root.parents:
        under = f"{job.root.relative_to(outer).as_posix()}/"
        rows = store.files(job.workspace_id, str(outer))
        if any(row.relative_path.startswith(under) and not row.deleted for row in rows):
            return msgspec.structs.replace(job, root=outer, repository=str(outer), under=under)
    return job


def below(walked: Walk, job: Job) -> Walk:
    """Rename what was found in a folder to its path from the root."""
    if not job.under:
        return walked
    return msgspec.structs.replace(
        walked,
        root=job.root,
        found=tuple(Found(job.under + f.path, f.size, f.changed_ns) for f in walked.found),
        skipped=_moved(walked.skipped, lambda path: job.under + path),
        left_out=_moved(walked.left_out, lambda path: job.under + path),
    )


def from_folder(skipped: Iterable[Skipped], job: Job) -> tuple[Skipped, ...]:
    """Rename what was skipped to its path from the requested folder, sorted."""
    named = _moved(skipped, lambda path: path.removeprefix(job.under))
    return tuple(sorted(named, key=lambda each: each.path))


def _moved(skipped: Iterable[Skipped], rename: Callable[[str], str]) -> tuple[Skipped, ...]:
    return tuple(Skipped(rename(each.path), each.reason, each.unknown) for each in skipped)


class Adoptions:
    """Memories of other roots that files of this one continue."""

    def __init__(self, store: GraphStore, job: Job, walked: Walk, *, is_new: bool) -> None:
        self._inner: dict[str, MemoryRow] = {}
        self._moved: dict[str, list[MemoryRow]] = {}
        self._taken: set[str] = set()
        there = {found.path for found in walked.found}
        for other, is_ours in _other_roots(store, job):
            is_inner = other.is_relative_to(job.root)
            if not is_inner and not (is_new and is_ours and not other.exists()):
                continue
            rows = [row for row in store.files(job.workspace_id, str(other)) if not row.deleted]
            if is_inner:
                prefix = f"{other.relative_to(job.root).as_posix()}/"
                inner = {prefix + row.relative_path: row for row in rows}
                if there.intersection(inner):
                    self._inner |= inner
            else:
                for row in rows:
                    self._moved.setdefault(row.relative_path, []).append(row)

    def claim(self, path: str, content_hash: str) -> str:
        """Return the memory that a new file continues; '' if there is none."""
        if (inner := self._inner.get(path)) is not None:
            self._taken.add(inner.memory_id)
            return inner.memory_id
        for row in self._moved.get(path, ()):
            if row.content_hash == content_hash and row.memory_id not in self._taken:
                self._taken.add(row.memory_id)
                return row.memory_id
        return ""

    def left(self) -> list[str]:
        """Return the memories of inner roots that no file of this root continues."""
        return [r.memory_id for r in self._inner.values() if r.memory_id not in self._taken]


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
