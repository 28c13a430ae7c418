"""Read damaged JSON files object by object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from marksweep.model import Entry, Segment
from marksweep.stores.base import DEFAULT_WORKSPACE
from marksweep.stores.codec import ENTRY
from marksweep.stores.json_file.documents import StashedSegment, as_noun, unfold
from marksweep.stores.json_file.places import Places
from marksweep.stores.rescued import Rescued, Salvaged, Skipped

_LIST = re.compile(r'"segments"\s*:\s*\[')
_NAME = re.compile(r'"workspace"\s*:\s*(?=")')
_BETWEEN = re.compile(r"[\s,]*")
_OBJECT = re.compile(r'\{\s*"')

Found = TypeVar("Found", bound=Segment)


def salvage_json(places: Places) -> Salvaged:
    """Read what can be read of every file of a store."""
    skipped: list[Skipped] = []
    return Salvaged(
        tuple(_rescue(live, places, skipped) for live in places.workspaces()), tuple(skipped)
    )


def _rescue(live: Path, places: Places, skipped: list[Skipped]) -> Rescued:
    stash, journal = places.beside(live)
    segments: dict[str, Segment] = {}
    for place, segment in _segments(live, Segment, skipped):
        if segment.segment_id in segments:
            skipped.append(Skipped(place, f"the id {segment.segment_id!r} stands here once more"))
        else:
            segments[segment.segment_id] = segment
    stashed = tuple(unfold(each) for _, each in _segments(stash, StashedSegment, skipped))
    if live == places.main:
        name = DEFAULT_WORKSPACE
    else:
        name = _name(_text(live)) or _name(_text(stash)) or live.stem
    return Rescued(name, tuple(segments.values()), stashed, tuple(_entries(journal, skipped)))


def _segments(path: Path, kind: type[Found], skipped: list[Skipped]) -> Iterator[tuple[str, Found]]:
    """Read one object after the other; after damage, go on at the next that is whole."""
    text = _text(path)
    decoder = json.JSONDecoder()
    start = _LIST.search(text)
    if text and start is None:
        skipped.append(Skipped(f"{path}, line 1", 'no "segments": [ found; looking everywhere'))
    at = start.end() if start else 0
    lost = start is None
    while True:
        if lost:
            following = _OBJECT.search(text, at)
            at = following.start() if following else len(text)
        else:
            at = _between(text, at)
        if at >= len(text) or (not lost and text[at] == "]"):
            return
        try:
            found, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            if not lost:
                skipped.append(Skipped(_place(path, text, error.pos), error.msg))
            lost, at = True, at + 1
            continue
        if lost and not (isinstance(found, dict) and "segment_id" in found):
            at += 1
            continue
        try:
            yield _place(path, text, at), as_noun(found, kind)
        except msgspec.ValidationError as error:
            skipped.append(Skipped(_place(path, text, at), str(error)))
        lost, at = False, end


def _between(text: str, at: int) -> int:
    gap = _BETWEEN.match(text, at)
    return gap.end() if gap else at


def _entries(path: Path, skipped: list[Skipped]) -> Iterator[Entry]:
    for number, line in enumerate(_bytes(path).split(b"\n"), 1):
        if line:
            try:
                yield ENTRY.decode(line)
            except ValueError as error:
                skipped.append(Skipped(f"{path}, line {number}", str(error)))


def _name(text: str) -> str:
    found = _NAME.search(text)
    try:
        return str(json.JSONDecoder().raw_decode(text, found.end())[0]) if found else ""
    except json.JSONDecodeError:
        return ""


def _place(path: Path, text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    return f"{path}, line {line}, column {at - text.rfind(chr(10), 0, at)}"


def _text(path: Path) -> str:
    return _bytes(path).decode("utf-8", "surrogateescape")


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
