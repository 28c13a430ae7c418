"""`marksweep demo`: a working set in the library, then the rest by the commands that do it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from marksweep.cli import render
from marksweep.cli.demo import commands, replaying, working_set
from marksweep.cli.demo.shown import section

NEXT = {
    "What is dead weight in a session of yours": "analyze SESSION.jsonl",
    "Which strategy suits you": "replay ~/.claude/projects",
    "Add it to your agent": "serve --print-config claude-code",
}
"""What to try next, and the command."""


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
    out.print(
        render.line(
            "marksweep collects what an agent no longer needs: it shows what would go and why, "
            "does exactly that, and gets it back. All of this happens in a temporary folder."
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        working_set.show(out, store or Path(folder) / "demo.db")
        replaying.show_replay(out, report.absolute())
        commands.show(out, Path(folder))
    section(out, "Your turn")
    for about, words in NEXT.items():
        out.print(render.line(f"{about}:"))
        out.print(render.line(f"  $ marksweep {words}", style="bold"))
    if store is not None:
        out.print(render.line(f"The store is in {store}."))
