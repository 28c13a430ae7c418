"""The commands on the knowledge graph: index, watch, search, prune."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from marksweep.cli import render
from marksweep.cli.common import (
    NOTHING,
    REFUSED,
    confirmed,
    emit,
    errors,
    json_option,
    settings,
    store_option,
    workspace_option,
)
from marksweep.cli.common import command as make_command
from marksweep.graph.memory import Answer, GraphMemory
from marksweep.indexing.indexer import index_codebase
from marksweep.indexing.report import IndexReport
from marksweep.indexing.report import Progress as Indexed
from marksweep.indexing.watch import watch_codebase
from marksweep.stores.graph.base import GraphHit


@contextlib.asynccontextmanager
async def memory_of(
    store: str | None, workspace: str | None
) -> AsyncIterator[tuple[GraphMemory, str]]:
    """Open the project's memory, and name the workspace of it that is meant."""
    found = settings()
    opened = GraphMemory.open(settings=found, store=store or "", actor="cli")
    try:
        yield opened, workspace or found.store.workspace
    finally:
        await opened.close()


@make_command("index")
@click.argument("path", type=click.Path(path_type=Path), default=Path())
@click.option("--language", "languages", multiple=True, help="Only these; may be repeated.")
@click.option("--no-tests", is_flag=True, help="Leave tests out.")
@store_option
@workspace_option
@json_option
def index(
    path: Path,
    languages: tuple[str, ...],
    no_tests: bool,
    store: str | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Index a codebase into memory, reading only what has changed.

    Example:  marksweep index . --no-tests
    """
    report = asyncio.run(_index(path, languages, store, workspace, with_tests=not no_tests))
    emit(report, Text(str(report)), as_json=as_json)


async def _index(
    path: Path,
    languages: tuple[str, ...],
    store: str | None,
    workspace: str | None,
    *,
    with_tests: bool,
) -> IndexReport:
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=errors(),
        transient=True,
    ) as bars:
        task = bars.add_task("indexing", total=None)

        def tell(at: Indexed) -> None:
            bars.update(task, completed=at.done, total=at.total)

        async with memory_of(store, workspace) as (memory, name):
            return await index_codebase(
                path,
                store=memory.graph,
                workspace_id=name,
                languages=languages,
                include_tests=with_tests,
                progress=tell,
            )


@make_command("search")
@click.argument("words", nargs=-1, required=True)
@store_option
@workspace_option
@json_option
def search(words: tuple[str, ...], store: str | None, workspace: str | None, as_json: bool) -> None:
    """Search memory, best first.

    Example:  marksweep search open_session cookie
    """

    async def find() -> Answer:
        async with memory_of(store, workspace) as (memory, name):
            return await memory.search_memory(" ".join(words), workspace_id=name)

    found = asyncio.run(find())
    emit(found, _answer(found), as_json=as_json)
    if not found.hits:
        sys.exit(NOTHING)


@make_command("prune")
@click.option("--strategy", default="stale_code", show_default=True)
@click.option("--apply", "plan_id", metavar="PLAN", help="Delete exactly what this preview showed.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
@workspace_option
@json_option
def prune(
    strategy: str,
    plan_id: str | None,
    yes: bool,
    store: str | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Show what in memory is stale or orphaned, and delete it after a question.

    Deleted rows can be restored for a week.

    Example:  marksweep prune --strategy all
    """
    sys.exit(asyncio.run(_prune(strategy, plan_id, store, workspace, yes=yes, as_json=as_json)))


async def _prune(
    strategy: str,
    plan_id: str | None,
    store: str | None,
    workspace: str | None,
    *,
    yes: bool,
    as_json: bool,
) -> int:
    async with memory_of(store, workspace) as (memory, name):
        if plan_id is None:
            shown = await memory.prune_memory(name, strategy=strategy)
            emit(shown, shown.text, as_json=as_json)
            if shown.plan is None or not shown.plan.steps:
                return NOTHING
            if as_json or not confirmed("Delete exactly that?", yes=yes):
                return 0
            plan_id = shown.plan.plan_id
        done = await memory.prune_memory(
            name, dry_run=False, confirm=True, strategy=strategy, plan_id=plan_id
        )
        emit(done, done.text, as_json=as_json)
        return REFUSED if done.is_error else 0


def _answer(found: Answer) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for name in ("score", "where", "text"):
        table.add_column(name, overflow="fold")
    for hit in found.hits:
        table.add_row(f"{hit.score:.2f}", _place(hit), hit.chunk.text[:300].strip())
    return table


def _place(hit: GraphHit) -> str:
    return f"{hit.memory.relative_path or hit.memory.source}:{hit.chunk.start_line}"


@make_command("watch")
@click.argument("path", type=click.Path(path_type=Path), default=Path())
@store_option
@workspace_option
def watch(path: Path, store: str | None, workspace: str | None) -> None:
    """Index a codebase now and after every change, until Ctrl-C.

    Example:  marksweep watch src
    """
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_watch(path, store, workspace))


async def _watch(path: Path, store: str | None, workspace: str | None) -> None:
    async with memory_of(store, workspace) as (memory, name):
        async for report in watch_codebase(
            path, store=memory.graph, stop=asyncio.Event(), workspace_id=name
        ):
            render.console().print(Text(str(report)))
