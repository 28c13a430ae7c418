"""The commands on the working set: stash, journal, undo, why, pin."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from marksweep.cli import render, transcripts
from marksweep.cli.common import (
    NOTHING,
    Here,
    in_workspace,
)
from marksweep.cli.common import command as make_command
from marksweep.model import Event


class Restored(msgspec.Struct, frozen=True):
    """Segments that are back in the working set."""

    restored: tuple[str, ...]


class Undone(msgspec.Struct, frozen=True):
    """A sweep that was reversed."""

    undone: str
    """The plan's id, or the file."""
    restored: tuple[str, ...]
    """The segments that are back, or the file."""


class Why(msgspec.Struct, frozen=True):
    """What keeps a segment, or why it is gone."""

    segment_id: str
    why: str


class Pinned(msgspec.Struct, frozen=True):
    """A segment whose pin was set or taken away."""

    segment_id: str
    pinned: bool


@click.group("stash")
def stash() -> None:
    """Look at what was swept, and bring it back."""


def _listed(here: Here, words: str, limit: int) -> int:
    found = [hit.found for hit in here.segments().search_stash(words, limit=limit)]
    here.emit(found, render.stash(found) if found else " nothing there")
    return 0 if found else NOTHING


@make_command("list")
@click.option("--limit", default=20, show_default=True)
@in_workspace
def stash_list(limit: int, here: Here) -> int:
    """List what was swept, newest first."""
    return _listed(here, "", limit)


@make_command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", default=20, show_default=True)
@in_workspace
def stash_search(words: tuple[str, ...], limit: int, here: Here) -> int:
    """Find swept segments by words, best first.

    Example:  marksweep stash search KeyError session_id
    """
    return _listed(here, " ".join(words), limit)


@make_command("restore")
@click.argument("segment_ids", nargs=-1, required=True)
@in_workspace
def stash_restore(segment_ids: tuple[str, ...], here: Here) -> None:
    """Bring segments back to where they were."""
    context = here.segments()
    back = context.restore(*segment_ids)
    here.emit(Restored(back), render.line(f"restored {', '.join(back)}"))


for _command in (stash_list, stash_search, stash_restore):
    stash.add_command(_command)


@make_command("journal")
@click.option("--memory", "of_memory", is_flag=True, help="Of the long-term memory.")
@click.option(
    "--event",
    "events",
    multiple=True,
    type=click.Choice([str(each) for each in Event]),
    help="Only these; may be repeated.",
)
@click.option("--plan", "plan_id", metavar="PLAN", help="Only what belongs to this plan.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1))
@in_workspace
def journal(
    of_memory: bool, events: tuple[str, ...], plan_id: str | None, limit: int, here: Here
) -> None:
    """Show what was planned and done, newest first: of the working set, or of the memory.

    \b
    Examples:  marksweep journal --plan plan-5fdec940a8d7
               marksweep journal --memory --event purged
    """
    from marksweep.heaps.graph import journal_name

    context = here.segments()
    entries = context.store.journal.read(
        journal_name(context.workspace) if of_memory else context.workspace,
        events=[Event(each) for each in events],
        plan_id=plan_id,
        limit=limit,
    )
    details = render.of_nodes if of_memory else render.of_segments
    here.emit(entries, render.journal(entries, details) if entries else " empty")


@make_command("undo")
@click.argument("plan_or_file")
@in_workspace
def undo(plan_or_file: str, here: Here) -> None:
    """Reverse a whole sweep by its plan's id; `marksweep journal` lists them.

    A file that `collect --write` has replaced is put back as it was; what is in its place now
    is kept as FILE.collected.

    Example:  marksweep undo plan-5fdec940a8d7
    """
    path = Path(plan_or_file)
    if path.is_file():
        kept = transcripts.put_back(path)
        done = Undone(plan_or_file, (plan_or_file,))
        here.emit(done, render.line(f"{path} is as it was. What stood there is kept in {kept}."))
        return
    back = here.segments().undo(plan_or_file)
    here.emit(
        Undone(plan_or_file, back),
        render.line(f"{render.counted(back, 'segment')} back where they were"),
    )


@make_command("why")
@click.argument("segment_id")
@in_workspace
def why(segment_id: str, here: Here) -> None:
    """Say what keeps a segment, or why it is gone."""
    found = Why(segment_id, here.segments().why(segment_id))
    here.emit(found, render.line(found.why))


@make_command("pin")
@click.argument("segment_id")
@click.option("--by", default="the command line", show_default=True)
@click.option("--why", "reason", default="", help="For those who wonder later.")
@click.option("--remove", is_flag=True, help="Take the pin away.")
@in_workspace
def pin(segment_id: str, by: str, reason: str, remove: bool, here: Here) -> None:
    """Protect a segment from every collection."""
    context = here.segments()
    if remove:
        context.unpin(segment_id)
    else:
        context.pin(segment_id, by=by, why=reason)
    state = "no longer pinned" if remove else "pinned: no collection takes it"
    here.emit(Pinned(segment_id, not remove), render.line(f"{segment_id} is {state}"))
