"""The commands on the knowledge graph: index, watch, search, prune."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from marksweep.cli import render
from marksweep.cli.common import NOTHING, REFUSED, confirmed, emit, json_option
from marksweep.cli.common import command as make_command
from marksweep.cli.progress import progress
from marksweep.graph.memory import Answer, GraphMemory
from marksweep.indexing.indexer import index_codebase
from marksweep.indexing.report import IndexReport
from marksweep.indexing.watch import watch_codebase
from marksweep.stores.base import DEFAULT_WORKSPACE
from marksweep.stores.graph.base import GraphHit

memory_option = click.option(
    "--memory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".marksweep"),
    show_default=True,
    help="The folder the memory lives in.",
)
workspace_option = click.option("--workspace", default=DEFAULT_WORKSPACE, show_default=True)


@make_command("index")
@click.argument("path", type=click.Path(path_type=Path), default=Path())
@click.option("--language", "languages", multiple=True, help="Only these; may be repeated.")
@click.option("--no-tests", is_flag=True, help="Leave tests out.")
@memory_option
@workspace_option
@json_option
def index(
    path: Path,
    languages: tuple[str, ...],
    no_tests: bool,
    memory: Path,
    workspace: str,
    as_json: bool,
) -> None:
    """Index a codebase into memory, reading only what has changed.

    Example:  marksweep index . --no-tests
    """
    report = asyncio.run(_index(path, languages, memory, workspace, with_tests=not no_tests))
    emit(report, Text(str(report)), as_json=as_json)


async def _index(
    path: Path, languages: tuple[str, ...], memory: Path, workspace: str, *, with_tests: bool
) -> IndexReport:
    opened = GraphMemory.open(memory, actor="cli")
    with progress("indexing") as tell:
        try:
            return await index_codebase(
                path,
                store=opened.graph,
                workspace_id=workspace,
                languages=languages,
                include_tests=with_tests,
                progress=lambda at: tell(at.done, at.total, ""),
            )
        finally:
            await opened.close()


@make_command("search")
@click.argument("words", nargs=-1, required=True)
@memory_option
@workspace_option
@json_option
def search(words: tuple[str, ...], memory: Path, workspace: str, as_json: bool) -> None:
    """Search memory, best first.

    Example:  marksweep search open_session cookie
    """

    async def find() -> Answer:
        opened = GraphMemory.open(memory, actor="cli")
        try:
            return await opened.search_memory(" ".join(words), workspace_id=workspace)
        finally:
            await opened.close()

    found = asyncio.run(find())
    emit(found, _answer(found), as_json=as_json)
    if not found.hits:
        sys.exit(NOTHING)


@make_command("prune")
@click.option("--strategy", default="stale_code", show_default=True)
@click.option("--apply", "plan_id", metavar="PLAN", help="Delete exactly what this preview showed.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@memory_option
@workspace_option
@json_option
def prune(
    strategy: str, plan_id: str | None, yes: bool, memory: Path, workspace: str, as_json: bool
) -> None:
    """Show what in memory is stale or orphaned, and delete it after a question.

    Deleted rows can be restored for a week.

    Example:  marksweep prune --strategy all
    """
    sys.exit(asyncio.run(_prune(strategy, plan_id, memory, workspace, yes=yes, as_json=as_json)))


async def _prune(
    strategy: str, plan_id: str | None, memory: Path, workspace: str, *, yes: bool, as_json: bool
) -> int:
    opened = GraphMemory.open(memory, actor="cli")
    try:
        if plan_id is None:
            shown = await opened.prune_memory(workspace, strategy=strategy)
            emit(shown, shown.text, as_json=as_json)
            if shown.plan is None or not shown.plan.steps:
                return NOTHING
            if as_json or not confirmed("Delete exactly that?", yes=yes):
                return 0
            plan_id = shown.plan.plan_id
        done = await opened.prune_memory(
            workspace, dry_run=False, confirm=True, strategy=strategy, plan_id=plan_id
        )
        emit(done, done.text, as_json=as_json)
        return REFUSED if done.is_error else 0
    finally:
        await opened.close()


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
@memory_option
@workspace_option
def watch(path: Path, memory: Path, workspace: str) -> None:
    """Index a codebase now and after every change, until Ctrl-C.

    Example:  marksweep watch src
    """
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_watch(path, memory, workspace))


async def _watch(path: Path, memory: Path, workspace: str) -> None:
    opened = GraphMemory.open(memory, actor="cli")
    try:
        async for report in watch_codebase(
            path, store=opened.graph, stop=asyncio.Event(), workspace_id=workspace
        ):
            render.console().print(Text(str(report)))
    finally:
        await opened.close()
