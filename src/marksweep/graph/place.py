"""Where a project keeps things: one answer for the library, the command line and the server."""

from __future__ import annotations

from pathlib import Path

import msgspec

from marksweep.paths import is_folder
from marksweep.settings import Settings
from marksweep.settings.layers import FOLDER
from marksweep.stores.location import BACKUPS, graph_location, within
from marksweep.urls import split_scheme


class ProjectPaths(msgspec.Struct, frozen=True):
    """Where the store of a project is, where its graph is, and where backups go."""

    store: str
    """For `open_store`."""
    graph: str
    """For `open_graph`."""
    backups: Path


def place_of(settings: Settings, project: str | Path = ".") -> ProjectPaths:
    """Find a project's places.

    The graph is beside the store unless the settings say otherwise, and beside the settings if
    the store is not a file. Relative paths are taken from the project.
    """
    folder = Path(project)
    where = within(folder, settings.store.location)
    beside = folder / FOLDER
    if not split_scheme(where)[0]:
        file = Path(where)
        beside = file.parent if file.suffix and not is_folder(file) else file
    graph = within(folder, settings.memory.location) or str(beside)
    database = None if split_scheme(graph)[0] else graph_location(graph).path
    return ProjectPaths(where, graph, (database.parent if database else beside) / BACKUPS)
