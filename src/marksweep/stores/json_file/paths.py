"""The file names of a store. They derive from workspace names but cannot leave the folder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from marksweep.paths import is_folder
from marksweep.stores.base import DEFAULT_WORKSPACE
from marksweep.stores.location import JSON_FILE

_READABLE = 40
_DIGEST = 16
_FILE = re.compile(r"(.+?)(\.stash\.json|\.journal\.jsonl|\.json)")
_UNSAFE = re.compile(r"[^A-Za-z0-9_]+")


class StorePaths:
    """The files of one store."""

    def __init__(self, path: Path) -> None:
        in_folder = is_folder(path) or not path.suffix
        self.main = path / JSON_FILE if in_folder else path
        self.folder = self.main.parent

    def live(self, workspace: str) -> Path:
        """Return the path of a workspace's live segments."""
        if workspace == DEFAULT_WORKSPACE:
            return self.main
        digest = hashlib.sha256(workspace.encode("utf-8", "surrogatepass")).hexdigest()
        readable = _UNSAFE.sub("-", workspace)[:_READABLE].strip("-")
        return self.folder / f"{self.main.stem}@{readable}-{digest[:_DIGEST]}.json"

    def stash(self, workspace: str) -> Path:
        """Return the path of a workspace's stash."""
        return self.beside(self.live(workspace))[0]

    def journal(self, workspace: str) -> Path:
        """Return the path of a workspace's journal."""
        return self.beside(self.live(workspace))[1]

    def beside(self, live: Path) -> tuple[Path, Path]:
        """Return the paths of the stash and the journal next to a live file."""
        return live.with_suffix(".stash.json"), live.with_suffix(".journal.jsonl")

    def write_lock(self, path: Path) -> Path:
        """Return the path of the lock file for writing a file."""
        return path.with_name(f".{path.name}.lock")

    def sweep_lock(self, workspace: str) -> Path:
        """Return the path of the lock file for a sweep."""
        return self.write_lock(self.live(workspace).with_suffix(".sweep"))

    def files(self) -> Iterator[Path]:
        """List the existing files."""
        for live in self.workspaces():
            yield from (file for file in (live, *self.beside(live)) if file.is_file())

    def workspaces(self) -> Iterator[Path]:
        """List the live files of workspaces that have any file, the main one first."""
        if not self.folder.is_dir():
            return
        names = {path.name for path in self.folder.iterdir()}
        stems = {found[1] for name in names if (found := _FILE.fullmatch(name))}
        named = re.compile(re.escape(self.main.stem) + rf"@.*-[0-9a-f]{{{_DIGEST}}}", re.DOTALL)
        if self.main.stem in stems or self.main.exists():
            yield self.main
        for stem in sorted(stems):
            if named.fullmatch(stem):
                yield self.folder / f"{stem}.json"
