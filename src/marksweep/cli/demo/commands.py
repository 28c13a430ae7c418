"""The demo's tour: a transcript and a codebase, each step with the command that does it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

import marksweep
from marksweep.cli import render
from marksweep.cli.demo.sample import sample_messages
from marksweep.cli.demo.shown import run, section

TRANSCRIPT = "session.json"


def show(out: Console, folder: Path) -> None:
    """Analyse, collect, undo, index and prune, in a folder of its own."""
    (folder / TRANSCRIPT).write_text(json.dumps(sample_messages()))
    package = Path(marksweep.__file__).parent / "core"
    shutil.copytree(package, folder / "code", ignore=shutil.ignore_patterns("__pycache__"))
    with _inside(folder):
        _transcript(out)
        _memory(out)


def _transcript(out: Console) -> None:
    section(out, "A recorded session: what is in it", "Any provider's messages, or an agent's log.")
    run(out, "analyze", TRANSCRIPT, "--limit", "6k")

    section(out, "Collect it", "It stays valid for its provider: no call without its result.")
    run(out, "collect", TRANSCRIPT, "--limit", "6k", "--write", "--yes")
    run(out, "validate", TRANSCRIPT)

    section(out, "Undo that")
    run(out, "undo", TRANSCRIPT)


def _memory(out: Console) -> None:
    section(out, "A codebase, indexed into long-term memory", "A copy of marksweep's own core.")
    run(out, "index", "code")
    run(out, "search", "what", "the", "roots", "reach", "--limit", "2")

    section(out, "A file is deleted: what is stale in memory, and prune it")
    out.print(render.line("$ rm code/why.py", style="bold"))
    Path("code/why.py").unlink()
    run(out, "index", "code")
    run(out, "prune", "--yes", "--workspace", "default")


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
