from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = int(os.environ.get("MARKSWEEP_KILLS", "100"))
"""How often the pruner is killed on each store."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["sqlite", "falkor"])
def test_a_pruner_killed_at_any_moment_hurts_no_live_row(kind: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.graph.kills", kind, str(tmp_path), str(KILLS)],
        capture_output=True,
        text=True,
        timeout=20 + 5 * KILLS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"{KILLS} kills, no harm\n"
