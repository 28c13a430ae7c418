"""A bar on standard error while something long runs, if that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from marksweep.cli.common import errors

Progress = Callable[[int, int, str], None]
"""Receives how much of how much is done, and what comes next."""


@contextmanager
def progress(what: str) -> Iterator[Progress]:
    """Show a bar while the block runs; it is gone afterwards."""
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
