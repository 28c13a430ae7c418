"""The shells complete commands and options as the reference says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from marksweep.cli.app import COMMANDS

COMMAND = Path(sys.executable).with_name("marksweep")
REFERENCE = Path(__file__).parents[2] / "docs/cli.md"


def asked(**env: str) -> str:
    """Run the command as a shell's completion does."""
    ran = subprocess.run(
        [COMMAND], env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_a_script(shell: str) -> None:
    script = asked(_MARKSWEEP_COMPLETE=f"{shell}_source")
    assert "_MARKSWEEP_COMPLETE" in script
    assert f"_MARKSWEEP_COMPLETE={shell}_source" in REFERENCE.read_text()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("marksweep ", set(COMMANDS)),
        ("marksweep an", {"analyze"}),
        ("marksweep stash ", {"list", "search", "restore", "put", "compress"}),
        (
            "marksweep memory ",
            {
                "backups",
                "export",
                "import",
                "roots",
                "drop-root",
                "pin",
                "merge",
                "migrate",
            },
        ),
        ("marksweep collect --wr", {"--write"}),
        ("marksweep serve --print-config c", {"claude-code", "cursor", "codex"}),
    ],
)
def test_commands_options_and_values_are_completed(
    shell: str, typed: str, expected: set[str]
) -> None:
    words = typed.split(" ")
    env = {"COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    if shell == "fish":
        env["COMP_CWORD"] = words[-1]
    answer = asked(_MARKSWEEP_COMPLETE=f"{shell}_complete", **env)
    kind_and_value = [line.split(",") for line in answer.splitlines()]
    found = {
        "bash": lambda: {pair[1] for pair in kind_and_value},
        "zsh": lambda: set(answer.splitlines()[1::3]),
        "fish": lambda: {pair[1].split("\t")[0] for pair in kind_and_value},
    }[shell]()
    assert found == expected


def test_bash_itself_completes_a_command(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash, "bash is needed to try its completion"
    (tmp_path / "script").write_text(asked(_MARKSWEEP_COMPLETE="bash_source"))
    typed = (
        f"PATH={COMMAND.parent}:$PATH; source {tmp_path}/script; "
        "COMP_WORDS=(marksweep jour); COMP_CWORD=1; "
        "_marksweep_completion marksweep jour marksweep; echo ${COMPREPLY[@]}"
    )
    ran = subprocess.run([bash, "-c", typed], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "journal", ran.stderr
