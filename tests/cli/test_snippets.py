"""The page on the MCP server shows the same client snippets as the server prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from marksweep.cli.serve import FILES

PAGE = (Path(__file__).parents[2] / "docs/mcp.md").read_text("utf-8")
COMMAND = Path(sys.executable).with_name("marksweep")


def printed(client: str, path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, "serve", "--print-config", client, "--tools", "few"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": path},
    )


@pytest.mark.parametrize("client", FILES)
def test_the_page_has_the_snippet_that_is_printed(client: str) -> None:
    ran = printed(client, os.pathsep.join([str(COMMAND.parent), os.environ["PATH"]]))
    assert f"in `{FILES[client]}`:" in PAGE
    assert f"\n{ran.stdout.strip()}\n```" in PAGE


def test_a_command_that_is_not_on_the_path_is_named_by_its_full_path(tmp_path: Path) -> None:
    (entry,) = json.loads(printed("claude-code", str(tmp_path)).stdout)["mcpServers"].values()
    assert entry["command"] == str(COMMAND)
    words = [entry["command"], *entry["args"], "--help"]
    ran = subprocess.run(words, capture_output=True, check=False)
    assert ran.returncode == 0


def test_another_marksweep_on_the_path_is_not_taken_for_this_one(tmp_path: Path) -> None:
    other = tmp_path / "marksweep"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    assert str(COMMAND) in printed("codex", str(tmp_path)).stdout


def test_a_client_that_adds_servers_itself_gets_the_command_for_it(tmp_path: Path) -> None:
    said = printed("claude-code", str(tmp_path)).stderr
    assert f"claude mcp add --scope project marksweep -- {COMMAND} serve" in said
    assert "Or run" not in printed("cursor", str(tmp_path)).stderr
