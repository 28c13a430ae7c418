"""Bring the graph of a repository up to date.

    lease → walk → compare → begin → stamp what is unchanged → read and put the rest → finish

Only the last step marks anything stale, so an interrupted run never does: it has added what it
read, and the next run finds that unchanged and does the rest.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from marksweep.indexing.delta import (
    MAX_SHRINK,
    Below,
    Delta,
    Renames,
    compare,
    fingerprint,
    is_live,
    refuse,
    shrank_too_much,
)
from marksweep.indexing.files import Unfit
from marksweep.indexing.gather import Batch, Gatherer, Job, Tally
from marksweep.indexing.readers import Reader, Worker
from marksweep.indexing.report import IndexReport, Progress
from marksweep.indexing.roots import Adoptions, Twins, enclosed, from_folder
from marksweep.indexing.selection import Selection
from marksweep.indexing.walk import Found, Walk, resolved, walk
from marksweep.model import utc_now
from marksweep.stores.base import DEFAULT_WORKSPACE
from marksweep.stores.graph.base import Copy, GraphStore, MemoryRow, Run, Seen
from marksweep.stores.leases import Lease, hold, this_host

PURPOSE = "indexing"
"""The lease that prevents two indexers of one workspace from running at once."""

BATCH_BYTES = 1_000_000
"""Bytes of source per transaction. Larger writes faster, and readers wait longer."""

BATCH_FILES = 200
"""Maximum files per transaction, however small they are."""

STAMP_BATCH = 5_000
"""Unchanged files stamped per transaction."""

WAIT_SECONDS = 10.0
"""How long an indexer waits for another one in the same workspace."""


def quietly(progress: Progress) -> None:
    """Ignore progress."""


async def index_codebase(
    path: str | Path,
    *,
    store: GraphStore,
    workspace_id: str = DEFAULT_WORKSPACE,
    repository: str = "",
    languages: Collection[str] = (),
    include_tests: bool = True,
    include: Collection[str] = (),
    max_shrink: float = MAX_SHRINK,
    wait_seconds: float = WAIT_SECONDS,
    progress: Callable[[Progress], None] = quietly,
    reader: Reader | None = None,
    now: datetime | None = None,
) -> IndexReport:
    """Index a folder into a workspace, reading only what has changed.

    `repository` is its name in the graph, by default its resolved path. Files outside the
    filters are left unchanged. Secrets, minified files, lock files, build output and vendored
    code are left out; `include` names kinds to index anyway (see left_out.py). Refuses a root
    that is missing, or that has shrunk by more than `max_shrink`, and marks nothing stale then.
    The work runs in a thread, which also calls `progress`; a cancelled run stops after the
    current batch, and the next one does the rest.
    """
    started = now or utc_now()
    root = resolved(Path(path))
    job = Job(
        root=root,
        workspace_id=workspace_id,
        repository=repository or str(root),
        selection=Selection.of(languages, include_tests=include_tests, include=include),
        run_id=f"run-{started:%Y%m%dT%H%M%S}-{this_host()}-{secrets.token_hex(6)}",
        now=started,
    )
    stop = threading.Event()
    indexing = _Indexing(store, job, reader, max_shrink, wait_seconds, progress, stop)
    running = asyncio.create_task(asyncio.to_thread(indexing.run))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        running.add_done_callback(_ignore_outcome)
        await asyncio.wait([running])
        raise


def _ignore_outcome(done: asyncio.Task[IndexReport]) -> None:
    """Nobody waits for a cancelled run; asyncio would print its exception as never retrieved."""
    if not done.cancelled():
        done.exception()


class _Stopped(Exception):
    """The caller no longer waits for this run."""


@dataclass
class _Indexing:
    """One run. Blocks; runs in its own thread."""

    store: GraphStore
    job: Job
    reader: Reader | None
    max_shrink: float
    wait_seconds: float
    progress: Callable[[Progress], None]
    stop: threading.Event
    clock: float = field(default_factory=time.perf_counter)

    def run(self) -> IndexReport:
        """Run all steps in order, under the lease."""
        reader = self.reader or Worker()
        try:
            with hold(
                self.store, self.job.workspace_id, PURPOSE, wait_seconds=self.wait_seconds
            ) as lease:
                return self._run(lease, reader)
        finally:
            if self.reader is None:
                reader.close()

    def _run(self, lease: Lease, reader: Reader) -> IndexReport:
        self.job = job = enclosed(self.store, self.job)
        walked = walk(job.root, job.selection, job.under)
        known = self.store.files(job.workspace_id, job.repository)
        rows = [row for row in known if row.relative_path.startswith(job.under)]
        adoptions = Adoptions(self.store, job, walked, is_new=not known)
        delta = compare(rows, job.root, walked, job.selection)
        _check_shrink(job, walked, delta, self.max_shrink)
        self.store.begin_run(
            job.workspace_id, Run(job.run_id, job.repository, job.selection.words, job.now)
        )
        tally = self._fill(lease, reader, walked, delta, adoptions)
        finished = self._finish(lease, walked, delta, tally)
        if left := adoptions.left((*walked.skipped, *tally.skipped)):
            self.store.mark_stale(job.workspace_id, left)
        stale = finished.stale + sum(
            row.stale and not row.deleted and row.memory_id not in tally.seen for row in rows
        )
        return self._report(walked, tally, newly_stale=finished.stale, stale=stale)

    def _fill(
        self, lease: Lease, reader: Reader, walked: Walk, delta: Delta, adoptions: Adoptions
    ) -> Tally:
        """Write the files that exist to the graph."""
        twins = Twins(self.store, self.job, has_new=any(row is None for _, row in delta.read))
        gatherer = Gatherer(self.job, reader, Renames(delta.gone), adoptions.claim, twins.find)
        tally = gatherer.tally
        self._stamp(delta.unchanged)
        tally.seen.update(each.memory_id for each in delta.unchanged)
        done = len(delta.unchanged)
        with closing(_ahead(gatherer, delta.read)) as batches:
            for batch in batches:
                if self.stop.is_set():
                    raise _Stopped
                lease.check()
                self.store.put(self.job.workspace_id, batch.records)
                self._copy(batch.copies, gatherer)
                self._stamp(batch.seen)
                done += batch.files
                self.progress(Progress(done, len(walked.found), batch.last))
        return tally

    def _copy(self, copies: Sequence[Copy], gatherer: Gatherer) -> None:
        if not copies:
            return
        done = set(self.store.copy(self.job.workspace_id, copies))
        left = [each.memory.relative_path for each in copies if each.memory.memory_id not in done]
        again = [gatherer.read_again(path) for path in left]
        self.store.put(self.job.workspace_id, [record for record in again if record])

    def _stamp(self, seen: Sequence[Seen]) -> None:
        job = self.job
        for start in range(0, len(seen), STAMP_BATCH):
            some = seen[start : start + STAMP_BATCH]
            self.store.stamp(job.workspace_id, job.run_id, some, job.now)

    def _finish(self, lease: Lease, walked: Walk, delta: Delta, tally: Tally) -> Run:
        """Finish the run: mark stale what it covers and did not see, unless that is too much."""
        job = self.job
        hidden = Below(skip.path for skip in tally.skipped if skip.unknown)
        left_out = Below(each.path for each in (*walked.left_out, *tally.left_out))
        covered = [row for row in delta.covered if row.relative_path not in hidden]
        expected = [row for row in covered if is_live(row) and row.relative_path not in left_out]
        live = len(expected)
        gone = sum(row.memory_id not in tally.seen for row in expected)
        if shrank_too_much(live, gone, self.max_shrink, walked):
            refuse(job.root / job.under, live, gone, self.max_shrink)
        lease.check()
        at = job.now + timedelta(seconds=time.perf_counter() - self.clock)
        ids = [row.memory_id for row in covered]
        return self.store.finish_run(job.workspace_id, job.run_id, ids, at)

    def _report(self, walked: Walk, tally: Tally, *, newly_stale: int, stale: int) -> IndexReport:
        job = self.job
        return IndexReport(
            path=str(job.root / job.under),
            repository=job.repository,
            workspace_id=job.workspace_id,
            run_id=job.run_id,
            files=tally.files,
            unchanged=len(walked.found) - tally.files - len(tally.skipped) - len(tally.left_out),
            renamed=tally.renamed,
            functions=tally.functions,
            classes=tally.classes,
            languages=tuple(sorted(tally.languages.items(), key=lambda item: (-item[1], item[0]))),
            lines=tally.lines,
            seconds=time.perf_counter() - self.clock,
            newly_stale=newly_stale,
            stale=stale,
            ignored=walked.ignored,
            skipped=from_folder((*walked.skipped, *tally.skipped), job),
            left_out=from_folder((*walked.left_out, *tally.left_out), job),
            as_text=from_folder(tally.as_text, job),
        )


def _check_shrink(job: Job, walked: Walk, delta: Delta, max_shrink: float) -> None:
    """Refuse a root that has lost too many files, not counting files that only moved."""
    left_out = Below(each.path for each in walked.left_out)
    live = sum(is_live(row) and row.relative_path not in left_out for row in delta.covered)
    gone = [row for row in delta.gone if is_live(row) and row.relative_path not in left_out]
    lost = len(gone)
    if shrank_too_much(live, lost, max_shrink, walked):
        renames = Renames(gone)
        for found, row in delta.read:
            if row is None and found.size in renames.sizes:
                with suppress(Unfit):
                    content, _ = job.selection.read(job.root, found.path)
                    lost -= bool(renames.claim(fingerprint(content)))
        if shrank_too_much(live, lost, max_shrink, walked):
            refuse(job.root / job.under, live, lost, max_shrink)


def _ahead(
    gatherer: Gatherer, files: Sequence[tuple[Found, MemoryRow | None]]
) -> Generator[Batch, None, None]:
    """Yield batches of files, reading the next while the last is being written."""
    with ThreadPoolExecutor(1, thread_name_prefix="marksweep-reader") as pool:
        reading: Future[Batch] | None = None
        try:
            for some in _batches(files):
                following = pool.submit(gatherer.gather, some)
                if reading is not None:
                    yield reading.result()
                reading = following
            if reading is not None:
                yield reading.result()
        finally:
            gatherer.stop()


def _batches(
    files: Sequence[tuple[Found, MemoryRow | None]],
) -> Iterator[list[tuple[Found, MemoryRow | None]]]:
    """Split the files to read into batches of similar size."""
    batch: list[tuple[Found, MemoryRow | None]] = []
    weight = 0
    for found, row in files:
        batch.append((found, row))
        weight += found.size
        if weight >= BATCH_BYTES or len(batch) >= BATCH_FILES:
            yield batch
            batch, weight = [], 0
    if batch:
        yield batch
