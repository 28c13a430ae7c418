"""Index again whenever a folder changes, until stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import suppress
from pathlib import Path

from watchfiles import Change, awatch

from marksweep.errors import BadInput, MarksweepError
from marksweep.indexing.files import Unfit
from marksweep.indexing.ignore import ALWAYS_IGNORED
from marksweep.indexing.indexer import index_codebase, quietly
from marksweep.indexing.readers import Worker
from marksweep.indexing.report import IndexReport, Progress
from marksweep.indexing.selection import Selection
from marksweep.indexing.walk import resolved, walk
from marksweep.stores.base import DEFAULT_WORKSPACE
from marksweep.stores.graph.base import GraphStore

DEBOUNCE_SECONDS = 0.5
"""How long changes are collected before a run. Shorter is fresher; a checkout takes more runs."""


async def watch_codebase(
    path: str | Path,
    *,
    store: GraphStore,
    stop: asyncio.Event,
    workspace_id: str = DEFAULT_WORKSPACE,
    include: Collection[str] = (),
    debounce_seconds: float = DEBOUNCE_SECONDS,
    progress: Callable[[Progress], None] = quietly,
) -> AsyncGenerator[IndexReport | MarksweepError, None]:
    """Index now and after every change; yield the report of each run, or why it was refused.

    A refused run does not stop the watch: the next change starts another. Changes of files that
    are ignored, or cannot be indexed, start no run.
    """
    root = resolved(Path(path))
    selection = Selection.of(include=include)
    changed = asyncio.Event()
    noticing = asyncio.create_task(_notice(root, changed, stop, debounce_seconds))
    stopping = asyncio.create_task(stop.wait())
    reader = Worker()
    unfit: set[str] = set()
    try:
        await asyncio.sleep(0)
        while not stop.is_set():
            before = await asyncio.to_thread(_state, root, selection)
            outcome: IndexReport | MarksweepError
            try:
                outcome = await index_codebase(
                    root,
                    store=store,
                    workspace_id=workspace_id,
                    include=include,
                    progress=progress,
                    reader=reader,
                )
                unfit = {each.path for each in (*outcome.skipped, *outcome.left_out)}
            except MarksweepError as error:
                outcome = error
            yield outcome
            while not stop.is_set() and not await asyncio.to_thread(
                _differs, root, selection, before, unfit
            ):
                await _either(changed, stopping, noticing)
                changed.clear()
                if noticing.done():
                    noticing.result()
    finally:
        reader.close()
        stop.set()
        await asyncio.wait([noticing, stopping])


async def _notice(root: Path, changed: asyncio.Event, stop: asyncio.Event, seconds: float) -> None:
    """Yield whenever something below the root has changed and then been quiet for a moment."""
    milliseconds = max(4, round(seconds * 1000))

    def may_matter(_: Change, path: str) -> bool:
        return ALWAYS_IGNORED.isdisjoint(Path(path).parts[len(root.parts) :])

    async for _ in awatch(
        root,
        watch_filter=may_matter,
        debounce=milliseconds,
        step=milliseconds // 4,
        stop_event=stop,
        ignore_permission_denied=True,
    ):
        changed.set()


async def _either(changed: asyncio.Event, *tasks: asyncio.Task[object]) -> None:
    """Wait for a change, or for the end of one of the tasks."""
    waiting = asyncio.create_task(changed.wait())
    await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting


State = dict[str, tuple[int, int]]
"""Size and modification time of each file that would be indexed."""


def _state(root: Path, selection: Selection) -> State:
    """Stat the files; none if the root itself is missing, which the next run will report."""
    try:
        found = walk(root, selection).found
    except BadInput:
        return {}
    return {each.path: (each.size, each.changed_ns) for each in found}


def _differs(root: Path, selection: Selection, before: State, unfit: Collection[str]) -> bool:
    """Return whether there is anything for a run to do.

    Every run writes to a store inside the root; that must not start the next run. Such a store is
    among the files that the last run found unfit.
    """
    now = _state(root, selection)
    if any(path not in unfit for path in before.keys() - now.keys()):
        return True
    touched = (path for path in now if now[path] != before.get(path))
    return any(path not in unfit or _is_fit(root, path, selection) for path in touched)


def _is_fit(root: Path, path: str, selection: Selection) -> bool:
    try:
        selection.read(root, path)
    except Unfit:
        return False
    return True
