"""The commands on the working set: stash, journal, undo, why, pin."""

from __future__ import annotations

import sys

import click
from rich.table import Table

from marksweep.cli import render
from marksweep.cli.common import (
    NOTHING,
    emit,
    json_option,
    open_segments,
    store_option,
    workspace_option,
)
from marksweep.cli.common import command as make_command
from marksweep.model import Stashed
from marksweep.stores.base import Hit


@click.group("stash")
def stash() -> None:
    """Look at what was swept, and bring it back."""


def _listed(
    store: str | None, workspace: str | None, words: str, limit: int, as_json: bool
) -> None:
    context = open_segments(store, workspace)
    hits = context.search_stash(words, limit=limit)
    emit([hit.found for hit in hits], _hits(hits), as_json=as_json)
    if not hits:
        sys.exit(NOTHING)


@make_command("list")
@click.option("--limit", default=20, show_default=True)
@store_option
@workspace_option
@json_option
def stash_list(limit: int, store: str | None, workspace: str | None, as_json: bool) -> None:
    """List what was swept, newest first."""
    _listed(store, workspace, "", limit, as_json)


@make_command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", default=20, show_default=True)
@store_option
@workspace_option
@json_option
def stash_search(
    words: tuple[str, ...], limit: int, store: str | None, workspace: str | None, as_json: bool
) -> None:
    """Find swept segments by words, best first.

    Example:  marksweep stash search KeyError session_id
    """
    _listed(store, workspace, " ".join(words), limit, as_json)


@make_command("restore")
@click.argument("segment_ids", nargs=-1, required=True)
@store_option
@workspace_option
@json_option
def stash_restore(
    segment_ids: tuple[str, ...], store: str | None, workspace: str | None, as_json: bool
) -> None:
    """Bring segments back to where they were."""
    context = open_segments(store, workspace)
    back = context.restore(*segment_ids)
    emit(back, f" restored {', '.join(back)}", as_json=as_json)


for _command in (stash_list, stash_search, stash_restore):
    stash.add_command(_command)


@make_command("journal")
@click.option("--limit", default=20, show_default=True)
@store_option
@workspace_option
@json_option
def journal(limit: int, store: str | None, workspace: str | None, as_json: bool) -> None:
    """Show what was planned and done, newest first."""
    context = open_segments(store, workspace)
    entries = context.history(limit)
    emit(entries, render.journal(entries), as_json=as_json)


@make_command("undo")
@click.argument("plan_id")
@store_option
@workspace_option
@json_option
def undo(plan_id: str, store: str | None, workspace: str | None, as_json: bool) -> None:
    """Reverse a whole sweep by its plan's id; `marksweep journal` lists them."""
    context = open_segments(store, workspace)
    back = context.undo(plan_id)
    emit(back, f" {len(back)} segments are back", as_json=as_json)


@make_command("why")
@click.argument("segment_id")
@store_option
@workspace_option
@json_option
def why(segment_id: str, store: str | None, workspace: str | None, as_json: bool) -> None:
    """Say what keeps a segment, or why it is gone."""
    context = open_segments(store, workspace)
    emit(context.why(segment_id), f" {context.why(segment_id)}", as_json=as_json)


@make_command("pin")
@click.argument("segment_id")
@click.option("--by", default="the command line", show_default=True)
@click.option("--why", "reason", default="", help="For those who wonder later.")
@click.option("--remove", is_flag=True, help="Take the pin away.")
@store_option
@workspace_option
def pin(
    segment_id: str, by: str, reason: str, remove: bool, store: str | None, workspace: str | None
) -> None:
    """Protect a segment from every collection."""
    context = open_segments(store, workspace)
    if remove:
        context.unpin(segment_id)
    else:
        context.pin(segment_id, by=by, why=reason)


def _hits(hits: tuple[Hit[Stashed], ...]) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for name in ("segment", "type", "tokens", "swept", "plan", "why"):
        table.add_column(name, overflow="fold")
    for hit in hits:
        entry, segment = hit.found, hit.found.segment
        table.add_row(
            segment.segment_id,
            segment.type,
            f"{segment.tokens:,}",
            f"{entry.stashed_at:%Y-%m-%d %H:%M}",
            entry.plan_id,
            entry.reason,
        )
    return table
