"""Open a store from a location string."""

from __future__ import annotations

from pathlib import Path

from marksweep.errors import StoreError
from marksweep.stores.base import KEEP_PLANS, PlanRetention, Store
from marksweep.stores.json_file import JsonStore
from marksweep.stores.location import Engine, store_location
from marksweep.stores.memory import MemoryStore
from marksweep.stores.sqlite import SqliteStore


def open_store(where: str | Path, retention: PlanRetention = KEEP_PLANS) -> Store:
    """Open the store at a location (see `stores.location`); create it if missing.

    `retention` is for its journal.
    """
    engine, path = store_location(where)
    if engine is Engine.MEMORY:
        return MemoryStore(retention=retention)
    if path is None:
        return _on_redis(str(where), retention)
    kind = SqliteStore if engine is Engine.SQLITE else JsonStore
    return kind(path, retention=retention)


def _on_redis(where: str, retention: PlanRetention) -> Store:
    try:
        from marksweep.stores.redis import RedisStore
    except ModuleNotFoundError as error:
        raise StoreError(
            f"{where!r} needs the package {error.name}. Install it: pip install 'marksweep[redis]'"
        ) from error
    return RedisStore(where, retention=retention)
