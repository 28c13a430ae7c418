"""Indexing a repository reads its files and never runs them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from tests.mcp.support import Agent

MARKSWEEP = str(Path(sys.executable).with_name("marksweep"))
"""The installed command, as people and clients start it."""

TRAPS = (
    "typing.py",
    "json.py",
    "re.py",
    "signal.py",
    "runpy.py",
    "sitecustomize.py",
    "usercustomize.py",
    "msgspec.py",
    "pathspec/__init__.py",
    "tree_sitter.py",
    "tree_sitter_python.py",
    "marksweep/__init__.py",
    "marksweep/worker.py",
    "marksweep/indexing/__init__.py",
    "marksweep/indexing/readers.py",
    "encodings/__init__.py",
)
"""Modules that a worker imports, or that Python imports by itself."""


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


@pytest.fixture
def tree(tmp_path: Path, canary: Path) -> Path:
    """Make a repository in which every file records that it was executed."""
    folder = tmp_path / "repository"
    for name in TRAPS:
        trap = folder / name
        trap.parent.mkdir(parents=True, exist_ok=True)
        trap.write_text(f"def trap(): pass\nopen({str(canary)!r}, 'a').write({name!r})\n")
    return folder


@pytest.fixture
def environment(tree: Path) -> dict[str, str]:
    """An environment that would make a careless child import from the repository."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return plain | {"MARKSWEEP_STORE": str(tree.parent / "store.db")}


def test_the_command_line_started_inside_the_tree_runs_none_of_it(
    tree: Path, canary: Path, environment: dict[str, str]
) -> None:
    done = subprocess.run(
        [MARKSWEEP, "index", "."],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not canary.exists(), f"was run: {canary.read_text()}"
    assert done.returncode == 0, done.stderr
    assert f"Functions: {len(TRAPS)}" in done.stdout, "the grammars did their work"


def test_the_server_started_inside_the_tree_runs_none_of_it(
    tree: Path, canary: Path, environment: dict[str, str]
) -> None:
    serve = ["serve", "--tools", "all"]
    server = StdioServerParameters(command=MARKSWEEP, args=serve, env=environment, cwd=tree)

    async def work() -> int:
        async with Client(server) as client:
            indexed = await Agent(client).call("index_codebase", path=str(tree))
            return int(indexed["functions"])

    functions = asyncio.run(work())
    assert not canary.exists(), f"was run: {canary.read_text()}"
    assert functions == len(TRAPS)


def test_a_program_that_has_the_tree_on_its_path_still_has_it_read_by_a_clean_worker(
    tree: Path, canary: Path, environment: dict[str, str]
) -> None:
    script = (
        "import asyncio, os, sys\n"
        "from marksweep.indexing.indexer import index_codebase\n"
        "from marksweep.stores.graph.open import open_graph\n"
        "os.environ['PYTHONPATH'] = os.getcwd()\n"
        "sys.path.append(os.getcwd())\n"
        f"graph = open_graph({str(tree.parent / 'graph')!r})\n"
        "print(asyncio.run(index_codebase('.', store=graph)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", script],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not canary.exists(), f"was run: {canary.read_text()}"
    assert f"Functions: {len(TRAPS)}" in done.stdout, done.stderr
