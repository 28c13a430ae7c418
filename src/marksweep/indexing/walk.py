"""Walk a folder: which files to index, which are skipped, and why.

Symbolic links are never followed: a target inside the root is indexed under its own name, and one
outside is ignored.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from marksweep.errors import BadInput
from marksweep.indexing.files import MAX_FILE_BYTES, Unfit, changed_ns, too_big, trouble
from marksweep.indexing.ignore import ALWAYS_IGNORED, IGNORE_FILE, Rules, rules_above
from marksweep.indexing.selection import Selection
from marksweep.paths import expanded, kind_of


class Found(NamedTuple):
    """A file to index."""

    path: str
    """Relative to the root, with forward slashes."""
    size: int
    changed_ns: int


class Skipped(msgspec.Struct, frozen=True, gc=False):
    """A file or folder that is skipped, and why."""

    path: str
    reason: str
    unknown: bool = False
    """The file exists but could not be read: what the graph knows of it is left unchanged."""


class Walk(msgspec.Struct, frozen=True):
    """What a walk found, each sorted by path."""

    found: tuple[Found, ...]
    skipped: tuple[Skipped, ...]
    ignored: int
    """Files and folders excluded by an ignore file."""
    unselected: int = 0
    """Files excluded by the selection."""
    left_out: tuple[Skipped, ...] = ()
    """Files and folders of kinds that are left out by default."""

    @property
    def is_empty(self) -> bool:
        """Whether the folder was empty, for example because no disk is mounted there."""
        return not (self.found or self.skipped or self.ignored or self.unselected or self.left_out)


def walk(root: Path, selection: Selection, under: str = "") -> Walk:
    """List a root's files that are selected and not ignored.

    Only those below the folder `under`, which ends with a slash, if it is given.
    """
    walker = _Walker(resolved(root), selection)
    walker.run(under)
    return Walk(
        tuple(sorted(walker.found, key=lambda found: found.path)),
        tuple(sorted(walker.skipped, key=lambda skipped: skipped.path)),
        walker.ignored,
        walker.unselected,
        tuple(sorted(walker.left_out, key=lambda left: left.path)),
    )


def ignores(root: Path, under: str) -> bool:
    """Return whether a walk of a root ignores a folder, which ends with a slash."""
    return _Walker(root, Selection()).rules_at(under) is None


def resolved(root: Path) -> Path:
    """Resolve the root folder; BadInput if there is none."""
    try:
        real = expanded(root).resolve(strict=True)
        if real.is_dir() and printable(str(real)) == str(real):
            return real
        found = "has a name that is not valid UTF-8" if real.is_dir() else "is not a folder"
    except BadInput:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        found = f"cannot be opened ({trouble(error) if isinstance(error, OSError) else error})"
    raise BadInput(
        f"{printable(str(root))!r} {found}; a folder to index was expected. "
        "Check the path, and whether its disk is mounted. Nothing was changed."
    )


def printable(path: str) -> str:
    """Write a path that may contain bytes that are not UTF-8."""
    try:
        return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # no path: surrogates that stand for no byte
        return path.encode("utf-8", "backslashreplace").decode()


class _Walker:
    def __init__(self, root: Path, selection: Selection) -> None:
        self.root = root
        self.selection = selection
        self.found: list[Found] = []
        self.skipped: list[Skipped] = []
        self.ignored = 0
        self.unselected = 0
        self.left_out: list[Skipped] = []
        self._rules, self._prefix = self._rules_above()

    def _rules_above(self) -> tuple[Rules, str]:
        try:
            return rules_above(self.root)
        except Unfit as unfit:
            self._skip("..", f"an ignore file above the root is not read: {unfit.reason}")
            return Rules(), ""

    def rules_at(self, under: str) -> Rules | None:
        """Return the rules from above a folder; None if they ignore it."""
        rules, folder = self._rules, ""
        for name in PurePosixPath(under).parts:
            rules = self._read_rules(folder, rules)
            folder += f"{name}/"
            if name in ALWAYS_IGNORED or rules.ignores(self._prefix + folder):
                return None
        return rules

    def run(self, under: str) -> None:
        """Walk all folders below one, each once."""
        folders = [(under, self.rules_at(under) or Rules())]
        while folders:
            folder, rules = folders.pop()
            try:
                with os.scandir(self.root / folder) as entries:
                    listed = list(entries)
            except OSError as error:
                self._skip(folder or ".", trouble(error), unknown=True)
                continue
            inner = self._read_rules(folder, rules)
            names = [entry.name for entry in listed]
            folders.extend(
                (f"{folder}{entry.name}/", inner)
                for entry in listed
                if self._visit(f"{folder}{entry.name}", entry, inner)
                and not self._leaves_out(f"{folder}{entry.name}", entry.name, names)
            )

    def _read_rules(self, folder: str, rules: Rules) -> Rules:
        file = self.root / folder / IGNORE_FILE
        if not os.path.lexists(file):
            return rules
        try:
            return rules.read(self._prefix + folder, file)
        except Unfit as unfit:
            self._skip(folder + IGNORE_FILE, f"its rules are not read: {unfit.reason}")
            return rules

    def _visit(self, path: str, entry: os.DirEntry[str], rules: Rules) -> bool:
        """Add a file or skip it; return whether this is a folder to descend into."""
        try:
            path.encode("utf-8")
        except UnicodeEncodeError:
            self._skip(path, "its name is not valid UTF-8")
            return False
        try:
            state = entry.stat(follow_symlinks=False)
        except OSError as error:
            self._skip(path, trouble(error), unknown=True)
            return False
        is_folder = stat.S_ISDIR(state.st_mode)
        if entry.name in ALWAYS_IGNORED:
            return False
        if rules.ignores(f"{self._prefix}{path}/" if is_folder else self._prefix + path):
            self.ignored += 1
            return False
        if not is_folder:
            self._take(path, state)
        return is_folder

    def _leaves_out(self, path: str, name: str, beside: Collection[str]) -> bool:
        """Record a folder that is left out as a whole."""
        reason = self.selection.leaves_out_folder(name, beside)
        if reason:
            self.left_out.append(Skipped(path, reason))
        return bool(reason)

    def _take(self, path: str, state: os.stat_result) -> None:
        if not self.selection.takes(path):
            self.unselected += 1
        elif reason := self.selection.leaves_out_file(path.rpartition("/")[2]):
            self.left_out.append(Skipped(path, reason))
        elif stat.S_ISLNK(state.st_mode):
            self._skip(path, self._about_link(path))
        elif not stat.S_ISREG(state.st_mode):
            self._skip(path, kind_of(state.st_mode))
        elif state.st_size > MAX_FILE_BYTES:
            self._skip(path, too_big(state.st_size, MAX_FILE_BYTES))
        else:
            self.found.append(Found(path, state.st_size, changed_ns(state)))

    def _about_link(self, path: str) -> str:
        try:
            target = (self.root / path).resolve(strict=True)
        except (OSError, RuntimeError) as error:
            loop = isinstance(error, RuntimeError) or "symbolic link" in str(error)
            return "a symbolic link in a loop" if loop else "a symbolic link to nothing"
        if target.is_relative_to(self.root):
            return "a symbolic link within the root: its target is indexed under its own name"
        return "a symbolic link that leaves the root"

    def _skip(self, path: str, reason: str, *, unknown: bool = False) -> None:
        self.skipped.append(Skipped(printable(path), reason, unknown))
