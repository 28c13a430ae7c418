"""Ignore files, as git reads them: nested; the deepest file and the last matching line decide.

Each folder and file is checked separately on the way down, as git does. A compiled pathspec also
matches everything below a path; `Pattern` removes that, because otherwise `!a/` would bring back
what another line ignores in `a`.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

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
"""Folders without project sources, always ignored."""

MAX_IGNORE_BYTES = 1_000_000
"""Size above which a file is not accepted as an ignore file."""


POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \t",
    "cntrl": "\0-\x1f\x7f",
    "digit": "0-9",
    "graph": '"-~!',
    "lower": "a-z",
    "print": " -~",
    "punct": ":-@!-.[-`{-~",
    "space": " \t\n\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
"""What git's character classes hold, as ranges; pathspec does not know them. None holds a slash."""

_IN_BRACKETS = re.compile(r"(?<!\\)(\[[!^]?\]?)((?:\[:[a-z]+:\]|[^\]])*)\]")
_CLASS = re.compile(r"\[:([a-z]+):\]")

# Python may give `[[a]` another meaning some day. It has git's today, and the line is not ours.
warnings.filterwarnings("ignore", "Possible ", FutureWarning, r"pathspec\.")


def _with_ranges(line: str) -> str:
    """Write the classes in a pattern, such as `[[:digit:]]`, as ranges."""

    def ranges(found: re.Match[str]) -> str:
        inside = _CLASS.sub(lambda name: POSIX_CLASSES.get(name[1], name[0]), found[2])
        return f"{found[1]}{inside}]"

    return _IN_BRACKETS.sub(ranges, line) if "[:" in line else line


class Pattern:
    """One line of an ignore file."""

    def __init__(self, line: str) -> None:
        compiled = GitIgnoreSpecPattern(_with_ranges(line))
        self.include: bool | None = compiled.include
        """Whether it ignores or, with `!`, brings back; None for a comment or a blank line."""
        self._regex = compiled.regex
        self._only_below = line.rstrip().endswith("/**")

    def matches(self, path: str) -> bool:
        """Return whether it matches this path itself, not only a folder above it."""
        if self._regex is None:
            return False
        for match in self._regex.finditer(path):
            if match.groupdict().get("ps_d") is None:
                return not (self._only_below and match.end() == len(path) and path.endswith("/"))
            if match.end() == len(path):
                return True
        return False


class Rules:
    """The ignore rules that apply in one folder: its own, and those of the folders above.

    Paths are relative to the top of the git repository; a folder's path ends with '/'.
    """

    def __init__(
        self, base: str = "", patterns: Sequence[Pattern] = (), above: Rules | None = None
    ) -> None:
        outer = above.chain if above is not None else ()
        self.chain: tuple[tuple[str, Sequence[Pattern]], ...] = (
            ((base, patterns), *outer) if patterns else outer
        )
        """Each ignore file's folder and patterns: deepest file first, last pattern first."""

    def ignores(self, path: str) -> bool:
        """Return whether a path is ignored, without checking the folders above it."""
        for base, patterns in self.chain:
            below = path[len(base) :]
            for pattern in patterns:
                if pattern.matches(below):
                    return pattern.include is True
        return False

    def read(self, base: str, file: Path) -> Rules:
        """Add the rules of an ignore file in the folder `base`."""
        content, _ = read_bytes(file, MAX_IGNORE_BYTES)
        return Rules(base, _patterns(content.decode("utf-8-sig", "replace")), self)


def rules_above(root: Path) -> tuple[Rules, str]:
    """Return the rules from outside a root, and its path from the top of its repository.

    A root that its own repository ignores was named on purpose: no rule from above applies.
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
    exclude = _shared(folder / ".git") / "info" / "exclude"
    return Rules().read("", exclude) if exclude.is_file() else Rules()


def _shared(git: Path) -> Path:
    """Return the folder with what all worktrees of a repository share.

    In a worktree and in a submodule `.git` is a file that names a folder. That of a worktree names
    the shared one.
    """
    if not git.is_file():
        return git
    own = git.parent / _named_in(git).removeprefix("gitdir:").strip()
    common = own / "commondir"
    return own / _named_in(common).strip() if common.is_file() else own


def _named_in(file: Path) -> str:
    return os.fsdecode(read_bytes(file, MAX_IGNORE_BYTES)[0])


def _patterns(text: str) -> list[Pattern]:
    """Compile lines, the last first; one that is not a pattern is skipped, as git does."""
    patterns = []
    for line in reversed(text.split("\n")):
        with suppress(ValueError, re.error):
            pattern = Pattern(line.removesuffix("\r"))
            if pattern.include is not None:
                patterns.append(pattern)
    return patterns
