"""Bring the graph of a repository up to date.

    lease → walk → compare → begin → stamp what is unchanged → read and put the rest → finish

Only the last step makes anything stale, and only in a run that came that far: a run that was
interrupted has added what it read, and the next one finds it unchanged and does the rest.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from contextlib import aclosing, suppress
from datetime import datetime, timedelta
from pathlib import Path

from marksweep.clock import utc_now
from marksweep.indexing.delta import (
    MAX_SHRINK,
    Delta,
    Hidden,
    Renames,
    compare,
    fingerprint,
    is_live,
    refuse,
    shrank_too_much,
)
from marksweep.indexing.files import MAX_FILE_BYTES, Unfit, read_source
from marksweep.indexing.gather import Batch, Gatherer, Job, Tally
from marksweep.indexing.readers import Reader, Worker
from marksweep.indexing.report import IndexReport, Progress
from marksweep.indexing.selection import Selection
from marksweep.indexing.walk import Found, Walk, resolved, walk
from marksweep.stores.graph.base import FileRow, GraphStore, Run, Seen
from marksweep.stores.graph.leases import Lease, hold
from marksweep.stores.graph.nouns import DEFAULT_WORKSPACE

PURPOSE = "indexing"
"""The lease that keeps two indexers of one workspace apart."""

BATCH_BYTES = 1_000_000
"""Source that is written in one transaction. Larger writes faster, and readers wait longer."""

BATCH_FILES = 200
"""Files in one transaction, however small they are."""

STAMP_BATCH = 5_000
"""Unchanged files stamped in one transaction."""

WAIT_SECONDS = 10.0
"""How long an indexer waits for another one of the same workspace."""


def quietly(progress: Progress) -> None:
    """Take no notice of progress."""


async def index_codebase(
    path: str | Path,
    *,
    store: GraphStore,
    workspace_id: str = DEFAULT_WORKSPACE,
    repository: str = "",
    languages: Collection[str] = (),
    include_tests: bool = True,
    max_bytes: int = MAX_FILE_BYTES,
    max_shrink: float = MAX_SHRINK,
    wait_seconds: float = WAIT_SECONDS,
    progress: Callable[[Progress], None] = quietly,
    reader: Reader | None = None,
    now: datetime | None = None,
) -> IndexReport:
    """Index a folder into a workspace, reading only what has changed.

    `repository` names it in the graph; by default its resolved path does. Files outside the
    filters are left as they are. Refuses a root that is missing, and one that has shrunk by more
    than `max_shrink`, with nothing made stale.
    """
    started = now or utc_now()
    root = resolved(Path(path))
    job = Job(
        root=root,
        workspace_id=workspace_id,
        repository=repository or str(root),
        selection=Selection.of(languages, include_tests=include_tests, max_bytes=max_bytes),
        run_id=f"run-{started:%Y%m%dT%H%M%S}-{secrets.token_hex(6)}",
        now=started,
    )
    reading = reader or Worker()
    try:
        async with hold(store, workspace_id, PURPOSE, wait_seconds=wait_seconds) as lease:
            indexing = _Indexing(
                store, lease, job, reader=reading, max_shrink=max_shrink, progress=progress
            )
            return await indexing.run()
    finally:
        if reader is None:
            reading.close()


class _Indexing:
    """One run, under its lease."""

    def __init__(
        self,
        store: GraphStore,
        lease: Lease,
        job: Job,
        *,
        reader: Reader,
        max_shrink: float,
        progress: Callable[[Progress], None],
    ) -> None:
        self.store = store
        self.lease = lease
        self.job = job
        self.reader = reader
        self.max_shrink = max_shrink
        self.progress = progress
        self.clock = time.perf_counter()

    async def run(self) -> IndexReport:
        """Do all of it, in order."""
        job = self.job
        walked = await asyncio.to_thread(walk, job.root, job.selection)
        rows = await self.store.files(job.workspace_id, job.repository)
        delta = compare(rows, walked, job.selection)
        await asyncio.to_thread(_check_shrink, job, walked, delta, self.max_shrink)
        await self.store.begin_run(
            job.workspace_id, Run(job.run_id, job.repository, job.selection.words, job.now)
        )
        tally = await self._fill(walked, delta)
        finished = await self._finish(walked, delta, tally)
        stale = finished.stale + sum(
            row.stale and not row.deleted and row.memory_id not in tally.seen for row in rows
        )
        return self._report(walked, tally, newly_stale=finished.stale, stale=stale)

    async def _fill(self, walked: Walk, delta: Delta) -> Tally:
        """Bring the graph what is there."""
        gatherer = Gatherer(self.job, self.reader, Renames(delta.gone))
        tally = gatherer.tally
        await self._stamp(delta.unchanged)
        tally.seen.update(each.memory_id for each in delta.unchanged)
        done = len(delta.unchanged)
        async with aclosing(_ahead(gatherer, delta.read)) as batches:
            async for batch in batches:
                await self.lease.check()
                await self.store.put(self.job.workspace_id, batch.records)
                await self._stamp(batch.seen)
                done += batch.files
                self.progress(Progress(done, len(walked.found), batch.last))
        return tally

    async def _stamp(self, seen: Sequence[Seen]) -> None:
        job = self.job
        for start in range(0, len(seen), STAMP_BATCH):
            some = seen[start : start + STAMP_BATCH]
            await self.store.stamp(job.workspace_id, job.run_id, some, job.now)

    async def _finish(self, walked: Walk, delta: Delta, tally: Tally) -> Run:
        """Close the run: what it covers and did not see becomes stale, unless that is too much."""
        job = self.job
        hidden = Hidden(tally.skipped)
        covered = [row for row in delta.covered if row.relative_path not in hidden]
        live = sum(map(is_live, covered))
        gone = sum(is_live(row) and row.memory_id not in tally.seen for row in covered)
        if shrank_too_much(live, gone, self.max_shrink, walked):
            refuse(job.root, live, gone, self.max_shrink)
        await self.lease.check()
        at = job.now + timedelta(seconds=time.perf_counter() - self.clock)
        ids = [row.memory_id for row in covered]
        return await self.store.finish_run(job.workspace_id, job.run_id, ids, at)

    def _report(self, walked: Walk, tally: Tally, *, newly_stale: int, stale: int) -> IndexReport:
        job = self.job
        return IndexReport(
            path=str(job.root),
            repository=job.repository,
            workspace_id=job.workspace_id,
            run_id=job.run_id,
            files=tally.files,
            unchanged=len(walked.found) - tally.files - len(tally.skipped),
            renamed=tally.renamed,
            functions=tally.functions,
            classes=tally.classes,
            languages=tuple(sorted(tally.languages.items(), key=lambda item: (-item[1], item[0]))),
            lines=tally.lines,
            seconds=time.perf_counter() - self.clock,
            newly_stale=newly_stale,
            stale=stale,
            ignored=walked.ignored,
            skipped=tuple(sorted((*walked.skipped, *tally.skipped), key=lambda each: each.path)),
            as_text=tuple(tally.as_text),
        )


def _check_shrink(job: Job, walked: Walk, delta: Delta, max_shrink: float) -> None:
    """Refuse a root that has lost too much, not counting files that only moved."""
    live = sum(map(is_live, delta.covered))
    gone = [row for row in delta.gone if is_live(row)]
    lost = len(gone)
    if shrank_too_much(live, lost, max_shrink, walked):
        renames = Renames(gone)
        for found, row in delta.read:
            if row is None and found.size in renames.sizes:
                with suppress(Unfit):
                    content, _ = read_source(job.root / found.path, job.selection.max_bytes)
                    lost -= bool(renames.claim(fingerprint(content)))
        if shrank_too_much(live, lost, max_shrink, walked):
            refuse(job.root, live, lost, max_shrink)


async def _ahead(
    gatherer: Gatherer, files: Sequence[tuple[Found, FileRow | None]]
) -> AsyncGenerator[Batch, None]:
    """Give batches of files, reading the next while the last is being written."""
    reading: asyncio.Task[Batch] | None = None
    try:
        for some in _batches(files):
            following = asyncio.to_thread(gatherer.gather, some)
            if reading is not None:
                batch = await asyncio.shield(reading)
                reading = asyncio.create_task(following)
                yield batch
            else:
                reading = asyncio.create_task(following)
        if reading is not None:
            yield await asyncio.shield(reading)
    finally:
        if reading is not None and not reading.done():
            gatherer.stop()
            await asyncio.wait([reading])


def _batches(
    files: Sequence[tuple[Found, FileRow | None]],
) -> Iterator[list[tuple[Found, FileRow | None]]]:
    """Cut the files to read into batches of similar weight."""
    batch: list[tuple[Found, FileRow | None]] = []
    weight = 0
    for found, row in files:
        batch.append((found, row))
        weight += found.size
        if weight >= BATCH_BYTES or len(batch) >= BATCH_FILES:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch
