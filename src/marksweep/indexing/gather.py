"""Open files one after the other and turn each into what is stored."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

import msgspec

from marksweep.indexing.delta import Renames, fingerprint, trusted_ns
from marksweep.indexing.files import LeftOut, Unfit, Unreadable, changed_ns
from marksweep.indexing.readers import Reader, Reading, Source
from marksweep.indexing.selection import Selection
from marksweep.indexing.walk import Found, Skipped
from marksweep.stores.graph.base import Copy, MemoryRow, Seen
from marksweep.stores.graph.nouns import CODE_INDEXER, Memory, Record, file_memory_id


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What to index, and under which name."""

    root: Path
    workspace_id: str
    repository: str
    selection: Selection
    run_id: str
    now: datetime
    under: str = ""
    """The folder of the root to index, ending with a slash; empty: the whole root."""


class Tally(msgspec.Struct):
    """The results of a run so far."""

    files: int = 0
    renamed: int = 0
    functions: int = 0
    classes: int = 0
    lines: int = 0
    languages: Counter[str] = msgspec.field(default_factory=Counter)
    skipped: list[Skipped] = msgspec.field(default_factory=list)
    left_out: list[Skipped] = msgspec.field(default_factory=list)
    as_text: list[Skipped] = msgspec.field(default_factory=list)
    seen: set[str] = msgspec.field(default_factory=set)
    """Ids of memories that the run found, or that continue under a new path."""


class Batch(msgspec.Struct, frozen=True):
    """What to store about some files."""

    records: tuple[Record, ...]
    copies: tuple[Copy, ...]
    """Files that another root also has."""
    seen: tuple[Seen, ...]
    files: int
    last: str
    """Path of the last one."""


class Gatherer:
    """Opens files for one run. Blocks; one thread at a time."""

    def __init__(
        self,
        job: Job,
        reader: Reader,
        renames: Renames,
        adopt: Callable[[str, str], str],
        twin: Callable[[str, str], Memory | None],
    ) -> None:
        """Take the job.

        `adopt` names the memory of another root that a new file continues; `twin` finds that of
        another root's file with the same path and content.
        """
        self.tally = Tally()
        self._twin = twin
        self._job = job
        self._reader = reader
        self._renames = renames
        self._adopt = adopt
        self._stopped = False

    def stop(self) -> None:
        """Make `gather` return after the current file. Called from another thread."""
        self._stopped = True

    def gather(self, files: Iterable[tuple[Found, MemoryRow | None]]) -> Batch:
        """Read files; only hash those that turn out to be unchanged."""
        records: list[Record] = []
        copies: list[Copy] = []
        seen: list[Seen] = []
        done, last = 0, ""
        for found, row in files:
            if self._stopped:
                break
            done, last = done + 1, found.path
            outcome = self._open(found, row)
            if isinstance(outcome, Record):
                records.append(outcome)
            elif isinstance(outcome, Copy):
                copies.append(outcome)
            elif outcome is not None:
                seen.append(outcome)
        return Batch(tuple(records), tuple(copies), tuple(seen), done, last)

    def read_again(self, path: str) -> Record | None:
        """Read a file whose twin has been deleted meanwhile."""
        self._twin = lambda *_: None
        outcome = self._open(Found(path, 0, 0), None)
        return outcome if isinstance(outcome, Record) else None

    def _open(self, found: Found, row: MemoryRow | None) -> Record | Copy | Seen | None:
        job, read_ns = self._job, time.time_ns()
        try:
            content, state = job.selection.read(job.root, found.path)
        except LeftOut as left_out:
            self.tally.left_out.append(Skipped(found.path, left_out.reason))
            return None
        except Unfit as unfit:
            unknown = isinstance(unfit, Unreadable)
            self.tally.skipped.append(Skipped(found.path, unfit.reason, unknown))
            return None
        changed = trusted_ns(changed_ns(state), read_ns)
        content_hash = fingerprint(content)
        if row is not None and row.content_hash == content_hash:
            self.tally.seen.add(row.memory_id)
            return Seen(row.memory_id, len(content), changed, str(job.root / found.path))
        memory = self._memory(found.path, len(content), changed, content_hash)
        moved_from = self._moved_from(memory, row)
        is_new = row is None and not moved_from
        if is_new and (twin := self._twin(found.path, content_hash)) is not None:
            return self._copy(twin, memory)
        reading = self._reader.read(Source(memory, content))
        self.tally.renamed += row is None and not is_new
        self._count(reading, moved_from)
        return msgspec.structs.replace(reading.record, moved_from=moved_from)

    def _moved_from(self, memory: Memory, row: MemoryRow | None) -> str:
        """Return the memory that a file's continues: another path's, or one of another workspace.

        The second was imported from that workspace, with the id that it had there.
        """
        if row is not None:
            return row.memory_id if row.memory_id != memory.memory_id else ""
        path, content_hash = memory.relative_path, memory.content_hash
        return self._adopt(path, content_hash) or self._renames.claim(content_hash)

    def _copy(self, twin: Memory, memory: Memory) -> Copy:
        """Return the memory of a file that has the parsed content of a twin."""
        parsed = {name: getattr(twin, name) for name in ("language", "lines", "metadata")}
        copied = msgspec.structs.replace(memory, **parsed)
        self._tally(copied)
        return Copy(twin.memory_id, copied)

    def _count(self, reading: Reading, moved_from: str) -> None:
        self._tally(reading.record.memory)
        if moved_from:
            self.tally.seen.add(moved_from)
        if reading.trouble:
            path = reading.record.memory.relative_path
            self.tally.as_text.append(Skipped(path, reading.trouble))

    def _tally(self, memory: Memory) -> None:
        tally = self.tally
        tally.files += 1
        tally.functions += int(memory.metadata["functions"] or 0)
        tally.classes += int(memory.metadata["classes"] or 0)
        tally.lines += memory.lines
        tally.languages[memory.language] += 1
        tally.seen.add(memory.memory_id)

    def _memory(self, path: str, size: int, changed: int, content_hash: str) -> Memory:
        """Return the memory of a file, without what parsing finds out."""
        job = self._job
        return Memory(
            memory_id=file_memory_id(job.workspace_id, job.repository, path),
            workspace_id=job.workspace_id,
            source=CODE_INDEXER,
            created_at=job.now,
            repository=job.repository,
            file_path=str(job.root / path),
            relative_path=path,
            size=size,
            mtime_ns=changed,
            content_hash=content_hash,
            run=job.run_id,
            last_seen_at=job.now,
        )
