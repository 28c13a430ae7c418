"""The file of a backup: portable JSON lines, compressed, checksummed.

The first line says what it is, each further line holds one node or edge, the last holds the count
and a checksum of all before it. A file appears under its name only when it is complete and on disk.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import secrets
import zlib
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from marksweep.errors import BadInput, StoreCorrupt, StoreError, StoreTooNew
from marksweep.stores.files import make_folder, open_new
from marksweep.stores.graph.base import Item
from marksweep.stores.graph.nouns import Alias, Chunk, Entity, Memory, Mention, Relation

FORMAT_VERSION = 1
Decoded = TypeVar("Decoded")

SUFFIX = ".jsonl.gz"

PART = ".part"
"""What the name of a file ends in that is being written."""

END = b'{"items"'
"""What the last line begins with."""

LONGEST_LINE = 1 << 28
"""Bytes of a line that are read: a file with a longer one is not a backup of ours."""


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a backup is."""

    marksweep_graph: int
    workspace_id: str
    made_at: datetime


class Footer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a backup holds."""

    items: int
    sha256: str


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One node or edge; exactly one is given."""

    memory: Memory | None = None
    chunk: Chunk | None = None
    entity: Entity | None = None
    mention: Mention | None = None
    relation: Relation | None = None
    alias: Alias | None = None

    @classmethod
    def of(cls, item: Item) -> Line:
        """Wrap an item."""
        match item:
            case Memory():
                return cls(memory=item)
            case Chunk():
                return cls(chunk=item)
            case Entity():
                return cls(entity=item)
            case Mention():
                return cls(mention=item)
            case Relation():
                return cls(relation=item)
            case Alias():
                return cls(alias=item)

    @property
    def item(self) -> Item:
        """The item within."""
        for name in self.__struct_fields__:
            item: Item | None = getattr(self, name)
            if item is not None:
                return item
        raise msgspec.ValidationError("a line without a node or edge")


class Backup(msgspec.Struct, frozen=True):
    """A complete backup."""

    path: Path
    workspace_id: str
    made_at: datetime
    items: int


_line = msgspec.json.Decoder(Line)
_header = msgspec.json.Decoder(Header)
_footer = msgspec.json.Decoder(Footer)


def header_of(path: Path) -> Header:
    """Read what a file says it is, and no further."""
    for raw in _raw_lines(path):
        header = _decoded(path, _header.decode, raw)
        if header.marksweep_graph > FORMAT_VERSION:
            raise StoreTooNew(
                f"{path} is a backup of format {header.marksweep_graph}, this marksweep knows "
                f"up to {FORMAT_VERSION}. Upgrade marksweep to read it."
            )
        return header
    raise _damaged(path, "it is empty")


def check_backup(path: Path) -> Backup:
    """Read a backup through, every line and the checksum; StoreCorrupt if it is damaged."""
    header = header_of(path)
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
            _item(path, raw)
    if footer is None:
        raise _damaged(path, "its end is missing")
    if (footer.items, footer.sha256) != (count, digest.hexdigest()):
        raise _damaged(path, "its checksum does not fit")
    return Backup(path, header.workspace_id, header.made_at, count)


def read_backup(path: Path) -> Iterator[Item]:
    """Read the items of a backup that was checked."""
    lines = _raw_lines(path)
    next(lines, None)
    for raw in lines:
        if not raw.startswith(END):
            yield _item(path, raw)


class Writer:
    """Writes a backup beside its place, and puts it there when it is complete."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        self.items = 0
        self._part = path.with_name(f"{path.name}.{secrets.token_hex(4)}{PART}")
        self._digest = hashlib.sha256()
        self._header = header

    def __enter__(self) -> Writer:
        """Begin the file."""
        try:
            make_folder(self._part.parent)
            self._raw = open_new(self._part)
        except OSError as error:
            raise StoreError(
                f"no backup can be written to {self.path}: {error}. Name a place for files."
            ) from error
        self._file = gzip.GzipFile("", "wb", fileobj=self._raw, compresslevel=3)
        self._write(msgspec.json.encode(self._header))
        return self

    def add(self, item: Item) -> None:
        """Add a node or edge."""
        self._write(msgspec.json.encode(Line.of(item)))
        self.items += 1

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        """Put the file in its place, or away if something went wrong."""
        if kind is None:
            footer = Footer(items=self.items, sha256=self._digest.hexdigest())
            self._file.write(msgspec.json.encode(footer) + b"\n")
        self._file.close()
        if kind is None:
            os.fsync(self._raw.fileno())
        self._raw.close()
        if kind is None:
            self._part.replace(self.path)
        else:
            self._part.unlink(missing_ok=True)

    def _write(self, encoded: bytes) -> None:
        line = encoded + b"\n"
        self._file.write(line)
        self._digest.update(line)


def _raw_lines(path: Path) -> Iterator[bytes]:
    if not path.is_file():
        raise BadInput(f"{path} is not a file. Name a backup, a file that ends in {SUFFIX}.")
    try:
        with gzip.open(path) as file:
            while line := file.readline(LONGEST_LINE):
                if len(line) == LONGEST_LINE:
                    raise _damaged(path, "a line of it has no end")
                yield line
    except PermissionError as error:
        raise StoreError(f"{path} cannot be read: {error}. Change its permissions.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(path, str(error)) from error


def _item(path: Path, raw: bytes) -> Item:
    return _decoded(path, lambda line: _line.decode(line).item, raw)


def _decoded(path: Path, decode: Callable[[bytes], Decoded], raw: bytes) -> Decoded:
    try:
        return decode(raw)
    except msgspec.MsgspecError as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"{path} is not a whole backup: {why}. The file is left as it is; use another one."
    )
