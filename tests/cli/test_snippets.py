"""The README says how to add the server to each client as the server itself does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from marksweep.mcp.config_snippets import FILES

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
COMMAND = Path(sys.executable).with_name("marksweep")


@pytest.mark.parametrize("client", FILES)
def test_the_readme_has_the_snippet_that_is_printed(client: str) -> None:
    ran = subprocess.run(
        [COMMAND, "serve", "--print-config", client], capture_output=True, text=True, check=True
    )
    assert f"in `{FILES[client]}`:" in README
    assert f"\n{ran.stdout.strip()}\n```" in README
