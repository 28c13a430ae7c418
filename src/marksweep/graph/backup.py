"""Backups of a graph: portable JSON lines, compressed, checksummed.

The first line says what it is, each further line holds one node or edge, the last holds the count
and a checksum of all before it. A file appears under its name only when it is complete and on disk.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from marksweep.errors import StoreCorrupt, StoreTooNew
from marksweep.stores.graph.base import GraphStore, Item, Nodes
from marksweep.stores.graph.nouns import Alias, Chunk, Entity, Kind, Memory, Mention, Relation

FORMAT_VERSION = 1
Decoded = TypeVar("Decoded")

BATCH = 2000
"""Items that are read or written at a time."""
SUFFIX = ".jsonl.gz"


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


async def write_backup(
    store: GraphStore,
    workspace_id: str,
    directory: Path,
    now: datetime,
    *,
    nodes: Nodes | None = None,
) -> Backup:
    """Write nodes with the edges that touch them, or all of a workspace if none are named."""
    directory.mkdir(parents=True, exist_ok=True)
    name = f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}{SUFFIX}"
    header = Header(marksweep_graph=FORMAT_VERSION, workspace_id=workspace_id, made_at=now)
    with _Writer(directory / name, header) as writer:
        if nodes is None:
            async for item in store.export(workspace_id):
                writer.add(item)
        else:
            for batch in _batches(nodes):
                async for item in store.export(workspace_id, batch):
                    writer.add(item)
    return Backup(writer.path, workspace_id, now, writer.items)


def check_backup(path: Path) -> Backup:
    """Read a backup through and compare its checksum; StoreCorrupt if it is damaged."""
    digest = hashlib.sha256()
    header: Header | None = None
    footer: Footer | None = None
    count = -1
    for raw in _raw_lines(path):
        if footer is not None:
            raise _damaged(path, "lines follow its end")
        if header is None:
            header = _decoded(path, _header.decode, raw)
            if header.marksweep_graph > FORMAT_VERSION:
                raise StoreTooNew(
                    f"{path} is a backup of format {header.marksweep_graph}, this marksweep knows "
                    f"up to {FORMAT_VERSION}. Upgrade marksweep to read it."
                )
        elif raw.startswith(b'{"items"'):
            footer = _decoded(path, _footer.decode, raw)
            continue
        count += 1
        digest.update(raw)
    if header is None or footer is None:
        raise _damaged(path, "its end is missing")
    if (footer.items, footer.sha256) != (count, digest.hexdigest()):
        raise _damaged(path, "its checksum does not fit")
    return Backup(path, header.workspace_id, header.made_at, count)


def read_backup(path: Path) -> Iterator[Item]:
    """Read the items of a backup that was checked."""
    lines = _raw_lines(path)
    next(lines, None)
    for raw in lines:
        if not raw.startswith(b'{"items"'):
            yield _decoded(path, _line.decode, raw).item


async def load_backup(store: GraphStore, backup: Backup, workspace_id: str) -> tuple[str, ...]:
    """Bring a checked backup's nodes to life in a workspace, then join them; name the memories."""
    memories: list[str] = []
    for wanted in ((Memory, Chunk, Entity), (Mention, Relation, Alias)):
        batch: list[Item] = []
        for item in read_backup(backup.path):
            if isinstance(item, wanted):
                batch.append(_alive(item, workspace_id))
            if isinstance(item, Memory) and Memory in wanted:
                memories.append(item.memory_id)
            if len(batch) >= BATCH:
                await store.load(workspace_id, batch)
                batch = []
        if batch:
            await store.load(workspace_id, batch)
    return tuple(memories)


def erase_from_backup(path: Path, memory_ids: Sequence[str], chunk_ids: Sequence[str]) -> int:
    """Write a backup anew without some memories and what only they hold; count what went."""
    backup = check_backup(path)
    doomed = _Doomed(read_backup(path), memory_ids, chunk_ids)
    if not any(doomed.names(item) for item in read_backup(path)):
        return 0
    header = Header(
        marksweep_graph=FORMAT_VERSION, workspace_id=backup.workspace_id, made_at=backup.made_at
    )
    with _Writer(path, header) as writer:
        for item in read_backup(path):
            if not doomed.names(item):
                writer.add(item)
    return backup.items - writer.items


class _Doomed:
    """What has to go from a backup with some memories."""

    def __init__(
        self, items: Iterator[Item], memory_ids: Sequence[str], chunk_ids: Sequence[str]
    ) -> None:
        self._memories, self._chunks = set(memory_ids), set(chunk_ids)
        mentions: list[Mention] = []
        for item in items:
            if isinstance(item, Chunk) and item.memory_id in self._memories:
                self._chunks.add(item.chunk_id)
            elif isinstance(item, Mention):
                mentions.append(item)
        kept = {m.entity_id for m in mentions if m.chunk_id not in self._chunks}
        self._entities = {m.entity_id for m in mentions if m.chunk_id in self._chunks} - kept

    def names(self, item: Item) -> bool:
        """Tell whether an item goes."""
        match item:
            case Memory():
                return item.memory_id in self._memories
            case Chunk() | Mention():
                return item.chunk_id in self._chunks
            case Entity():
                return item.entity_id in self._entities
            case Relation():
                ends = {item.source_id, item.target_id}
                return item.memory_id in self._memories or bool(ends & self._entities)
            case Alias():
                return item.keep_id in self._entities


def backups_in(directory: Path) -> tuple[Path, ...]:
    """Name the backups of a directory, oldest first."""
    return tuple(sorted(directory.glob(f"*{SUFFIX}"))) if directory.is_dir() else ()


def _alive(item: Item, workspace_id: str) -> Item:
    if isinstance(item, Memory | Chunk | Entity):
        return msgspec.structs.replace(item, workspace_id=workspace_id, deleted_at=None)
    return item


def _batches(nodes: Nodes) -> Iterator[Nodes]:
    for kind, name in (
        (Kind.MEMORY, "memories"),
        (Kind.CHUNK, "chunks"),
        (Kind.ENTITY, "entities"),
    ):
        of_kind = nodes.of(kind)
        for start in range(0, len(of_kind), BATCH):
            yield Nodes(**{name: of_kind[start : start + BATCH]})


class _Writer:
    """Writes a backup beside its place, and puts it there when it is complete."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        self.items = 0
        self._part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
        self._digest = hashlib.sha256()
        self._header = header

    def __enter__(self) -> _Writer:
        self._raw = self._part.open("wb")
        self._file = gzip.GzipFile(fileobj=self._raw, mode="wb", compresslevel=3)
        self._write(msgspec.json.encode(self._header))
        return self

    def add(self, item: Item) -> None:
        """Add a node or edge."""
        self._write(msgspec.json.encode(Line.of(item)))
        self.items += 1

    def __exit__(self, kind: object, error: object, trace: object) -> None:
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
    try:
        with gzip.open(path) as file:
            yield from file
    except (OSError, EOFError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise _damaged(path, str(error)) from error


def _decoded(path: Path, decode: Callable[[bytes], Decoded], raw: bytes) -> Decoded:
    try:
        return decode(raw)
    except msgspec.MsgspecError as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"{path} is not a whole backup: {why}. The file is left as it is; use another one."
    )
