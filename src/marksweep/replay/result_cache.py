"""Work that was done, kept in a folder under the name of all that it depends on.

That includes the code: results of another version of marksweep, or of a strategy that was edited
since, are not taken up again.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import msgspec

import marksweep
from marksweep.errors import BadInput
from marksweep.replay.strategy_spec import parse
from marksweep.stores.files import draft_of

T = TypeVar("T")


def name_of(kind: str, *given: object) -> str:
    """A name for work that depends on this."""
    return f"{kind}-{hashlib.sha256(msgspec.json.encode(given)).hexdigest()[:32]}.json"


def load(folder: Path | None, name: str, kind: type[T]) -> T | None:
    """What was kept under a name; None if there is nothing that can be read."""
    if folder is None:
        return None
    try:
        return msgspec.json.decode((folder / name).read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None


def save(folder: Path | None, name: str, value: object) -> None:
    """Keep a value under a name; a run that is stopped leaves no half of it.

    Two processes may keep the same at once: equal transcripts have equal names.
    """
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with draft_of(folder / name, msgspec.json.encode(value)) as draft:
            draft.replace(folder / name)
    except OSError as error:
        raise BadInput(
            f"finished work cannot be kept in {folder}: {error.strerror}. Name another folder."
        ) from error


@cache
def own_code() -> str:
    """A digest of marksweep's source."""
    root = Path(marksweep.__file__).parent
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        found.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return found.hexdigest()


@cache
def code_of(strategy: str) -> str:
    """A digest of the file a strategy of the user's is imported from; empty for all others."""
    spec = parse(strategy)
    if not spec.is_imported:
        return ""
    try:
        found = find_spec(spec.name.partition(":")[0])
    except ImportError:
        return ""
    if found is None or found.origin is None:
        return ""
    return hashlib.sha256(Path(found.origin).read_bytes()).hexdigest()
