"""The verbs of an agent's memory: remember, recall, forget, callers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from marksweep.cli import render, transcripts
from marksweep.cli.common import NOTHING, CommandContext, confirm, in_workspace, say
from marksweep.cli.common import command as make_command
from marksweep.errors import BadInput
from marksweep.graph.agent_memory import AgentMemory, Recalled, Where
from marksweep.graph.call_graph import MAX_DEPTH, MAX_LINKS, Ask
from marksweep.graph.notes import moment


@contextmanager
def _agent(cli: CommandContext) -> Iterator[AgentMemory]:
    segments = cli.segments()
    with cli.memory() as (memory, _):
        yield AgentMemory(memory, segments)


@make_command("remember")
@click.argument("text")
@click.option("--tag", "tags", multiple=True, help="May be repeated.")
@click.option("--replaces", multiple=True, metavar="ID", help="A note that this one replaces.")
@click.option("--pin", is_flag=True, help="Never collect it.")
@click.option("--ttl", default="", metavar="TIME", help="Let it expire: 12h, 30d or 4w from now.")
@in_workspace
def remember(
    text: str,
    tags: tuple[str, ...],
    replaces: tuple[str, ...],
    pin: bool,
    ttl: str,
    cli: CommandContext,
) -> None:
    """Keep a fact, decision or preference for later sessions.

    TEXT is the note, or - for standard input.

    \b
    Examples:  marksweep remember "The shop listens on port 8080" --tag ops
               marksweep remember "It is 9090 now" --replaces m1a2b3c
               marksweep remember "The release branch is frozen" --ttl 7d
    """
    text = transcripts.text_of(text)
    with _agent(cli) as memory:
        done = memory.remember(text, tags=tags, replaces=replaces, pinned=pin, ttl=ttl)
    cli.emit(done, render.line(str(done)))


@make_command("recall")
@click.argument("words", nargs=-1)
@click.option(
    "--in",
    "where",
    multiple=True,
    type=click.Choice([each.value for each in Where]),
    help="Only from there; repeatable.",
)
@click.option("--tag", "tags", multiple=True, help="Only with this tag; repeatable.")
@click.option("--path", default="", help="A file, or the folder it is in.")
@click.option(
    "--as-of", default="", metavar="TIME", help="Notes that were valid then, in UTC; default: now."
)
@click.option("--limit", default=10, show_default=True, type=click.IntRange(1))
@click.option("--tokens", default=2000, show_default=True, type=click.IntRange(1))
@in_workspace
def recall(
    words: tuple[str, ...],
    where: tuple[str, ...],
    tags: tuple[str, ...],
    path: str,
    as_of: str,
    limit: int,
    tokens: int,
    cli: CommandContext,
) -> int:
    """Search all memory, best first: notes, code, the working set and the stash.

    An id returns that one item in full; without words, the newest notes are shown.

    \b
    Examples:  marksweep recall which port
               marksweep recall port --as-of 2026-05-01
    """
    then = moment(as_of)
    with _agent(cli) as memory:
        found = memory.recall(
            " ".join(words),
            where=where,
            tags=tags,
            path=path,
            as_of=then,
            limit=limit,
            tokens=tokens,
        )
    shown = Group(*(_recalled(each) for each in found)) if found else render.line("nothing found")
    cli.emit(found, shown)
    return 0 if found else NOTHING


def _recalled(each: Recalled) -> RenderableType:
    head = Text(f"{each.where} {each.place}".strip(), style="bold")
    head.append(f"  {each.id}", style="dim not bold")
    if each.valid_until:
        head.append(f"  valid until {each.valid_until:%Y-%m-%d}", style="yellow not bold")
    body = Text(f"{each.text}{' …' if each.cut else ''}")
    return Group(render.line(head), Padding(body, (0, 0, 1, 3), expand=False))


@make_command("forget")
@click.argument("ids", nargs=-1, required=True)
@click.option("--restore", is_flag=True, help="Restore instead.")
@click.option(
    "--everywhere",
    is_flag=True,
    help="Erase notes and files permanently, also from the stash and the backups.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@in_workspace
def forget(
    ids: tuple[str, ...], restore: bool, everywhere: bool, yes: bool, cli: CommandContext
) -> int:
    """Delete notes, files or live segments by id, after confirmation; restorable for a week.

    With --everywhere, they cannot be restored and pinned ones go too. What could not be reached
    is reported.

    \b
    Examples:  marksweep forget m1a2b3c
               marksweep forget latest --yes
               marksweep forget --restore latest
               marksweep forget m1a2b3c --everywhere
    """
    if restore and everywhere:
        raise BadInput("--restore and --everywhere were given; expected one of them.")
    if not restore and not yes:
        _confirm(ids, cli, everywhere=everywhere)
    with _agent(cli) as memory:
        if everywhere:
            erased = memory.erase(ids)
            cli.emit(erased, render.line(str(erased)))
            return 0 if len(erased.gone) or erased.stash or erased.backups else NOTHING
        done = memory.restore(ids) if restore else memory.forget(ids)
    cli.emit(done, render.line(str(done)))
    return 0 if done.done else NOTHING


def _confirm(ids: tuple[str, ...], cli: CommandContext, *, everywhere: bool) -> None:
    """Show the memories that would be deleted, and ask."""
    with cli.memory() as (opened, name):
        for record in opened.graph.fetch(name, ids):
            found = record.memory
            first = found.text.strip().partition("\n")[0]
            say(f"{found.memory_id}  {found.relative_path or first}")
    names = ", ".join(ids)
    question = f"Erase {names} everywhere, permanently?" if everywhere else f"Delete {names}?"
    confirm(question, yes=False)


@make_command("callers")
@click.argument("name")
@click.option(
    "--ask",
    type=click.Choice([each.value for each in Ask]),
    default=Ask.CALLERS.value,
    show_default=True,
)
@click.option("--limit", default=MAX_LINKS, show_default=True, type=click.IntRange(1))
@click.option(
    "--depth", default=MAX_DEPTH, show_default=True, type=click.IntRange(1), help="Of an impact."
)
@in_workspace
def callers(name: str, ask: str, limit: int, depth: int, cli: CommandContext) -> int:
    """Ask the call graph of indexed code: who calls a function, with file and line.

    \b
    Examples:  marksweep callers Session.open
               marksweep callers open_session --ask impact
    """
    with cli.memory() as (memory, workspace):
        found = memory.call_graph(name, ask, workspace_id=workspace, limit=limit, depth=depth)
    cli.emit(found, render.line(str(found)))
    return 0 if found.links else NOTHING
