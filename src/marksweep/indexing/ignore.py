"""Ignore files, as git reads them: nested; the deepest file and the last matching line decide."""

from __future__ import annotations

import re
from pathlib import Path

from pathspec import GitIgnoreSpec

from marksweep.indexing.files import read_bytes

IGNORE_FILE = ".gitignore"

ALWAYS_IGNORED = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".marksweep",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".tox",
        ".venv",
        "__pycache__",
        "node_modules",
    }
)
"""Folders that hold no source of their own, ignored whatever the ignore files say."""

MAX_IGNORE_BYTES = 1_000_000
"""Size over which an ignore file is taken for something else."""


class Rules:
    """The ignore rules that hold in one folder: its own, and those of the folders above.

    Paths are given from the top of the git repository, a folder's path with a '/' at its end.
    """

    def __init__(
        self, base: str = "", spec: GitIgnoreSpec | None = None, above: Rules | None = None
    ) -> None:
        outer = above.chain if above is not None else ()
        self.chain: tuple[tuple[str, GitIgnoreSpec], ...] = (
            outer if spec is None else ((base, spec), *outer)
        )
        """The folder of each ignore file, and what it says; the deepest first."""

    def ignores(self, path: str) -> bool:
        """Tell whether a path is ignored, not asking whether a folder above it is."""
        for base, spec in self.chain:
            verdict = spec.check_file(path[len(base) :]).include
            if verdict is not None:
                return verdict
        return False

    def read(self, base: str, file: Path) -> Rules:
        """Add the rules of an ignore file that stands in the folder `base`."""
        content, _ = read_bytes(file, MAX_IGNORE_BYTES)
        return Rules(base, _spec(content.decode("utf-8", "replace").split("\n")), self)


def rules_above(root: Path) -> tuple[Rules, str]:
    """Give the rules from outside a root, and the path from the top of its repository to it.

    A root that its own repository ignores was named on purpose: no rule from above holds.
    """
    folders = [root, *root.parents]
    depth = next((n for n, folder in enumerate(folders) if (folder / ".git").exists()), 0)
    rules = _top(folders[depth])
    prefix = ""
    for folder in reversed(folders[:depth]):
        above = folder.parent
        if (above / IGNORE_FILE).is_file():
            rules = rules.read(prefix, above / IGNORE_FILE)
        prefix += f"{folder.name}/"
        if rules.ignores(prefix):
            return Rules(), ""
    return rules, prefix


def _top(folder: Path) -> Rules:
    """Read the rules that a repository keeps out of its tree."""
    exclude = folder / ".git" / "info" / "exclude"
    return Rules().read("", exclude) if exclude.is_file() else Rules()


def _spec(lines: list[str]) -> GitIgnoreSpec:
    """Compile lines; one that is no pattern is passed over, as git does."""
    try:
        return GitIgnoreSpec.from_lines(lines, backend="simple")
    except (ValueError, re.error):
        return GitIgnoreSpec.from_lines(filter(_compiles, lines), backend="simple")


def _compiles(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line], backend="simple")
    except (ValueError, re.error):
        return False
    return True
