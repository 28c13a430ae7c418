"""What to replay: transcripts of any dialect, found by name, folder or pattern.

A transcript becomes a trajectory in chat-completions form. Its pinned prefix is everything before
the first assistant message, unless its record says otherwise. What cannot be read, or cannot be
replayed, is skipped with a reason; nothing here opens a connection.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path

import msgspec

from marksweep.dialects import read, read_lines, repair, written
from marksweep.dialects.base import NO_JSON, Json, parsed
from marksweep.dialects.history import History
from marksweep.dialects.transcripts import unpacked
from marksweep.errors import BadInput, MarksweepError
from marksweep.paths import expanded, is_folder
from marksweep.replay.guards import is_message, is_paired
from marksweep.replay.records import CHAT, Conversation, Trajectory, Wire

STDIN = "-"
ENDINGS = (".json", ".jsonl", ".ndjson")
"""What transcripts in a folder are called; each may be compressed, too."""
LEAST_STEPS = 2
"""Assistant messages that a transcript must have to be worth replaying."""


class Passed(msgspec.Struct, frozen=True):
    """A file or record that is not replayed, and why."""

    name: str
    reason: str


class Inputs(msgspec.Struct, frozen=True):
    """All that was found."""

    trajectories: tuple[Trajectory, ...]
    conversations: tuple[Conversation, ...]
    passed: tuple[Passed, ...]


Reading = Callable[[], History]
Item = Trajectory | Conversation | Passed


def gather(
    names: Sequence[str], dialect: str | None = None, *, leave_out: Path | None = None
) -> Inputs:
    """Read transcripts from files, folders, patterns and `-` for standard input.

    The folder `leave_out` is skipped.
    """
    items: list[Item] = []
    for name, path in _paths(names, leave_out):
        try:
            data = sys.stdin.buffer.read() if path is None else path.read_bytes()
            items += read_data(unpacked(data).text, name, dialect)
        except MarksweepError as error:
            items.append(Passed(name, str(error)))
        except OSError as error:
            items.append(Passed(name, f"cannot be read: {error}"))
    if not items:
        raise BadInput(
            f"no transcripts in {', '.join(names)}; expected files that end in "
            f"{', '.join(ENDINGS)}, perhaps with .gz or .xz behind it."
        )
    return _sorted_out(items)


def _sorted_out(items: list[Item]) -> Inputs:
    """Separate the kinds; a duplicate name gets a number."""
    seen: dict[str, int] = {}
    runs: list[Trajectory] = []
    talks: list[Conversation] = []
    for item in items:
        if isinstance(item, Passed):
            continue
        seen[item.id] = seen.get(item.id, 0) + 1
        name = item.id if seen[item.id] == 1 else f"{item.id} ({seen[item.id]})"
        if isinstance(item, Trajectory):
            runs.append(msgspec.structs.replace(item, id=name))
        else:
            talks.append(msgspec.structs.replace(item, id=name))
    return Inputs(tuple(runs), tuple(talks), tuple(i for i in items if isinstance(i, Passed)))


def _paths(names: Sequence[str], leave_out: Path | None) -> Iterator[tuple[str, Path | None]]:
    """Each file once, with its name: below its folder, so that reports can travel."""
    met: set[Path] = set()
    ours = Path(os.path.realpath(leave_out)) if leave_out else None
    for name in names:
        if name == STDIN:
            yield "standard input", None
            continue
        path = expanded(name)
        found = [path] if _may_be_there(path) else sorted(map(Path, _matches(name)))
        if not found:
            raise BadInput(f"{name} does not exist. Name a file, a folder, a pattern, or -.")
        for each in found:
            for file in _files(each):
                real = Path(os.path.realpath(file))
                if real not in met and ours not in real.parents:
                    met.add(real)
                    yield (file.name if file == each else file.relative_to(each).as_posix()), file


def _may_be_there(path: Path) -> bool:
    """Return whether a file is there, or cannot be looked at; reading it shows why."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        pass
    return True


def _matches(name: str) -> list[str]:
    if not has_magic(name):
        return []
    return glob(str(expanded(name)), recursive=True)  # noqa: PTH207 - it may be absolute


def _files(path: Path) -> list[Path]:
    """List the transcripts in a folder, and the folders in it that cannot be listed."""
    if not is_folder(path):
        return [path]
    closed: list[OSError] = []
    found = [
        Path(folder, name)
        for folder, _, names in os.walk(path, onerror=closed.append)
        for name in names
        if _is_transcript(folder, name)
    ]
    return sorted([*found, *(Path(error.filename) for error in closed)])


def _is_transcript(folder: str, name: str) -> bool:
    """Return whether to read a file; one that cannot be looked at is read, which shows why."""
    if not name.removesuffix(".xz").removesuffix(".gz").endswith(ENDINGS):
        return False
    try:
        return stat.S_ISREG(Path(folder, name).stat().st_mode)
    except OSError:
        return True


def read_data(data: bytes, name: str, dialect: str | None = None) -> Iterator[Item]:
    """Read one file: a transcript, a list of messages, a request, or records, one per line."""
    if not data.strip():
        yield Passed(name, "is empty")
        return
    try:
        value = parsed(data)
    except NO_JSON:
        lines = data.splitlines()
        first = _decoded(next((line for line in lines if line.strip()), b""))
        if _is_record(first):
            yield from _records(lines, name, dialect)
        else:
            yield from _transcript(lambda: read_lines(lines, dialect), name)
        return
    if _is_record(value):
        yield from _record(value, name, dialect)
    elif isinstance(value, list | dict):
        yield from _transcript(lambda: read(value, dialect), name)
    else:
        yield Passed(name, f"holds a {type(value).__name__}; expected messages")


def _records(lines: Sequence[bytes], name: str, dialect: str | None) -> Iterator[Item]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        value = _decoded(line)
        if _is_record(value):
            yield from _record(value, f"{name}:{number}", dialect)
        else:
            yield Passed(f"{name}:{number}", "no JSON object with messages or turns")


def _decoded(line: bytes) -> Json:
    try:
        return parsed(line)
    except NO_JSON:
        return None


def _is_record(value: Json) -> bool:
    """Whether a value holds a whole run or conversation, rather than one message of it."""
    return isinstance(value, dict) and (
        isinstance(value.get("messages"), list) or {"turns", "questions"} <= value.keys()
    )


def _record(value: dict[str, Json], name: str, dialect: str | None) -> Iterator[Item]:
    given = value.get("id")
    name = given if isinstance(given, str) and given else name
    if "questions" in value:
        try:
            yield msgspec.convert({**value, "id": name}, type=Conversation)
        except msgspec.ValidationError as error:
            yield Passed(name, f"no conversation: {error}")
        return
    pinned = value.get("pinned")
    if isinstance(pinned, int) and all(map(is_message, value["messages"])):
        yield Trajectory(name, tuple(value["messages"]), pinned)
        return
    yield from _transcript(lambda: read(value, dialect), name)


def _transcript(reading: Reading, name: str) -> Iterator[Item]:
    """Read a transcript, and name what in it could not be read."""
    try:
        history = reading()
        yield trajectory(history, name)
    except MarksweepError as error:
        yield Passed(name, str(error))
        return
    for skipped in history.skipped:
        yield Passed(f"{name}:{skipped.position + 1}", skipped.reason)


def trajectory(history: History, name: str) -> Trajectory:
    """Make a history a trajectory; BadInput says why it cannot be replayed."""
    system = (history.system,) if history.system else ()
    chat, _ = repair(written([*system, *history.messages], CHAT), CHAT)
    messages = _ordered(chat)
    steps = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    if len(steps) < LEAST_STEPS:
        why = f"; {history.skipped[0].reason}" if history.skipped else ""
        raise BadInput(
            f"{len(messages)} messages, {len(steps)} of them the agent's; "
            f"expected at least {LEAST_STEPS}{why}"
        )
    if not is_paired(messages[: steps[-1]]):
        raise BadInput("a call is not answered behind its message; see `marksweep validate`")
    return Trajectory(name, tuple(messages), steps[0])


def _ordered(messages: Sequence[Wire]) -> list[Wire]:
    """Put the results of parallel calls in the order of the calls, directly behind them."""
    out: list[Wire] = []
    at = 0
    while at < len(messages):
        calls = [call["id"] for call in messages[at].get("tool_calls") or ()]
        results: list[Wire] = []
        end = at + 1
        while calls and end < len(messages) and messages[end]["role"] == "tool":
            results.append(messages[end])
            end += 1
        places = {call: place for place, call in enumerate(calls)}
        results.sort(key=lambda r: places.get(r.get("tool_call_id", ""), len(places)))
        out += [messages[at], *results]
        at = end
    return out
