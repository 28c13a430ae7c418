"""What was forgotten everywhere is in none of our files, even while a second process is open."""

from __future__ import annotations

import gzip
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from marksweep import KnowledgeGraph, Segments, Settings
from marksweep.model import utc_now
from marksweep.settings import Memory, Store
from marksweep.stores.files import exposed

TELLTALE = "Xylophagous"
NEIGHBOUR = """
import sys
from marksweep import KnowledgeGraph, Settings
from marksweep.settings import Memory, Store
project, store, graph = sys.argv[1:]
settings = Settings(store=Store(location=store), memory=Memory(location=graph))
memory = KnowledgeGraph.open(project, settings=settings)
assert memory.search_memory("xylophagous").hits
print("ready", flush=True)
sys.stdin.readline()
memory.close()
"""


@pytest.fixture(params=["sqlite", "falkordb"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    folder = tmp_path / ".marksweep"
    where = str(folder) if request.param == "sqlite" else f"falkordb:{folder / 'falkor'}"
    return Settings(store=Store(location=str(folder / "store.db")), memory=Memory(location=where))


@contextmanager
def neighbour(folder: Path, settings: Settings) -> Iterator[None]:
    """Start a second process that has read the memory and keeps it open."""
    where = (str(folder), settings.store.location, settings.memory.location)
    process = subprocess.Popen(
        [sys.executable, "-c", NEIGHBOUR, *where],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        yield
    finally:
        process.communicate("\n", timeout=60)


def files_with_secret(folder: Path) -> list[str]:
    """Return the files that hold the secret, in any case, compressed or not."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_socket():
            content = path.read_bytes()
            if path.suffix == ".gz":
                content = gzip.decompress(content)
            if TELLTALE.lower().encode() in content.lower():
                found.append(path.name)
    return found


def test_no_file_holds_what_was_forgotten_everywhere(tmp_path: Path, settings: Settings) -> None:
    memory = KnowledgeGraph.open(tmp_path, settings=settings)
    note = memory.add_memory(f"{TELLTALE} beetles eat wood")
    memory.add_memory("Ada stays")
    memory.export_backup()
    memory.forget([note.memory_id])
    memory.undo(memory.history()[0].plan_id)
    context = Segments(memory.store)
    context.write(f"about {TELLTALE}", segment_id="s", type="log", references=[note.memory_id])
    context.collect(context.plan_for(["s"]))
    assert files_with_secret(tmp_path) != []
    with neighbour(tmp_path, settings):
        done = memory.forget([note.memory_id], everywhere=True)
        assert done.gone.memories == (note.memory_id,)
        assert not any("while another process reads" in each for each in done.unreached)
        assert files_with_secret(tmp_path) == []
    assert [hit.memory.text for hit in memory.search_memory("ada").hits] == ["Ada stays"]
    memory.close()
    assert files_with_secret(tmp_path) == []
    assert exposed(tmp_path / ".marksweep") == ()


def test_backups_lose_the_earlier_memories_of_a_text_too(
    tmp_path: Path, settings: Settings
) -> None:
    memory = KnowledgeGraph.open(tmp_path, settings=settings)
    first = memory.add_memory(f"{TELLTALE} beetles eat wood")
    other = memory.add_memory("Nothing eats wood", replaces=[first.memory_id])
    again = memory.add_memory(first.text, replaces=[other.memory_id])
    memory.forget([first.memory_id])
    memory.now = lambda: utc_now() + timedelta(days=100)
    memory.purge()
    memory.forget([again.memory_id], everywhere=True)
    memory.close()
    assert files_with_secret(tmp_path) == []


def test_an_interrupted_erasure_is_finished_by_the_next_one(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = KnowledgeGraph.open(tmp_path, settings=settings)
    first = memory.add_memory(f"{TELLTALE} beetles eat wood")
    other = memory.add_memory("Nothing eats wood", replaces=[first.memory_id])
    again = memory.add_memory(first.text, replaces=[other.memory_id])
    memory.export_backup()

    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("marksweep.graph.erasure.erase_from_backup", interrupt)
        with pytest.raises(KeyboardInterrupt):
            memory.forget([again.memory_id], everywhere=True)
    memory.forget([again.memory_id], everywhere=True)
    memory.close()
    assert files_with_secret(tmp_path) == []


def test_a_note_with_what_no_store_can_hold_is_erased_for_every_time_it_was_valid(
    tmp_path: Path, settings: Settings
) -> None:
    memory = KnowledgeGraph.open(tmp_path, settings=settings)
    text = f"{TELLTALE} beetles\0eat\ud800 wood"
    first = memory.add_memory(text)
    other = memory.add_memory("Nothing eats wood", replaces=[first.memory_id])
    again = memory.add_memory(text, replaces=[other.memory_id])
    memory.forget([again.memory_id], everywhere=True)
    memory.close()
    assert files_with_secret(tmp_path) == []


def test_what_a_reader_keeps_goes_when_the_graph_is_opened_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marksweep.stores.graph.sqlite.connection.BUSY_SECONDS", 0.1)
    settings = Settings(store=Store(location=str(tmp_path / "store.db")))
    memory = KnowledgeGraph.open(tmp_path, settings=settings)
    note = memory.add_memory(f"{TELLTALE} beetles eat wood")
    with closing(sqlite3.connect(tmp_path / "graph.db")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM memory").fetchone()
        done = memory.forget([note.memory_id], everywhere=True)
        assert any("it is erased when the store is next opened" in each for each in done.unreached)
        assert files_with_secret(tmp_path) != []
        memory.close()
    KnowledgeGraph.open(tmp_path, settings=settings).close()
    assert files_with_secret(tmp_path) == []
