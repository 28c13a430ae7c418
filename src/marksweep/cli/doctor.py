"""`marksweep doctor`: check that everything is installed and intact; repair it on request.

A check that can be repaired carries its repair. Before the first repair, every file of the store is
copied into a folder beside it, so nothing can get worse.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
from rich.console import RenderableType
from rich.text import Text

import marksweep
from marksweep.cli import render
from marksweep.cli.common import NOTHING, confirm, emit, json_option, settings, store_option
from marksweep.cli.common import command as make_command
from marksweep.collector import OPERATIONS
from marksweep.errors import BadInput, MarksweepError
from marksweep.graph.place import ProjectPaths, place_of
from marksweep.heaps.graph import journal_name
from marksweep.model import Event, utc_now
from marksweep.paths import expanded, kind_of
from marksweep.segments import Segments
from marksweep.stores import health
from marksweep.stores.files import PROJECT_FOLDER
from marksweep.stores.location import FALKORDB, Engine, graph_location, store_location
from marksweep.stores.open import open_store
from marksweep.tokens import default_counter
from marksweep.urls import redacted, split_scheme

OPTIONAL = {
    "rs-bpe": "exact token counts",
    "redis": "stores on Redis",
    "falkordb": "graphs on FalkorDB",
    "falkordblite": "FalkorDB without a server",
    "tree-sitter": "indexing code",
    "mcp": "the MCP server",
}
"""Packages that may be missing, and what they are for."""

REBUILD = "rebuild it from what can be read"

NOT_THERE = "not there yet; it is made when first used"

_SCHEMES = {**FALKORDB, "redis": "redis", "rediss": "rediss"}
"""How the URL of a FalkorDB may begin, and how its client writes that."""

SERVER_SECONDS = 3.0
"""How long a server may take to answer."""

DURABILITY = {
    "no": "appendonly no: a kill loses what is newer than the last snapshot. Set appendonly yes",
    "everysec": "a kill can lose seconds of what was confirmed; appendfsync always loses nothing",
    "always": "what was confirmed survives a kill (appendfsync always)",
}
"""What a server's settings mean."""


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of one check."""

    what: str
    found: str
    ok: bool
    mend: str = ""
    """What `--repair` would do about it."""


Repair = Callable[[], str]
"""Repairs something; reports what was done."""


class Finding(NamedTuple):
    """A check and, if something can be done about it, what."""

    check: Check
    repair: Repair | None = None
    changes: Path | None = None
    """The store or database that the repair changes: it is copied aside first."""


@make_command("doctor")
@click.option("--repair", is_flag=True, help="Repair what can be repaired; the originals are kept.")
@click.option("--mend", is_flag=True, hidden=True)
@click.option("--falkordb", metavar="URL", help="Also check this server: falkordb://host:6379.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
@json_option
def command(
    repair: bool, mend: bool, falkordb: str | None, yes: bool, store: str | None, as_json: bool
) -> None:
    """Check versions, settings, the token counter, the store and the memory; repair on request.

    Of the store it checks who may read its files, leftovers of killed processes, whether the
    content is intact, and interrupted sweeps. Stop what uses the store before you repair it.
    Exits with 1 if something is wrong.

    Example:  marksweep doctor --store project.db --repair
    """
    findings = list(_findings(store, falkordb))
    checks = [finding.check for finding in findings]
    if (repair or mend) and any(finding.repair for finding in findings):
        if not as_json:
            render.console().print(_render(checks))
        confirm("Repair what can be repaired?", yes=yes)
        checks = [*_repaired(findings)]
    emit(checks, _render(checks), as_json=as_json)
    if not all(check.ok for check in checks):
        sys.exit(NOTHING)


def _repaired(findings: list[Finding]) -> Iterator[Check]:
    for path in dict.fromkeys(finding.changes for finding in findings):
        if path is not None:
            files = (*health.files_of(path), *health.stale_drafts(path))
            kept = health.copy_aside(path, files, utc_now())
            yield Check("kept as it was", str(kept), ok=True)
    for check, repair, _ in findings:
        yield check if repair is None else _tried(check.what, repair)


def _findings(store: str | None, falkordb: str | None) -> Iterator[Finding]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding(Check("marksweep", f"{marksweep.__version__} on Python {python}", ok=True))
    for name, use in OPTIONAL.items():
        yield Finding(Check(name, _installed(name, use), ok=True))
    read = _tried("settings", lambda: "read" if settings(store) else "")
    yield Finding(read)
    counter = default_counter()
    kind = "exact" if counter.exact else "estimated: install rs-bpe for exact counts"
    yield Finding(Check("tokens", f"{counter.name}, {kind}", ok=True))
    if falkordb is not None:
        yield Finding(_tried(f"FalkorDB {redacted(falkordb)}", lambda: _answers(falkordb)))
    if read.ok:
        places = place_of(settings(store))
        yield from _store(places.store)
        yield from _memory(places)
        yield from map(Finding, _durability(dict.fromkeys((places.store, places.graph))))


def _installed(name: str, use: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return f"not installed; needed for {use}"


def _tried(what: str, attempt: Callable[[], str]) -> Check:
    try:
        return Check(what, attempt(), ok=True)
    except (MarksweepError, OSError) as error:
        return Check(what, str(error), ok=False)


def _answers(where: str) -> str:
    """Check a FalkorDB, named by URL or by the folder of an embedded one."""
    scheme, rest = split_scheme(where)
    scheme = _SCHEMES.get(scheme, "")
    if not scheme:
        raise BadInput(
            "not a FalkorDB; expected falkordb://host:6379, falkordbs://… or falkordb:FOLDER."
        )
    from marksweep.stores.graph.falkor import FalkorGraphStore

    if rest.startswith("//"):
        graph = FalkorGraphStore(f"{scheme}:{rest}", patience_seconds=SERVER_SECONDS)
    else:
        graph = FalkorGraphStore.embedded(expanded(rest))
    try:
        return f"answers and has {len(graph.workspaces())} of our graphs"
    finally:
        graph.close()


def _durability(places: Iterable[str]) -> Iterator[Check]:
    """Report what servers keep if they are killed, if they can be reached and say so."""
    try:
        import redis
    except ModuleNotFoundError:
        return
    for where in places:
        scheme, rest = split_scheme(where)
        if scheme not in _SCHEMES or not rest.startswith("//"):
            continue
        with (
            suppress(redis.RedisError, ValueError),
            redis.Redis.from_url(f"{_SCHEMES[scheme]}:{rest}", socket_timeout=SERVER_SECONDS) as it,
        ):
            found = {**it.config_get("appendonly"), **it.config_get("appendfsync")}
            log, sync = found.get("appendonly"), found.get("appendfsync")
            kept = DURABILITY.get("no" if log == "no" else str(sync), f"appendfsync {sync}")
            yield Check(f"durability of {redacted(where)}", kept, ok=log != "no")


def _store(where: str) -> Iterator[Finding]:
    what = f"store {redacted(where)}"
    try:
        path = store_location(where).path
    except MarksweepError as error:
        yield Finding(Check(what, str(error), ok=False))
        return
    if path is None:
        yield from _content(what, where, path)
        return
    if not health.files_of(path):
        yield Finding(Check(what, NOT_THERE, ok=True))
        return
    yield from _permissions(path)
    yield from _leftovers(path)
    if found := health.damage(path):
        yield Finding(Check(what, found, ok=False, mend=REBUILD), lambda: _rebuilt(path), path)
    else:
        yield from _content(what, where, path)


def _memory(places: ProjectPaths) -> Iterator[Finding]:
    """Look at the long-term memory where it is configured to be, if it is there."""
    what = f"memory {redacted(places.graph)}"
    try:
        engine, path = graph_location(places.graph)
    except MarksweepError as error:
        yield Finding(Check(what, str(error), ok=False))
        return
    if engine is Engine.FALKORDB:
        there = path is None or path.is_dir()
        answers = _tried(what, lambda: _answers(places.graph))
        yield Finding(answers if there else Check(what, NOT_THERE, ok=True))
        return
    if path is None or not path.exists():
        return
    what = f"memory {path}"
    if not path.is_file():
        found = f"{kind_of(path.stat().st_mode)}; expected a file. Move it away"
        yield Finding(Check(what, found, ok=False))
        return
    beside_store = path.parent == Path(places.store).parent
    if not (beside_store and path.parent.name == PROJECT_FOLDER):  # else the store's check has it
        yield from _permissions(path)
    yield from _leftovers(path)
    if found := health.graph_damage(path):
        check = Check(what, found, ok=False, mend=REBUILD)
        yield Finding(check, lambda: _rebuilt_graph(path), path)
    else:
        yield Finding(Check(what, "sound", ok=True))


def _permissions(path: Path) -> Iterator[Finding]:
    if open_files := health.readable_by_others(path):
        names = ", ".join(file.name for file in open_files)
        found = f"others may read or write {names}"
        check = Check("permissions", found, ok=False, mend="make them readable by you only")
        yield Finding(check, lambda: _private(path), path)
    else:
        yield Finding(Check("permissions", "readable by you only", ok=True))


def _leftovers(path: Path) -> Iterator[Finding]:
    if left := health.stale_drafts(path):
        names = ", ".join(file.name for file in left)
        check = Check("leftovers", f"of a killed process: {names}", ok=False, mend="remove them")
        yield Finding(check, lambda: _cleared(left), path)


def _content(what: str, where: str, path: Path | None) -> Iterator[Finding]:
    """Look into a store: what it holds, how large its journals are, sweeps that were cut off.

    The memory has its own journals here; its next use finishes a sweep of it that was cut off.
    """
    try:
        store = open_store(where)
        try:
            every = store.all_workspaces()
            names = [name for name in every if not name.startswith(journal_name(""))]
            live = sum(len(store.segments.changes(name).put) for name in names)
            swept = sum(store.stash.count(name) for name in names)
            sizes = [store.journal.size(name) for name in every]
            last = {name: store.journal.read(name, events=OPERATIONS, limit=1) for name in names}
        finally:
            store.close()
    except (MarksweepError, OSError) as error:
        yield Finding(Check(what, str(error), ok=False))
        return
    held = f"{render.counted(names, 'workspace')}, {live:,} live, {swept:,} in the stash"
    yield Finding(Check(what, held, ok=True))
    entries, size = sum(each.entries for each in sizes), sum(each.bytes for each in sizes)
    yield Finding(Check("journal", f"{entries:,} entries, {size / 1_000_000:.1f} MB", ok=True))
    begun = (Event.SWEEPING, Event.RESTORING)
    cut = [name for name in names if last[name] and last[name][0].event in begun]
    if not cut:
        yield Finding(Check("sweeps", "all completed", ok=True))
        return
    found = f"cut off in {', '.join(cut)}"
    check = Check("sweeps", found, ok=False, mend="finish them, or roll them back")
    yield Finding(check, lambda: _finished(where, cut), path)


def _private(path: Path) -> str:
    health.make_private(path)
    return "repaired: readable by you only"


def _cleared(left: tuple[Path, ...]) -> str:
    for file in left:
        file.unlink()
    return f"repaired: removed {', '.join(file.name for file in left)}"


def _rebuilt(path: Path) -> str:
    found = health.rebuild(path)
    number = sum(len(each.segments) + len(each.stashed) for each in found.workspaces)
    lost = f"; could not be read: {found.skipped[0].place}" if found.skipped else ""
    return f"repaired: {number:,} segments rebuilt{lost}"


def _rebuilt_graph(path: Path) -> str:
    found = health.rebuild_graph(path)
    number = f"{found.memories:,} memories, {found.chunks:,} chunks, {found.entities:,} entities"
    lost = "; could not be read: " + "; ".join(each.place for each in found.skipped)
    return (
        f"repaired: {number} rebuilt{lost if found.skipped else ''}. Index again to have the "
        "code read again"
    )


def _finished(where: str, names: list[str]) -> str:
    store = open_store(where)
    try:
        for name in names:
            Segments(store, workspace=name, actor="doctor")
    finally:
        store.close()
    return f"repaired: {', '.join(names)}"


def _render(checks: list[Check]) -> RenderableType:
    table = render.table("", "what", "found", whole=("",))
    table.show_header = False
    for check in checks:
        mark = Text("ok", style="green") if check.ok else Text("!!", style="bold red")
        hint = f" (--repair: {check.mend})" if check.mend else ""
        table.add_row(mark, check.what, check.found + hint)
    return table
