"""Replay of many transcripts: how long it takes and how much memory.

The transcripts are synthetic: an agent lists, reads, searches, edits and tests a code base that
does not exist, and returns to what it saw before.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.rows import Row
from marksweep.replay.inputs import Inputs
from marksweep.replay.records import Trajectory, Wire, price
from marksweep.replay.report import Request, replay
from marksweep.replay.runner import How, counter

TRANSCRIPTS = 100
TOKENS = 20_000
STRATEGIES = (
    "coverage",
    "coverage_quality",
    "superseded+mask+truncate",
    "truncate",
    "mask last 10",
    "GDSF",
)
BUDGETS = ("10%", "25%")
SECONDS, MEGABYTES = 300, 1_000

_NOUNS = ("order", "invoice", "user", "session", "cart", "payment", "refund", "stock", "parcel")
_VERBS = ("load", "save", "check", "send", "merge", "price", "count", "close", "apply", "build")
_FOLDERS = ("core", "api", "jobs", "models", "views", "tasks", "util")


def rows() -> Iterator[Row]:
    """Replay, and report time and memory."""
    runs = tuple(transcript(seed) for seed in range(TRANSCRIPTS))
    tokens = sum(price(message, counter()) for run in runs for message in run.messages)
    request = Request(strategies=STRATEGIES, budgets=BUDGETS, how=How(workers=2))
    with _Memory() as memory:
        began = time.perf_counter()
        found = replay(Inputs(runs, (), ()), request)
        seconds = time.perf_counter() - began
    ways = "; ".join(f"{bound.budget} {bound.how}" for bound in found.result.bounds)
    what = (
        f"replay of {len(found.result.transcripts)} transcripts, {tokens // len(runs):,} tokens "
        f"each, {len(STRATEGIES)} strategies, {len(BUDGETS)} budgets, 2 processes"
    )
    yield Row(
        f"{what}, with the bounds ({ways})", "≤ 5 min", f"{seconds:.0f} s", seconds <= SECONDS
    )
    peak = memory.peak / 1e6
    what = "the same: memory of all processes together"
    yield Row(what, "≤ 1 GB", f"{peak:.0f} MB", peak <= MEGABYTES)


class _Memory:
    """Samples how much memory this process and its children hold, on Linux."""

    def __init__(self) -> None:
        self.peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            self.peak = max(self.peak, sum(map(_resident, _family(os.getpid()))))


def _family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    members = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in task.read_text().split():
                members += _family(int(child))
        except OSError:
            continue
    return members


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def transcript(seed: int, tokens: int = TOKENS) -> Trajectory:
    """Make a synthetic session of about this many tokens."""
    agent = _Agent(random.Random(seed))
    messages: list[Wire] = [
        {"role": "system", "content": "You are a careful engineer. Use the tools."},
        {"role": "user", "content": f"The {agent.subject} comes out wrong. Find out why; mend it."},
    ]
    size = 0
    while size < tokens:
        new = agent.act()
        messages += new
        size += sum(price(message, counter()) for message in new)
    messages.append({"role": "assistant", "content": "Done."})
    return Trajectory(f"made-up-{seed:03}", tuple(messages), 2)


class _Agent:
    """Works on a code base that it invents."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self.subject = f"{draw.choice(_NOUNS)}_{draw.choice(_NOUNS)}_{draw.randrange(99)}"
        self._files = {self._path(): self._source() for _ in range(24)}
        self._known: list[str] = []
        self._calls = 0

    def act(self) -> list[Wire]:
        """Make one step: a call, sometimes two at once, and the results."""
        draw = self._draw
        actions = [self._list, self._read, self._search, self._edit, self._test]
        made = draw.choices(actions, (1, 5, 3, 3, 3), k=2 if draw.random() < 0.15 else 1)
        calls, results = [], []
        for name, arguments, answer in (action() for action in made):
            self._calls += 1
            calls.append(
                {
                    "id": f"call_{self._calls}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
            )
            results.append(
                {"role": "tool", "tool_call_id": f"call_{self._calls}", "content": answer}
            )
        said = f"Next I look at {draw.choice(self._known)}." if self._known else "Let me look."
        return [{"role": "assistant", "content": said, "tool_calls": calls}, *results]

    def _path(self) -> str:
        draw = self._draw
        return f"src/{draw.choice(_FOLDERS)}/{draw.choice(_NOUNS)}_{draw.randrange(999)}.py"

    def _name(self) -> str:
        draw = self._draw
        return f"{draw.choice(_VERBS)}_{draw.choice(_NOUNS)}_{draw.randrange(999)}"

    def _source(self) -> list[str]:
        lines = []
        for _ in range(self._draw.randrange(2, 7)):
            name = self._name()
            lines += [f"def {name}({self.subject}, limit={self._draw.randrange(99)}):"]
            lines += [
                f"    {self._draw.choice(_NOUNS)} = {self._name()}({self.subject}, {n})"
                for n in range(self._draw.randrange(2, 9))
            ]
            lines += [f"    return {self._draw.choice(_NOUNS)}", ""]
        return lines

    def _list(self) -> tuple[str, dict[str, object], str]:
        self._known += list(self._files)
        return "list", {"path": "src"}, "\n".join(sorted(self._files))

    def _read(self) -> tuple[str, dict[str, object], str]:
        path = self._again() if self._draw.random() < 0.4 else self._draw.choice(list(self._files))
        self._known.append(path)
        body = self._files.get(path, [f"{path}: no such file"])
        return "read", {"path": path}, "\n".join(f"{n}: {line}" for n, line in enumerate(body, 1))

    def _search(self) -> tuple[str, dict[str, object], str]:
        wanted = self._again().rsplit("/", 1)[-1].removesuffix(".py")
        hits = [
            f"{path}:{n}: {line.strip()}"
            for path, body in self._files.items()
            for n, line in enumerate(body, 1)
            if wanted.split("_")[0] in line
        ]
        return "search", {"pattern": wanted}, "\n".join(hits[:30]) or "nothing found"

    def _edit(self) -> tuple[str, dict[str, object], str]:
        path = self._again()
        body = self._files.setdefault(path, self._source()) if path in self._files else []
        if not body:
            return "edit", {"path": path, "old": "x", "new": "y"}, f"{path}: no such file"
        at = self._draw.randrange(len(body))
        old, body[at] = body[at], f"    {self._name()}({self.subject})"
        self._known += [old.strip() or path]
        return "edit", {"path": path, "old": old, "new": body[at]}, "done"

    def _test(self) -> tuple[str, dict[str, object], str]:
        name = f"test_{self._name()}"
        self._known.append(name)
        log = [f"tests/{self._draw.choice(_NOUNS)}_test.py::{name} FAILED"]
        log += [f"  File {self._again()!r}, line {self._draw.randrange(400)}" for _ in range(6)]
        log += [f"E   assert {self._draw.randrange(9999)} == {self._draw.randrange(9999)}"]
        return "run", {"command": f"pytest -k {self._again()}"}, "\n".join(log)

    def _again(self) -> str:
        """Return something that was seen before."""
        return self._draw.choice(self._known) if self._known else "src"
