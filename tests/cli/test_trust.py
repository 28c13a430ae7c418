"""`marksweep config trust`: a project's requests are shown, accepted once, and revoked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import run


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cloned project that wants its memory on another host."""
    folder = tmp_path / "clone"
    (folder / ".marksweep").mkdir(parents=True)
    (folder / ".marksweep/settings.toml").write_text(
        'memory.location = "falkordb://:hunter2@memory.example"\n'
    )
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return folder


def test_every_command_refuses_until_the_user_has_agreed() -> None:
    for command in (["journal"], ["config", "show"], ["index", "."], ["serve", "--http"]):
        refused = run(*command)
        assert refused.exit_code == 3, command
        assert "marksweep config trust" in refused.stderr.replace("\n", " ")
        assert "hunter2" not in refused.output
    doctor = run("doctor")
    assert "marksweep config trust" in " ".join(doctor.output.split())

    assert run("config", "trust").exit_code == 3, "nobody was asked"
    agreed = run("config", "trust", "--yes", "--json")
    assert agreed.exit_code == 0
    assert "hunter2" not in agreed.output
    (claim,) = json.loads(agreed.stdout)
    assert claim["key"] == "memory.location"
    assert claim["target"] == "falkordb://***@memory.example"
    assert claim["agreed"]
    assert run("config", "show").exit_code == 0

    revoked = run("config", "trust", "--revoke")
    assert revoked.exit_code == 0
    assert "refused" in revoked.stdout
    assert run("config", "show").exit_code == 3
    assert run("config", "trust", "--revoke").exit_code == 1, "nothing to revoke"


def test_a_project_that_sends_nothing_elsewhere_has_nothing_to_agree_to(project: Path) -> None:
    (project / ".marksweep/settings.toml").unlink()
    done = run("config", "trust")
    assert done.exit_code == 0
    assert "nothing elsewhere" in done.output


def test_a_store_that_the_user_names_needs_no_trust(project: Path) -> None:
    (project / ".marksweep/settings.toml").write_text('store.location = "/var/elsewhere.db"\n')
    assert run("journal").exit_code == 3
    for command in (["journal"], ["search", "x"], ["doctor"]):
        done = run(*command, "--store", "mine.db")
        assert "config trust" not in done.output
        assert done.exit_code in (0, 1)
