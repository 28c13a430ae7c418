"""Read what can be read of a damaged store, and say what was skipped and where.

The damaged files are only read. What comes out can be put into a fresh store with `copy_to`.
"""

from __future__ import annotations

from pathlib import Path

from marksweep.errors import StoreError
from marksweep.stores.files import unusable
from marksweep.stores.json_file.places import Places
from marksweep.stores.json_file.salvage import salvage_json
from marksweep.stores.rescued import Rescued, Salvaged, Skipped
from marksweep.stores.sqlite.salvage import is_database, salvage_sqlite

__all__ = ["Rescued", "Salvaged", "Skipped", "salvage"]


def salvage(path: str | Path) -> Salvaged:
    """Read what can be read of the store at a path: a SQLite database, or JSON files."""
    place = Path(path).absolute()
    try:
        if place.is_file() and is_database(place):
            return salvage_sqlite(place)
        places = Places(place)
        if any(True for _ in places.workspaces()):
            return salvage_json(places)
    except OSError as error:
        raise unusable(place, error) from error
    raise StoreError(f"{places.main}: no such store. Name its file, or its folder.")
