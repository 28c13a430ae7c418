"""Locations: where a store or a graph is, as users write it. Read in this one place.

| location | of | what |
|---|---|---|
| `store.db`, `store.sqlite`, a folder, `sqlite:///store.db` | a store | a SQLite file |
| `context.json`, `json:folder` | a store | JSON files |
| `memory:` | a store | memory, lost when the process ends |
| `redis://host:6379/0`, `rediss://…`, `unix://…` | a store | a Redis server |
| a folder, `graph.db` | a graph | a SQLite file |
| `falkordb://host:6379`, `falkordbs://…` | a graph | a FalkorDB server |
| `falkordb:folder` | a graph | FalkorDB embedded: a private server on a folder |

As in other SQLite URLs, an absolute path has four slashes: `sqlite:////var/lib/store.db`.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from marksweep.errors import BadInput, UnknownName
from marksweep.paths import expanded, is_folder
from marksweep.urls import split_scheme

STORE_FILE = "marksweep.db"
"""The database in a folder that is given as a store."""

GRAPH_FILE = "graph.db"
"""The database in a folder that is given as a graph."""

JSON_FILE = "context.json"
"""The main file in a folder that is given as a store of JSON files."""

BACKUPS = "backups"
"""The folder of a graph's backups, beside it or beside the store."""

FALKORDB = {"falkordb": "redis", "falkordbs": "rediss"}
"""Schemes of a FalkorDB server's URL, and the client's names for them."""

_BEFORE_PATH = {"": "", "sqlite": "sqlite:///", "json": "json:", "falkordb": "falkordb:"}
"""What precedes the path in a location that has one, by scheme."""


class Engine(StrEnum):
    """What keeps a store or a graph."""

    MEMORY = "memory"
    SQLITE = "sqlite"
    JSON = "json"
    REDIS = "redis"
    FALKORDB = "falkordb"


class Location(NamedTuple):
    """A location that was read."""

    engine: Engine
    path: Path | None = None
    """The database, the JSON file or folder, the folder of an embedded server; None for others."""


_STORES = {
    "memory": Engine.MEMORY,
    "sqlite": Engine.SQLITE,
    "json": Engine.JSON,
    "redis": Engine.REDIS,
    "rediss": Engine.REDIS,
    "unix": Engine.REDIS,
}
"""Schemes of stores."""


def path_in(where: str) -> str | None:
    """Return the path in a location, as written; None if it has none."""
    scheme, rest = split_scheme(where)
    if scheme == "sqlite":
        return rest.removeprefix("///")
    if scheme == "json":
        return rest.removeprefix("//")
    if scheme == "falkordb" and rest.startswith("//"):
        return None
    return rest if scheme in _BEFORE_PATH else None


def within(folder: Path, where: str) -> str:
    """Return a location with its path taken from a folder, unless that path is absolute."""
    path = path_in(where)
    if not path:
        return where
    return f"{_BEFORE_PATH[split_scheme(where)[0]]}{folder / expanded(path)}"


def store_location(where: str | Path) -> Location:
    """Read the location of a store."""
    text, scheme = _read(where, "is not a store location. Name a file, a folder or a URL.")
    if not scheme:
        return _by_ending(expanded(where))
    engine = _STORES.get(scheme)
    if engine is None:
        raise UnknownName(
            f"unknown type of store: {scheme!r} (in {text!r}); known are {', '.join(_STORES)}. "
            "Write ./ before a file name that contains a colon."
        )
    path = path_in(text)
    if engine is Engine.MEMORY and split_scheme(text)[1]:
        raise BadInput(f"{text!r}: a store in memory has no name. Write memory:")
    if engine is Engine.SQLITE and (not path or path.startswith("//")):
        raise BadInput(f"{text!r}: expected sqlite:///store.db or sqlite:////absolute/store.db.")
    if engine is Engine.JSON and not path:
        raise BadInput(f"{text!r}: expected json:context.json or json:folder.")
    return Location(engine, expanded(path) if path else None)


def graph_location(where: str | Path) -> Location:
    """Read the location of a graph."""
    text, scheme = _read(where, "cannot hold a graph. Name a folder or a URL.")
    if not scheme:
        path = expanded(where)
        return Location(Engine.SQLITE, path if path.suffix == ".db" else path / GRAPH_FILE)
    rest = split_scheme(text)[1]
    if scheme not in FALKORDB or not rest.strip("/"):
        raise UnknownName(
            f"no graph is called {text!r}; known are a folder, {'://…, '.join(FALKORDB)}://… and "
            "falkordb:FOLDER. Put ./ before a folder whose name has a colon."
        )
    return Location(Engine.FALKORDB, None if rest.startswith("//") else expanded(rest))


def server_url(where: str) -> str:
    """Convert a FalkorDB server's URL to the form its client expects."""
    scheme, rest = split_scheme(where)
    if scheme not in FALKORDB or not rest.startswith("//"):
        raise BadInput(f"{where!r} is not a FalkorDB server. Expected falkordb://host:6379.")
    return f"{FALKORDB[scheme]}:{rest}"


def _read(where: str | Path, refusal: str) -> tuple[str, str]:
    """Return a location as text, and its scheme; a `Path` has none, whatever it contains."""
    text = str(where)
    if not text or "\0" in text:
        raise BadInput(f"{text!r} {refusal}")
    return text, split_scheme(text)[0] if isinstance(where, str) else ""


def _by_ending(path: Path) -> Location:
    if is_folder(path) or not path.suffix:
        return Location(Engine.SQLITE, path / STORE_FILE)
    if path.suffix in (".db", ".sqlite", ".sqlite3"):
        return Location(Engine.SQLITE, path)
    if path.suffix == ".json":
        return Location(Engine.JSON, path)
    raise UnknownName(
        f"{path}: no store ends in {path.suffix!r}; known are .db, .sqlite, .sqlite3, .json and "
        "folders. Rename it, or say what it is: sqlite:///… or json:…"
    )
