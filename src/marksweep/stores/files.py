"""Private files, durable replacement, and a lock that dies with its holder. POSIX only."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from marksweep.errors import StoreBusy, StoreError

KEPT = ".before-"
"""Stands in the name of a folder with files as they were before a mend, in front of the time."""

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700

LOCK_TIMEOUT = 10.0
"""Seconds to wait for a lock. Lower gives up on a slow neighbour; higher hangs on a stuck one."""

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.01


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
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, PRIVATE_FILE))


def check_writable(path: Path) -> None:
    """Refuse a file that its owner made read-only, even to those whom the system would let."""
    if not path.stat().st_mode & 0o222:
        raise OSError(errno.EACCES, "The file is read-only", str(path))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
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
        handle = os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, PRIVATE_FILE)
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

    The kernel lets go of it when the holder dies.
    """

    def __init__(self, path: Path, timeout: float = LOCK_TIMEOUT) -> None:
        self._path = path
        self._timeout = timeout
        self._mine = threading.RLock()
        self._depth = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock; StoreBusy if it cannot be had in time."""
        deadline = time.monotonic() + self._timeout
        if not self._mine.acquire(timeout=self._timeout):
            raise self._busy("another thread of this process")
        try:
            if self._depth:
                self._depth += 1
                try:
                    yield
                finally:
                    self._depth -= 1
                return
            handle = self._take(deadline)
            self._depth = 1
            try:
                yield
            finally:
                self._depth = 0
                os.close(handle)
        finally:
            self._mine.release()

    def _take(self, deadline: float) -> int:
        try:
            handle = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, PRIVATE_FILE)
        except OSError as error:
            raise unusable(self._path, error) from error
        pause = _FIRST_PAUSE
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() + pause > deadline:
                    os.close(handle)
                    raise self._busy("another process or handle") from None
                time.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            except BaseException:
                os.close(handle)
                raise
            else:
                return handle

    def _busy(self, holder: str) -> StoreBusy:
        return StoreBusy(
            f"{self._path}: held by {holder} for more than {self._timeout:g} s. "
            "Try again, or find the process that hangs in a sweep and end it."
        )


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
