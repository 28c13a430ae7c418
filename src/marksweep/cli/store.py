"""`marksweep store`: all that a store holds, in one file, and from there into any other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import click
import msgspec
from rich.console import Group

from marksweep.cli import render
from marksweep.cli.common import NOTHING, emit, json_option, options, settings, store_option
from marksweep.cli.common import command as make_command
from marksweep.graph.place import place_of
from marksweep.model import utc_now
from marksweep.stores.base import PlanRetention, Store
from marksweep.stores.open import open_store
from marksweep.stores.transfer import WorkspaceCounts, export_store, import_store, verify_store

KEEP_ALL = PlanRetention(days=1e9, plans=1_000_000_000)
"""Keeps plans from expiring while a journal is copied; its later users let them expire."""


transfer_options = options(
    click.argument("path", type=click.Path(path_type=Path)),
    click.option(
        "--workspace",
        "workspaces",
        multiple=True,
        metavar="NAME",
        help="Only these; all if left out.",
    ),
    store_option,
    json_option,
)
"""What is moved, and between which file and store."""


class StoreFile(msgspec.Struct, frozen=True):
    """A file with the content of a store, and how much of each workspace it has."""

    path: str
    workspaces: tuple[WorkspaceCounts, ...]


@click.group("store")
def store() -> None:
    """Export and import segments, stash and journal. Memory has its own backups."""


@make_command("export", store)
@transfer_options
def export(path: Path, workspaces: tuple[str, ...], store: str | None, as_json: bool) -> int:
    """Write segments, stash and journal into a new file.

    The file appears only when it is complete. Sweeps of a workspace wait while it is written.

    Example:  marksweep store export team.jsonl.gz --store redis://localhost:6379/0
    """
    with _opened(store) as opened:
        return _report(path, export_store(opened, path, utc_now(), workspaces), as_json=as_json)


@make_command("import", store)
@transfer_options
def import_(path: Path, workspaces: tuple[str, ...], store: str | None, as_json: bool) -> int:
    """Import a file into a store, and compare both at the end.

    Its workspaces must be empty in the store. Run the same command again to finish an interrupted
    import.

    Example:  marksweep store import team.jsonl.gz --store .marksweep/store.db
    """
    with _opened(store) as opened:
        return _report(path, import_store(opened, path, workspaces), as_json=as_json)


@make_command("verify", store)
@transfer_options
def verify(path: Path, workspaces: tuple[str, ...], store: str | None, as_json: bool) -> int:
    """Check a file, and compare a store with it; neither is changed.

    Example:  marksweep store verify team.jsonl.gz --store .marksweep/store.db
    """
    with _opened(store) as opened:
        return _report(path, verify_store(opened, path, workspaces), as_json=as_json)


@contextmanager
def _opened(store: str | None) -> Iterator[Store]:
    place = place_of(settings(store), ".").store
    with closing(open_store(place, KEEP_ALL)) as opened:
        yield opened


def _report(path: Path, moved: Sequence[WorkspaceCounts], *, as_json: bool) -> int:
    lines = [
        f"{each.workspace!r}: {each.segments:,} segments, {each.stashed:,} stashed, "
        f"{each.entries:,} entries of the journal"
        for each in moved
    ]
    shown = Group(*map(render.line, lines or [f"nothing: {path} holds no workspace"]))
    emit(StoreFile(str(path), tuple(moved)), shown, as_json=as_json)
    return 0 if moved else NOTHING
