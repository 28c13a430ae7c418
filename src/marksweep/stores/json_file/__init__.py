"""The JSON store: files that people can read, and other tools can write.

    context.json           {"segments": […]}, the live segments
    context.stash.json     the same shape; each segment also has a `stashed` object
    context.journal.jsonl  one entry per line

The default workspace uses the files above; every other one has separate files next to them,
named after it. Each write replaces a whole file, so this suits a few thousand segments; beyond
that, use SQLite.

    paths       file names
    documents   parses and formats a file's text, and locates errors
    files       a file, reloaded when it changes, and its table
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

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
from marksweep.stores.memory import (
    Access,
    JournalTable,
    TableJournal,
    TableSegments,
    TableStash,
    TableStore,
)

__all__ = ["JsonStore"]

Table = TypeVar("Table")
Read_co = TypeVar("Read_co", covariant=True)


class _File(Protocol[Read_co]):
    """A file, and the table read from it."""

    def table(self) -> Read_co:
        """Return the table, up to date with the file."""
        ...

    def writing(self) -> AbstractContextManager[Read_co]:
        """Yield the table, and write what the block changes to the file."""
        ...


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
        live = self._access(paths.live, LiveFile)
        stash = self._access(paths.stash, StashFile)
        _, journal = self._access(paths.journal, lambda path, _: JournalFile(path, retention))
        self.segments = TableSegments(*live, self._workspaces)
        self.stash = TableStash(*stash)

        @contextmanager
        def named_journal(workspace: str) -> Iterator[JournalTable]:
            """Write to a journal; its entries do not name the workspace, so the live file must."""
            if workspace != DEFAULT_WORKSPACE and not paths.live(workspace).exists():
                with live[1](workspace) as segments:
                    segments.version += 1
            with journal(workspace) as table:
                yield table

        # A journal is read incrementally, so reading it needs the lock too.
        self.journal = TableJournal(journal, named_journal)

    def all_workspaces(self) -> tuple[str, ...]:
        """List the non-empty workspaces, sorted by name."""
        with self._alone():
            found = (self._named(live) for live in self._places.workspaces())
            return tuple(sorted(name for name in found if name is not None))

    def _named(self, live: Path) -> str | None:
        """Return the name of a live file's workspace; None if the workspace is empty."""
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
            f"{journal}: it does not name its workspace. Write the name into {live.name}: "
            '{"workspace": "NAME", "segments": []}.'
        )

    def size(self) -> int:
        """Return the total size of its files."""
        with self._alone():
            return total_size(self._places.main, self._places.files())

    @contextmanager
    def lock(self, workspace: str) -> Iterator[None]:
        """Lock a workspace for one sweep, across threads and processes."""
        with self._alone():
            lock = self._lock_on(self._places.sweep_lock(workspace))
        with lock.held():
            yield

    def _access(
        self, path: Callable[[str], Path], make: Callable[[Path, str], _File[Table]]
    ) -> tuple[Access[Table], Access[Table]]:
        """Return access for reading and for writing to the table of each workspace's file."""
        files: dict[str, _File[Table]] = {}

        def file(workspace: str) -> _File[Table]:
            if workspace not in files:
                files[workspace] = make(path(workspace), workspace)
            return files[workspace]

        @contextmanager
        def reading(workspace: str) -> Iterator[Table]:
            with self._alone():
                yield file(workspace).table()

        @contextmanager
        def writing(workspace: str) -> Iterator[Table]:
            side = self._places.write_lock(path(workspace))
            with (
                self._alone(),
                self._lock_on(side).held(),
                file(workspace).writing() as table,
            ):
                yield table

        return reading, writing

    def _workspaces(self) -> Iterator[str]:
        """Yield the workspaces with live segments. The main file is always the default one's."""
        with self._alone():
            for path in self._places.workspaces():
                if path.exists() and (found := parse(path, path.read_bytes())).segments:
                    yield DEFAULT_WORKSPACE if path == self._places.main else found.workspace

    def _lock_on(self, side: Path) -> FileLock:
        return self._locks.setdefault(side, FileLock(side, self._timeout))
