"""A file of lines, written atomically: compressed, counted, checksummed.

The first line is a header, each further line holds one item, and the last holds the count and a
checksum of all lines before it. A file gets its name only when it is complete and on disk, and is
readable by its owner only.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import secrets
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import msgspec

from marksweep.errors import BadInput, StoreCorrupt, StoreError
from marksweep.stores.codec import Codec
from marksweep.stores.files import make_folder, open_new, sync_folder

Decoded = TypeVar("Decoded")
Item = TypeVar("Item")

SUFFIX = ".jsonl.gz"

PART = ".part"
"""Suffix of a file that is still being written."""

END = b'{"items"'
"""Start of the last line."""

LONGEST_LINE = 1 << 28
"""Longest line in bytes. marksweep does not write longer ones."""


class Footer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The item count and checksum of a file."""

    items: int
    sha256: str


_footer = msgspec.json.Decoder(Footer)


class LineWriter:
    """Writes a temporary file, and renames it when it is complete."""

    def __init__(self, path: Path, header: bytes) -> None:
        self.path = path
        self.items = 0
        self._part = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PART}")
        self._digest = hashlib.sha256()
        self._header = header

    def __enter__(self) -> Self:
        """Create the file and write its header."""
        try:
            make_folder(self._part.parent)
            self._raw = open_new(self._part)
        except OSError as error:
            raise StoreError(
                f"cannot write a backup to {self.path}: {error}. Choose another location."
            ) from error
        self._file = gzip.GzipFile("", "wb", fileobj=self._raw, compresslevel=3)
        self._write(self._header)
        return self

    def add_line(self, encoded: bytes) -> None:
        """Add an item."""
        self._write(encoded)
        self.items += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        """Rename the file into place, or delete it after an error."""
        try:
            if kind is None:
                footer = Footer(items=self.items, sha256=self._digest.hexdigest())
                self._file.write(msgspec.json.encode(footer) + b"\n")
            self._file.close()
            if kind is None:
                self._raw.flush()
                os.fsync(self._raw.fileno())
            self._raw.close()
            if kind is None:
                self._part.replace(self.path)
                sync_folder(self.path.parent)
        finally:
            self._part.unlink(missing_ok=True)

    def _write(self, encoded: bytes) -> None:
        line = encoded + b"\n"
        self._file.write(line)
        self._digest.update(line)


class ItemLines(Generic[Item]):
    """Items of several kinds as lines, each under the name of its kind: `{"memory":{…}}`."""

    def __init__(self, **kinds: type) -> None:
        self._kinds = [
            (name, kind, f'{{"{name}":'.encode(), Codec[Any](kind)) for name, kind in kinds.items()
        ]

    def encode(self, item: Item) -> bytes:
        """Encode an item as a line."""
        for _, kind, start, codec in self._kinds:
            if type(item) is kind:
                return start + codec.encode(item) + b"}"
        raise TypeError(type(item))

    def decode(self, raw: bytes) -> tuple[str, Item]:
        """Return the kind and the item of a line; ValueError if it is invalid."""
        for name, _, start, codec in self._kinds:
            if raw.startswith(start):
                return name, codec.decode(raw.rstrip(b"\n")[len(start) : -1])
        raise ValueError(f"a line begins with {raw[:20]!r}")


def first_line(path: Path) -> bytes:
    """Read the header of a file."""
    for line in _raw_lines(path):
        return line
    raise damaged(path, "it is empty")


def check_lines(path: Path, check: Callable[[bytes], object]) -> int:
    """Check every item and the checksum of a file; return the number of items.

    StoreCorrupt if it is damaged, or if `check` raises a ValueError for an item.
    """
    digest = hashlib.sha256()
    footer: Footer | None = None
    count = -1
    for raw in _raw_lines(path):
        if footer is not None:
            raise damaged(path, "lines follow its end")
        if raw.startswith(END):
            footer = decoded(path, _footer.decode, raw)
            continue
        count += 1
        digest.update(raw)
        if count:
            decoded(path, check, raw)
    if footer is None:
        raise damaged(path, "its end is missing")
    if (footer.items, footer.sha256) != (count, digest.hexdigest()):
        raise damaged(path, "its checksum does not match")
    return count


def read_items(path: Path) -> Iterator[bytes]:
    """Read the items of a checked file."""
    lines = _raw_lines(path)
    next(lines, None)
    return (raw for raw in lines if not raw.startswith(END))


def decoded(path: Path, decode: Callable[[bytes], Decoded], raw: bytes) -> Decoded:
    """Decode a line; StoreCorrupt if that fails."""
    try:
        return decode(raw)
    except ValueError as error:
        raise damaged(path, str(error)) from error


def damaged(path: Path, why: str) -> StoreCorrupt:
    """Return the error for a damaged file."""
    return StoreCorrupt(
        f"{path} is not a complete backup: {why}. The file is left as it is; use another one."
    )


def _raw_lines(path: Path) -> Iterator[bytes]:
    if not path.is_file():
        raise BadInput(f"{path} is not a file. Name a backup, a file that ends in {SUFFIX}.")
    try:
        with gzip.open(path) as file:
            while line := file.readline(LONGEST_LINE):
                if len(line) == LONGEST_LINE:
                    raise damaged(path, "one of its lines is not terminated")
                yield line
    except PermissionError as error:
        raise StoreError(f"{path} cannot be read: {error}. Change its permissions.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, str(error)) from error
