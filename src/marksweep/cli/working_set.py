"""The commands on the working set: live, stash, journal, undo, why, pin."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path

import click
import msgspec
from rich.console import Group

from marksweep.cli import render, transcripts
from marksweep.cli.common import (
    NOTHING,
    CommandContext,
    at_options,
    in_workspace,
    options,
)
from marksweep.cli.common import command as make_command
from marksweep.errors import NotFound
from marksweep.model import Event
from marksweep.segments import FocusArgs


class Restored(msgspec.Struct, frozen=True):
    """Segments that are back in the working set."""

    restored: tuple[str, ...]


class Put(msgspec.Struct, frozen=True):
    """Segments that went to the stash, and those that stay."""

    plan_id: str
    stashed: tuple[str, ...]
    kept: dict[str, str]
    """Why each of the others stays."""


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


class Shortened(msgspec.Struct, frozen=True):
    """A segment that a shorter text stands in for; the original is in the stash."""

    segment_id: str
    replacement_id: str
    plan_id: str
    text: str
    made_by: str
    tokens_before: int
    tokens_after: int


class Pinned(msgspec.Struct, frozen=True):
    """A segment that was pinned or unpinned."""

    segment_id: str
    pinned: bool


def filter_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add options for what segments are about, and pass what they say as `filters`."""

    @options(*_FILTERS.values())
    @wraps(command)
    def call(**given: object) -> int:
        filters = {name: given.pop(name) for name in _FILTERS}
        return command(filters={name: value for name, value in filters.items() if value}, **given)

    return call


_FILTERS = {
    "types": click.option("--type", "types", multiple=True, help="Only this type; repeatable."),
    "file_path": click.option("--file", "file_path", metavar="PATH", help="Only of this file."),
    "task_id": click.option("--task", "task_id", metavar="ID", help="Only of this task."),
    "tags": click.option("--tag", "tags", multiple=True, help="Only with this tag; repeatable."),
    "since": click.option("--since", type=click.DateTime(), help="Only created at or after."),
    "until": click.option("--until", type=click.DateTime(), help="Only created before."),
}
"""What segments can be filtered by, as `Query` names it."""

Filters = dict[str, object]


@make_command("live")
@click.argument("words", nargs=-1)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1))
@filter_options
@in_workspace
def live(words: tuple[str, ...], limit: int, filters: Filters, cli: CommandContext) -> int:
    """List the working set, newest first, or find segments in it by words, best first.

    Example:  marksweep live KeyError --type log --file src/app.py
    """
    hits = cli.segments().search(" ".join(words), limit=limit, **filters)
    found = [hit.found for hit in hits]
    cli.emit(found, render.live(found) if found else " nothing found")
    return 0 if found else NOTHING


@click.group("stash")
def stash() -> None:
    """Look at what was swept, bring it back, and put more there."""


def _listed(cli: CommandContext, words: str, limit: int, filters: Filters) -> int:
    hits = cli.segments().search_stash(words, limit=limit, **filters)
    found = [hit.found for hit in hits]
    cli.emit(found, render.stash(found) if found else " nothing found")
    return 0 if found else NOTHING


@make_command("list", stash)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1))
@filter_options
@in_workspace
def stash_list(limit: int, filters: Filters, cli: CommandContext) -> int:
    """List what was swept, newest first."""
    return _listed(cli, "", limit, filters)


@make_command("search", stash)
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1))
@filter_options
@in_workspace
def stash_search(words: tuple[str, ...], limit: int, filters: Filters, cli: CommandContext) -> int:
    """Find swept segments by words, best first.

    Example:  marksweep stash search KeyError session_id --type log
    """
    return _listed(cli, " ".join(words), limit, filters)


@make_command("put", stash)
@click.argument("segment_ids", nargs=-1, required=True)
@in_workspace
def stash_put(segment_ids: tuple[str, ...], cli: CommandContext) -> int:
    """Sweep the segments you name to the stash, unless they are pinned or locked.

    Example:  marksweep stash put log-17 log-18
    """
    context = cli.segments()
    report = context.collect(context.plan_for(segment_ids))
    left = [name for name in dict.fromkeys(segment_ids) if name not in report.swept]
    done = Put(report.plan_id, report.swept, context.kept_because(left))
    lines = [render.line(f"stashed {', '.join(done.stashed)}")] if done.stashed else []
    lines += [render.line(f"{name} stays: {why}") for name, why in done.kept.items()]
    cli.emit(done, Group(*lines))
    return 0 if done.stashed else NOTHING


@make_command("compress", stash)
@click.argument("segment_id")
@click.argument("text", required=False)
@in_workspace
def compress(segment_id: str, text: str | None, cli: CommandContext) -> None:
    """Replace a live segment by a shorter text; the original goes to the stash.

    TEXT is the shorter text, or - for standard input; without it, the most informative sentences
    are kept.

    Example:  marksweep stash compress s17 "ruff: 3 errors, all in src/app.py"
    """
    from marksweep.summarizers import Extractive, Summary

    context = cli.segments()
    segment = context.get(segment_id)
    if segment is None:
        raise NotFound(f"no live segment {segment_id!r}. `marksweep live` lists what is there.")
    made = (
        Extractive().summarize(segment.text)
        if text is None
        else Summary(transcripts.text_of(text), "user")
    )
    report = context.compress(segment_id, made.text)
    done = Shortened(
        segment_id,
        report.created[0],
        report.plan_id,
        made.text,
        made.made_by,
        segment.tokens,
        segment.tokens - report.tokens_freed,
    )
    sizes = f"{done.tokens_before:,} → {done.tokens_after:,} tokens"
    cli.emit(done, render.line(f"{done.replacement_id} stands in for {segment_id}: {sizes}"))


@make_command("restore", stash)
@click.argument("segment_ids", nargs=-1, required=True)
@in_workspace
def stash_restore(segment_ids: tuple[str, ...], cli: CommandContext) -> None:
    """Bring segments back to where they were."""
    context = cli.segments()
    back = context.restore(*segment_ids)
    cli.emit(Restored(back), render.line(f"restored {', '.join(back)}"))


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
    of_memory: bool, events: tuple[str, ...], plan_id: str | None, limit: int, cli: CommandContext
) -> None:
    """Show what was planned and done, newest first: of the working set, or of the memory.

    \b
    Examples:  marksweep journal --plan plan-5fdec940a8d7
               marksweep journal --memory --event purged
    """
    from marksweep.heaps.graph import journal_name

    context = cli.segments()
    entries = context.store.journal.read(
        journal_name(context.workspace) if of_memory else context.workspace,
        events=[Event(each) for each in events],
        plan_id=plan_id,
        limit=limit,
    )
    details = render.of_nodes if of_memory else render.of_segments
    cli.emit(entries, render.journal(entries, details) if entries else " empty")


@make_command("undo")
@click.argument("plan_or_file")
@in_workspace
def undo(plan_or_file: str, cli: CommandContext) -> None:
    """Reverse a whole sweep by its plan's id; `marksweep journal` lists them.

    A file that `collect --write` replaced is restored; the collected version is kept as
    FILE.collected.

    Example:  marksweep undo plan-5fdec940a8d7
    """
    path = Path(plan_or_file)
    if path.is_file():
        kept = transcripts.put_back(path)
        done = Undone(plan_or_file, (plan_or_file,))
        cli.emit(done, render.line(f"{path} is restored. The collected version is kept as {kept}."))
        return
    back = cli.segments().undo(plan_or_file)
    cli.emit(
        Undone(plan_or_file, back),
        render.line(f"{render.counted(back, 'segment')} back where they were"),
    )


@make_command("why")
@click.argument("segment_id")
@at_options
@in_workspace
def why(segment_id: str, at: FocusArgs, cli: CommandContext) -> None:
    """Say what keeps a segment, or why it is gone.

    Example:  marksweep why s17 --breakpoint src/app.py:42
    """
    found = Why(segment_id, cli.segments(at).why(segment_id))
    cli.emit(found, render.line(found.why))


@make_command("pin")
@click.argument("segment_id")
@click.option("--by", default="the command line", show_default=True)
@click.option("--why", "reason", default="", help="Why it must stay.")
@click.option("--remove", is_flag=True, help="Remove the pin.")
@in_workspace
def pin(segment_id: str, by: str, reason: str, remove: bool, cli: CommandContext) -> None:
    """Protect a segment from every collection."""
    context = cli.segments()
    if remove:
        context.unpin(segment_id)
    else:
        context.pin(segment_id, by=by, why=reason)
    state = "no longer pinned" if remove else "pinned: no collection takes it"
    cli.emit(Pinned(segment_id, not remove), render.line(f"{segment_id} is {state}"))
