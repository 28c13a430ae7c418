"""Which file is whose. Names come from workspaces but cannot lead anywhere else."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

IN_FOLDER = "context.json"
"""The main file of a store that was named by its folder."""

_READABLE = 40
_DIGEST = 16
_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")


class Places:
    """The files of one store."""

    def __init__(self, path: Path) -> None:
        in_folder = path.is_dir() or not path.suffix
        self.main = path / IN_FOLDER if in_folder else path
        self.folder = self.main.parent

    def live(self, workspace: str) -> Path:
        """Name the file of a workspace's live segments."""
        if not workspace:
            return self.main
        digest = hashlib.sha256(workspace.encode("utf-8", "surrogatepass")).hexdigest()
        readable = _UNSAFE.sub("-", workspace)[:_READABLE].strip("-")
        return self.folder / f"{self.main.stem}@{readable}-{digest[:_DIGEST]}.json"

    def stash(self, workspace: str) -> Path:
        """Name the file of a workspace's stash."""
        return self.live(workspace).with_suffix(".stash.json")

    def journal(self, workspace: str) -> Path:
        """Name the file of a workspace's journal."""
        return self.live(workspace).with_suffix(".journal.jsonl")

    def write_lock(self, path: Path) -> Path:
        """Name the file that is locked while another is written."""
        return path.with_name(f".{path.name}.lock")

    def sweep_lock(self, workspace: str) -> Path:
        """Name the file that is locked for a sweep."""
        return self.write_lock(self.live(workspace).with_suffix(".sweep"))

    def live_files(self) -> Iterator[Path]:
        """List the files of live segments that exist, the main one first."""
        if self.main.exists():
            yield self.main
        others = re.compile(re.escape(self.main.stem) + rf"@.*-[0-9a-f]{{{_DIGEST}}}\.json")
        for path in sorted(self.folder.iterdir()):
            if others.fullmatch(path.name):
                yield path
