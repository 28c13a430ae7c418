"""What could be read of a damaged store, and what could not."""

from __future__ import annotations

import msgspec

from marksweep.model import Entry, Segment, Stashed
from marksweep.stores.base import Store


class Skipped(msgspec.Struct, frozen=True):
    """Something that could not be read."""

    place: str
    """The file, and where in it: a line and column, or rows."""
    reason: str


class Rescued(msgspec.Struct, frozen=True):
    """What could be read of one workspace."""

    workspace: str
    segments: tuple[Segment, ...] = ()
    stashed: tuple[Stashed, ...] = ()
    entries: tuple[Entry, ...] = ()
    """Of the journal, oldest first."""


class Salvaged(msgspec.Struct, frozen=True):
    """What could be read of a store, and what could not."""

    workspaces: tuple[Rescued, ...]
    skipped: tuple[Skipped, ...]

    def copy_to(self, store: Store) -> None:
        """Put all of it into a store; entries of the journal are numbered anew."""
        for rescued in self.workspaces:
            store.segments.write(rescued.workspace, put=rescued.segments)
            store.stash.put(rescued.workspace, rescued.stashed)
            for entry in rescued.entries:
                store.journal.append(rescued.workspace, entry)
