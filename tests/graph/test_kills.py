from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = int(os.environ.get("MARKSWEEP_KILLS", "100"))
"""How often the pruner is killed on each store."""

SERVER_KILLS = int(os.environ.get("MARKSWEEP_SERVER_KILLS", "100"))
"""How often the FalkorDB server is killed under the pruner: its restart takes longest."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["sqlite", "falkor"])
def test_a_pruner_killed_at_any_moment_damages_no_live_row(kind: str, tmp_path: Path) -> None:
    killed(kind, tmp_path, KILLS)


@pytest.mark.timeout(600)
def test_a_falkordb_server_killed_under_the_pruner_damages_no_live_row(tmp_path: Path) -> None:
    killed("server", tmp_path, SERVER_KILLS)


def killed(kind: str, folder: Path, kills: int) -> None:
    """Run the killer in a separate process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.graph.kills", kind, str(folder), str(kills)],
        capture_output=True,
        text=True,
        timeout=20 + 5 * kills,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"{kills} kills, no damage\n"
