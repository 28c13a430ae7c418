"""Where a project's memory is: the library, the command line and the server find the same one."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from marksweep import GraphMemory, Settings
from marksweep.cli.app import app
from marksweep.errors import BadInput, UnknownName
from marksweep.graph.place import ProjectPaths, place_of
from marksweep.graph.pruning import MemorySettings
from marksweep.settings import Memory, Store, load_settings
from marksweep.stores.graph.falkor import FalkorGraphStore
from marksweep.stores.graph.open import open_graph
from tests.graph.graph_contract import found, shape
from tests.graph.graphs import note
from tests.mcp.support import Agent, with_agent


@pytest.mark.parametrize(
    ("store", "memory", "graph", "backups"),
    [
        (".marksweep/store.db", "", "p/.marksweep", "p/.marksweep/backups"),
        ("/abs/project.db", "", "/abs", "/abs/backups"),
        ("folder", "", "p/folder", "p/folder/backups"),
        ("redis://host:6379/0", "", "p/.marksweep", "p/.marksweep/backups"),
        ("project.db", "elsewhere", "p/elsewhere", "p/elsewhere/backups"),
        ("project.db", "elsewhere/notes.db", "p/elsewhere/notes.db", "p/elsewhere/backups"),
        ("project.db", "falkordb://host:6379", "falkordb://host:6379", "p/backups"),
    ],
)
def test_the_graph_lies_beside_the_store_unless_the_settings_say_otherwise(
    store: str, memory: str, graph: str, backups: str
) -> None:
    settings = Settings(store=Store(location=store), memory=Memory(location=memory))
    where = place_of(settings, "p")
    assert (where.graph, where.backups) == (graph, Path(backups))


def test_a_store_that_is_a_folder_has_its_graph_inside(tmp_path: Path) -> None:
    (tmp_path / "store.d").mkdir()
    folder = str(tmp_path / "store.d")
    expected = ProjectPaths(folder, folder, tmp_path / "store.d" / "backups")
    assert place_of(Settings(store=Store(location="store.d")), tmp_path) == expected


def test_the_command_line_the_server_and_the_library_find_one_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.py").write_text("def written_by_the_command_line(): pass\n")
    run = CliRunner().invoke
    assert run(app, ["index", "."]).exit_code == 0

    async def on_the_server(one: Agent) -> None:
        found = await one.call("search_memory", query="written command line")
        assert [hit["file"] for hit in found["hits"]] == ["one.py"]
        (tmp_path / "one.py").unlink()
        (tmp_path / "two.py").write_text("def written_by_the_server(): pass\n")
        assert (await one.call("index_codebase"))["newly_stale"] == 1
        await one.call("prune_memory")

    with_agent(tmp_path, on_the_server)
    assert "two.py" in run(app, ["search", "written", "by", "the", "server"]).output

    async def in_the_library() -> str:
        memory = GraphMemory.open()
        try:
            (shown, *_) = await memory.history()
            assert shown.actor == "mcp"
            return shown.plan_id
        finally:
            await memory.close()

    plan_id = asyncio.run(in_the_library())
    applied = run(app, ["prune", "--apply", plan_id, "--workspace", "default"])
    assert "Successfully deleted 1 stale memory node" in applied.output


def test_a_store_named_on_the_command_line_brings_its_own_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "one.py").write_text("def here(): pass\n")
    run = CliRunner().invoke
    assert run(app, ["index", "code", "--store", "separate/store.db"]).exit_code == 0
    assert (tmp_path / "separate" / "graph.db").exists()
    assert run(app, ["search", "here", "--store", "separate/store.db"]).exit_code == 0
    assert run(app, ["search", "here"]).exit_code == 1


def test_a_memory_on_a_falkordb_server_is_named_by_its_url(falkor_url: str, tmp_path: Path) -> None:
    where = falkor_url.replace("redis://", "falkordb://")

    async def body() -> None:
        settings = load_settings(tmp_path, environment={"MARKSWEEP_MEMORY": where})
        memory = GraphMemory.open(tmp_path, settings=settings)
        assert isinstance(memory.graph, FalkorGraphStore)
        kept = await memory.add_memory("sent over the wire", workspace_id="by-url")
        answer = await memory.search_memory("wire", workspace_id="by-url")
        assert [hit.memory.memory_id for hit in answer.hits] == [kept.memory_id]
        await memory.close()

    asyncio.run(body())


def test_a_graph_is_opened_by_one_string(tmp_path: Path) -> None:
    for where in (str(tmp_path / "folder"), f"falkordb:{tmp_path / 'falkor'}"):
        graph = open_graph(where)
        graph.put("w", [note("w", "one string")])
        graph.close()
        graph = open_graph(where)
        assert shape(graph, "w") == (1, 1, 0, 0, 0)
        assert found(graph, "w", "string") == ["one string"]
        graph.close()
    assert (tmp_path / "folder" / "graph.db").exists()


@pytest.mark.parametrize("where", ["neo4j://host", "falkordb:", "falkordb://"])
def test_an_unknown_graph_is_refused_with_the_known_ones(where: str) -> None:
    with pytest.raises(UnknownName, match="known are a folder"):
        open_graph(where)


def test_an_empty_location_is_refused() -> None:
    with pytest.raises(BadInput, match="cannot hold a graph"):
        open_graph("")


def test_the_settings_say_how_long_memories_live() -> None:
    said = Memory(grace_days=3, cap_percent=5, recently_read_hours=2, life_days={"chat": 30})
    settings = MemorySettings.of(Settings(memory=said))
    assert settings.limits.grace == timedelta(days=3)
    assert settings.limits.cap_percent == 5
    assert settings.recently_read == timedelta(hours=2)
    assert settings.ttl == {"chat": timedelta(days=30)}
    assert MemorySettings.of(Settings()) == MemorySettings()
