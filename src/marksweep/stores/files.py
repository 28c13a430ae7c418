"""Private files, durable replacement, and a lock that is released when its holder dies."""

from __future__ import annotations

import errno
import glob
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from marksweep.errors import StoreBusy, StoreError

if TYPE_CHECKING:
    from filelock import BaseFileLock

KEPT = ".before-"
"""In the name of a folder with the files from before a repair; the time follows."""

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700

OTHERS_RIGHTS = 0o077
"""Permission bits of everyone but the owner."""

PROJECT_FOLDER = ".marksweep"
"""Where a project keeps its store, memory, backups and settings."""

USERS_OWN = frozenset({".gitignore", "gc.json", "profiles", "settings.json", "settings.toml"})
"""What users write in a project's folder; marksweep writes the rest."""

DATABASE_FILES = ("", "-wal", "-shm")
"""Suffixes of the files that make up a SQLite database."""

DRAFT = ".draft"
"""Suffix of a file that is about to replace another."""

LOCK_TIMEOUT = 10.0
"""Seconds to wait for a lock. Lower gives up on a slow process; higher hangs on a stuck one."""

POLL_SECONDS = 0.005
"""Seconds between attempts to take a held lock. Lower starts sooner and costs more."""


class Stamp(NamedTuple):
    """Identifies a state of a file: another one differs, except within a tick of the clock."""

    device: int
    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """Take what matters from a file's status."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, readable by the owner only.

    Existing ones are left alone, except that a project's folder is made private and hidden
    from git.
    """
    missing = []
    above = folder
    while not above.exists():
        missing.append(above)
        above = above.parent
    if not above.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(above))
    for each in reversed(missing):
        each.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    for each in (folder, *folder.parents):
        if each.name == PROJECT_FOLDER:
            tighten(each)
            with suppress(FileExistsError), open_new(each / ".gitignore") as ignored:
                ignored.write(b"*\n")


def open_new(path: Path) -> BinaryIO:
    """Create a file that only its owner can read; FileExistsError if a file or link exists."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, PRIVATE_FILE), "r+b")


def open_private(path: Path) -> BinaryIO:
    """Open a file for reading and writing and make it private; create it if missing."""
    try:
        return open_new(path)
    except FileExistsError:
        tighten(path)
        return path.open("r+b")


def open_stored(path: Path) -> BinaryIO:
    """Open a file for reading; OSError if it is a pipe, which would wait for a writer, or such."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    return path.open("rb")


def make_file(path: Path) -> None:
    """Create an empty private file; make an existing one private."""
    open_private(path).close()


def make_database(path: Path) -> None:
    """Create the folder and the file of a SQLite database, and make all its files private.

    SQLite creates the side files with the permissions of the main file.
    """
    make_folder(path.parent)
    make_file(path)
    for end in DATABASE_FILES[1:]:
        tighten(path.with_name(path.name + end))


def tighten(path: Path) -> None:
    """Make a file or folder private. One owned by another user and a device are left alone."""
    with suppress(FileNotFoundError, PermissionError):
        mode = path.stat().st_mode
        if mode & OTHERS_RIGHTS and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            path.chmod(stat.S_IMODE(mode) & ~OTHERS_RIGHTS)


def exposed(folder: Path) -> tuple[Path, ...]:
    """List what marksweep wrote in a project's folder that others can read or write."""
    ours = (path for path in sorted(folder.iterdir()) if path.name not in USERS_OWN)
    found = (each for path in ours for each in (path, *sorted(path.rglob("*"))))
    return tuple(path for path in (folder, *found) if is_exposed(path))


def is_exposed(path: Path) -> bool:
    """Return whether users other than the owner can read, write or enter a file or folder.

    Modes mean nothing on Windows, where a folder's files have its owner's permissions.
    """
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return False
    return os.name != "nt" and not stat.S_ISLNK(found) and bool(found & OTHERS_RIGHTS)


def check_writable(path: Path) -> None:
    """Refuse a file that its owner made read-only, even if the system would allow the write."""
    if not path.stat().st_mode & 0o222:
        raise OSError(errno.EACCES, "The file is read-only", str(path))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut. Windows does so automatically."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file's content durably: after a crash it is entirely the old or the new.

    The caller holds the file's lock, so a draft found there is a leftover and is deleted.
    """
    if path.exists():
        check_writable(path)
    for left in drafts(path):
        left.unlink(missing_ok=True)
    with draft_of(path, content) as draft:
        draft.replace(path)
    sync_folder(path.parent)


@contextmanager
def draft_of(path: Path, content: bytes) -> Iterator[Path]:
    """Write what is to replace a file, durably and beside it; delete it if it does not."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}{DRAFT}")
    try:
        with open_new(draft) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def drafts(path: Path) -> tuple[Path, ...]:
    """List the drafts left behind when a process was killed while replacing a file."""
    return tuple(path.parent.glob(f".{glob.escape(path.name)}.*{DRAFT}"))


def total_size(store: Path, files: Iterable[Path]) -> int:
    """Add up the sizes of a store's existing files; StoreError if they cannot be read."""
    try:
        return sum(file.stat().st_size for file in files if file.exists())
    except OSError as error:
        raise unusable(store, error) from error


class FileLock:
    """A lock on a separate file, between threads and processes. The same thread may take it again.

    The kernel releases it when the holder dies. The file exists only while the lock is held.
    """

    def __init__(self, path: Path, timeout: float = LOCK_TIMEOUT) -> None:
        self._path = path
        self._timeout = timeout
        self._lock: BaseFileLock | None = None
        self._owner = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; StoreBusy if it cannot be acquired in time."""
        lock = self._own()
        self._acquire(lock)
        try:
            yield
        finally:
            if lock.lock_counter == 1:
                # Delete it while locked: a process waiting for the old file retries with a new one.
                with suppress(OSError):
                    self._path.unlink(missing_ok=True)
            lock.release()

    def _own(self) -> BaseFileLock:
        """Return this process's lock: a forked child must not use its parent's."""
        from filelock import FileLock as SideFileLock

        if self._lock is None or self._owner != os.getpid():
            self._lock = SideFileLock(
                self._path, self._timeout, mode=PRIVATE_FILE, poll_interval=POLL_SECONDS
            )
            self._owner = os.getpid()
        return self._lock

    def _acquire(self, lock: BaseFileLock) -> None:
        from filelock import Timeout

        try:
            lock.acquire()
        except Timeout:
            raise StoreBusy(
                f"{self._path}: held by another process or thread for more than "
                f"{self._timeout:g} s. Try again, or find the process that hangs in a sweep and "
                "end it."
            ) from None
        except OSError as error:
            raise unusable(self._path, error) from error


def unusable(path: Path, error: OSError) -> StoreError:
    """Explain a failed file operation and what to do about it."""
    advice = {
        errno.ENOSPC: "The disk is full: free some space; nothing was changed.",
        errno.EDQUOT: "The disk quota is used up: free some space; nothing was changed.",
        errno.EFBIG: "The file cannot grow: raise the limit; nothing was changed.",
        errno.ENOENT: (
            "If it was moved or deleted, put it back, or open the store again. "
            "If no file can be created there, choose another location."
        ),
        errno.EROFS: "The file system is read-only: open the store somewhere else.",
        errno.EACCES: "Give this user permission to read and write it, or choose another location.",
        errno.EPERM: "Give this user permission to read and write it, or choose another location.",
        errno.ENOTDIR: "A part of the path is a file: choose another location.",
        errno.EISDIR: "This is a folder: name a file in it.",
        errno.ENAMETOOLONG: "The path is too long: choose a shorter one.",
    }.get(error.errno or 0, "Nothing was changed. Check the file and its folder.")
    return StoreError(f"{path}: {error.strerror or error}. {advice}")
