"""The main screens, as the installed command draws them, stored as files in screens/.

python -m tests.cli.screens        redraw them; then review the difference
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from marksweep import Segments
from marksweep.cli.demo import recorded
from marksweep.model import Segment

FOLDER = Path(__file__).parent / "screens"
WIDTHS = (60, 80, 120)
COMMAND = Path(sys.executable).with_name("marksweep")

COMPARED = ("--strategy", "truncate", "--strategy", "superseded+mask+truncate")
"""Strategies whose figures rarely change."""

SCREENS = {
    "help": ("--help",),
    "analyze": ("analyze", "session.json", "--limit", "6k", *COMPARED),
    "analyze-working-set": ("analyze", "--store", "set.db"),
    "collect": ("collect", "session.json", "--limit", "6k"),
    "stash": ("stash", "list", "--store", "set.db", "--limit", "4"),
    "journal": ("journal", "--store", "set.db"),
    "search": ("search", "open_session", "--limit", "1"),
    "prune": ("prune",),
    "memory-journal": ("journal", "--memory", "--limit", "1"),
    "memory-backups": ("memory", "backups"),
    "doctor": ("doctor", "--store", "set.db"),
    "replay": ("replay", "session.json", "-b", "30%", "-s", "mask last 10", "--workers", "1"),
}
"""What is typed for each screen, in the folder that `prepare` fills."""

CHANGING = (
    (re.compile(r"plan-[0-9a-f]{12}"), "plan-000000000000"),
    (re.compile(r"\d{8}T\d{6}-[0-9a-f]{8}"), "20260101T120000-00000000"),
    (re.compile(r"\d\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d"), "2026-01-01 12:00:00"),
    (re.compile(r"\d\d\d\d-\d\d-\d\d \d\d:\d\d"), "2026-01-01 12:00"),
    (re.compile(r"\d\d-\d\d \d\d:\d\d"), "01-01 12:00"),
    (re.compile(r"(?<= )\d+\.\d+\.\d+\S*(?: on Python \S+)?(?= *$)", re.MULTILINE), "VERSION"),
    (re.compile(r"(?<=[\d ] )\d\.\d(?= *$)", re.MULTILINE), "0.0"),
)
"""What differs between runs or machines, and its placeholder."""


def prepare(folder: Path) -> None:
    """Fill a folder with a transcript, a swept working set, and a memory with a stale file."""
    (folder / "session.json").write_text(json.dumps(recorded()))
    (folder / ".marksweep").mkdir(mode=0o700)
    (folder / ".marksweep/settings.toml").write_text("[window]\nlimit_tokens = 1000\n")
    context = Segments(folder / "set.db", limit=10_000, actor="ada")
    before = datetime.now(UTC) - timedelta(days=2)
    context.add(
        *(
            Segment(
                segment_id=f"{kind}-{n:02}",
                type=kind,
                text=f"{kind} {n} of the shop " * 9,
                created_at=before,
            )
            for n in range(9)
            for kind in ("log", "code", "note")
        )
    )
    context.pin("note-03", by="ada", why="the port of the proxy")
    plan = context.plan(target_tokens=int(context.tokens * 0.7))
    context.save(plan)
    context.collect(plan)
    context.restore(plan.steps[0].segments[0])
    context.close()
    code = folder / "code"
    code.mkdir()
    for name in ("login", "session", "basket", "forms", "views"):
        body = f'def open_{name}(request):\n    """Open the {name}."""\n    return request.{name}\n'
        (code / f"{name}.py").write_text(body)
    for _ in range(2):
        subprocess.run([COMMAND, "index", "code"], cwd=folder, check=True, capture_output=True)
        (code / "basket.py").unlink(missing_ok=True)
    subprocess.run([COMMAND, "memory", "export"], cwd=folder, check=True, capture_output=True)


def drawn(folder: Path, width: int) -> Iterator[tuple[str, str]]:
    """Draw every screen at a width; yield its name and its text."""
    env = {**os.environ, "COLUMNS": str(width), "NO_COLOR": "1", "PYTHONHASHSEED": "0"}
    for name, words in SCREENS.items():
        ran = subprocess.run(
            [COMMAND, *words], cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        assert "Traceback" not in ran.stderr, ran.stderr
        yield name, _stable(ran.stdout, folder)


def _stable(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "/project")
    for pattern, instead in CHANGING:
        text = pattern.sub(instead, text)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n"


def kept(name: str, width: int) -> Path:
    """Return the file of a screen."""
    return FOLDER / f"{name}-{width}.txt"


@contextmanager
def project() -> Iterator[Path]:
    """Make a prepared folder. Its name has a fixed length, so that paths wrap the same way."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="marksweep-") as name:
        prepare(Path(name))
        yield Path(name)


def main() -> None:
    """Redraw all screens."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    with project() as folder:
        for width in WIDTHS:
            for screen, text in drawn(folder, width):
                kept(screen, width).write_text(text)


if __name__ == "__main__":
    main()
