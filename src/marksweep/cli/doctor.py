"""`marksweep doctor`: is everything here that should be, and sound?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
from rich.table import Table

import marksweep
from marksweep.cli.common import NOTHING, emit, json_option, settings, store_option
from marksweep.cli.common import command as make_command
from marksweep.errors import MarksweepError
from marksweep.stores.open import open_store
from marksweep.tokens import default_counter

OPTIONAL = {
    "rs-bpe": "exact token counts",
    "redis": "stores on Redis",
    "falkordb": "graphs on FalkorDB",
    "tree-sitter": "indexing code",
    "mcp": "the MCP server",
}
"""Packages that may be missing, and what they are for."""


class Check(msgspec.Struct, frozen=True):
    """One thing looked at."""

    what: str
    found: str
    ok: bool


@make_command("doctor")
@store_option
@json_option
def command(store: str | None, as_json: bool) -> None:
    """Check versions, the settings, the token counter and the store; nothing is changed.

    Exits with 1 if something is wrong.

    Example:  marksweep doctor --store project.db
    """
    checks = list(_checks(store))
    emit(checks, _shown(checks), as_json=as_json)
    if not all(check.ok for check in checks):
        sys.exit(NOTHING)


def _checks(store: str | None) -> Iterator[Check]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield Check("marksweep", f"{marksweep.__version__} on Python {python}", ok=True)
    for name, use in OPTIONAL.items():
        yield Check(name, _installed(name, use), ok=True)
    yield _tried("settings", lambda: "read" if settings() else "")
    counter = default_counter()
    kind = "exact" if counter.exact else "estimated: install rs-bpe for exact counts"
    yield Check("tokens", f"{counter.name}, {kind}", ok=True)
    where = store or settings().store.location
    yield _tried(f"store {where}", lambda: _store(where))


def _installed(name: str, use: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return f"not installed, so no {use}"


def _tried(what: str, attempt: Callable[[], str]) -> Check:
    try:
        return Check(what, attempt(), ok=True)
    except MarksweepError as error:
        return Check(what, str(error), ok=False)


def _store(where: str) -> str:
    path = Path(where)
    if "://" not in where and not path.exists():
        return "not there yet; it is made when first used"
    store = open_store(where)
    try:
        names = store.segments.workspaces()
        live = sum(len(store.segments.changes(name).put) for name in names)
        swept = sum(store.stash.count(name) for name in names)
        return f"{len(names)} workspaces, {live:,} live, {swept:,} in the stash"
    finally:
        store.close()


def _shown(checks: list[Check]) -> Table:
    table = Table(box=None, padding=(0, 1), show_header=False)
    for check in checks:
        mark = "[green]ok[/]" if check.ok else "[red]!![/]"
        table.add_row(mark, check.what, check.found)
    return table
