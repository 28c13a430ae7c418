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
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from marksweep.errors import BadInput, Refused, StoreCorrupt, StoreError, StoreTooNew
from marksweep.stores.codec import Codec
from marksweep.stores.files import make_folder, open_new, sync_folder, unusable

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
    """Adds lines to a file that is being written."""

    def __init__(self, file: gzip.GzipFile, encode: Callable[[Item], bytes]) -> None:
        self.items = 0
        self._file = file
        self._encode = encode
        self._digest = hashlib.sha256()

    def add(self, item: Item) -> None:
        """Add an item."""
        self.write(self._encode(item))
        self.items += 1

    def write(self, encoded: bytes) -> None:
        """Write a line."""
        self._digest.update(encoded + b"\n")
        self._file.write(encoded + b"\n")

    def end(self) -> None:
        """Write the last line."""
        self.write(msgspec.json.encode(Footer(items=self.items, sha256=self._digest.hexdigest())))


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

    @contextmanager
    def writing(self, path: Path, header: Head) -> Iterator[LineWriter[Item]]:
        """Write a file, which appears or is replaced when it is complete and on disk."""
        part = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PART}")
        try:
            make_folder(part.parent)
            with open_new(part) as raw:
                with gzip.GzipFile("", "wb", fileobj=raw, compresslevel=3) as file:
                    writer = LineWriter(file, self._encode)
                    writer.write(msgspec.json.encode(header))
                    yield writer
                    writer.end()
                raw.flush()
                os.fsync(raw.fileno())
            part.replace(path)
            sync_folder(path.parent)
        except OSError as error:
            raise unusable(path, error) from error
        finally:
            with suppress(OSError):
                part.unlink()

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
    except (ValueError, RecursionError) as error:
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
