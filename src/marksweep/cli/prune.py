"""`marksweep prune`: show what in memory is stale, delete exactly that, restore it."""

from __future__ import annotations

import sys

import click
import msgspec
from rich.console import Group, RenderableType

from marksweep.cli import render
from marksweep.cli.common import (
    NOT_CONFIRMED,
    NOTHING,
    CommandContext,
    confirm,
    in_workspace,
)
from marksweep.cli.common import command as make_command
from marksweep.errors import BadInput, Refused
from marksweep.graph.pruning import Preview, blockers_text, counted, deletion_text
from marksweep.graph.strategies import PruneStrategy, in_days
from marksweep.heaps.graph import Limits, planned
from marksweep.model import Plan
from marksweep.stores.base import DEFAULT_WORKSPACE
from marksweep.stores.graph.base import Nodes

MAX_ROWS = 20
"""Memories that a preview lists."""

NAMELESS = (
    "deleting in the default workspace needs its name. Nothing was deleted. Add --workspace "
    f"{DEFAULT_WORKSPACE} (and --yes, where there is no terminal to ask on)."
)


class Erased(msgspec.Struct, frozen=True):
    """What was erased permanently, and the backup of it; empty if nothing was."""

    gone: Nodes
    backup: str


@make_command("prune")
@click.option(
    "--strategy",
    type=click.Choice([str(each) for each in PruneStrategy]),
    default=str(PruneStrategy.STALE_CODE),
    show_default=True,
)
@click.option("--apply", "plan_id", metavar="PLAN", help="Delete exactly what this preview showed.")
@click.option("--restore", "undone", metavar="PLAN", help="Restore what this plan deleted.")
@click.option(
    "--limit", type=click.IntRange(0), help="Delete at most this many nodes; default: the cap."
)
@click.option("--purge", is_flag=True, help="Erase what was deleted and is past its grace period.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@in_workspace
def command(
    strategy: str,
    plan_id: str | None,
    undone: str | None,
    limit: int | None,
    purge: bool,
    yes: bool,
    cli: CommandContext,
) -> int:
    """Show what in memory is stale or orphaned, and delete it after confirmation.

    Deleted items can be restored for a week, and are erased only on request. To delete in the
    default workspace you have to type its name.

    \b
    Examples:  marksweep prune --strategy all
               marksweep prune --restore plan-1a2b3c
               marksweep prune --purge
    """
    asked = {"--apply": plan_id, "--restore": undone, "--purge": purge or None}
    given = [name for name, value in asked.items() if value is not None]
    if len(given) > 1:
        raise BadInput(f"{' and '.join(given)} were given; expected one of them.")
    if undone is not None:
        return _restore(undone, cli)
    if purge:
        return _purge(cli)
    return _prune(PruneStrategy.named(strategy), plan_id, limit, cli, yes=yes)


def _restore(plan_id: str, cli: CommandContext) -> int:
    with cli.memory() as (memory, name):
        back = memory.restore(plan_id=plan_id, workspace_id=name)
        cli.emit(back, render.line(f"back: {counted(back)}"))
        return 0 if len(back) else NOTHING


def _purge(cli: CommandContext) -> int:
    with cli.memory() as (memory, name):
        purged = memory.purge(workspace_id=name)
        backup = str(purged.backup.path) if purged.backup else ""
        cli.emit(Erased(purged.gone, backup), render.line(purged.text))
        return 0 if backup else NOTHING


def _prune(
    strategy: PruneStrategy,
    plan_id: str | None,
    limit: int | None,
    cli: CommandContext,
    *,
    yes: bool,
) -> int:
    with cli.memory() as (memory, name):
        if plan_id is None:
            preview = memory.plan(name, strategy, limit=limit, preview=MAX_ROWS)
            plan = preview.plan
            memory.save(plan)
            how = () if yes else _how(plan, memory.settings.limits, cli)
            if not (cli.as_json and yes and plan.steps):
                cli.emit(preview, Group(_render(preview), *how))
            if not plan.steps:
                return NOTHING
            if cli.as_json and not yes:
                return 0
            _confirm(name, cli.workspace, yes=yes)
            plan_id = plan.plan_id
        elif not _is_named(name, cli.workspace):
            raise Refused(NAMELESS)
        done = memory.prune_memory(
            name, dry_run=False, confirm=True, strategy=strategy, plan_id=plan_id, limit=limit
        )
        cli.emit(done, render.line(deletion_text(done)))
        return 0


def _is_named(name: str, workspace: str | None) -> bool:
    """Return whether somebody has typed which workspace is meant; all but the default are."""
    return workspace is not None or name != DEFAULT_WORKSPACE


def _confirm(name: str, workspace: str | None, *, yes: bool) -> None:
    """Ask before deleting. The default workspace's name has to be typed, now or as an option."""
    if _is_named(name, workspace):
        confirm("Delete exactly that?", yes=yes)
        return
    if yes or not sys.stdin.isatty():
        raise Refused(NAMELESS)
    asked = f"Type the workspace's name, {name}, to delete exactly that"
    if str(click.prompt(asked, default="", show_default=False)).strip() != name:
        raise Refused(NOT_CONFIRMED)


def _render(preview: Preview) -> RenderableType:
    plan = preview.plan
    if not plan.steps:
        return render.line(f"nothing: {plan.strategy} finds nothing in {plan.workspace!r}")
    nodes = planned(plan)
    head = f"{plan.strategy} in {plan.workspace}: {counted(nodes)} would be deleted"
    parts: list[RenderableType] = [render.line(head, style="bold")]
    if preview.rows:
        table = render.table("memory", "lines", "chunks", "why", right=("lines", "chunks"))
        for row in preview.rows:
            name = row.relative_path or row.memory_id
            table.add_row(name, f"{row.lines:,}", f"{row.chunk_count:,}", row.reason)
        rest = len(nodes.memories) - len(preview.rows)
        if rest > 0:
            table.add_row(f"… {rest:,} more", "", "", "", style="dim")
        parts.append(table)
    return Group(*parts)


def _how(plan: Plan, limits: Limits, cli: CommandContext) -> list[RenderableType]:
    """Return how to delete it."""
    if not plan.steps:
        return [render.line(line, style="yellow") for line in blockers_text(plan)]
    words = ["prune", "--apply", plan.plan_id]
    if plan.freed > limits.cap(plan.size_before):
        words += ["--limit", str(plan.freed)]
    named = cli._replace(workspace=plan.workspace)
    return [
        *(render.line(line, style="yellow") for line in blockers_text(plan)),
        "",
        render.command("To delete exactly this", named.again(*words)),
        render.line(f"It can be restored for {in_days(limits.grace)}.", style="dim"),
    ]
