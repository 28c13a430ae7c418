"""Read files that may be anything: huge, binary, a pipe, a link, unreadable, just deleted."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from marksweep.paths import OPEN_AT_ONCE, kind_of

MAX_FILE_BYTES = 2_000_000
"""Size above which a file is skipped. Files written by people are far smaller."""

MAX_FILE_LINES = 50_000
"""Lines above which a file is skipped: data or generated code, which would dominate searches."""

_PEEK_BYTES = 8192
_BINARY = "binary: it has NUL bytes"

_FLAGS = OPEN_AT_ONCE | getattr(os, "O_NOFOLLOW", 0)
"""Do not follow a link or block on a pipe that replaced the file."""


class Unfit(Exception):
    """A file that cannot be indexed in its present state, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Unreadable(Unfit):
    """A file that exists but could not be read: nothing is known about its content."""


class LeftOut(Unfit):
    """A file of a kind that is left out by default."""


def trouble(error: OSError) -> str:
    """Describe an error of the operating system."""
    return (error.strerror or type(error).__name__).lower()


def read_bytes(path: Path, max_bytes: int) -> tuple[bytes, os.stat_result]:
    """Read a whole regular file, with its stat at the time it was opened.

    A file that has a NUL byte near its start is not read any further.
    """
    try:
        opened = os.open(path, _FLAGS)
    except OSError as error:
        raise Unreadable(trouble(error)) from error
    try:
        state = os.fstat(opened)
        if not stat.S_ISREG(state.st_mode):
            raise Unfit(kind_of(state.st_mode))
        if state.st_size > max_bytes:
            raise Unfit(too_big(state.st_size, max_bytes))
        with os.fdopen(opened, "rb", closefd=False, buffering=0) as file:
            content = file.read(_PEEK_BYTES) or b""
            if b"\0" in content:
                raise Unfit(_BINARY)
            while len(content) <= max_bytes and (more := file.read(max_bytes + 1)):
                content += more
    except OSError as error:
        raise Unreadable(trouble(error)) from error
    finally:
        os.close(opened)
    if len(content) > max_bytes:
        raise Unfit(too_big(len(content), max_bytes))
    if b"\0" in content:
        raise Unfit(_BINARY)
    return content, state


def read_source(path: Path) -> tuple[bytes, os.stat_result]:
    """Read a file that can be indexed: text that is not too long."""
    content, state = read_bytes(path, MAX_FILE_BYTES)
    lines = content.count(b"\n")
    if lines > MAX_FILE_LINES:
        raise Unfit(f"{lines:,} lines; the limit is {MAX_FILE_LINES:,}")
    return content, state


def too_big(size: int, limit: int) -> str:
    """Describe a file above the size limit."""
    return f"{size:,} bytes; the limit is {limit:,}"


def changed_ns(state: os.stat_result) -> int:
    """Return when a file last changed: its content, or the name or place it has.

    The second detects a replacement by another file of the same size and time.
    """
    return max(state.st_mtime_ns, state.st_ctime_ns)
