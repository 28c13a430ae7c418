"""The demo shows what it promises, at any width, and cleans up after itself."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from marksweep import Segments


def run(*arguments: str, columns: int = 100) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "marksweep", *arguments],
        env=env,
        cwd=tempfile.mkdtemp(),
        capture_output=True,
        text=True,
        check=False,
    )


SHOWN = (
    "A coding session",
    "unreachable: log",
    "must stay",
    "restored",
    "are back",
    "$ marksweep analyze session.jsonl",
    "$ marksweep collect session.jsonl",
    "valid: nothing to find",
    "$ marksweep undo session.jsonl",
    "$ marksweep index code",
    "$ marksweep prune",
    "Successfully deleted",
    "1 of 1 kept, word for word",
    "0 rewritten",
    'recall("m',
)


@pytest.mark.parametrize("columns", [60, 120])
def test_the_demo_plans_collects_restores_undoes_and_keeps_store_and_picture(
    columns: int, tmp_path: Path
) -> None:
    store, picture = tmp_path / "demo.db", tmp_path / "window.svg"
    done = run("demo", "--store", str(store), "--picture", str(picture), columns=columns)
    assert done.returncode == 0, done.stderr
    for shown in SHOWN:
        assert shown in done.stdout
    assert "\x1b[" not in done.stdout
    lines = [line for line in done.stdout.splitlines() if str(tmp_path) not in line]
    assert max(len(line) for line in lines if ":  marksweep " not in line) <= columns
    kept = Segments(store)
    assert len(kept.list()) > 30
    kept.close()
    assert "tail_log" in picture.read_text()


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    taken = tmp_path / "taken.db"
    taken.write_text("precious")
    done = run("demo", "--store", str(taken))
    assert done.returncode == 2
    assert "exists" in done.stderr
    assert taken.read_text() == "precious"


def test_a_place_where_no_store_can_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("demo", "--store", str(tmp_path / "file" / "demo.db"))
    assert done.returncode == 4
    assert done.stderr.startswith("marksweep: ")
    assert "choose another location" in " ".join(done.stderr.split())


def test_help_names_the_commands_and_an_unknown_one_is_refused() -> None:
    assert "demo" in run("--help").stdout
    assert run("sweep").returncode == 2
