"""Open files one after the other and make of each what is to be stored."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

import msgspec

from marksweep.indexing.delta import Renames, fingerprint, trusted_ns
from marksweep.indexing.files import LeftOut, Unfit, Unreadable, changed_ns
from marksweep.indexing.readers import Reader
from marksweep.indexing.reading import Reading, Source
from marksweep.indexing.selection import Selection
from marksweep.indexing.walk import Found, Skipped
from marksweep.stores.graph.base import FileRow, Seen
from marksweep.stores.graph.nouns import CODE_INDEXER, Memory, Record, file_memory_id


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be indexed, and as what."""

    root: Path
    workspace_id: str
    repository: str
    selection: Selection
    run_id: str
    now: datetime
    under: str = ""
    """The folder of the root that is looked at, with a slash at its end; empty: all of it."""


class Tally(msgspec.Struct):
    """What a run has come to so far."""

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
    """What is to be stored about some files."""

    records: tuple[Record, ...]
    seen: tuple[Seen, ...]
    files: int
    last: str
    """Path of the last one."""


class Gatherer:
    """Opens files for one run. Blocks; one thread at a time."""

    def __init__(
        self, job: Job, reader: Reader, renames: Renames, adopt: Callable[[str, str], str]
    ) -> None:
        """Take the job; `adopt` names the memory of another root that a new file continues."""
        self.tally = Tally()
        self._job = job
        self._reader = reader
        self._renames = renames
        self._adopt = adopt
        self._stopped = False

    def stop(self) -> None:
        """Have `gather` return after the file it is at. For another thread to call."""
        self._stopped = True

    def gather(self, files: Iterable[tuple[Found, FileRow | None]]) -> Batch:
        """Read files, those that turn out to be unchanged only as far as their hash."""
        records: list[Record] = []
        seen: list[Seen] = []
        done, last = 0, ""
        for found, row in files:
            if self._stopped:
                break
            done, last = done + 1, found.path
            outcome = self._open(found, row)
            if isinstance(outcome, Record):
                records.append(outcome)
            elif outcome is not None:
                seen.append(outcome)
        return Batch(tuple(records), tuple(seen), done, last)

    def _open(self, found: Found, row: FileRow | None) -> Record | Seen | None:
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
            return Seen(row.memory_id, len(content), changed)
        moved_from = self._moved_from(found.path, content_hash) if row is None else ""
        reading = self._reader.read(Source(job.workspace_id, job.repository, found.path, content))
        self._count(found, reading, moved_from)
        memory = self._memory(found.path, reading, len(content), changed, content_hash)
        self.tally.seen.add(memory.memory_id)
        return Record(
            memory=memory,
            chunks=reading.chunks,
            entities=reading.entities,
            mentions=reading.mentions,
            relations=reading.relations,
            words=reading.words,
            moved_from=moved_from,
        )

    def _moved_from(self, path: str, content_hash: str) -> str:
        return self._adopt(path, content_hash) or self._renames.claim(content_hash)

    def _count(self, found: Found, reading: Reading, moved_from: str) -> None:
        tally = self.tally
        tally.files += 1
        tally.functions += reading.functions
        tally.classes += reading.classes
        tally.lines += reading.lines
        tally.languages[reading.language] += 1
        if moved_from:
            tally.renamed += 1
            tally.seen.add(moved_from)
        if reading.trouble:
            tally.as_text.append(Skipped(found.path, reading.trouble))

    def _memory(
        self, path: str, reading: Reading, size: int, changed: int, content_hash: str
    ) -> Memory:
        job = self._job
        return Memory(
            memory_id=file_memory_id(job.workspace_id, job.repository, path),
            workspace_id=job.workspace_id,
            source=CODE_INDEXER,
            created_at=job.now,
            repository=job.repository,
            file_path=str(job.root / path),
            relative_path=path,
            language=reading.language,
            lines=reading.lines,
            size=size,
            mtime_ns=changed,
            content_hash=content_hash,
            run=job.run_id,
            metadata={"functions": reading.functions, "classes": reading.classes},
            last_seen_at=job.now,
        )
