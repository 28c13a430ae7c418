"""`marksweep web`: the heap as a page, or as a picture in a file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from marksweep.cli import transcripts
from marksweep.cli.common import (
    CommandContext,
    at_options,
    refuse_focus,
    store_option,
    tokens_in,
    workspace_option,
)
from marksweep.cli.common import command as make_command
from marksweep.errors import BadInput
from marksweep.graph.memory import KnowledgeGraph
from marksweep.reading import Reading
from marksweep.segments import FocusArgs, Segments
from marksweep.web.heaps import Heaps
from marksweep.web.picture import Shown, alone
from marksweep.web.stored import Stored, one_conversation
from marksweep.web.tiles import By


@make_command("web")
@click.argument("transcript", required=False)
@click.option("--limit", help="Tokens of the window, such as 100k; default: the settings.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8724, show_default=True, type=click.IntRange(0, 65_535))
@click.option("--allow-host", "hosts", multiple=True, help="A Host header to accept, with port.")
@click.option("--svg", metavar="FILE", help="Write the picture of a heap, and do nothing else.")
@click.option(
    "--heap", default="", metavar="NAME", help="Which heap; default: the first that is not empty."
)
@click.option(
    "--by",
    default=By.KIND.value,
    show_default=True,
    type=click.Choice([each.value for each in By]),
    help="What the picture is grouped by.",
)
@click.option("--width", default=900, show_default=True, help="Width of the picture in pixels.")
@at_options
@store_option
@workspace_option
def command(
    transcript: str | None,
    limit: str | None,
    host: str,
    port: int,
    hosts: tuple[str, ...],
    svg: str | None,
    heap: str,
    by: str,
    width: int,
    at: FocusArgs,
    store: str | None,
    workspace: str | None,
) -> None:
    """Show what fills the window, what is garbage and why, as a page: plan, collect and undo in it.

    Shows the working sets, conversations and memory in the store, or a TRANSCRIPT of any agent,
    which is not changed. Only this machine can open the page, with the token in its address.

    \b
    Examples:  marksweep web
               marksweep web session.jsonl --limit 100k
               marksweep web --svg window.svg --by file
    """
    cli = CommandContext(store, workspace)
    tokens = None if limit is None else tokens_in(limit)
    refuse_focus(at, transcript)
    heaps = _transcript(transcript, tokens, cli) if transcript else _stored(tokens, cli, at)
    if svg is not None:
        _write(svg, _drawn(heaps, heap, By(by), width))
        return
    from marksweep.web.server import Listening, serve

    listening = Listening(host=host, port=port, hosts=hosts)
    serve(heaps, listening, started=lambda url: click.echo(f"the page is at {url}"))


def _transcript(transcript: str, limit: int | None, cli: CommandContext) -> Heaps:
    """Return a transcript as a conversation in memory."""
    settings = cli.settings()
    history = transcripts.load(transcript, None).transcript.history
    tokens = limit or settings.window.limit_tokens
    talk = Reading(history, limit=tokens, prices=settings.prices).conversation
    talk.budget = settings.window.budget(tokens)
    return one_conversation(talk)


def _stored(limit: int | None, cli: CommandContext, at: FocusArgs) -> Heaps:
    """Return what is in the store, which is closed with the command."""
    settings = cli.settings()
    memory = KnowledgeGraph.open(settings=settings, actor="web")
    click.get_current_context().call_on_close(memory.close)

    def focus(segments: Segments) -> None:
        if at != FocusArgs():
            segments.focus(**at._asdict())

    stored = Stored(memory.store, settings, lambda: memory, limit=limit, focus=focus)
    return stored.heaps([cli.workspace] if cli.workspace else None)


def _drawn(heaps: Heaps, name: str, by: By, width: int) -> str:
    """Draw the heap that is meant, or the first that holds anything."""
    found = heaps.list()
    names = [each.heap for each in found if name in ("", each.heap, each.workspace)]
    if not names:
        known = ", ".join(each.heap for each in found) or "none"
        raise BadInput(f"there is no heap {name!r}; known are {known}.")
    chosen = next((each for each in names if name or heaps.look(each).tiles), names[0])
    title = next(each.title for each in found if each.heap == chosen)
    return alone(Shown(heaps.look(chosen), title, by), width)


def _write(place: str, text: str) -> None:
    if place == transcripts.STDIN:
        sys.stdout.write(text)
        return
    transcripts.save(Path(place), text.encode())
    click.echo(f"wrote {place}", err=True)
