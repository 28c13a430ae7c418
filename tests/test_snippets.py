"""The snippets of the front pages run exactly as written."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_resume import write
from tests.dialects.test_chain import session

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"

GIVEN = """
messages = [{"role": "user", "content": "Why does the login fail?"}]
for n in range(9):
    messages += [
        {"role": "assistant", "content": f"Step {n}. " + "I look at the session store. " * 60},
        {"role": "user", "content": "Go on."},
    ]
request = model = lambda messages: {"role": "assistant", "content": "The cookie is missing."}
"""
"""What a reader has: a history, and a way to call a model."""

WORDS = ["pip", "make"]
"""Commands that are shown but not run here: `make release-check` installs, CI runs make."""

CLIENT = """#!/bin/sh
echo "$@" >> "$HOME/client.txt"
case "$1" in mcp) ;; *) test -n "$ANTHROPIC_BASE_URL" ;; esac
"""
"""A coding agent that records how it was started. `make clients` runs the real ones."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_python_of_a_page_runs(page: str, tmp_path: Path) -> None:
    shown = blocks(ROOT / page, "python")
    assert shown
    program = tmp_path / "page.py"
    program.write_text(GIVEN + "\n".join(shown))
    done = subprocess.run(
        [sys.executable, "-W", "error", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr


def test_what_the_page_on_extending_shows_passes_its_contracts(tmp_path: Path) -> None:
    page = tmp_path / "test_page.py"
    page.write_text("\n".join(blocks(ROOT / "docs/extending.md", "python")))
    wanted = "law or restart or TestMyStore"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", wanted, page],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "TestOldest" in page.read_text()


def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    write(tmp_path, "claude", session(400))
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    (folder / "shop.py").write_text("def open_session():\n    pass\n\n\nopen_session()\n")
    client = tmp_path / "bin/claude"
    client.parent.mkdir()
    client.write_text(CLIENT)
    client.chmod(stat.S_IRWXU)
    commands = [line for block in blocks(README, "sh") for line in block.splitlines()]
    path = (
        f"{client.parent}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    away = ("CLAUDE_CONFIG_DIR", "ANTHROPIC_BASE_URL")
    environment = {key: value for key, value in os.environ.items() if key not in away}
    keyboard, terminal = os.openpty()
    ran = 0
    for command in commands:
        if command.split()[0] in WORDS:
            continue
        os.write(keyboard, b"y\n")
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env={**environment, "HOME": str(tmp_path), "PATH": path},
            capture_output=True,
            text=True,
            stdin=terminal,
            check=False,
            timeout=60,
        )
        nothing_to_do = command.startswith("marksweep prune")
        assert done.returncode == int(nothing_to_do), (command, done.stdout, done.stderr)
        ran += 1
    os.close(keyboard)
    os.close(terminal)
    assert ran >= 9
    assert "mcp add marksweep -- marksweep serve" in (tmp_path / "client.txt").read_text()


def test_what_the_readme_installs_exists() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    extras = {
        *re.findall(r"marksweep\[([\w,-]+)\]", README.read_text()),
        *re.findall(r"^\| [\w -]+ \| `([\w-]+)` \|", README.read_text(), re.MULTILINE),
    }
    assert extras
    for extra in extras:
        assert re.search(rf"^{extra} = ", project, re.MULTILINE), extra


def test_the_line_for_each_framework_names_what_its_adapter_has() -> None:
    rows = re.findall(r"^\| [\w -]+ \| `([\w-]+)` \| `(.+)` \|", README.read_text(), re.MULTILINE)
    assert len(rows) == 6
    for extra, line in rows:
        source = (ROOT / f"src/marksweep/adapters/{extra.replace('-', '_')}.py").read_text()
        (name,) = re.findall(r"(Marksweep\w*)\(|marksweep\.adapters\.litellm\.(\w+)", line)
        assert re.search(rf"^(class )?{''.join(name)}\b", source, re.MULTILINE), line
