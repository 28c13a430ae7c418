"""Collections of the long-term memory that `marksweep serve` runs automatically."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from mcp import Client

from marksweep import GraphMemory
from marksweep.model import Entry, Event
from tests.mcp.support import Agent
from tests.mcp.test_stdio import child

SOON = "0.0001"
"""An interval of a third of a second, in hours."""
DEADLINE = 60.0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("kept", "gone"):
        (tmp_path / f"{name}.py").write_text(f"def {name}(): pass\n")
    return tmp_path


async def journal(project: Path) -> tuple[Entry, ...]:
    memory = GraphMemory.open(project)
    try:
        return await memory.history()
    finally:
        await memory.close()


async def until(project: Path, holds: Callable[[tuple[Entry, ...]], bool]) -> tuple[Entry, ...]:
    """Wait until the journal has the expected entries."""
    deadline = time.monotonic() + DEADLINE
    while not holds(entries := await journal(project)):
        assert time.monotonic() < deadline, f"the journal has only {entries}"
        await asyncio.sleep(0.1)
    return entries


async def lose_a_file(one: Agent, project: Path, name: str = "gone.py") -> None:
    await one.call("index_codebase")
    (project / name).unlink()
    await one.call("index_codebase")


def sweeps(entries: tuple[Entry, ...]) -> list[Entry]:
    return [entry for entry in entries if entry.event is Event.SWEPT]


def swept(entries: tuple[Entry, ...]) -> bool:
    return bool(sweeps(entries))


def test_a_server_collects_at_its_interval_and_records_it_in_the_journal(project: Path) -> None:
    async def work() -> None:
        async with Client(child(project, "--collect-every", SOON)) as client:
            one = Agent(client)
            await lose_a_file(one, project)
            entries = await until(project, swept)
            assert {entry.actor for entry in entries} == {"background"}
            found = await one.call("search_memory", query="gone kept")
            assert {hit["file"] for hit in found["hits"]} == {"kept.py"}

    asyncio.run(work())


def test_two_servers_collect_once(project: Path) -> None:
    async def work() -> None:
        options = ("--collect-every", SOON)
        async with (
            Client(child(project, *options)) as client,
            Client(child(project, *options)) as other,
        ):
            await Agent(other).call("memory_stats")
            await lose_a_file(Agent(client), project)
            await until(project, swept)
            (project / "later.py").write_text("def later(): pass\n")
            await lose_a_file(Agent(other), project, "later.py")
            await until(project, lambda entries: len(sweeps(entries)) > 1)
        done = sweeps(await journal(project))
        taken = [name for entry in done if entry.report for name in entry.report.swept]
        assert len(taken) == len(set(taken))

    asyncio.run(work())


def test_the_settings_can_ask_for_it_and_the_option_can_switch_it_off(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    for path in project.iterdir():
        shutil.copy(path, other)
    for folder in (project, other):
        (folder / ".marksweep").mkdir()
        settings = folder / ".marksweep" / "settings.toml"
        settings.write_text(f"[memory]\ncollect_every_hours = {SOON}\n")

    async def work() -> None:
        async with Client(child(project, "--collect-every", "0")) as silent:
            await lose_a_file(Agent(silent), project)
            async with Client(child(other)) as client:  # started later, it has had less time
                await lose_a_file(Agent(client), other)
                await until(other, swept)
            assert await journal(project) == ()

    asyncio.run(work())
