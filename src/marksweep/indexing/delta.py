"""Compare a walk with what the graph knows. Pure: nothing is read or written here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil
from pathlib import Path
from typing import NoReturn

import msgspec

from marksweep.errors import Refused
from marksweep.indexing.parse import LAYOUT
from marksweep.indexing.selection import Selection
from marksweep.indexing.walk import Found, Walk
from marksweep.stores.graph.base import MemoryRow, Seen
from marksweep.stores.graph.nouns import hash_content

RACY_NS = 2_000_000_000
"""How old a file's last change must be, when it is read, for its time to be trusted.

A file written twice within one tick of the file system's clock keeps its time. Longer re-reads
more files in the run after a change; 2 s is the coarsest tick of the file systems in use.
"""

MAX_SHRINK = 0.5
"""Share of a repository's files that may be missing before a run is refused.

Lower refuses more intended clean-ups; higher lets a half-mounted disk make more memories stale.
"""

SHRINK_FREELY = 10
"""Number of files that may always be missing: in a small repository one is a large share."""


class Delta(msgspec.Struct, frozen=True):
    """What a run has to do."""

    unchanged: tuple[Seen, ...]
    """Same size and time: not opened."""
    read: tuple[tuple[Found, MemoryRow | None], ...]
    """Files to open, with what is known of each."""
    gone: tuple[MemoryRow, ...]
    """Rows that the run covers but whose files it did not find."""
    covered: tuple[MemoryRow, ...]
    """Rows that the run covers: it sees them if their files exist."""


def compare(rows: Sequence[MemoryRow], root: Path, walk: Walk, selection: Selection) -> Delta:
    """Sort files and rows by what has to be done about them."""
    known = {row.relative_path: row for row in rows}
    unchanged: list[Seen] = []
    read: list[tuple[Found, MemoryRow | None]] = []
    for found in walk.found:
        row = known.get(found.path)
        if row is not None and _is_unchanged(found, row):
            place = str(root / found.path)
            unchanged.append(Seen(row.memory_id, found.size, found.changed_ns, place))
        else:
            read.append((found, row))
    there = {found.path for found in walk.found}
    hidden = Below(skip.path for skip in walk.skipped if skip.unknown)
    covered = tuple(
        row
        for row in rows
        if selection.takes(row.relative_path) and row.relative_path not in hidden
    )
    gone = tuple(row for row in covered if row.relative_path not in there)
    return Delta(tuple(unchanged), tuple(read), gone, covered)


def _is_unchanged(found: Found, row: MemoryRow) -> bool:
    return (
        0 < row.mtime_ns == found.changed_ns
        and row.size == found.size
        and row.content_hash.startswith(f"{LAYOUT}:")
    )


def trusted_ns(changed_ns: int, read_ns: int) -> int:
    """Return the time to store for a file read at `read_ns`; 0 if it could still change unseen."""
    return changed_ns if changed_ns + RACY_NS < read_ns else 0


def fingerprint(content: bytes) -> str:
    """Identify a content and the way it is read."""
    return f"{LAYOUT}:{hash_content(content)}"


def content_of(made: str) -> str:
    """Return the part of a fingerprint that identifies the content, however it is read."""
    return made.rpartition(":")[2]


class Below:
    """Some paths, and everything below them."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = {path.rstrip("/") for path in paths}

    def __contains__(self, path: str) -> bool:
        """Return whether a path is one of them or below one."""
        if not self._paths:
            return False
        parts = path.split("/")
        return "." in self._paths or any(
            "/".join(parts[: n + 1]) in self._paths for n in range(len(parts))
        )


class Renames:
    """Missing files, to be recognised under another path by their content."""

    def __init__(self, gone: Iterable[MemoryRow]) -> None:
        self._by_hash: defaultdict[str, list[str]] = defaultdict(list)
        self.sizes: set[int] = set()
        """Sizes of the files: no other size can match."""
        for row in gone:
            if row.size > 0 and not row.deleted:
                self._by_hash[content_of(row.content_hash)].append(row.memory_id)
                self.sizes.add(row.size)

    def claim(self, content_hash: str) -> str:
        """Take the first missing memory with this content, each only once; '' if none."""
        ids = self._by_hash.get(content_of(content_hash))
        return ids.pop(0) if ids else ""


def is_live(row: MemoryRow) -> bool:
    """Return whether searches show a row."""
    return not row.stale and not row.deleted


def shrank_too_much(live: int, gone: int, max_shrink: float, walk: Walk) -> bool:
    """Return whether more is missing than a person would delete at once."""
    return gone > max(live * max_shrink, 0 if walk.is_empty else SHRINK_FREELY)


def refuse(root: Path, live: int, gone: int, max_shrink: float) -> NoReturn:
    """Refuse a run that would make too much stale."""
    enough = ceil(100 * gone / live) / 100
    raise Refused(
        f"{str(root)!r} no longer has {gone:,} of the {live:,} files that the graph knows; at most "
        f"{max_shrink:.0%} may be gone at once. Check that the disk is mounted, that the checkout "
        "is complete and that no ignore file hides them. If they are to go, run again with "
        f"max_shrink={enough}, on the command line with --max-shrink {enough}. Nothing was made "
        "stale."
    )
