"""Count the source files that one tool result passes through: a long path is hard to follow.

    python tools/call_paths.py

Prints, for each path, the files in the order they are first entered, with the functions called in
them. Exits with 1 if a path is longer than its bar. Code that only an import runs is not counted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import marksweep
from marksweep import Conversation

SOURCE = Path(marksweep.__file__).parent

BARS = {"extend": 16, "collect": 24}
"""Files that each path may pass through: adding one tool result; planning, trimming, sweeping."""

LIMIT = 3_000
"""Tokens of the window: the second result does not fit together with the first."""


class Way(NamedTuple):
    """The functions that were called, by file, in the order of their first call."""

    files: dict[str, list[str]]
    calls: int

    def __str__(self) -> str:
        """List the files."""
        functions = sum(map(len, self.files.values()))
        lines = [f"{len(self.files)} files, {functions} functions, {self.calls:,} calls"]
        width = max(map(len, self.files))
        lines += [f"  {file:{width}}  {', '.join(names)}" for file, names in self.files.items()]
        return "\n".join(lines)


def walked(work: Callable[[], object]) -> Way:
    """Record which functions of marksweep some work calls."""
    files: dict[str, list[str]] = {}
    calls = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        path = Path(frame.f_code.co_filename)
        if event != "call" or SOURCE not in path.parents or frame.f_code.co_name == "<module>":
            return
        calls += 1
        names = files.setdefault(path.relative_to(SOURCE).as_posix(), [])
        if frame.f_code.co_name not in names:
            names.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return Way(files, calls)


def ways() -> dict[str, Way]:
    """Follow one tool result of sixty lines: it is added, then a collection trims it."""
    _talk().messages  # noqa: B018 - what is imported and cached on first use is no part of the way
    talk = _talk()
    return {
        "extend": walked(lambda: talk.extend([_result(2)])),
        "collect": walked(lambda: talk.messages),
    }


def _talk() -> Conversation:
    """Begin a conversation with a pending call."""
    talk = Conversation(limit=LIMIT)
    talk.extend([{"role": "user", "content": "Which port does the proxy use?"}])
    talk.extend([_call(1)])
    talk.extend([_result(1)])
    talk.extend([{"role": "assistant", "content": "Not in this file; I look further."}, _call(2)])
    return talk


def _call(number: int) -> dict[str, object]:
    function = {"name": "read_file", "arguments": f'{{"path": "shop/{number}.py"}}'}
    calls = [{"id": f"call-{number}", "type": "function", "function": function}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _result(number: int) -> dict[str, object]:
    lines = [
        f"    port_{number}_{n} = connect('host-{n}.example', retries={n * 7}, file='cache_{n}.db')"
        for n in range(60)
    ]
    return {"role": "tool", "tool_call_id": f"call-{number}", "content": "\n".join(lines)}


def main() -> int:
    """Print the paths; return whether one is too long."""
    too_long = False
    for name, way in ways().items():
        bar = BARS[name]
        too_long |= len(way.files) > bar
        print(f"{name} (at most {bar} files): {way}\n")
    return int(too_long)


if __name__ == "__main__":
    sys.exit(main())
