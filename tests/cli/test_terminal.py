"""A session in a pseudo-terminal: colours, questions and their answers, progress, the width."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from marksweep.cli.demo import recorded
from tests.cli.support import fill

COMMAND = str(Path(sys.executable).with_name("marksweep"))
DEADLINE = 60.0
"""Seconds after which a command counts as stuck. The machine may be busy."""


class Terminal:
    """One command in a terminal with a number of columns."""

    def __init__(self, folder: Path, *words: str, columns: int = 60, **env: str) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        plain = {name: value for name, value in os.environ.items() if name not in NOT_PASSED}
        self._process = subprocess.Popen(
            [COMMAND, *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env={**plain, "TERM": "xterm-256color", **env},
            start_new_session=True,
        )
        os.close(theirs)
        self._handle = ours
        self.seen = ""

    def until(self, words: str) -> None:
        """Read until these words are shown."""
        ends = time.monotonic() + DEADLINE
        while words not in self.seen:
            assert time.monotonic() < ends, f"no {words!r} in:\n{self.seen}"
            assert self._read(), f"ended without {words!r}:\n{self.seen}"

    def type(self, text: str) -> None:
        """Type an answer."""
        os.write(self._handle, text.encode())

    def end(self) -> int:
        """Read to the end; return the exit code."""
        while self._read():
            pass
        os.close(self._handle)
        return self._process.wait(DEADLINE)

    def _read(self) -> bool:
        if not select.select([self._handle], [], [], DEADLINE)[0]:
            return False
        try:
            found = os.read(self._handle, 65_536)
        except OSError:  # on Linux, the other end is closed
            return False
        self.seen += found.decode(errors="replace")
        return bool(found)


NOT_PASSED = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM")


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    path = tmp_path / "session.json"
    path.write_text(json.dumps(recorded()))
    return path


def test_the_plan_is_shown_and_nothing_happens_without_confirmation(transcript: Path) -> None:
    before = transcript.read_bytes()
    terminal = Terminal(transcript.parent, "collect", "session.json", "--limit", "6k", "--write")
    terminal.until("Replace session.json? [y/N]:")
    assert "freed in" in terminal.seen
    terminal.type("n\n")
    assert terminal.end() == 3
    assert "not confirmed; nothing was changed." in terminal.seen
    assert transcript.read_bytes() == before


def test_a_yes_applies_the_plan_and_undo_reverts_it(transcript: Path) -> None:
    before = transcript.read_bytes()
    terminal = Terminal(transcript.parent, "collect", "session.json", "--limit", "6k", "--write")
    terminal.until("[y/N]:")
    terminal.type("y\n")
    terminal.until("marksweep undo")
    assert terminal.end() == 0
    assert len(transcript.read_bytes()) < len(before)
    assert Terminal(transcript.parent, "undo", "session.json").end() == 0
    assert transcript.read_bytes() == before


ESCAPES = "\x1b[2J\x1b]52;c;c3dhcA==\x07\x9b2J\u202e"
"""Clears the screen, sets the clipboard, clears it again, and turns the text around."""


def test_escape_sequences_in_what_is_shown_do_not_reach_the_terminal(tmp_path: Path) -> None:
    said = [{**message, "content": f"{ESCAPES}{message['content']}"} for message in recorded()]
    (tmp_path / "session.json").write_text(json.dumps(said))
    (tmp_path / "code").mkdir()
    (tmp_path / f"code/{ESCAPES.replace('/', '')}.py").write_text(f"def cat():  # {ESCAPES}\n")
    seen = ""
    for words in (
        ("analyze", "session.json", "--limit", "6k", "--strategy", "truncate"),
        ("remember", f"{ESCAPES} a note"),
        ("recall", "note"),
        ("index", "code"),
        ("search", "cat"),
        ("analyze", f"{ESCAPES}.json"),
    ):
        terminal = Terminal(tmp_path, *words)
        terminal.end()
        seen += terminal.seen
    assert "\x1b[1m" in seen, "our own styles are shown"
    for found in ("\x1b[2J", "\x1b]52", "\x9b", "\u202e"):
        assert found not in seen


def test_the_working_set_is_collected_after_a_question(tmp_path: Path) -> None:
    fill(tmp_path / "set.db")
    terminal = Terminal(tmp_path, "collect", "--store", "set.db", "--limit", "50")
    terminal.until("Collect exactly that? [y/N]:")
    terminal.type("y\n")
    terminal.until("tokens freed")
    assert terminal.end() == 0


def test_memory_is_pruned_after_a_question(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    for name in ("ant", "bee", "cat", "dog"):
        (code / f"{name}.py").write_text(f"def {name}():\n    return 1\n")
    assert Terminal(tmp_path, "index", "code").end() == 0
    (code / "cat.py").unlink()
    indexing = Terminal(tmp_path, "index", "code")
    indexing.until("Stale memories: 1")
    assert indexing.end() == 0
    for typed in ("\n", "y\n"):
        terminal = Terminal(tmp_path, "prune")
        terminal.until("Type the workspace's name, default, to delete exactly that:")
        terminal.type(typed)
        assert terminal.end() == 3
        assert "Successfully deleted" not in terminal.seen
    terminal = Terminal(tmp_path, "prune")
    terminal.until("to delete exactly that:")
    terminal.type("default\n")
    terminal.until("Successfully deleted")
    assert terminal.end() == 0


def test_memory_of_a_named_workspace_is_pruned_after_a_question(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    for name in ("ant", "bee"):
        (code / f"{name}.py").write_text(f"def {name}(): pass\n")
    here = ("--workspace", "shop")
    assert Terminal(tmp_path, "index", "code", *here).end() == 0
    (code / "bee.py").unlink()
    assert Terminal(tmp_path, "index", "code", *here).end() == 0
    terminal = Terminal(tmp_path, "prune", *here)
    terminal.until("Delete exactly that? [y/N]:")
    terminal.type("y\n")
    terminal.until("Successfully deleted")
    assert terminal.end() == 0


def test_colours_are_only_for_terminals_that_allow_them(transcript: Path) -> None:
    coloured = Terminal(transcript.parent, "analyze", "session.json")
    assert coloured.end() == 0
    assert "\x1b[1m" in coloured.seen
    assert "\x1b[34m" in coloured.seen
    plain = Terminal(transcript.parent, "analyze", "session.json", NO_COLOR="1")
    assert plain.end() == 0
    assert "\x1b[34m" not in plain.seen


def test_progress_is_shown_while_a_transcript_is_read(transcript: Path) -> None:
    terminal = Terminal(transcript.parent, "analyze", "session.json")
    terminal.until("counting tokens")
    terminal.until("Do it:")
    assert terminal.end() == 0


def test_lines_are_as_wide_as_the_terminal_at_most(transcript: Path) -> None:
    widest = {}
    for columns in (60, 70):
        terminal = Terminal(
            transcript.parent, "collect", "session.json", "--limit", "6k", columns=columns
        )
        assert terminal.end() == 0
        plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.seen)
        widest[columns] = max(len(line) for line in plain.splitlines())
    assert 50 < widest[60] <= 60 < widest[70] <= 70
