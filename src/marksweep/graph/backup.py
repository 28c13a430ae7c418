"""Backups of a graph: write, list, restore, and erase forgotten memories from them.

A backup is a file with a line for each node and edge.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from marksweep.errors import MarksweepError
from marksweep.stores.checked_lines import PART, SUFFIX, ItemFormat, refuse_existing
from marksweep.stores.graph.base import GraphStore, Item, Nodes
from marksweep.stores.graph.nouns import Alias, Chunk, Entity, Kind, Memory, Mention, Relation

FORMAT_VERSION = 1

BATCH = 2000
"""Items read or written at a time."""


Note = tuple[str, str]
"""The source and the text of a note."""


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a backup contains."""

    format: int = msgspec.field(name="marksweep_graph")
    workspace_id: str
    made_at: datetime


class Backup(msgspec.Struct, frozen=True):
    """A complete backup."""

    path: Path
    workspace_id: str
    made_at: datetime
    items: int


FORMAT: ItemFormat[Header, Item] = ItemFormat(
    FORMAT_VERSION,
    Header,
    **{kind.__name__.lower(): kind for kind in (Memory, Chunk, Entity, Mention, Relation, Alias)},
)


def check_backup(path: Path) -> Backup:
    """Read a whole backup and check every line and the checksum; StoreCorrupt if damaged."""
    header = FORMAT.header(path)
    return Backup(path, header.workspace_id, header.made_at, FORMAT.check(path))


def read_backup(path: Path) -> Iterator[Item]:
    """Read the items of a backup that was checked."""
    return (item for _, item in FORMAT.items(path))


def new_backup(directory: Path, now: datetime) -> Path:
    """Name the file of a backup written now."""
    return directory / f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}{SUFFIX}"


def write_backup(
    store: GraphStore,
    workspace_id: str,
    path: Path,
    now: datetime,
    *,
    nodes: Nodes | None = None,
) -> Backup:
    """Write nodes with the edges that touch them; all that a workspace remembers if none are named.

    Reading a backup restores all that it holds, so that of a workspace has nothing that is deleted.
    """
    refuse_existing(path)
    header = Header(format=FORMAT_VERSION, workspace_id=workspace_id, made_at=now)
    if nodes is None:
        items = _remembered(store.export(workspace_id))
    else:
        items = (item for batch in _batches(nodes) for item in store.export(workspace_id, batch))
    with FORMAT.writing(path, header) as writer:
        for item in items:
            writer.add(item)
    return Backup(path, workspace_id, now, writer.items)


def _remembered(items: Iterator[Item]) -> Iterator[Item]:
    """Leave out what is deleted, with its edges and the entities that only it mentions."""
    deleted: set[str] = set()
    entities: dict[str, Entity] = {}
    """Those that nothing has mentioned so far."""
    forgotten: set[str] = set()
    for item in items:
        match item:
            case Memory() if item.deleted_at is not None:
                deleted.add(item.memory_id)
            case Chunk() if item.deleted_at is not None or item.memory_id in deleted:
                deleted.add(item.chunk_id)
            case Entity():
                if item.deleted_at is None:
                    entities[item.entity_id] = item
            case Mention() if item.chunk_id in deleted:
                forgotten.add(item.entity_id)
            case Mention():
                if item.entity_id in entities:
                    yield entities.pop(item.entity_id)
                yield item
            case Relation() if item.memory_id in deleted:
                pass
            case _:
                yield item
    yield from (each for each in entities.values() if each.entity_id not in forgotten)


def load_backup(store: GraphStore, backup: Backup, workspace_id: str) -> tuple[str, ...]:
    """Restore a checked backup's nodes, then its edges, in a workspace; name the memories."""
    memories: list[str] = []
    for wanted in ((Memory, Chunk, Entity), (Mention, Relation, Alias)):
        batch: list[Item] = []
        for item in read_backup(backup.path):
            if isinstance(item, wanted):
                batch.append(_alive(item, workspace_id))
            if isinstance(item, Memory) and Memory in wanted:
                memories.append(item.memory_id)
            if len(batch) >= BATCH:
                store.load(workspace_id, batch)
                batch = []
        if batch:
            store.load(workspace_id, batch)
    return tuple(memories)


def erase_from_backup(
    path: Path, memory_ids: Sequence[str], chunk_ids: Sequence[str], notes: Collection[Note]
) -> int:
    """Rewrite a backup without some memories and what only they hold; count what was removed.

    Memories of the same notes are removed whatever their ids: a text gets another one each time it
    becomes valid, and the earlier ones may be left in backups only.
    """
    backup = check_backup(path)
    doomed = _Doomed(read_backup(path), memory_ids, chunk_ids, notes)
    if not any(doomed.names(item) for item in read_backup(path)):
        return 0
    with FORMAT.writing(path, FORMAT.header(path)) as writer:
        for item in read_backup(path):
            if not doomed.names(item):
                writer.add(item)
    return backup.items - writer.items


class _Doomed:
    """What must be removed from a backup along with some memories."""

    def __init__(
        self,
        items: Iterator[Item],
        memory_ids: Sequence[str],
        chunk_ids: Sequence[str],
        notes: Collection[Note],
    ) -> None:
        self._memories, self._chunks = set(memory_ids), set(chunk_ids)
        mentions: list[Mention] = []
        for item in items:
            if isinstance(item, Memory) and (item.source, item.text) in notes:
                self._memories.add(item.memory_id)
            elif isinstance(item, Chunk) and item.memory_id in self._memories:
                self._chunks.add(item.chunk_id)
            elif isinstance(item, Mention):
                mentions.append(item)
        kept = {m.entity_id for m in mentions if m.chunk_id not in self._chunks}
        self._entities = {m.entity_id for m in mentions if m.chunk_id in self._chunks} - kept

    def names(self, item: Item) -> bool:
        """Return whether an item is removed."""
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


class BackupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A backup file that was read completely."""

    path: str
    size: int
    """Bytes on the disk."""
    workspace_id: str = ""
    made_at: datetime | None = None
    items: int = 0
    """Nodes and edges."""
    problem: str = ""
    """Why it cannot be used; empty if it can."""


def kept_in(directory: Path) -> Iterator[BackupInfo]:
    """Read every backup of a directory completely, oldest first; describe each."""
    for path in backups_in(directory):
        size = path.stat().st_size
        try:
            found = check_backup(path)
        except MarksweepError as error:
            yield BackupInfo(path=str(path), size=size, problem=str(error))
        else:
            yield BackupInfo(
                path=str(path),
                size=size,
                workspace_id=found.workspace_id,
                made_at=found.made_at,
                items=found.items,
            )


def backups_in(directory: Path) -> tuple[Path, ...]:
    """Name the backups of a directory, oldest first."""
    return tuple(sorted(directory.glob(f"*{SUFFIX}"))) if directory.is_dir() else ()


def halves_in(directory: Path) -> tuple[Path, ...]:
    """Name the backups of a directory that are being written, or were when a process was killed."""
    found = directory.glob(f"*{SUFFIX}.*{PART}") if directory.is_dir() else ()
    return tuple(sorted(found))


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
