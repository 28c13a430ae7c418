"""Paths and files given by users, who may name a missing home folder, or a pipe for a file."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from pathlib import Path

from marksweep.errors import BadInput

MAX_CONFIG_BYTES = 1_000_000
"""Size above which a file is not read as configuration."""

OPEN_AT_ONCE = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
"""How to open a file that may be a pipe or a device: without waiting for its other end."""

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
}


def kind_of(mode: int) -> str:
    """Describe a file that is not a regular file."""
    return _KINDS.get(stat.S_IFMT(mode), "not a regular file")


def home_folder() -> Path:
    """Return the user's home folder; `~` as it is if there is none."""
    return Path(os.path.expanduser("~"))  # noqa: PTH111 - that of Path raises an error then


def expanded(path: str | Path) -> Path:
    """Replace `~` by the home folder; raise BadInput if there is none."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise BadInput(
            f"{str(path)!r}: there is no home folder {Path(path).parts[0]!r}. Name an existing "
            "user, or write the path out; a file whose name begins with ~ is written ./~…"
        ) from None


def is_folder(path: str | Path) -> bool:
    """Return whether this is a folder; False also if that cannot be found out.

    Whoever opens the path then explains why it cannot be used.
    """
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises without permission


def is_gone(path: str | Path) -> bool:
    """Return whether there is no such folder; False if that cannot be found out."""
    try:
        return not stat.S_ISDIR(Path(path).stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def read_config(path: Path) -> object:
    """Read a TOML or JSON file that a person wrote; BadInput says why it cannot be read."""
    try:
        text = _read_regular(path).decode("utf-8")
        return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        reason = error.strerror or str(error)
    except RecursionError:
        reason = "it is nested too deep"
    except ValueError as error:
        reason = str(error)
    raise BadInput(f"{path} cannot be read: {reason}. Repair it or move it away.")


def _read_regular(path: Path) -> bytes:
    opened = os.open(path, OPEN_AT_ONCE)
    try:
        mode = os.fstat(opened).st_mode
        if not stat.S_ISREG(mode):
            raise ValueError(f"it is {kind_of(mode)}; expected a file")
        with os.fdopen(opened, "rb", closefd=False) as file:
            content = file.read(MAX_CONFIG_BYTES + 1)
    finally:
        os.close(opened)
    if len(content) > MAX_CONFIG_BYTES:
        raise ValueError(f"it has more than {MAX_CONFIG_BYTES:,} bytes")
    return content
