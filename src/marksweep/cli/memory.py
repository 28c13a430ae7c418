"""The commands on the knowledge graph: index, watch, search.

For `prune` see prune.py, for `memory` memory_group.py.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import click
import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from marksweep.cli import render
from marksweep.cli.common import (
    NOTHING,
    CommandContext,
    FiniteRange,
    errors,
    in_workspace,
    progress,
)
from marksweep.cli.common import command as make_command
from marksweep.errors import MarksweepError
from marksweep.indexing.delta import MAX_SHRINK
from marksweep.indexing.indexer import index_codebase
from marksweep.indexing.left_out import Kind
from marksweep.indexing.report import IndexReport
from marksweep.indexing.watch import watch_codebase
from marksweep.stores.graph.base import GraphHit, GraphQuery

MAX_EXCERPT_LINES = 5
"""Lines of a hit that are shown."""


include_option = click.option(
    "--include",
    multiple=True,
    type=click.Choice([kind.value for kind in Kind]),
    help="Also index these, which are left out by default; may be repeated.",
)


@make_command("index")
@click.argument("path", type=click.Path(path_type=Path), default=Path())
@click.option("--language", "languages", multiple=True, help="Only these; may be repeated.")
@click.option("--no-tests", is_flag=True, help="Leave tests out.")
@include_option
@click.option(
    "--max-shrink",
    type=FiniteRange(0, 1),
    default=MAX_SHRINK,
    show_default=True,
    help="Share of the files known so far that may be gone.",
)
@in_workspace
def index(
    path: Path,
    languages: tuple[str, ...],
    no_tests: bool,
    include: tuple[str, ...],
    max_shrink: float,
    cli: CommandContext,
) -> None:
    """Index a codebase into memory, reading only what has changed.

    Secrets, minified files, lock files, build output and vendored code are left out.

    Example:  marksweep index . --no-tests
    """

    async def indexed() -> IndexReport:
        with progress("indexing") as advance, cli.memory() as (memory, name):
            return await index_codebase(
                path,
                store=memory.graph,
                workspace_id=name,
                languages=languages,
                include_tests=not no_tests,
                include=(*cli.settings().index.include, *include),
                max_shrink=max_shrink,
                progress=lambda at: advance(at.done, at.total, ""),
            )

    report = asyncio.run(indexed())
    cli.emit(report, _words(report))


def _words(report: IndexReport) -> RenderableType:
    return render.line(str(report).replace("prune_memory", "marksweep prune"))


@make_command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", default=5, show_default=True, type=click.IntRange(1))
@in_workspace
def search(words: tuple[str, ...], limit: int, cli: CommandContext) -> int:
    """Search memory, best first.

    Example:  marksweep search open_session cookie
    """
    with cli.memory() as (memory, name):
        query = GraphQuery(limit=limit)
        found = memory.search_memory(" ".join(words), workspace_id=name, query=query)
    shown = Group(*map(_hit, found.hits)) if found.hits else render.line("nothing found")
    cli.emit(found, shown)
    return 0 if found.hits else NOTHING


def _hit(hit: GraphHit) -> RenderableType:
    """Show where it is, and below that its first lines."""
    lines = hit.chunk.text.strip().splitlines()
    more = ["…"] if len(lines) > MAX_EXCERPT_LINES else []
    place = hit.memory.relative_path or hit.memory.source
    head = Text(f"{place}:{hit.chunk.start_line}", style="bold")
    head.append(f"  {hit.score:.2f}", style="dim not bold")
    if not hit.memory.relative_path:
        head.append(f"  {hit.memory.memory_id}", style="dim not bold")
    body = Text("\n".join([*lines[:MAX_EXCERPT_LINES], *more]), no_wrap=True, overflow="ellipsis")
    return Group(render.line(head), Padding(body, (0, 0, 1, 3), expand=False))


@make_command("watch")
@click.argument("path", type=click.Path(path_type=Path), default=Path())
@include_option
@in_workspace
def watch(path: Path, include: tuple[str, ...], cli: CommandContext) -> None:
    """Index a codebase now and after every change, until Ctrl-C.

    With --json, one line for every time it was indexed.

    Example:  marksweep watch src
    """
    included = (*cli.settings().index.include, *include)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_watch(path, included, cli))


async def _watch(path: Path, include: tuple[str, ...], cli: CommandContext) -> None:
    with cli.memory() as (memory, name):
        async for report in watch_codebase(
            path, store=memory.graph, stop=asyncio.Event(), workspace_id=name, include=include
        ):
            if isinstance(report, MarksweepError):
                errors().print(f"marksweep: {report}", markup=False)
            elif cli.as_json:
                click.echo(msgspec.json.encode(report))
            else:
                render.console().print(_words(report))
