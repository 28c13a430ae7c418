"""Transcripts as files: read in any dialect, written back in the form they came."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import sys
import tempfile
from pathlib import Path

import msgspec

from marksweep.cli.common import existing
from marksweep.dialects import History, read, read_lines
from marksweep.dialects.base import NO_JSON, Json, parsed, spelled
from marksweep.errors import BadInput, NotFound, Refused

STDIN = "-"


class Transcript(msgspec.Struct, frozen=True):
    """A history, and the form of the file it came from."""

    history: History
    is_lines: bool
    """One JSON value per line, rather than one for the whole file."""

    def encoded(self, messages: Json) -> bytes:
        """Write messages in the form of the file."""
        if not self.is_lines:
            return spelled(messages, indent=2) + b"\n"
        return b"".join(spelled(value) + b"\n" for value in messages)


def load(name: str, dialect: str | None = None) -> Transcript:
    """Read a transcript file, .xz and .gz too, or standard input."""
    data = sys.stdin.buffer.read() if name == STDIN else _bytes(existing(Path(name)))
    try:
        value = parsed(data)
    except NO_JSON:
        # Line by line: a list of all of them would hold the file a second time.
        return Transcript(read_lines(io.BytesIO(data), dialect), is_lines=True)
    if isinstance(value, list | dict):
        return Transcript(read(value, dialect), is_lines=False)
    raise BadInput(f"{name} holds a {type(value).__name__}; expected messages, or one per line.")


def _bytes(path: Path) -> bytes:
    if path.is_dir():
        raise BadInput(f"{path} is a folder; name a transcript file in it.")
    try:
        data = path.read_bytes()
        if path.suffix == ".xz":
            return lzma.decompress(data)
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, lzma.LZMAError, EOFError) as error:
        raise BadInput(f"{path} cannot be read: {error}. Name a transcript file.") from error


def save(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        Path(name).replace(path)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error}. Name another file with -o.") from error


def replace(path: Path, data: bytes) -> None:
    """Write a file anew; as it was, it stays beside as FILE.orig."""
    original = path.with_name(path.name + ".orig")
    if original.exists():
        raise BadInput(f"{original} is in the way; move it, or write elsewhere with -o.")
    if path.suffix in (".xz", ".gz"):
        raise BadInput(f"{path} is compressed; write the result elsewhere with -o.")
    save(original, path.read_bytes())
    save(path, data)


def put_back(path: Path) -> Path:
    """Reverse `replace`; give the file that now holds what stood in its place."""
    original = path.with_name(path.name + ".orig")
    aside = path.with_name(path.name + ".collected")
    if not original.exists():
        raise NotFound(f"{original} is not there, so {path} cannot be put back as it was.")
    if aside.exists():
        raise Refused(f"{aside} is in the way, and nothing is overwritten. Move it first.")
    path.rename(aside)
    original.rename(path)
    return aside
