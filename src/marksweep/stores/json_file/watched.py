"""A file that is read again when someone changed it, and written as a whole."""

from __future__ import annotations

from pathlib import Path

from marksweep.stores.files import replace_file, unusable
from marksweep.stores.json_file.documents import Document, parse

_HEADER = 64

Stamp = tuple[int, int, int, bytes]
"""What tells one state of a file from the next: inode, size, time, and the first bytes.

The first bytes hold the version: two writes in one tick of the file system's clock may agree on
all the rest.
"""


class WatchedFile:
    """One file and the state in which it was last seen. Not there is a state, too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: Stamp | None = None

    def changed(self) -> Document | None:
        """Read the file if it is not as it was last seen; None if it is. Missing reads as empty."""
        try:
            stamp = self._stamp()
            if stamp == self._seen:
                return None
            found = parse(self.path, self.path.read_bytes()) if stamp else Document([])
        except OSError as error:
            raise unusable(self.path, error) from error
        self._seen = stamp
        return found

    def replace(self, content: bytes) -> None:
        """Write the file durably, as a whole. The caller holds its lock."""
        try:
            replace_file(self.path, content)
            self._seen = self._stamp()
        except OSError as error:
            raise unusable(self.path, error) from error

    def forget(self) -> None:
        """Read the file again at the next opportunity, whatever it looks like."""
        self._seen = (0, 0, 0, b"")

    def _stamp(self) -> Stamp | None:
        try:
            found = self.path.stat()
            with self.path.open("rb") as file:
                return found.st_ino, found.st_size, found.st_mtime_ns, file.read(_HEADER)
        except FileNotFoundError:
            return None
