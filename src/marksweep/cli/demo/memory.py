"""The demo's third part: a codebase in memory, a deleted file, a safe prune."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

import marksweep
from marksweep.graph.memory import GraphMemory
from marksweep.indexing.indexer import index_codebase


def show(out: Console, folder: Path) -> None:
    """Index a copy of marksweep itself, delete a file, index again, preview, prune."""
    asyncio.run(_show(out, folder))


async def _show(out: Console, folder: Path) -> None:
    code = folder / "code"
    shutil.copytree(
        Path(marksweep.__file__).parent, code, ignore=shutil.ignore_patterns("__pycache__")
    )
    memory = GraphMemory.open(folder, actor="demo")
    try:
        out.print(Rule("9. marksweep's own code, indexed into a graph", style="dim"))
        first = await index_codebase(code, store=memory.graph)
        out.print(Text(_indented(str(first).split("Skipped")[0])))

        out.print(Rule("10. A file is deleted: what is stale, and the prune", style="dim"))
        (code / "engine.py").unlink()
        again = await index_codebase(code, store=memory.graph)
        out.print(Text(_indented(str(again).strip().splitlines()[-1])))
        shown = await memory.prune_memory()
        out.print(Text(_indented(shown.text)))
        plan_id = shown.plan.plan_id if shown.plan else ""
        done = await memory.prune_memory("default", dry_run=False, confirm=True, plan_id=plan_id)
        out.print(Text(_indented(done.text)))
    finally:
        await memory.close()


def _indented(text: str) -> str:
    return "\n".join(f" {line}" for line in text.strip().splitlines())
