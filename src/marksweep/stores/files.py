"""Private files, durable replacement, and a lock that dies with its holder."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from marksweep.errors import StoreBusy, StoreError

if TYPE_CHECKING:
    from filelock import BaseFileLock

KEPT = ".before-"
"""Stands in the name of a folder with files as they were before a mend, in front of the time."""

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700

LOCK_TIMEOUT = 10.0
"""Seconds to wait for a lock. Lower gives up on a slow neighbour; higher hangs on a stuck one."""

POLL_SECONDS = 0.005
"""Time between two tries to take a lock that is held. Lower starts sooner and costs more."""


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, for the owner's eyes only; existing ones are left alone."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    for each in reversed(missing):
        each.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def make_file(path: Path) -> None:
    """Make an empty file that only its owner may read, unless there is a file."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, PRIVATE_FILE))


def check_writable(path: Path) -> None:
    """Refuse a file that its owner made read-only, even to those whom the system would let."""
    if not path.stat().st_mode & 0o222:
        raise OSError(errno.EACCES, "The file is read-only", str(path))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut. Windows does so by itself."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(path: Path, content: bytes) -> None:
    """Put content in place of a file, durably: after a crash it is the old or the new, whole.

    The caller holds the file's lock, so a draft found there is a leftover and is overwritten.
    """
    draft = path.with_name(f".{path.name}.draft")
    if path.exists():
        check_writable(path)
    try:
        handle = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, PRIVATE_FILE)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


class FileLock:
    """A lock on a side file, between threads and processes. The same thread may take it again.

    The kernel releases it when the holder dies. The side file is there only while it is held.
    """

    def __init__(self, path: Path, timeout: float = LOCK_TIMEOUT) -> None:
        self._path = path
        self._timeout = timeout
        self._lock: BaseFileLock | None = None
        self._owner = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; StoreBusy if it cannot be had in time."""
        lock = self._own()
        self._acquire(lock)
        try:
            yield
        finally:
            if lock.lock_counter == 1:
                # While it is ours: who waits for a file that is gone starts over with a new one.
                with suppress(OSError):
                    self._path.unlink(missing_ok=True)
            lock.release()

    def _own(self) -> BaseFileLock:
        """Give this process's lock: a forked child must not use its parent's."""
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
    """Say what a failed file operation means and what to do about it."""
    advice = {
        errno.ENOSPC: "The disk is full: free some space; nothing was changed.",
        errno.EDQUOT: "The disk quota is used up: free some space; nothing was changed.",
        errno.EFBIG: "The file may not grow: lift the limit; nothing was changed.",
        errno.ENOENT: "It was there before: put it back, or open the store again.",
        errno.EROFS: "The file system is read-only: open the store somewhere else.",
        errno.EACCES: "Give this user the right to read and write it, or choose another place.",
        errno.EPERM: "Give this user the right to read and write it, or choose another place.",
        errno.ENOTDIR: "A part of the path is a file: choose another place.",
        errno.EISDIR: "This is a folder: name a file in it.",
        errno.ENAMETOOLONG: "The path is too long: choose a shorter one.",
    }.get(error.errno or 0, "Nothing was changed. Look at the file and its folder.")
    return StoreError(f"{path}: {error.strerror or error}. {advice}")
