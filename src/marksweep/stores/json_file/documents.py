"""Parse and format a file's text. Errors say where they are in the file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from marksweep.errors import StoreCorrupt, StoreTooNew
from marksweep.model import Segment, Stashed
from marksweep.stores.codec import SEGMENT, parse_json

FORMAT = 1
"""The file format version that this code writes, and the newest it reads."""

SALVAGE = "The file was left as it is. Repair it by hand, or read what can be read with salvage()."


Item = TypeVar("Item")


class Document(msgspec.Struct, frozen=True):
    """A file: its header, and its segments as read from JSON."""

    segments: list[Any]
    format: int = FORMAT
    version: int = 0
    workspace: str = ""


def parse(path: Path, text: bytes) -> Document:
    """Parse a file and its header. A bare `{"segments": […]}` is enough."""
    try:
        found = parse_json(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise StoreCorrupt(f"{path}: invalid JSON at {place}: {error.msg}. {SALVAGE}") from error
    except UnicodeDecodeError as error:
        raise StoreCorrupt(f"{path}: invalid UTF-8 at byte {error.start}. {SALVAGE}") from error
    except ValueError as error:
        raise StoreCorrupt(f"{path}: {error}. {SALVAGE}") from error
    if not isinstance(found, dict) or not isinstance(found.get("segments"), list):
        raise StoreCorrupt(
            f'{path}: found {_named(found)}, expected an object {{"segments": […]}}. {SALVAGE}'
        )
    if isinstance(found.get("format"), int) and found["format"] > FORMAT:
        raise StoreTooNew(
            f"{path}: format {found['format']}, written by a newer marksweep; this one knows up "
            f"to {FORMAT}. Upgrade marksweep, or open another file."
        )
    try:
        return msgspec.convert(found, Document)
    except msgspec.ValidationError as error:
        raise StoreCorrupt(f"{path}: {error}. {SALVAGE}") from error


def read_segments(path: Path, document: Document) -> list[Segment]:
    """Read the live segments of a file."""
    return _all(path, document, as_segment)


def read_stashed(path: Path, document: Document) -> list[Stashed]:
    """Read the stash entries of a file."""
    return _all(path, document, as_stashed)


def _all(path: Path, document: Document, read: Callable[[object], Item]) -> list[Item]:
    items = []
    for at, found in enumerate(document.segments):
        try:
            items.append(read(found))
        except msgspec.ValidationError as error:
            what = re.sub(r"`\$([^`]*)`", rf"segments[{at}]\1", str(error))
            place = "" if what != str(error) else f" in segments[{at}]"
            raise StoreCorrupt(f"{path}: {what}{place}. {SALVAGE}") from error
    return items


def as_segment(found: object) -> Segment:
    """Convert parsed JSON to a segment. References may be plain ids, and null means omitted."""
    if isinstance(found, dict):
        found = {key: value for key, value in found.items() if value is not None}
        references = found.get("references")
        if isinstance(references, list):
            found["references"] = [
                {"target": each} if isinstance(each, str) else each for each in references
            ]
    return msgspec.convert(found, Segment)


def as_stashed(found: object) -> Stashed:
    """Convert parsed JSON to a stash entry: a segment that also has a `stashed` object."""
    beside = found.get("stashed") if isinstance(found, dict) else None
    if not isinstance(beside, dict):
        raise msgspec.ValidationError("Expected a segment with an object `stashed`")
    segment = as_segment(found)
    return msgspec.convert({**beside, "segment": segment}, Stashed)


def write_item(item: Segment | Stashed) -> bytes:
    """Format a segment or a stash entry readably, as stored in a file."""
    if isinstance(item, Segment):
        return _indented(SEGMENT.encode(item))
    beside = msgspec.to_builtins(item)
    return _indented(_encode({**beside.pop("segment"), "stashed": beside}))


def write_document(version: int, workspace: str, segments: Iterable[bytes]) -> bytes:
    """Format a whole file. The version comes near the start, where readers look for it."""
    header = f'{{\n  "format": {FORMAT},\n  "version": {version},\n'
    named = b'  "workspace": ' + _encode(workspace) + b",\n"
    listed = b",\n    ".join(segments)
    body = b'  "segments": [\n    ' + listed + b"\n  ]\n}\n" if listed else b'  "segments": []\n}\n'
    return header.encode() + named + body


def _indented(body: bytes) -> bytes:
    try:
        pretty = msgspec.json.format(body, indent=2)
    except msgspec.DecodeError:  # a lone surrogate, which only `json` accepts
        pretty = json.dumps(json.loads(body), indent=2).encode()
    return pretty.replace(b"\n", b"\n    ")


def _encode(found: object) -> bytes:
    try:
        return msgspec.json.encode(found)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(found)).encode()


def _named(found: object) -> str:
    if isinstance(found, dict):
        return "an object with " + (", ".join(sorted(map(str, found))[:5]) or "nothing in it")
    return {list: "a list", str: "a string", type(None): "null"}.get(type(found), "a value")
