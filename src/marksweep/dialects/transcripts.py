"""Transcripts as files that another program wrote: read, and written back in the same form.

A file is one JSON document, or one value per line. It may be compressed, begin with a byte order
mark, or be in UTF-16. A line that is not JSON is kept, byte for byte and in its place. A file of
which nothing can be read is an error.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable

import msgspec

from marksweep.dialects.base import NO_JSON, Json, parsed, spelled
from marksweep.dialects.history import LISTS, History, UnparsedLine, advice_on, read, read_lines
from marksweep.errors import BadInput

PACKED: dict[bytes, Callable[[io.BytesIO], io.BufferedIOBase]] = {
    b"\x1f\x8b": lambda data: gzip.GzipFile(fileobj=data),
    b"\xfd7zXZ\0": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
}
"""What compressed data begins with, and what reads it."""

NOT_UNPACKED = {b"\x28\xb5\x2f\xfd": "Zstandard", b"PK\x03\x04": "a ZIP archive"}
"""What other compressed data begins with, and what it is."""

EXPECTED = "Name a session of Claude Code or Codex, or provider messages: a list, or one per line."

UTF_8 = "utf-8"
UTF_8_WITH_MARK = "utf-8-sig"


class Unpacked(msgspec.Struct, frozen=True):
    """The text of a file as UTF-8 without a mark, and how the file had it."""

    text: bytes
    encoding: str = UTF_8
    was_packed: bool = False

    def encoded(self, text: bytes) -> bytes:
        """Write UTF-8 text in the encoding of the file."""
        if self.encoding == UTF_8:
            return text
        if self.encoding == UTF_8_WITH_MARK:
            return codecs.BOM_UTF8 + text
        return text.decode(UTF_8, "surrogatepass").encode(self.encoding, "surrogatepass")


class Transcript(msgspec.Struct, frozen=True):
    """A history, and the form of the file it came from."""

    history: History
    file: Unpacked
    is_lines: bool
    """One JSON value per line, rather than one for the whole file."""

    def encoded(self, messages: Json) -> bytes:
        """Write messages in the form of the file."""
        if not self.is_lines:
            return self.file.encoded(spelled(messages, indent=2) + b"\n")
        lines = [m.data if isinstance(m, UnparsedLine) else spelled(m) for m in messages]
        end = b"\n" if lines and self.file.text.endswith(b"\n") else b""
        return self.file.encoded(b"\n".join(lines) + end)


def unpacked(data: bytes, most: int | None = None) -> Unpacked:
    """Decompress and decode the bytes of a file; BadInput if that gives more than `most` bytes."""
    for start, kind in NOT_UNPACKED.items():
        if data.startswith(start):
            raise BadInput(f"is {kind}, which is not read. Unpack it first.")
    plain = _decompressed(data, most)
    encoding = json.detect_encoding(plain)
    was_packed = plain is not data
    if encoding == UTF_8:
        return Unpacked(plain, was_packed=was_packed)
    if encoding == UTF_8_WITH_MARK:
        return Unpacked(plain.removeprefix(codecs.BOM_UTF8), encoding, was_packed)
    try:
        text = plain.decode(encoding, "surrogatepass").encode(UTF_8, "surrogatepass")
    except UnicodeError as error:
        raise BadInput(f"seems to be {encoding}, but is not: {error}. Convert it first.") from error
    return Unpacked(text, encoding, was_packed)


def _decompressed(data: bytes, most: int | None) -> bytes:
    for start, open_packed in PACKED.items():
        if data.startswith(start):
            try:
                with open_packed(io.BytesIO(data)) as file:
                    plain = file.read(-1 if most is None else most + 1)
            except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
                raise BadInput(f"cannot be unpacked: {error}") from error
            if most is not None and len(plain) > most:
                raise BadInput(f"unpacks to more than {most:,} bytes. Split it first.")
            return plain
    return data


def read_transcript(
    data: bytes, name: str, dialect: str | None = None, most: int | None = None
) -> Transcript:
    """Read the bytes of the file of that name; BadInput says why nothing of it can be read.

    What can be read only in part is read in part; `history.skipped` lists the rest.
    """
    try:
        return _read(data, dialect, most)
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from error


def _read(data: bytes, dialect: str | None, most: int | None) -> Transcript:
    file = unpacked(data, most)
    if not file.text.strip():
        raise BadInput(f"is empty. {EXPECTED}")
    try:
        value = parsed(file.text)
    except NO_JSON as error:
        return _lines(file, dialect, f"as a whole it is not JSON: {error}")
    if isinstance(value, dict) and not any(key in value for key in LISTS.values()):
        return _lines(file, dialect, "as a whole it is not a request")
    if not isinstance(value, list | dict):
        raise BadInput(f"holds a {type(value).__name__}. {EXPECTED}")
    return Transcript(_with_messages(read(value, dialect)), file, is_lines=False)


def _lines(file: Unpacked, dialect: str | None, why_lines: str) -> Transcript:
    history = read_lines(io.BytesIO(file.text), dialect)
    return Transcript(_with_messages(history, f" ({why_lines})"), file, is_lines=True)


def _with_messages(history: History, besides: str = "") -> History:
    """Refuse a file that holds no message."""
    if history.messages:
        return history
    if not history.skipped:
        raise BadInput(f"holds no message. {EXPECTED}")
    values = [aside.raw for aside in history.asides if not isinstance(aside.raw, UnparsedLine)]
    advice = advice_on(values) if values else EXPECTED
    raise BadInput(f"cannot be read: {history.skipped[0].reason}{besides}. {advice}")
