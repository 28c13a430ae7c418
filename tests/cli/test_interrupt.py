"""Ctrl-C in the middle of work loses nothing, and the next run continues."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from marksweep import Segments
from marksweep.cli.app import app
from marksweep.testing.builders import segment
from tests.cli.support import history

COMMAND = str(Path(sys.executable).with_name("marksweep"))
DEADLINE = 60.0
INTERRUPTED = 130
MOMENTS = (0.1, 0.15, 0.3, 0.45, 0.6)
"""Seconds until the signal: during start, reading, work and exit."""


MORE_THAN_A_PIPE_HOLDS = 1 << 20


def interrupted(folder: Path, seconds: float, *words: str) -> None:
    """Start a command, press Ctrl-C after a while: a terminal sends it to all its processes."""
    with subprocess.Popen(
        [COMMAND, *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=DEADLINE)
    if "marksweep: interrupted." in said:
        assert process.returncode == INTERRUPTED
        assert "Traceback" not in said
        assert "Aborted" not in said
    else:  # Python itself was not ready yet, or the command was done
        assert process.returncode in (-signal.SIGINT, INTERRUPTED, 0), said


@pytest.mark.parametrize("seconds", MOMENTS)
def test_an_interrupted_collection_is_either_complete_or_absent(
    tmp_path: Path, seconds: float
) -> None:
    names = {f"s{n}" for n in range(3_000)}
    context = Segments(tmp_path / "set.db", limit=10**9)
    context.add(*(segment(name, text=f"words of {name}") for name in sorted(names)))
    context.close()
    interrupted(tmp_path, seconds, "collect", "--store", "set.db", "--limit", "0", "--yes")
    context = Segments(tmp_path / "set.db", limit=10**9)
    live = {each.segment_id for each in context.list()}
    stashed = {hit.found.segment.segment_id for hit in context.search_stash(limit=10_000)}
    context.close()
    assert live | stashed == names
    assert not live & stashed
    assert len(live) in (0, len(names))


@pytest.mark.parametrize("seconds", MOMENTS)
def test_an_interrupted_write_leaves_the_old_or_the_new_transcript_and_the_original(
    tmp_path: Path, seconds: float
) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(history(600)))
    before = path.read_bytes()
    interrupted(tmp_path, seconds, "collect", "chat.json", "--limit", "9k", "--write", "--yes")
    original = tmp_path / "chat.json.orig"
    assert before in (path.read_bytes(), original.read_bytes() if original.exists() else b"")
    json.loads(path.read_bytes())


@pytest.mark.parametrize("seconds", MOMENTS)
def test_an_interrupted_index_is_completed_by_the_next_run(tmp_path: Path, seconds: float) -> None:
    code = tmp_path / "code"
    code.mkdir()
    for n in range(200):
        (code / f"m{n}.py").write_text(f"def f{n}():\n    return {n}\n")
    interrupted(tmp_path, seconds, "index", "code")
    ran = subprocess.run(
        [COMMAND, "index", "code", "--json"], cwd=tmp_path, capture_output=True, check=True
    )
    report = json.loads(ran.stdout)
    assert report["files"] + report["unchanged"] == 200
    assert report["stale"] == 0


LOADING = """
import signal, sys

MODULE = sys.argv.pop(1)

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == MODULE:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from marksweep.cli import main
main()
"""
"""A command line that is interrupted when it begins to import a module."""


@pytest.mark.parametrize("module", ["marksweep.cli.app", "marksweep.cli.validate", "rich.table"])
def test_an_interrupt_while_a_command_is_loaded_is_reported_like_any_other(module: str) -> None:
    words = [sys.executable, "-c", LOADING, module, "validate", "-"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.stderr == "marksweep: interrupted. Completed work is saved; nothing is lost.\n"
    assert (ran.returncode, ran.stdout) == (INTERRUPTED, "")


def test_an_interrupt_at_a_question_is_not_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("click.termui.visible_prompt_func", interrupt)
    monkeypatch.setattr("marksweep.cli.common.sys.stdin", Terminal())
    with pytest.raises(SystemExit) as ended:
        app(["memory", "drop-root", "src"], standalone_mode=False)
    assert ended.value.code == INTERRUPTED


class Terminal:
    """Standard input that is a terminal."""

    def isatty(self) -> bool:
        """Say that it is."""
        return True


def test_an_interrupt_is_reported_on_one_line_with_its_own_exit_code(tmp_path: Path) -> None:
    """A pipe that is never closed keeps the command reading until it is interrupted.

    Once more is written than the pipe holds, the command has begun to read.
    """
    with subprocess.Popen(
        [COMMAND, "analyze", "-"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        process.stdin.write("x" * MORE_THAN_A_PIPE_HOLDS)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=DEADLINE)
    assert process.returncode == INTERRUPTED
    assert out == ""
    assert said.startswith("marksweep: interrupted.")
    assert "Traceback" not in said
