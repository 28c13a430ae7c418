"""`marksweep demo`: the three heaps, one after the other."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from marksweep.cli import render
from marksweep.cli.demo import conversation, memory, working_set


@click.command("demo")
@click.option("--store", type=click.Path(path_type=Path), help="Keep the store in this new file.")
def command(store: Path | None) -> None:
    """Show what marksweep does, on a made-up coding session and on its own code.

    Example:  marksweep demo --store demo.db
    """
    if store is not None and store.exists():
        raise click.UsageError(f"{store} exists; name a file that does not.")
    out = render.console()
    with tempfile.TemporaryDirectory() as folder:
        working_set.show(out, store or Path(folder) / "demo.db")
        conversation.show(out)
        memory.show(out, Path(folder))
    if store is not None:
        click.echo(f"The store is in {store}.")
