"""`marksweep index` and the server's tool report what they left out, as text and as data."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.support import run
from tests.mcp.support import agent


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text("def run(): pass\n")
    (tmp_path / ".env").write_text("TOKEN=hunter2\n")
    (tmp_path / "uv.lock").write_text("version = 1\n")
    return tmp_path


def left_out(*options: str) -> list[str]:
    report = json.loads(run("index", ".", "--json", *options).stdout)
    return [each["path"] for each in report["left_out"]]


def test_the_command_line_reports_what_it_left_out() -> None:
    said = run("index", ".").stdout
    assert "Left out: a lock file (1), a secret (1)." in said
    assert "index.include" in said
    assert left_out() == [".env", "uv.lock"]
    assert run("search", "hunter2").exit_code == 1


def test_an_option_or_a_setting_includes_a_kind(project: Path) -> None:
    assert left_out("--include", "secrets") == ["uv.lock"]
    (project / ".marksweep").mkdir(exist_ok=True)
    (project / ".marksweep/settings.toml").write_text('index.include = ["locks"]\n')
    assert left_out() == [".env"]
    assert left_out("--include", "secrets") == []
    (project / ".marksweep/settings.toml").write_text('index.include = ["everything"]\n')
    refused = run("index", ".")
    assert refused.exit_code == 2
    assert "a list of secrets, minified, locks, build, vendored" in " ".join(refused.stderr.split())


def test_the_server_reports_what_it_left_out(project: Path) -> None:
    async def work() -> None:
        async with agent(project) as one:
            indexed = await one.call("index_codebase", path=".")
            assert indexed["left_out"] == {"a secret": 1, "a lock file": 1}

    asyncio.run(work())
