"""Files that other programs write: read, written whole or not at all, replaced, and put back.

A transcript that is replaced may be in use. So `replace` keeps the file itself as FILE.orig (a hard
link, not a copy), and checks that it has not changed right before the new one takes its name, and
once more after: whatever another program has written by then is in FILE.orig, and new lines are
copied to the new file. A program that keeps the file open would go on writing to FILE.orig; such a
file is refused where the system shows who has it open: on Linux, for processes of the same user.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from marksweep.cli.common import settings
from marksweep.dialects.history import History
from marksweep.dialects.transcripts import Transcript, read_transcript
from marksweep.errors import BadInput, NotFound, Refused
from marksweep.paths import kind_of
from marksweep.reading import Reading
from marksweep.settings import Conversation
from marksweep.sizes import Size
from marksweep.stores.files import Stamp, draft_of, sync_folder

STDIN = "-"

PROCESSES = Path("/proc")
"""Where Linux shows which process has which file open."""


class Loaded(msgspec.Struct, frozen=True):
    """A transcript, the file it came from, behind any link, and what that was then."""

    transcript: Transcript
    path: Path | None = None
    stamp: Stamp | None = None


def load(name: str, dialect: str | None = None) -> Loaded:
    """Read a transcript file, compressed or not, or standard input."""
    if name == STDIN:
        return Loaded(read_transcript(_standard_input(), "standard input", dialect))
    if not Path(name).exists():
        raise BadInput(f"{name} does not exist. Name a file, or - for standard input.")
    if Path(name).is_dir():
        raise BadInput(f"{name} is a folder; name a transcript file in it.")
    try:
        path = _behind_links(Path(name))
        with path.open("rb") as file:
            stamp = Stamp.of(os.fstat(file.fileno()))
            data = file.read()
    except OSError as error:
        raise BadInput(
            f"{name} cannot be read: {error.strerror}. Name a transcript file."
        ) from error
    return Loaded(read_transcript(data, name, dialect), path, stamp)


def _standard_input() -> bytes:
    """Read standard input; BadInput if whoever started us closed it."""
    if sys.stdin is None:
        raise BadInput("standard input is closed. Name a file, or pipe the text in.")
    return sys.stdin.buffer.read()


def landing(history: History, limit: str, talk: Conversation) -> Reading:
    """Return a history as a conversation that lands at a limit: tokens, 32k, or a share of it."""
    reading = Reading(
        history,
        limit=0,
        strategy="truncate",
        preserve_recent_turns=talk.preserve_recent_turns,
        prices=settings().prices,
    )
    reading.land_at(Size.read(limit).of(reading.conversation.tokens), talk.choice())
    return reading


def text_of(argument: str) -> str:
    """Return a text given as an argument, or standard input for `-`."""
    if argument != STDIN:
        return argument
    try:
        return _standard_input().decode().strip()
    except UnicodeDecodeError as error:
        raise BadInput(f"standard input is not text in UTF-8: {error}. Convert it first.") from None


def _behind_links(path: Path) -> Path:
    """Return the file that a link leads to; any other path as it is."""
    return path.resolve() if path.is_symlink() else path


def save_result(loaded: Loaded, path: Path, data: bytes, instead: str) -> None:
    """Write what was made of a transcript to another file; Refused if that is the transcript."""
    if loaded.path is not None and path.exists() and path.samefile(loaded.path):
        raise Refused(f"{path} is the transcript itself, and nothing is overwritten. {instead}")
    save(path, data)


def save(path: Path, data: bytes) -> None:
    """Write a file whole or not at all. A link is followed; the mode and owner of a file stay."""
    if path.is_dir():
        raise BadInput(f"{path} is a folder; name a file in it.")
    try:
        target = _behind_links(path)
        found = target.stat() if target.exists() else None
        if found is not None and not stat.S_ISREG(found.st_mode):
            raise BadInput(f"{path} is {kind_of(found.st_mode)}; name a regular file.")
        with draft_of(target, data) as draft:
            if found is not None:
                _make_alike(draft, found)
            draft.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}. Name another file.") from error


def _make_alike(draft: Path, wanted: os.stat_result) -> None:
    """Give a draft the mode and owner of the file that it replaces."""
    made = draft.stat()
    if (made.st_uid, made.st_gid) != (wanted.st_uid, wanted.st_gid):
        os.chown(draft, wanted.st_uid, wanted.st_gid)
    draft.chmod(stat.S_IMODE(wanted.st_mode))


def replace(loaded: Loaded, data: bytes) -> int:
    """Replace the file that was read; the original is kept as FILE.orig.

    Returns the number of lines that another program wrote meanwhile, which are copied too. Refused
    if the file changed in another way, or another program has it open for writing.
    """
    path, stamp = loaded.path, loaded.stamp
    if path is None or stamp is None:
        raise BadInput("standard input cannot be replaced. Name a file.")
    if loaded.transcript.file.was_packed:
        raise BadInput(f"{path} is compressed; write the result elsewhere with -o.")
    original = path.with_name(path.name + ".orig")
    _refuse_if_open(path)
    try:
        with draft_of(path, data) as draft:
            _make_alike(draft, path.stat())
            _link(path, original)
            _swap_in(draft, path, original, stamp)
        arrived = _arrived(original, stamp, is_lines=loaded.transcript.is_lines)
        if arrived is None:
            original.replace(path)
            raise _written_to(path)
        if arrived:
            with path.open("ab") as out:
                out.write(arrived)
        sync_folder(path.parent)
    except OSError as error:
        raise BadInput(f"{path} cannot be replaced: {error}. Write elsewhere with -o.") from error
    return arrived.count(b"\n")


def _swap_in(draft: Path, path: Path, original: Path, stamp: Stamp) -> None:
    """Let the draft take the file's name, if the file is still what was read."""
    if Stamp.of(path.stat()) != stamp:
        original.unlink()
        raise _written_to(path)
    draft.replace(path)


def _arrived(original: Path, stamp: Stamp, *, is_lines: bool) -> bytes | None:
    """Return what was added to a file since it was read; None if it changed in another way."""
    now = Stamp.of(original.stat())
    if now == stamp:
        return b""
    if not is_lines or now.size <= stamp.size:
        return None
    with original.open("rb") as file:
        file.seek(stamp.size)
        return file.read()


def _written_to(path: Path) -> Refused:
    return Refused(
        f"{path} was written to while it was collected; it is left as it is. Run it again when the "
        "other program is done, or write elsewhere with -o."
    )


def _refuse_if_open(path: Path) -> None:
    for process in _writers(path):
        raise Refused(
            f"{path} is open for writing in {process}, which would go on writing to the old file. "
            "End that program first, or write elsewhere with -o."
        )


def _writers(path: Path) -> Iterator[str]:
    """Name the processes that have a file open for writing, as far as the system shows them."""
    wanted = path.stat()
    for process in PROCESSES.glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is not ours to look at
            for handle in (process / "fd").iterdir():
                if _is_writing(handle, wanted):
                    yield f"process {process.name} ({(process / 'comm').read_text().strip()})"


def _is_writing(handle: Path, wanted: os.stat_result) -> bool:
    with suppress(OSError):  # it was closed meanwhile
        if os.path.samestat(handle.stat(), wanted):
            fields = (handle.parent.parent / "fdinfo" / handle.name).read_text().split()
            return bool(int(fields[fields.index("flags:") + 1], 8) & (os.O_WRONLY | os.O_RDWR))
    return False


def _link(path: Path, other: Path) -> None:
    """Give a file a second name, which must be free."""
    try:
        os.link(path, other)
    except FileExistsError:
        raise Refused(f"{other} exists, and nothing is overwritten. Move it first.") from None


def put_back(name: Path) -> Path:
    """Reverse `replace`; return the file that now holds what stood in its place."""
    path = _behind_links(name)
    original = path.with_name(path.name + ".orig")
    aside = path.with_name(path.name + ".collected")
    if not original.exists():
        raise NotFound(f"{original} does not exist, so {path} cannot be restored.")
    _refuse_if_open(path)
    try:
        _link(path, aside)
        original.replace(path)
    except OSError as error:
        raise BadInput(f"{path} cannot be put back: {error}.") from error
    return aside
