"""What all commands share: options, exit codes, and how results go out.

| code | meaning |
|---|---|
| 0 | done |
| 1 | nothing to do, or findings with `validate --check` |
| 2 | bad usage or bad input |
| 3 | refused: the heap has moved, not confirmed, over a cap |
| 4 | a store cannot be read or written |
| 130 | interrupted by Ctrl-C |
"""

from __future__ import annotations

import functools
import math
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar, cast

import click
from rich.console import Console, RenderableType
from rich.markup import escape

from marksweep.cli import render
from marksweep.core.roots import breakpoint_at
from marksweep.errors import BadInput, MarksweepError, NotFound, Refused, StoreError
from marksweep.money import AS_OF, MODEL, MODELS
from marksweep.segments import FocusArgs, Segments
from marksweep.settings import Settings, load_settings
from marksweep.sizes import Size
from marksweep.urls import redacted

if TYPE_CHECKING:
    from marksweep.graph.memory import KnowledgeGraph

NOTHING, USAGE, REFUSED, STORE = 1, 2, 3, 4

F = TypeVar("F", bound=Callable[..., Any])

store_option = click.option(
    "--store",
    metavar="WHERE",
    help="A .db or .json file, a folder, or redis://…; default: the settings.",
)
workspace_option = click.option("--workspace", metavar="NAME", help="Default: the settings.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


class FiniteRange(click.FloatRange):
    """A number in a range. `nan` is in none, but compares as if it were in all."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """Read a number."""
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return found


def options(*given: Callable[[Any], Any]) -> Callable[[F], F]:
    """Add several options and arguments at once, in this order."""

    def decorate(function: F) -> F:
        for option in reversed(given):
            function = option(function)
        return function

    return decorate


price_options = options(
    click.option(
        "--model",
        default=MODEL,
        show_default=True,
        metavar="NAME",
        help=f"Show costs at the prices of this model ({AS_OF}): {', '.join(MODELS)}.",
    ),
    click.option(
        "--price",
        metavar="IN,CACHED,OUT",
        help="Other prices, in dollars for a million tokens, such as 3,0.3,15.",
    ),
)
"""Whose prices a cost is written in."""


def settings(store: str | None = None) -> Settings:
    """Read the settings: --store over environment over .marksweep/settings.toml over defaults."""
    return load_settings(explicit={"store": {"location": store}} if store else None)


def tokens_in(limit: str) -> int:
    """Read a limit in tokens."""
    found = Size.read(limit).tokens
    if not found:
        raise BadInput(f"--limit {limit} is not a number of tokens; expected for example 100k.")
    return found


def refuse_focus(at: FocusArgs, transcript: str | None) -> None:
    """Refuse the options for what the agent works on if there is a transcript."""
    if transcript is not None and at != FocusArgs():
        raise BadInput(
            "--task, --active-file, --open-file and --breakpoint are for the working set. "
            f"Leave them out, or leave {transcript} out."
        )


def at_options(function: F) -> F:
    """Add options for what the agent is working on, and pass them as `at`."""

    @click.option("--task", metavar="ID", help="The current task: its segments stay.")
    @click.option("--active-file", "file", metavar="PATH", help="The file being worked on.")
    @click.option("--active-lines", "lines", nargs=2, type=int, help="First and last line in use.")
    @click.option(
        "--open-file", "open_files", multiple=True, metavar="PATH", help="An open file; repeatable."
    )
    @click.option(
        "--breakpoint",
        "breakpoints",
        multiple=True,
        metavar="FILE:LINE",
        help="Code with it stays; repeatable.",
    )
    @functools.wraps(function)
    def call(
        task: str | None,
        file: str | None,
        lines: tuple[int, int] | None,
        open_files: tuple[str, ...],
        breakpoints: tuple[str, ...],
        **given: object,
    ) -> object:
        at = FocusArgs(task, file, lines, open_files, tuple(map(breakpoint_at, breakpoints)))
        return function(at=at, **given)

    return cast("F", call)


def words_of(at: FocusArgs) -> Iterator[str]:
    """Write what the agent is working on as the options that say it."""
    named = {"--task": at.task, "--active-file": at.file}
    yield from (word for name, value in named.items() if value for word in (name, value))
    if at.lines:
        yield from ("--active-lines", *map(str, at.lines))
    for path in at.open_files:
        yield from ("--open-file", path)
    for path, line in at.breakpoints:
        yield from ("--breakpoint", f"{path}:{line}")


class CommandContext(NamedTuple):
    """Where a command works and how it answers: what --store, --workspace and --json say."""

    store: str | None = None
    workspace: str | None = None
    as_json: bool = False

    def settings(self) -> Settings:
        """Read the settings."""
        return settings(self.store)

    def segments(self, at: FocusArgs = FocusArgs()) -> Segments:  # noqa: B008
        """Open the working set; it is closed when the command ends."""
        found = self.settings()
        context = Segments(self.store, workspace=self.workspace, settings=found, actor="cli")
        click.get_current_context().call_on_close(context.close)
        if found.memory.keeps_segments:
            with self.memory() as (memory, _):
                context.keep(memory.cited_segments(workspace_id=context.workspace))
        if at != FocusArgs():
            context.focus(**at._asdict())
        return context

    @contextmanager
    def memory(self) -> Iterator[tuple[KnowledgeGraph, str]]:
        """Open the project's memory, and name the workspace of it that is meant."""
        from marksweep.graph.memory import KnowledgeGraph

        found = self.settings()
        opened = KnowledgeGraph.open(settings=found, actor="cli")
        with closing(opened):
            yield opened, self.workspace or found.store.workspace

    def again(self, *words: str) -> str:
        """Write a command that works on the same store and workspace, without credentials."""
        store = ["--store", redacted(self.store)] if self.store else []
        workspace = ["--workspace", self.workspace] if self.workspace else []
        return shlex.join(["marksweep", *words, *store, *workspace])

    def emit(self, value: object, shown: RenderableType | None = None) -> None:
        """Print a result: as JSON, or as people see it."""
        emit(value, shown, as_json=self.as_json)


def in_workspace(function: F) -> F:
    """Add --store, --workspace and --json, and pass what they say as `cli`."""

    @store_option
    @workspace_option
    @json_option
    @functools.wraps(function)
    def call(store: str | None, workspace: str | None, as_json: bool, **given: object) -> object:
        return function(cli=CommandContext(store, workspace, as_json), **given)

    return cast("F", call)


def emit(value: object, shown: RenderableType | None = None, *, as_json: bool) -> None:
    """Print a result: as JSON, or as people see it. docs/json.md has the shape of each."""
    if as_json or shown is None:
        from marksweep.dialects.base import spelled

        click.echo(spelled(value, indent=2))
    else:
        render.console().print(shown, crop=False)


def errors() -> Console:
    """Return the console for what is not a result."""
    return render.PlainConsole(stderr=True, highlight=False)


def say(text: str) -> None:
    """Report what was done, on standard error."""
    errors().print(render.line(text))


def propose(label: str, words: str) -> None:
    """Name the command to run next, on standard error."""
    errors().print(render.command(label, words), crop=False)


def command(name: str, group: click.Group | None = None) -> Callable[[F], click.Command]:
    """Make a command, of a group if one is given; errors become one line and an exit code."""

    def decorate(function: F) -> click.Command:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401
            try:
                if status := function(*args, **kwargs):
                    sys.exit(status)
            except MarksweepError as error:
                fail(error)

        made: click.Command = click.command(name)(guarded)
        if group is not None:
            group.add_command(made)
        return made

    return decorate


def fail(error: MarksweepError) -> NoReturn:
    """Print an error in one line and exit with its code."""
    errors().print(f"[bold red]marksweep:[/] {escape(str(error))}", soft_wrap=True)
    if isinstance(error, StoreError):
        sys.exit(STORE)
    if isinstance(error, Refused):
        sys.exit(REFUSED)
    sys.exit(USAGE if isinstance(error, BadInput | NotFound) else NOTHING)


NOT_CONFIRMED = "not confirmed; nothing was changed."


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal; Refused if the answer is no, or if there is neither terminal nor --yes."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refused("not confirmed: there is no terminal to ask on. Pass --yes.")
    if not click.confirm(question, default=False):
        raise Refused(NOT_CONFIRMED)


Progress = Callable[[int, int, str], None]
"""Receives how much of how much is done, and what comes next."""


@contextmanager
def progress(what: str) -> Iterator[Progress]:
    """Show a bar on standard error while the block runs, if that is a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = errors()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        task = bars.add_task(what, total=None)
        stage = what

        def advance(done: int, total: int, now: str) -> None:
            nonlocal stage
            is_new, stage = (now or what) != stage, now or what
            bars.update(
                task, completed=done, total=total or None, description=stage, refresh=is_new
            )

        yield advance
