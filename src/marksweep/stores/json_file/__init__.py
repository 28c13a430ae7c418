"""The JSON store: files that people can read, and other tools can write.

    context.json           {"segments": […]}, the live segments
    context.stash.json     the same shape; each segment has an object `stashed` beside its fields
    context.journal.jsonl  one entry per line

The default workspace lives in the files above; every other one has separate files beside them,
named after it. Each write replaces a file as a whole, so it suits some thousands of
segments; beyond that, SQLite is the better place.

    paths      which file is whose
    documents   a file's text to nouns and back, with the place of what is wrong
    files       a file, read again when someone changed it, and its table
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from marksweep.errors import StoreError
from marksweep.stores.base import DEFAULT_WORKSPACE, KEEP_PLANS, PlanRetention
from marksweep.stores.files import (
    LOCK_TIMEOUT,
    FileLock,
    make_folder,
    tighten,
    total_size,
    unusable,
)
from marksweep.stores.json_file.documents import parse
from marksweep.stores.json_file.files import JournalFile, LiveFile, StashFile
from marksweep.stores.json_file.paths import StorePaths
from marksweep.stores.memory import Access, TableJournal, TableSegments, TableStash, TableStore

__all__ = ["JsonStore"]

Given = TypeVar("Given")


class JsonStore(TableStore):
    """A store in readable files. Threads may share the object, processes the files."""

    def __init__(
        self,
        path: str | Path,
        *,
        lock_timeout: float = LOCK_TIMEOUT,
        retention: PlanRetention = KEEP_PLANS,
    ) -> None:
        self._places = paths = StorePaths(Path(path).absolute())
        super().__init__(lock_timeout)
        self.closed_advice = f"{paths.main}: the store is closed. Open it again."
        self._locks: dict[Path, FileLock] = {}
        try:
            make_folder(paths.folder)
            for file in paths.files():
                tighten(file)
        except OSError as error:
            raise unusable(paths.folder, error) from error
        live = _each(paths.live, LiveFile)
        stash = _each(paths.stash, StashFile)
        journal = _each(paths.journal, lambda path, _: JournalFile(path, retention))
        self.segments = TableSegments(
            self._reading(lambda workspace: live(workspace).table()),
            self._writing(paths.live, live),
            self._workspaces,
        )
        self.stash = TableStash(
            self._reading(lambda workspace: stash(workspace).table()),
            self._writing(paths.stash, stash),
        )
        self.journal = TableJournal(  # read as far as it is known, so that reading needs the lock
            self._writing(paths.journal, lambda workspace: journal(workspace).table()),
            self._writing(paths.journal, journal),
        )

    def all_workspaces(self) -> tuple[str, ...]:
        """Name the workspaces that hold anything, sorted."""
        with self._alone():
            found = (self._named(live) for live in self._places.workspaces())
            return tuple(sorted(name for name in found if name is not None))

    def _named(self, live: Path) -> str | None:
        """Name the workspace of a file of live segments; None if it holds nothing at all."""
        stash, journal = self._places.beside(live)
        held = [parse(path, path.read_bytes()) for path in (live, stash) if path.exists()]
        entries = JournalFile(journal, KEEP_PLANS).table().entries
        if not entries and not any(each.segments for each in held):
            return None
        if live == self._places.main:
            return DEFAULT_WORKSPACE
        plans = [entry.plan for entry in entries if entry.plan is not None]
        names = [each.workspace for each in held]
        names += [each.workspace for each in plans] + [f"{p.heap}:{p.workspace}" for p in plans]
        for name in names:
            if self._places.live(name) == live:
                return name
        raise StoreError(
            f"{journal}: the name of its workspace is not in it. Write it into {live.name}: "
            '{"workspace": "NAME", "segments": []}.'
        )

    def size(self) -> int:
        """Measure its files."""
        with self._alone():
            return total_size(self._places.main, self._places.files())

    @contextmanager
    def lock(self, workspace: str) -> Iterator[None]:
        """Hold a workspace for one sweep, across threads and processes."""
        with self._alone():
            lock = self._lock_on(self._places.sweep_lock(workspace))
        with lock.held():
            yield

    def _reading(self, give: Callable[[str], Given]) -> Access[Given]:
        @contextmanager
        def reading(workspace: str) -> Iterator[Given]:
            with self._alone():
                yield give(workspace)

        return reading

    def _writing(self, path: Callable[[str], Path], give: Callable[[str], Given]) -> Access[Given]:
        @contextmanager
        def writing(workspace: str) -> Iterator[Given]:
            side = self._places.write_lock(path(workspace))
            with self._alone(), self._lock_on(side).held():
                yield give(workspace)

        return writing

    def _workspaces(self) -> Iterator[str]:
        """Name the workspaces with live segments. The main file is the default one's, always."""
        with self._alone():
            for path in self._places.workspaces():
                if path.exists() and (found := parse(path, path.read_bytes())).segments:
                    yield DEFAULT_WORKSPACE if path == self._places.main else found.workspace

    def _lock_on(self, side: Path) -> FileLock:
        return self._locks.setdefault(side, FileLock(side, self._timeout))


def _each(
    path: Callable[[str], Path], make: Callable[[Path, str], Given]
) -> Callable[[str], Given]:
    """Keep one file for each workspace."""
    files: dict[str, Given] = {}

    def file(workspace: str) -> Given:
        if workspace not in files:
            files[workspace] = make(path(workspace), workspace)
        return files[workspace]

    return file
