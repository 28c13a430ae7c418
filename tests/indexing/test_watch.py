from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from marksweep.errors import MarksweepError, Refused
from marksweep.indexing.report import IndexReport
from marksweep.indexing.watch import watch_codebase
from marksweep.stores.graph.sqlite import SqliteGraphStore
from tests.indexing.trees import WORKSPACE, write

Outcome = IndexReport | MarksweepError
Next = Callable[[], Awaitable[Outcome]]

SOON = 20.0
"""Seconds within which a change is noticed, even on a busy machine."""

QUIET = 1.0
"""Seconds after which nothing more is expected."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


@asynccontextmanager
async def watching(root: Path, database: Path, **options: Any) -> AsyncIterator[Next]:
    store = SqliteGraphStore(database)
    stop = asyncio.Event()
    outcomes: asyncio.Queue[Outcome] = asyncio.Queue()

    async def pump() -> None:
        watched = watch_codebase(
            root,
            **{
                "store": store,
                "stop": stop,
                "workspace_id": WORKSPACE,
                "debounce_seconds": 0.1,
                **options,
            },
        )
        async with aclosing(watched):
            async for outcome in watched:
                outcomes.put_nowait(outcome)

    task = asyncio.create_task(pump())
    try:
        yield lambda: asyncio.wait_for(outcomes.get(), SOON)
    finally:
        stop.set()
        try:
            await asyncio.wait_for(task, SOON)
        finally:
            store.close()


async def files(following: Next) -> int:
    report = await following()
    assert isinstance(report, IndexReport)
    return report.files


async def nothing(following: Next) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(following(), QUIET)


def test_a_change_is_indexed_and_watching_ends_when_asked(tmp_path: Path, root: Path) -> None:
    async def body() -> None:
        async with watching(root, tmp_path / "graph.db") as following:
            assert await files(following) == 1
            write(root, "b.py", "y = 1\n")
            assert await files(following) == 1
            (root / "a.py").unlink()
            report = await following()
            assert isinstance(report, IndexReport)
            assert report.newly_stale == 1

    write(root, "a.py")
    asyncio.run(body())


def test_a_root_inside_a_folder_that_is_always_ignored_is_watched(tmp_path: Path) -> None:
    async def body() -> None:
        async with watching(package, tmp_path / "graph.db") as following:
            assert await files(following) == 1
            await nothing(following)
            write(package, "b.js", "let y = 1\n")
            assert await files(following) == 1

    package = tmp_path / "node_modules" / "package"
    write(package, "a.js", "let x = 1\n")
    asyncio.run(body())


def test_many_changes_at_once_are_few_runs(tmp_path: Path, root: Path) -> None:
    async def body() -> None:
        async with watching(root, tmp_path / "graph.db", debounce_seconds=0.5) as following:
            assert await files(following) == 0
            for n in range(200):
                write(root, f"f{n}.py", f"x = {n}\n")
            indexed, runs = 0, 0
            while indexed < 200:
                indexed += await files(following)
                runs += 1
            assert runs <= 4

    asyncio.run(body())


def test_what_is_ignored_or_cannot_be_indexed_starts_no_run(tmp_path: Path, root: Path) -> None:
    async def body() -> None:
        async with watching(root, root / "graph.db") as following:
            await following()
            write(root, "out/a.py")
            write(root, "node_modules/b.js")
            await nothing(following)

    write(root, ".gitignore", "out/\n")
    asyncio.run(body())


def test_a_file_that_stops_being_text_is_noticed(tmp_path: Path, root: Path) -> None:
    async def body() -> None:
        async with watching(root, tmp_path / "graph.db") as following:
            assert await files(following) == 2
            write(root, "a.py", b"\0")
            report = await following()
            assert isinstance(report, IndexReport)
            assert report.newly_stale == 1
            write(root, "a.py", "back = 1\n")
            assert await files(following) == 1

    write(root, "a.py")
    write(root, "b.py", "y = 1\n")
    asyncio.run(body())


def test_a_run_that_is_refused_is_reported_and_the_next_change_starts_another(
    tmp_path: Path, root: Path
) -> None:
    async def body() -> None:
        async with watching(root, tmp_path / "graph.db") as following:
            assert await files(following) == 30
            shutil.rmtree(root / "src")
            assert isinstance(await following(), Refused)
            for n in range(30):
                write(root, f"src/f{n}.py", f"x = {n}\n")
            outcome = await following()
            while isinstance(outcome, Refused):
                outcome = await following()
            assert isinstance(outcome, IndexReport)
            assert outcome.stale == 0

    for n in range(30):
        write(root, f"src/f{n}.py", f"x = {n}\n")
    asyncio.run(body())


def test_changes_during_a_run_are_not_missed(tmp_path: Path, root: Path) -> None:
    async def body() -> None:
        def add_another(_: object) -> None:
            write(root, "late.py", "z = 1\n")

        async with watching(root, tmp_path / "graph.db", progress=add_another) as following:
            assert await files(following) == 1
            assert await files(following) == 1

    write(root, "a.py")
    asyncio.run(body())


def test_a_system_that_cannot_watch_says_so_and_nothing_spins(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failing(*_: object, **__: object) -> AsyncIterator[None]:
        raise OSError("OS file watch limit reached")
        yield

    monkeypatch.setattr("marksweep.indexing.watch.awatch", failing)

    async def body() -> None:
        async with watching(root, tmp_path / "graph.db") as following:
            await following()

    with pytest.raises(OSError, match="watch limit"):
        asyncio.run(body())
