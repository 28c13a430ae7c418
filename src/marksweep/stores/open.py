"""Open a store from a location string."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from marksweep.errors import BadInput, StoreError, UnknownName
from marksweep.paths import expanded
from marksweep.stores.base import KEEP_PLANS, PlanRetention, Store
from marksweep.stores.json_file import JsonStore
from marksweep.stores.memory import MemoryStore
from marksweep.stores.sqlite import SqliteStore
from marksweep.urls import split_scheme

IN_FOLDER = "marksweep.db"
"""Name of the database in a store given as a folder."""


def open_store(where: str | Path, retention: PlanRetention = KEEP_PLANS) -> Store:
    """Open the store at a location; create it if missing. `retention` is for its journal.

    | where | what |
    |---|---|
    | `memory:` | memory, lost when the process ends |
    | `store.db`, `store.sqlite`, a folder, `sqlite:///store.db` | SQLite |
    | `context.json`, `json:folder` | JSON files |
    | `redis://host:6379/0`, `rediss://…`, `unix://…` | Redis |

    As in other SQLite URLs, an absolute path has four slashes: `sqlite:////var/lib/store.db`.
    """
    text = str(where)
    if not text or "\0" in text:
        raise BadInput(f"{text!r} is not a store location. Name a file, a folder or a URL.")
    scheme, rest = split_scheme(where) if isinstance(where, str) else ("", "")
    if not scheme:
        return _by_ending(expanded(where), retention)
    opener = _SCHEMES.get(scheme)
    if opener is None:
        raise UnknownName(
            f"unknown type of store: {scheme!r} (in {text!r}); known are {', '.join(_SCHEMES)}. "
            "Write ./ before a file name that contains a colon."
        )
    return opener(text, rest, retention)


def _by_ending(path: Path, retention: PlanRetention) -> Store:
    if path.is_dir() or not path.suffix:
        return SqliteStore(path / IN_FOLDER, retention=retention)
    if path.suffix in (".db", ".sqlite", ".sqlite3"):
        return SqliteStore(path, retention=retention)
    if path.suffix == ".json":
        return JsonStore(path, retention=retention)
    raise UnknownName(
        f"{path}: no store ends in {path.suffix!r}; known are .db, .sqlite, .sqlite3, .json and "
        "folders. Rename it, or say what it is: sqlite:///… or json:…"
    )


def _memory(where: str, rest: str, retention: PlanRetention) -> Store:
    if rest:
        raise BadInput(f"{where!r}: a store in memory has no name. Write memory:")
    return MemoryStore(retention=retention)


def _sqlite_url(where: str, rest: str, retention: PlanRetention) -> Store:
    path = rest[3:] if rest.startswith("///") else rest
    if not path or (rest.startswith("//") and not rest.startswith("///")):
        raise BadInput(f"{where!r}: expected sqlite:///store.db or sqlite:////absolute/store.db.")
    return SqliteStore(expanded(path), retention=retention)


def _json_url(where: str, rest: str, retention: PlanRetention) -> Store:
    path = rest.removeprefix("//")
    if not path:
        raise BadInput(f"{where!r}: expected json:context.json or json:folder.")
    return JsonStore(expanded(path), retention=retention)


def _redis(where: str, _rest: str, retention: PlanRetention) -> Store:
    try:
        from marksweep.stores.redis import RedisStore
    except ModuleNotFoundError as error:
        raise StoreError(
            f"{where!r} needs the package {error.name}. Install it: pip install 'marksweep[redis]'"
        ) from error
    return RedisStore(where, retention=retention)


_SCHEMES: dict[str, Callable[[str, str, PlanRetention], Store]] = {
    "memory": _memory,
    "sqlite": _sqlite_url,
    "json": _json_url,
    "redis": _redis,
    "rediss": _redis,
    "unix": _redis,
}
"""Openers by URL scheme."""
