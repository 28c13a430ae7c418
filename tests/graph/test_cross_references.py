"""Reachability across segments and memories, if the setting is on, in every front end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from marksweep import KnowledgeGraph, Segments, Settings
from marksweep.cli.app import app
from marksweep.graph.pruning import MemorySettings
from marksweep.model import Reference, Segment
from marksweep.settings import Memory
from marksweep.stores.graph.base import Survey
from marksweep.stores.graph.falkor.server import EmbeddedServer
from tests.graph.graph_contract import OpenStore
from tests.graph.memories import OnWorld, World, sqlite_graphs
from tests.graph.prune_contract import with_stale
from tests.graph.servers import fresh_graphs
from tests.mcp.support import Agent, with_agent

TOGETHER = Settings(memory=Memory(keeps_segments=True))


def memory_beside(context: Segments, world: World) -> KnowledgeGraph:
    """The memory of a world with the setting on; segments are in use as the agent sees them."""
    return KnowledgeGraph(
        world.graph,
        world.store,
        backups=world.backups,
        settings=MemorySettings(keeps_segments=True),
        clock=world.clock,
        focus=lambda workspace_id, now: context.current_focus(),
    )


def log(segment_id: str, world: World, *references: str) -> Segment:
    """Make a segment that no root rule keeps."""
    return Segment(
        segment_id=segment_id,
        type="log",
        text="some words about it",
        created_at=world.clock(),
        references=tuple(map(Reference, references)),
    )


class CrossReferencesContract(OnWorld):
    def test_deleting_a_memory_releases_the_segments_that_only_it_kept(self, world: World) -> None:
        memory = world.with_settings(MemorySettings(keeps_segments=True))
        context = Segments(world.store, workspace="w", clock=world.clock)
        context.add(log("cited", world), log("other", world))
        note = memory.add_memory("see there", tags=["ref:cited"], workspace_id="w")
        context.keep(memory.cited_segments(workspace_id="w"))
        (step,) = context.plan_for(["cited", "other"]).steps
        assert step.segments == ("other",)
        assert f"cited by memory {note.memory_id}" in context.why("cited")
        memory.forget([note.memory_id], workspace_id="w")
        context.keep(memory.cited_segments(workspace_id="w"))
        steps = context.plan_for(["cited", "other"]).steps
        assert {name for step in steps for name in step.segments} == {"cited", "other"}
        memory.restore(memory_ids=[note.memory_id], workspace_id="w")
        assert list(memory.cited_segments(workspace_id="w")) == ["cited"]

    def test_a_segment_that_cites_a_memory_keeps_it(self, world: World) -> None:
        cited, other = with_stale(world)
        memory = world.with_settings(MemorySettings(keeps_segments=True))
        context = Segments(world.store, workspace="w", clock=world.clock)
        context.add(log("s", world, cited.memory.memory_id))
        context.pin("s", by="ada")
        assert memory.prune_memory("w").planned.memories == (other.memory.memory_id,)
        context.unpin("s")
        context.collect(context.plan_for(["s"]))
        assert len(memory.prune_memory("w").planned.memories) == 2

    def test_what_the_agent_is_working_on_counts_as_in_use(self, world: World) -> None:
        cited, other = with_stale(world)
        context = Segments(world.store, workspace="w", clock=world.clock)
        context.write("x", segment_id="s", task_id="now", references=[cited.memory.memory_id])
        context.focus(task="now")
        memory = memory_beside(context, world)
        assert memory.prune_memory("w").planned.memories == (other.memory.memory_id,)

    def test_without_the_setting_neither_keeps_the_other(self, world: World) -> None:
        context = Segments(world.store, workspace="w", clock=world.clock)
        context.add(log("cited", world))
        world.memory.add_memory("see there", tags=["ref:cited"], workspace_id="w")
        assert world.memory.cited_segments(workspace_id="w") == {}

    def test_a_segment_and_a_memory_that_only_keep_each_other_are_swept(self, world: World) -> None:
        stale, other = with_stale(world)
        context = Segments(world.store, workspace="w", clock=world.clock)
        memory = memory_beside(context, world)
        context.add(log("s", world, stale.memory.memory_id))
        context.keep({"s": "cited by a memory, once"})
        assert memory.cited_segments(workspace_id="w") == {}
        gone = {each.memory.memory_id for each in (stale, other)}
        assert set(memory.prune_memory("w").planned.memories) == gone

    def test_memories_are_read_again_only_after_a_change(self, world: World) -> None:
        surveys = counted_surveys(world)
        memory = world.with_settings(MemorySettings(keeps_segments=True))
        context = Segments(world.store, workspace="w", clock=world.clock)
        context.add(log("one", world), log("two", world))
        memory.add_memory("see there", tags=["ref:one"], workspace_id="w")

        def cited() -> list[str]:
            return sorted(memory.cited_segments(workspace_id="w"))

        for _ in range(5):
            assert cited() == ["one"]
            world.clock.wait(minutes=0.1)
        assert len(surveys) == 1
        context.pin("two", by="ada")
        context.add(log("three", world))
        assert cited() == ["one"]
        assert len(surveys) == 1
        note = memory.add_memory("and there", tags=["ref:two"], workspace_id="w")
        assert cited() == ["one", "two"]
        memory.forget([note.memory_id], workspace_id="w")
        assert cited() == ["one"]
        context.collect(context.plan_for(["three"]))
        memory.add_memory("elsewhere", tags=["ref:two"], workspace_id="other")
        assert cited() == ["one"]
        assert len(surveys) == 3

    def test_what_time_alone_changes_is_seen(self, world: World) -> None:
        (stale, _) = with_stale(world)
        kept = stale.memory.memory_id
        day = timedelta(days=1)
        settings = MemorySettings(keeps_segments=True, recently_read=day, ttl={"log": 5 * day})
        memory = world.with_settings(settings)
        context = Segments(world.store, workspace="w", clock=world.clock)
        context.add(log("s1", world), log("s2", world))
        context.write("so be it", segment_id="d", type="decision", references=[kept])
        memory.add_memory("old", source="log", tags=["ref:s1"], workspace_id="w")
        memory.add_memory("read", source="log", tags=["ref:s2"], workspace_id="w")

        def seen() -> tuple[list[str], bool]:
            cited = sorted(memory.cited_segments(workspace_id="w"))
            return cited, kept in memory.prune_memory("w").planned.memories

        assert seen() == (["s1", "s2"], False)
        world.clock.wait(minutes=60)
        assert seen() == (["s1", "s2"], False)
        world.clock.wait(minutes=1)
        assert seen() == (["s1", "s2"], True)
        world.clock.wait(days=4.5)
        note = memory.search_memory("read", workspace_id="w").hits[0].memory.memory_id
        memory.touch([note], workspace_id="w")
        assert seen() == (["s1", "s2"], True)
        world.clock.wait(days=1)
        assert seen() == (["s2"], True)
        world.clock.wait(days=5)
        assert seen() == ([], True)


def counted_surveys(world: World) -> list[str]:
    """Record the workspace of every survey from now on."""
    taken: list[str] = []
    survey = world.graph.survey_memories

    def noted(workspace_id: str) -> Survey:
        taken.append(workspace_id)
        return survey(workspace_id)

    world.graph.survey_memories = noted  # type: ignore[method-assign]
    return taken


class TestCrossReferencesOnSqlite(CrossReferencesContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        return sqlite_graphs(tmp_path / "graph.db")


class TestCrossReferencesOnFalkor(CrossReferencesContract):
    @pytest.fixture
    def open_store(self, falkor_url: str) -> OpenStore:
        return fresh_graphs(falkor_url)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a project in which segments and memories keep each other."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".marksweep").mkdir()
    (tmp_path / ".marksweep" / "settings.toml").write_text("[memory]\nkeeps_segments = true\n")
    return tmp_path


def remember(text: str, *tags: str) -> str:
    """Add a memory to the project in the current folder; return its id."""
    memory = KnowledgeGraph.open()
    try:
        return memory.add_memory(text, tags=tags).memory_id
    finally:
        memory.close()


def forget(memory_id: str) -> None:
    memory = KnowledgeGraph.open()
    try:
        memory.forget([memory_id])
    finally:
        memory.close()


def test_the_server_keeps_segments_that_memories_cite(project: Path) -> None:
    note = remember("see there", "ref:cited")

    async def work(one: Agent) -> None:
        await one.add("cited", "other")
        pruned = await one.call("context_gc_prune", segment_ids=["cited", "other"])
        assert pruned["stashed"] == ["other"]
        forget(note)
        pruned = await one.call("context_gc_prune", segment_ids=["cited"])
        assert pruned["stashed"] == ["cited"]

    with_agent(project, work)


def test_a_resource_says_that_a_memory_cites_a_segment(project: Path) -> None:
    with closing(Segments()) as context:
        context.write("some words", segment_id="cited", type="log")
    remember("see there", "ref:cited")

    async def work(one: Agent) -> None:
        (shown,) = (await one.client.read_resource("marksweep://segments/cited")).contents
        assert "cited by memory" in str(shown)

    with_agent(project, work)


@pytest.mark.usefixtures("project")
def test_the_command_line_keeps_segments_that_memories_cite() -> None:
    context = Segments()
    context.write("some words", segment_id="cited", type="log")
    context.close()
    note = remember("see there", "ref:cited")
    run = CliRunner().invoke
    assert "cited by memory" in run(app, ["why", "cited"]).output
    forget(note)
    assert "cited by memory" not in run(app, ["why", "cited"]).output


@pytest.fixture(params=["sqlite", "falkordb"])
def shared(
    request: pytest.FixtureRequest, project: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Make a project whose memory, on either store, other processes use too."""
    if request.param == "sqlite":
        yield project
        return
    monkeypatch.setenv("MARKSWEEP_MEMORY", f"falkordb:{project / 'falkor'}")
    server = EmbeddedServer(project / "falkor")
    server.open()
    yield project
    server.close()


def elsewhere(*words: str) -> int:
    """Run the command line in a separate process; return its exit code."""
    command = Path(sys.executable).with_name("marksweep")
    return subprocess.run([command, *words], capture_output=True, check=False).returncode


@pytest.mark.usefixtures("shared")
def test_what_another_process_changes_is_seen_at_once() -> None:
    memory = KnowledgeGraph.open()
    context = Segments()
    context.write("some words", segment_id="cited", type="log")
    note = memory.add_memory("see there", tags=["ref:cited"]).memory_id
    for _ in range(3):
        assert list(memory.cited_segments()) == ["cited"]
    assert elsewhere("forget", note, "--yes") == 0
    assert memory.cited_segments() == {}
    plan = memory.history()[0].plan_id
    assert elsewhere("prune", "--restore", plan) == 0
    assert list(memory.cited_segments()) == ["cited"]
    assert elsewhere("collect", "--limit", "0", "--yes") == 1
    assert elsewhere("forget", note, "--yes") == 0
    assert elsewhere("collect", "--limit", "0", "--yes") == 0
    assert memory.cited_segments() == {}
    context.close()
    memory.close()
