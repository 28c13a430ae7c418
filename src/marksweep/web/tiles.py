"""Tiles: what is in a heap, with its size, what keeps it or why it is garbage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

import msgspec

MAX_LABEL = 120
"""Characters of a text that a tile shows."""


class State(StrEnum):
    """How strongly something is held, strongest first."""

    ROOT = "root"
    """It must stay."""
    REACHED = "reached"
    """In use: what must stay refers to it."""
    RELATED = "related"
    """It shares a file, topic or tag with what stays, so it is swept after other garbage."""
    GARBAGE = "garbage"
    """Nothing needs it."""


class By(StrEnum):
    """What tiles are grouped by."""

    KIND = "kind"
    TOOL = "tool"
    FILE = "file"
    STATE = "state"


class Tile(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One segment, message or memory."""

    name: str
    """Its id; empty if the tile stands for many items."""
    kind: str
    size: int
    state: State
    reason: str
    label: str = ""
    """The beginning of its text, in one line."""
    tool: str = ""
    file: str = ""
    pinned: bool = False

    def group(self, by: By) -> str:
        """Return the name of its group; empty if it has none."""
        return str(getattr(self, by))


class Share(msgspec.Struct, frozen=True):
    """The size of a group of tiles."""

    name: str
    tiles: int
    size: int
    garbage: int
    """The size of those that are garbage."""


def shares(tiles: Iterable[Tile], key: Callable[[Tile], str]) -> tuple[Share, ...]:
    """Sum up tiles by group, largest first."""
    sums: dict[str, list[int]] = {}
    for tile in tiles:
        line = sums.setdefault(key(tile), [0, 0, 0])
        line[0] += 1
        line[1] += tile.size
        line[2] += tile.size if tile.state is State.GARBAGE else 0
    found = (Share(name, *line) for name, line in sums.items())
    return tuple(sorted(found, key=lambda share: (-share.size, share.name)))


def in_short(reason: str) -> str:
    """Shorten a reason to the part that others share."""
    return reason.partition(":")[0].partition(";")[0]


def label(text: str) -> str:
    """Return the beginning of a text in one line."""
    words = " ".join(text[: 4 * MAX_LABEL].split())
    return words if len(words) <= MAX_LABEL else f"{words[: MAX_LABEL - 1]}…"
