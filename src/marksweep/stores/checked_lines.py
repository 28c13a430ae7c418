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
from typing import Any, Generic, Protocol, Self, TypeVar

import msgspec

from marksweep.errors import BadInput, Refused, StoreCorrupt, StoreError, StoreTooNew
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


class LineWriter(Generic[Item]):
    """Writes a temporary file, and renames it when it is complete."""

    def __init__(self, path: Path, header: bytes, encode: Callable[[Item], bytes]) -> None:
        self.path = path
        self._encode = encode
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

    def add(self, item: Item) -> None:
        """Add an item."""
        self._write(self._encode(item))
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


class FormatHeader(Protocol):
    """The first line of a file."""

    @property
    def format(self) -> int:
        """The version of the format."""
        ...


Head = TypeVar("Head", bound=FormatHeader)


class ItemFormat(Generic[Head, Item]):
    """A format of files: its header, and kinds of items, each under its name: `{"memory":{…}}`."""

    def __init__(self, newest: int, header: type[Head], **kinds: type) -> None:
        """Take the newest version that is known, the header, and the kinds of items."""
        self._newest = newest
        self._header = msgspec.json.Decoder(header)
        self._kinds = [
            (name, kind, f'{{"{name}":'.encode(), Codec[Any](kind)) for name, kind in kinds.items()
        ]

    def writing(self, path: Path, header: Head) -> LineWriter[Item]:
        """Write a file; one that exists is replaced when the new one is complete."""
        return LineWriter(path, msgspec.json.encode(header), self._encode)

    def header(self, path: Path) -> Head:
        """Read only the header of a file."""
        raw = next(_raw_lines(path), b"")
        if not raw:
            raise _damaged(path, "it is empty")
        header = _decoded(path, self._header.decode, raw)
        if header.format > self._newest:
            raise StoreTooNew(
                f"{path} is a backup of format {header.format}, this marksweep knows up to "
                f"{self._newest}. Upgrade marksweep to read it."
            )
        return header

    def check(self, path: Path, follow: Callable[[str], None] = lambda _: None) -> int:
        """Check every item and the checksum of a file; return the number of items.

        StoreCorrupt if it is damaged. `follow` gets the kind of each item in turn, and may raise a
        ValueError.
        """
        digest = hashlib.sha256()
        footer: Footer | None = None
        count = -1
        for raw in _raw_lines(path):
            if footer is not None:
                raise _damaged(path, "lines follow its end")
            if raw.startswith(END):
                footer = _decoded(path, _footer.decode, raw)
                continue
            count += 1
            digest.update(raw)
            if count:
                _decoded(path, lambda line: follow(self._decode(line)[0]), raw)
        if footer is None:
            raise _damaged(path, "its end is missing")
        if (footer.items, footer.sha256) != (count, digest.hexdigest()):
            raise _damaged(path, "its checksum does not match")
        return count

    def items(self, path: Path) -> Iterator[tuple[str, Item]]:
        """Read the items of a checked file, each with its kind."""
        lines = _raw_lines(path)
        next(lines, None)
        for raw in lines:
            if not raw.startswith(END):
                yield _decoded(path, self._decode, raw)

    def _encode(self, item: Item) -> bytes:
        for _, kind, start, codec in self._kinds:
            if type(item) is kind:
                return start + codec.encode(item) + b"}"
        raise TypeError(type(item))

    def _decode(self, raw: bytes) -> tuple[str, Item]:
        for name, _, start, codec in self._kinds:
            if raw.startswith(start):
                return name, codec.decode(raw.rstrip(b"\n")[len(start) : -1])
        raise ValueError(f"a line begins with {raw[:20]!r}")


def refuse_existing(path: Path) -> None:
    """Refuse to write a backup over a file."""
    if path.exists():
        raise Refused(f"{path} already exists, and a backup replaces no file. Name a new file.")


def _decoded(path: Path, decode: Callable[[bytes], Decoded], raw: bytes) -> Decoded:
    """Decode a line; StoreCorrupt if that fails."""
    try:
        return decode(raw)
    except ValueError as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> StoreCorrupt:
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
                    raise _damaged(path, "one of its lines is not terminated")
                yield line
    except PermissionError as error:
        raise StoreError(f"{path} cannot be read: {error}. Change its permissions.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(path, str(error)) from error
