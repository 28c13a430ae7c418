"""Where coding agents keep their sessions, and which is the newest of a folder."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from marksweep.paths import home_folder

MAX_LOOKED_AT = 500
"""Codex sessions, of all folders, whose first line is read: the newest."""


def newest(folder: Path) -> Path | None:
    """Return the session of a folder that was written to last; None if it has none."""
    found = [*claude_code(folder), *codex(folder)]
    return max(found, key=written, default=None)


def claude_code(folder: Path) -> Iterator[Path]:
    """Claude Code has a folder of files for each project, named after its path."""
    home = Path(os.environ.get("CLAUDE_CONFIG_DIR") or home_folder() / ".claude")
    project = home / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(folder))
    found = (path for path in project.glob("*.jsonl") if not path.name.startswith("agent-"))
    return filter(_is_session, found)


def codex(folder: Path) -> Iterator[Path]:
    """Codex has a folder for each day; the first line of a file says where it was started."""
    home = Path(os.environ.get("CODEX_HOME") or home_folder() / ".codex")
    found = filter(_is_session, (home / "sessions").rglob("rollout-*.jsonl"))
    files = sorted(found, key=written, reverse=True)
    return (path for path in files[:MAX_LOOKED_AT] if _started_in(path) == str(folder))


def _is_session(path: Path) -> bool:
    """Return whether a file has the name of a session, not that of a copy: ID.smaller.jsonl."""
    return "." not in path.stem


def _started_in(path: Path) -> object:
    with suppress(OSError, ValueError, AttributeError), path.open("rb") as file:
        return json.loads(file.readline()).get("payload", {}).get("cwd")
    return None


def written(path: Path) -> float:
    """Return when a file was last written; 0 if it does not exist."""
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0
