"""`marksweep demo`: the three heaps, one after the other."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
from rich.rule import Rule

from marksweep.cli import render
from marksweep.cli.demo import conversation, memory, replaying, working_set


@click.command("demo")
@click.option("--store", type=click.Path(path_type=Path), help="Keep the store in this new file.")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    default=Path("marksweep-report.html"),
    show_default=True,
    help="Where the replay's report goes.",
)
def command(store: Path | None, report: Path) -> None:
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
    out.print(Rule("11. Strategies against a transcript, beside the best possible", style="dim"))
    replaying.show_replay(out, report)
    if store is not None:
        click.echo(f"The store is in {store}.")
