"""The file of a backup: each node and edge of a graph as a line."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from marksweep.errors import StoreTooNew
from marksweep.stores.checked_lines import (
    PART,
    SUFFIX,
    LineWriter,
    check_lines,
    decoded,
    first_line,
    read_items,
)
from marksweep.stores.graph.base import Item
from marksweep.stores.graph.nouns import Alias, Chunk, Entity, Memory, Mention, Relation

__all__ = ["PART", "SUFFIX", "Backup", "Header", "Writer", "check_backup", "read_backup"]

FORMAT_VERSION = 1


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a backup contains."""

    marksweep_graph: int
    workspace_id: str
    made_at: datetime


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


def header_of(path: Path) -> Header:
    """Read only the header of a file."""
    header = decoded(path, _header.decode, first_line(path))
    if header.marksweep_graph > FORMAT_VERSION:
        raise StoreTooNew(
            f"{path} is a backup of format {header.marksweep_graph}, this marksweep knows "
            f"up to {FORMAT_VERSION}. Upgrade marksweep to read it."
        )
    return header


def check_backup(path: Path) -> Backup:
    """Read a whole backup and check every line and the checksum; StoreCorrupt if damaged."""
    header = header_of(path)
    items = check_lines(path, lambda raw: _line.decode(raw).item)
    return Backup(path, header.workspace_id, header.made_at, items)


def read_backup(path: Path) -> Iterator[Item]:
    """Read the items of a backup that was checked."""
    return (decoded(path, _line.decode, raw).item for raw in read_items(path))


class Writer(LineWriter):
    """Writes a backup to a temporary file, and renames it when it is complete."""

    def __init__(self, path: Path, header: Header) -> None:
        super().__init__(path, msgspec.json.encode(header))

    def add(self, item: Item) -> None:
        """Add a node or edge."""
        self.add_line(msgspec.json.encode(Line.of(item)))
