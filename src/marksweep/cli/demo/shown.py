"""How the demo shows its steps: a numbered heading, a line of what it is about, a command."""

from __future__ import annotations

from itertools import count

import click
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from marksweep.cli import render
from marksweep.cli.app import app

_numbers = count(1)


def section(out: Console, title: str, about: str = "") -> None:
    """Begin a step."""
    heading = Text(f"{next(_numbers)}. {title}", style="bold cyan")
    out.print(Padding(heading, (1, 0, 0, 0), expand=False))
    if about:
        out.print(render.line(about, style="dim"))


def run(out: Console, *words: str) -> None:
    """Show a command, and carry it out as if it had been typed."""
    typed = Text("$ marksweep " + " ".join(words), style="bold")
    out.print(render.line(typed))
    try:
        app(list(words), prog_name="marksweep", standalone_mode=False)
    except (SystemExit, click.exceptions.Exit) as ended:
        code = getattr(ended, "code", None) or getattr(ended, "exit_code", 0)
        if code:
            out.print(render.line(f"(exit code {code})", style="dim"))
