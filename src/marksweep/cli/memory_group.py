"""`marksweep memory`: backups, roots, pins, and merging duplicate entities."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click
import msgspec
from rich.console import Group, RenderableType

from marksweep.cli import render
from marksweep.cli.common import (
    NOTHING,
    REFUSED,
    CommandContext,
    confirm,
    in_workspace,
    json_option,
    store_option,
)
from marksweep.cli.common import command as make_command
from marksweep.errors import Refused
from marksweep.graph.backup import FORMAT, BackupInfo
from marksweep.graph.roots import Root
from marksweep.model import Plan
from marksweep.stores.location import server_url

MAX_ROWS = 20
"""Groups of entities that a preview lists."""


class Migrated(msgspec.Struct, frozen=True):
    """A graph of the original layout that was copied."""

    graph: str
    items: dict[str, int]
    """Nodes and edges by workspace."""


class MemoryPins(msgspec.Struct, frozen=True):
    """Memories that were pinned or unpinned."""

    memory_ids: tuple[str, ...]
    pinned: bool
    found: int
    """How many of them there are."""


@click.group("memory")
def memory() -> None:
    """Back up memories, list and drop roots, pin, merge duplicate entities, migrate."""


@make_command("backups", memory)
@store_option
@json_option
def backups(store: str | None, as_json: bool) -> int:
    """List the backups, oldest first, and check that each can be read.

    One is written before anything is purged, and by `marksweep memory export`.

    Example:  marksweep memory backups
    """
    cli = CommandContext(store, as_json=as_json)
    with cli.memory() as (opened, _):
        found = opened.list_backups()
    cli.emit(found, _backups(found))
    return 0 if found else NOTHING


def _backups(found: Sequence[BackupInfo]) -> RenderableType:
    if not found:
        return render.line("no backups")
    made = render.table("file", "workspace", "items", "kB", right=("items", "kB"))
    parts: list[RenderableType] = [made]
    for each in found:
        name = Path(each.path).name
        kilobytes = f"{each.size / 1000:,.1f}"
        if each.problem:
            made.add_row(name, "damaged", "", kilobytes, style="red")
            parts.append(render.line(each.problem, style="red"))
        else:
            made.add_row(name, each.workspace_id, f"{each.items:,}", kilobytes)
    parts.append(render.line(f"in {Path(found[0].path).parent}", style="dim"))
    return Group(*parts)


@make_command("export", memory)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="A new file; else among the backups."
)
@in_workspace
def export(output: Path | None, cli: CommandContext) -> int:
    """Write a backup of everything a workspace remembers, not of what is deleted.

    Example:  marksweep memory export -o shop.jsonl.gz
    """
    with cli.memory() as (opened, name):
        if name not in opened.graph.workspaces():
            nothing = render.line(f"nothing: {name!r} remembers nothing")
            cli.emit(BackupInfo(path="", size=0, workspace_id=name), nothing)
            return NOTHING
        made = opened.export_backup(output, workspace_id=name)
        words = f"{made.items:,} nodes and edges of {name!r} are in {made.path}"
        cli.emit(_info(made.path, name, made.made_at, made.items), render.line(words))
        return 0


def _info(path: Path, workspace: str, made_at: datetime, items: int) -> BackupInfo:
    """Describe a backup that was written from a workspace, or restored to one."""
    size = path.stat().st_size
    return BackupInfo(
        path=str(path), size=size, workspace_id=workspace, made_at=made_at, items=items
    )


@make_command("import", memory)
@click.argument("path", type=click.Path(path_type=Path))
@in_workspace
def import_(path: Path, cli: CommandContext) -> int:
    """Restore a backup, in addition to what is there.

    The whole file is checked first. A backup of another workspace needs --workspace, to confirm
    that it should go there.

    \b
    Examples:  marksweep memory import .marksweep/backups/20260601T120000-1a2b3c4d.jsonl.gz
               marksweep memory import shop.jsonl.gz --workspace copy
    """
    header = FORMAT.header(path)
    with cli.memory() as (opened, name):
        if cli.workspace is None and header.workspace_id != name:
            raise Refused(
                f"{path} is a backup of workspace {header.workspace_id!r}, and this is {name!r}. "
                "Pass --workspace with the name of the one that it should go to."
            )
        items = opened.import_backup(path, workspace_id=name)
        words = f"back in {name!r}: {items:,} nodes and edges"
        cli.emit(_info(path, name, header.made_at, items), render.line(words))
        return 0 if items else NOTHING


@make_command("roots", memory)
@in_workspace
def roots(cli: CommandContext) -> int:
    """List what was indexed: from where, when, how large, and what of it is gone.

    A root that is gone becomes stale a grace period (a week) after that was first seen;
    `marksweep prune` then deletes it.

    Example:  marksweep memory roots
    """
    with cli.memory() as (opened, name):
        found = opened.roots(workspace_id=name)
    cli.emit(found, _roots(found))
    return 0 if found else NOTHING


def _roots(found: Sequence[Root]) -> RenderableType:
    if not found:
        return render.line("nothing was indexed yet")
    numbers = ("files", "lines", "stale")
    made = render.table("root", *numbers, "last indexed", right=numbers)
    for each in found:
        since = f"gone since {each.gone_since:%Y-%m-%d}" if each.gone_since else "gone"
        name = each.repository if each.there else f"{each.repository} ({since})"
        seen = f"{each.last_seen_at:%Y-%m-%d %H:%M}"
        counts = (f"{number:,}" for number in (each.files, each.lines, each.stale))
        made.add_row(name, *counts, seen, style="" if each.there else "yellow")
    return made


@make_command("drop-root", memory)
@click.argument("root")
@click.option("--yes", is_flag=True, help="Do not ask.")
@in_workspace
def drop_root(root: str, yes: bool, cli: CommandContext) -> int:
    """Delete all that was indexed from a folder, after confirmation; restorable for a week.

    Example:  marksweep memory drop-root ../old-checkout
    """
    confirm(f"Delete all that was indexed from {root}?", yes=yes)
    with cli.memory() as (opened, name):
        done = opened.drop_root(root, workspace_id=name)
    cli.emit(done, render.line(str(done)))
    return 0 if len(done.gone) else REFUSED


@make_command("pin", memory)
@click.argument("memory_ids", nargs=-1, required=True)
@click.option("--why", default="", help="Why it must stay.")
@click.option("--remove", is_flag=True, help="Remove the pin.")
@in_workspace
def pin(memory_ids: tuple[str, ...], why: str, remove: bool, cli: CommandContext) -> int:
    """Protect memories from every collection.

    Example:  marksweep memory pin m1a2b3c --why "house rule"
    """
    with cli.memory() as (opened, name):
        if remove:
            count = opened.unpin(memory_ids, workspace_id=name)
        else:
            by = f"cli: {why}" if why else "cli"
            count = opened.pin(memory_ids, by=by, workspace_id=name)
    shown = f"{'no longer pinned' if remove else 'pinned'}: {count:,} of {len(memory_ids):,}"
    cli.emit(MemoryPins(memory_ids, not remove, count), render.line(shown))
    return 0 if count else NOTHING


@make_command("merge", memory)
@click.option("--apply", "plan_id", metavar="PLAN", help="Merge exactly what this preview showed.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@in_workspace
def merge(plan_id: str | None, yes: bool, cli: CommandContext) -> int:
    """Show entities that are one thing under several spellings; merge them after confirmation.

    A merge cannot be undone: anything added later under one of the spellings goes to the one kept.

    \b
    Examples:  marksweep memory merge
               marksweep memory merge --apply plan-1a2b3c
    """
    with cli.memory() as (opened, name):
        if plan_id is None:
            plan = opened.plan_merge_entities(workspace_id=name)
            if not (cli.as_json and yes and plan.steps):
                cli.emit(plan, _groups(plan, cli.again("memory", "merge", "--apply", plan.plan_id)))
            if not plan.steps:
                return NOTHING
            if cli.as_json and not yes:
                return 0
            confirm("Merge exactly that, permanently?", yes=yes)
            plan_id = plan.plan_id
        done = opened.merge_entities(plan_id, workspace_id=name)
        gone = f"{len(done.swept):,} {'entity is' if len(done.swept) == 1 else 'entities are'} gone"
        cli.emit(done, render.line(f"merged: {gone}"))
        return 0 if done.swept else NOTHING


def _groups(plan: Plan, how: str) -> RenderableType:
    if not plan.steps:
        return render.line(f"nothing: no entity of {plan.workspace!r} is there twice")
    shown = [render.line(step.reason) for step in plan.steps[:MAX_ROWS]]
    if len(plan.steps) > MAX_ROWS:
        shown.append(render.line(f"… {len(plan.steps) - MAX_ROWS:,} more", style="dim"))
    return Group(*shown, "", render.command("To merge exactly this", how))


@make_command("migrate", memory)
@click.argument("url")
@click.argument("graph")
@store_option
@json_option
def migrate(url: str, graph: str, store: str | None, as_json: bool) -> int:
    """Copy a graph of the original layout on a FalkorDB server into this memory.

    That layout keeps all workspaces in one graph; each becomes one here. The old graph is only
    read, and copying again changes nothing.

    Example:  marksweep memory migrate falkordb://localhost:6379 knowledge
    """
    from marksweep.stores.graph.falkor.migrate_original import migrate as copy_graph

    cli = CommandContext(store, as_json=as_json)
    with cli.memory() as (opened, _):
        counts = copy_graph(server_url(url), graph, opened.graph, opened.now())
    lines = [f"{name}: {items:,} nodes and edges" for name, items in counts.items()]
    shown = [render.line(line) for line in lines or [f"nothing: {graph!r} is empty"]]
    cli.emit(Migrated(graph, counts), Group(*shown))
    return 0 if counts else NOTHING
