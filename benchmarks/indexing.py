"""Indexing the source of the Python standard library: the first time, again, and after changes.

    python -m benchmarks.indexing [sqlite] [falkordb]

Every run is a separate process, as `marksweep index` would be. Its own time and its peak memory,
with that of its parser, are measured.
"""

from __future__ import annotations

import asyncio
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.rows import Row, print_rows
from marksweep.indexing.indexer import index_codebase
from marksweep.stores.graph.base import GraphStore
from marksweep.stores.graph.falkor import FalkorGraphStore
from marksweep.stores.graph.falkor.server import EmbeddedServer
from marksweep.stores.graph.sqlite import SqliteGraphStore

FILES_PER_SECOND = 150
UNCHANGED_FASTER = 30
CHANGED_FASTER = 15
CHANGED_SHARE = 0.01
PEAK_MB = 400
FALKOR_SLOWER = 2.0

KINDS = ("sqlite", "falkordb")


class Timing(msgspec.Struct, frozen=True):
    """One run of two processes: one writes, one parses."""

    files: int
    seconds: float
    megabytes: float
    """Peak memory of both together."""
    busy: tuple[float, float]
    """Processor seconds of each: on a quiet machine the larger one is the time of the run."""


def library(folder: Path) -> Path:
    """Copy the standard library's source, without what is installed into it."""
    copy = folder / "library"
    shutil.copytree(
        sysconfig.get_path("stdlib"),
        copy,
        symlinks=True,
        ignore=shutil.ignore_patterns("site-packages", "__pycache__", "*.so", "*.a", "*.o"),
    )
    return copy


def run(store: str, root: Path) -> Timing:
    """Index in a separate process."""
    command = [sys.executable, "-m", "benchmarks.indexing", "--run", store, str(root)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return msgspec.json.decode(done.stdout, type=Timing)


def opened(store: str) -> GraphStore:
    return FalkorGraphStore(store) if "://" in store else SqliteGraphStore(store)


async def measured(store: str, root: Path) -> Timing:
    """Index in this process; measure time and memory."""
    graph = opened(store)
    started = time.perf_counter()
    report = await index_codebase(root, store=graph, languages=["python"])
    seconds = time.perf_counter() - started
    graph.close()
    own, parser = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return Timing(
        files=report.files,
        seconds=seconds,
        megabytes=(own.ru_maxrss + parser.ru_maxrss) / 1024,
        busy=(own.ru_utime + own.ru_stime, parser.ru_utime + parser.ru_stime),
    )


def change(root: Path, share: float) -> int:
    """Add a function to some files, evenly spread."""
    files = sorted(root.rglob("*.py"))
    changed = files[:: round(1 / share)]
    for number, file in enumerate(changed):
        with file.open("a") as source:
            source.write(f"\n\ndef added_{number}():\n    return len('')\n")
    return len(changed)


@contextmanager
def place(kind: str, folder: Path) -> Iterator[str]:
    """Return the address of a new store."""
    if kind == "sqlite":
        yield str(folder / "graph.db")
        return
    server = EmbeddedServer(folder / "falkor")
    server.open()
    try:
        yield server.url
    finally:
        server.close()


def on_store(kind: str) -> list[Timing]:
    """Index four times: new, unchanged, unchanged again, and with 1 % of the files changed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = library(folder)
        with place(kind, folder) as store:
            timings = [run(store, root)]
            time.sleep(3)
            timings += [run(store, root) for _ in range(3)]
            change(root, CHANGED_SHARE)
            return [*timings, run(store, root)]


def half_the_memory(kind: str) -> float:
    """Index half of the files, to see whether memory grows with their number."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = library(folder)
        for file in sorted(root.rglob("*.py"))[::2]:
            file.unlink()
        with place(kind, folder) as store:
            return run(store, root).megabytes


def rows(kinds: tuple[str, ...] = KINDS) -> list[Row]:
    """Measure on each kind of store."""
    found: list[Row] = []
    first_on: dict[str, Timing] = {}
    for kind in kinds:
        first, _, *unchanged, changed = on_store(kind)
        first_on[kind] = first
        again = min(timing.seconds for timing in unchanged)
        speed = first.files / first.seconds
        slower = first.seconds / first_on.get("sqlite", first).seconds
        if kind == "sqlite":
            found.append(
                Row(
                    f"index {first.files:,} files of the standard library, sqlite",
                    f"≥ {FILES_PER_SECOND} files/s",
                    f"{speed:.0f} files/s ({first.seconds:.1f} s; busy: writing "
                    f"{first.busy[0]:.1f} s, parsing {first.busy[1]:.1f} s)",
                    speed >= FILES_PER_SECOND,
                )
            )
        else:
            found.append(
                Row(
                    f"index the same, {kind}",
                    f"≤ {FALKOR_SLOWER:.0f}× the time of sqlite",
                    f"{slower:.2f}× ({speed:.0f} files/s)",
                    slower <= FALKOR_SLOWER,
                )
            )
        found += [
            Row(
                f"index again with nothing changed, {kind}",
                f"≥ {UNCHANGED_FASTER}× faster",
                f"{first.seconds / again:.0f}× ({again * 1000:.0f} ms)",
                first.seconds / again >= UNCHANGED_FASTER,
            ),
            Row(
                f"index again with {changed.files} files changed, {kind}",
                f"≥ {CHANGED_FASTER}× faster",
                f"{first.seconds / changed.seconds:.0f}× ({changed.seconds * 1000:.0f} ms)",
                first.seconds / changed.seconds >= CHANGED_FASTER,
            ),
        ]
        half = half_the_memory(kind)
        found.append(
            Row(
                f"peak memory of indexing all, and half of it, {kind}",
                f"≤ {PEAK_MB} MB",
                f"{first.megabytes:.0f} MB, {half:.0f} MB",
                first.megabytes <= PEAK_MB,
            )
        )
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        timing = asyncio.run(measured(sys.argv[2], Path(sys.argv[3])))
        sys.stdout.buffer.write(msgspec.json.encode(timing))
    else:
        print_rows(rows(tuple(sys.argv[1:]) or KINDS))
