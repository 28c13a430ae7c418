"""The command line: the time of `--help`, and of analysing a session of fifty megabytes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from statistics import median

import msgspec

from benchmarks.rows import Row, print_rows

MARKSWEEP = [sys.executable, "-m", "marksweep"]
HEAVY = ("mcp", "falkordb", "tree_sitter")
SESSION_BYTES = 50_000_000


def rows() -> Iterator[Row]:
    """Measure everything."""
    yield from _help()
    with tempfile.TemporaryDirectory() as name:
        yield from _analyze(Path(name), "\t", "all ASCII")
        yield from _analyze(Path(name), "→", "with arrows in its output")


def _help() -> Iterator[Row]:
    took = median(_run([*MARKSWEEP, "--help"]).seconds for _ in range(15))
    yield Row("`marksweep --help`, median of 15", "≤ 150 ms", f"{took * 1000:.0f} ms", took <= 0.15)
    script = (
        "import sys\nfrom marksweep.cli.app import app\n"
        "app(['--help'], standalone_mode=False)\n"
        f"sys.exit(str({{*{HEAVY}}} & set(sys.modules)) if {{*{HEAVY}}} & set(sys.modules) else 0)"
    )
    code = _run([sys.executable, "-c", script]).code
    found = "none" if code == 0 else "some"
    yield Row(f"… of {', '.join(HEAVY)} imported", "none", found, code == 0)


def _analyze(folder: Path, margin: str, what: str) -> Iterator[Row]:
    path = folder / "session.jsonl"
    size = write_session(path, SESSION_BYTES, margin)
    ran = _run([*MARKSWEEP, "analyze", str(path)], folder)
    assert ran.code == 0
    name = f"`marksweep analyze`, a session of {size / 1e6:.0f} MB, {what}"
    yield Row(name, "≤ 10 s", f"{ran.seconds:.1f} s", ran.seconds <= 10)
    share = ran.peak_bytes / size
    peak = f"{share:.1f}× ({ran.peak_bytes / 1e6:.0f} MB)"
    yield Row("… peak memory", "≤ 6× the file", peak, share <= 6)


class Ran(msgspec.Struct, frozen=True):
    """The result of a process."""

    code: int
    seconds: float
    peak_bytes: int


def _run(command: list[str], folder: Path | None = None) -> Ran:
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    took = time.perf_counter() - started
    return Ran(process.returncode, took, usage.ru_maxrss * 1024)


def write_session(path: Path, size: int, margin: str = "\t") -> int:
    """Write a session as Claude Code keeps it, of about so many bytes; return how many.

    An agent reads files of Python's standard library, edits them, greps and runs tests. `margin`
    goes between the number and the text of a line: one character outside ASCII makes Python store
    a whole output with two bytes per character.
    """
    random = Random(5)
    library = Path(sysconfig.get_path("stdlib"))
    sources = [
        (file.name, file.read_text("utf-8").splitlines()[:400])
        for file in sorted(library.glob("*.py"))
    ]
    written = turn = 0
    with path.open("w", encoding="utf-8") as out:
        asked = {"role": "user", "content": "Port the library to the new interface."}
        out.write(_line("u0", "user", asked))
        while written < size:
            turn += 1
            name, given, answer = _turn(random, sources, margin)
            call = {"type": "tool_use", "id": f"t{turn}", "name": name, "input": given}
            said = {"type": "text", "text": f"Now {name}, to see what comes of turn {turn}."}
            result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": answer}
            lines = (
                _line(f"a{turn}", "assistant", {"role": "assistant", "content": [said, call]}),
                _line(f"b{turn}", "user", {"role": "user", "content": [result]}),
            )
            written += sum(out.write(line) for line in lines)
    return path.stat().st_size


def _line(name: str, kind: str, message: Mapping[str, object]) -> str:
    line = {"uuid": name, "sessionId": "s", "type": kind, "message": message}
    return json.dumps(line, ensure_ascii=False) + "\n"


def _turn(
    random: Random, sources: list[tuple[str, list[str]]], margin: str
) -> tuple[str, dict[str, object], str]:
    """Make one call: its tool, its arguments and its result."""
    name, lines = random.choice(sources)
    kind = random.random()
    if kind < 0.45:
        numbered = (f"{n:>6}{margin}{line}" for n, line in enumerate(lines, 1))
        return "Read", {"file_path": name}, "\n".join(numbered)
    if kind < 0.65:
        change = {"old_string": random.choice(lines), "new_string": random.choice(lines)}
        return "Edit", {"file_path": name, **change}, f"The file {name} has been updated."
    if kind < 0.85:
        log = (
            f"tests/test_{name}::test_{n} {random.choice(('PASSED', 'FAILED'))} "
            f"{random.randrange(10**6)} us"
            for n in range(random.randint(10, 150))
        )
        return "Bash", {"command": f"pytest -q tests/test_{name}"}, "\n".join(log)
    word = random.choice(" ".join(lines).split() or ["def"])
    found = (
        f"{other}:{n}:{line}"
        for other, theirs in random.sample(sources, 40)
        for n, line in enumerate(theirs, 1)
        if word in line
    )
    return "Grep", {"pattern": word}, "\n".join(found)[:8_000]


if __name__ == "__main__":
    print_rows(rows())
