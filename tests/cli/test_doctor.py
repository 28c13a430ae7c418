"""Doctor finds what is wrong with a store and repairs it without losing anything."""

from __future__ import annotations

import json
import sqlite3
import stat
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from marksweep import Segments
from marksweep.errors import StoreError
from marksweep.model import Entry, Event
from marksweep.stores import health
from marksweep.stores.graph.base import GraphQuery
from marksweep.stores.graph.sqlite import SqliteGraphStore
from marksweep.stores.json_file import JsonStore
from marksweep.stores.open import open_store
from marksweep.stores.sqlite import SqliteStore
from tests.cli.support import fill, run
from tests.graph.graphs import note
from tests.servers import running_redis


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def checks(*options: str) -> dict[str, dict[str, Any]]:
    """Run the checks; return the findings by name. The exit code must agree."""
    done = run("doctor", "--json", *options)
    found = {each["what"].partition(" ")[0]: each for each in json.loads(done.stdout)}
    assert done.exit_code == (0 if all(each["ok"] for each in found.values()) else 1)
    return found


def kept(path: Path) -> dict[str, bytes]:
    """Return the copy that was kept of a store before its repair."""
    (folder,) = path.parent.glob(f"{path.name}.before-*")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def ids(where: str) -> set[str]:
    context = Segments(where)
    found = {segment.segment_id for segment in context.list()}
    context.close()
    return found


@pytest.mark.parametrize("name", ["set.db", "set.json"])
def test_a_sound_store_is_left_alone(tmp_path: Path, name: str) -> None:
    fill(tmp_path / name)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    assert "10 live" in checks("--store", name)["store"]["found"]
    assert run("doctor", "--store", name, "--repair").exit_code == 0
    assert {file: file.read_bytes() for file in before} == before
    assert not list(tmp_path.glob("*.before-*"))


def test_versions_settings_and_the_counter_are_reported() -> None:
    found = checks()
    assert found["marksweep"]["ok"]
    assert "o200k_base" in found["tokens"]["found"]
    assert "not there yet" in found["store"]["found"]


def test_settings_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    (tmp_path / ".marksweep").mkdir()
    (tmp_path / ".marksweep/settings.toml").write_text("[window]\nlimit = 3\n")
    found = checks()
    assert not found["settings"]["ok"]
    assert "limit" in found["settings"]["found"]


@pytest.mark.parametrize("name", ["set.db", "set.json"])
def test_files_that_others_may_read_are_made_private(tmp_path: Path, name: str) -> None:
    fill(tmp_path / name)
    (tmp_path / name).chmod(0o644)
    assert checks("--store", name)["permissions"]["mend"]
    (tmp_path / name).chmod(0o644)
    repaired = checks("--store", name, "--repair", "--yes")
    assert repaired["permissions"]["found"] == "repaired: readable by you only"
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert checks("--store", name)["permissions"]["ok"]


def test_a_truncated_json_store_is_rebuilt(tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    fill(path)
    whole = path.read_bytes()
    cut = whole[: whole.index(b'"s7"')]
    path.write_bytes(cut)
    assert not checks("--store", "set.json")["store"]["ok"]
    repaired = checks("--store", "set.json", "--repair", "--yes")
    assert repaired["store"]["found"].startswith("repaired: 7 segments rebuilt; could not be read")
    assert ids("set.json") == {f"s{n}" for n in range(7)}
    assert kept(path)["set.json"] == cut


def test_a_damaged_database_is_rebuilt(tmp_path: Path) -> None:
    path = tmp_path / "set.db"
    context = Segments(path, limit=10**9)
    for n in range(200):
        context.write(f"needle-{n} " + "x" * 900, segment_id=f"s{n}")
    context.close()
    content = bytearray(path.read_bytes())
    page = content.index(b'"text":"needle-100 ') // 4096
    content[page * 4096 : (page + 1) * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    assert not checks("--store", "set.db")["store"]["ok"]
    assert "repaired" in checks("--store", "set.db", "--repair", "--yes")["store"]["found"]
    assert {"s0", "s50", "s150", "s199"} <= ids("set.db")
    assert kept(path)["set.db"] == bytes(content)
    assert health.damage(path) == ""


def test_a_file_that_is_not_a_store_is_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "bad.db"
    path.write_bytes(b"this is not a database, but long enough to be one")
    before = path.read_bytes()
    assert not checks("--store", "bad.db", "--repair", "--yes")["store"]["ok"]
    assert path.read_bytes() == before
    with pytest.raises(StoreError, match="nothing in it can be read"):
        health.rebuild(path)


def test_an_interrupted_sweep_is_finished(tmp_path: Path) -> None:
    fill(tmp_path / "set.db")
    store = open_store("set.db")
    store.journal.append("default", Entry(Event.SWEEPING, datetime.now(UTC), "plan-x"))
    store.close()
    assert checks("--store", "set.db")["sweeps"]["found"] == "cut off in default"
    assert (
        checks("--store", "set.db", "--repair", "--yes")["sweeps"]["found"] == "repaired: default"
    )
    entries = json.loads(run("journal", "--store", "set.db", "--json").output)
    assert entries[0]["event"] == "rolled back"
    assert ids("set.db") == {f"s{n}" for n in range(10)}


def test_an_interrupted_sweep_of_the_last_segments_is_found(tmp_path: Path) -> None:
    context = fill(tmp_path / "set.db", keep=True)
    report = context.collect(context.plan_for([f"s{n}" for n in range(10)]))
    assert len(report.swept) == 10
    context.store.journal.append("default", Entry(Event.RESTORING, datetime.now(UTC), "plan-x"))
    context.close()
    found = checks("--store", "set.db")
    assert "1 workspace, 0 live, 10 in the stash" in found["store"]["found"]
    assert found["sweeps"]["found"] == "cut off in default"


@pytest.mark.parametrize("where", ["folder", "json:folder", "sqlite:///folder/set.db"])
def test_a_store_is_checked_and_repaired_however_it_is_named(tmp_path: Path, where: str) -> None:
    context = Segments(where, limit=10_000)
    context.write("something", segment_id="s1")
    context.close()
    [file] = [path for path in (tmp_path / "folder").iterdir() if path.suffix in {".db", ".json"}]
    file.chmod(0o644)
    assert not checks("--store", where)["permissions"]["ok"]
    assert (
        "readable by you" in checks("--store", where, "--repair", "--yes")["permissions"]["found"]
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_bytes(b"{" if file.suffix == ".json" else b"SQLite format 3\0" + b"\xff" * 5_000)
    assert not checks("--store", where)["store"]["ok"]
    assert checks("--store", where)["store"].get("mend") == "rebuild it from what can be read"


def test_a_memory_beside_a_store_may_not_be_read_by_others(tmp_path: Path) -> None:
    fill(tmp_path / "set.db")
    SqliteGraphStore(tmp_path / "graph.db").close()
    (tmp_path / "graph.db").chmod(0o644)
    assert "graph.db" in checks("--store", "set.db")["permissions"]["found"]


@pytest.mark.parametrize("where", ["store.txt", "redes://host"])
def test_a_location_that_is_none_is_reported(where: str) -> None:
    assert "known are" in checks("--store", where)["store"]["found"]


def test_what_a_killed_process_left_behind_is_removed_and_kept(tmp_path: Path) -> None:
    fill(tmp_path / "set.json")
    draft = tmp_path / ".set.json.0123.draft"
    draft.write_bytes(b"half of")
    assert not checks("--store", "set.json")["leftovers"]["ok"]
    assert "removed" in checks("--store", "set.json", "--repair", "--yes")["leftovers"]["found"]
    assert not draft.exists()
    assert kept(tmp_path / "set.json")[".set.json.0123.draft"] == b"half of"


def remember(path: Path, number: int = 40) -> None:
    """Write a graph of notes, each with a unique word and one that all share."""

    graph = SqliteGraphStore(path)
    texts = [f"needle{n} haystack " + "x" * 900 for n in range(number)]
    graph.put("default", [note("default", text, mentions=["hay"]) for text in texts])
    graph.close()


def found_by(path: Path, words: str) -> list[str]:
    """Search a graph; return the first word of each text that was found."""
    graph = SqliteGraphStore(path)
    hits = graph.search("default", GraphQuery(words=words, limit=100))
    graph.close()
    return [hit.chunk.text.partition(" ")[0] for hit in hits]


def overwrite_a_page(path: Path) -> bytes:
    """Damage a graph in the middle of its notes; return what the file holds then."""
    content = bytearray(path.read_bytes())
    page = content.rindex(b"needle20 haystack") // 4096
    content[page * 4096 : (page + 1) * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    return bytes(content)


def remembering(project: Path) -> Path:
    """Make a project with a store and a memory of forty notes; return the memory's file."""
    folder = project / ".marksweep"
    folder.mkdir(mode=0o700)
    fill(folder / "store.db")
    remember(folder / "graph.db")
    return folder / "graph.db"


def test_a_damaged_memory_is_rebuilt_from_what_can_be_read(tmp_path: Path) -> None:
    path = remembering(tmp_path)
    assert checks()["memory"]["found"] == "sound"
    content = overwrite_a_page(path)
    found = checks()["memory"]
    assert not found["ok"]
    assert found["mend"]

    repaired = checks("--repair", "--yes")["memory"]

    assert repaired["ok"]
    assert "could not be read" in repaired["found"]
    assert kept(path)["graph.db"] == content
    assert checks()["memory"]["found"] == "sound"
    left = found_by(path, "haystack")
    assert {"needle0", "needle39"} <= set(left)
    assert 30 <= len(left) < 40
    assert found_by(path, "needle0") == ["needle0"]


@pytest.mark.parametrize(
    ("table", "damage"),
    [
        ("memory", "UPDATE memory SET tags = '[oops' WHERE key IN (1, 40)"),
        ("chunk_text", "UPDATE chunk_text SET text = CAST(x'ff' || text AS TEXT) WHERE key < 9"),
    ],
)
def test_rows_of_a_memory_that_cannot_be_read_are_found_and_repaired(
    tmp_path: Path, table: str, damage: str
) -> None:
    path = remembering(tmp_path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(damage)
    failed = run("recall", "needle0")
    assert failed.exit_code == 4
    assert "doctor --repair" in failed.output.replace("\n", " ")
    found = checks()["memory"]
    assert not found["ok"]
    assert table in found["found"]
    assert "40 memories, 40 chunks" in checks("--repair", "--yes")["memory"]["found"]
    assert checks()["memory"]["found"] == "sound"
    assert run("recall", "needle0").exit_code == 0


def test_a_memory_whose_layout_is_garbled_is_reported_without_a_traceback(tmp_path: Path) -> None:
    path = remembering(tmp_path)
    garbled = path.read_bytes().replace(b"CREATE INDEX", b"CREATE\x91INDEX", 1)
    path.write_bytes(garbled)
    assert run("recall", "needle0").exit_code == 4
    assert not checks()["memory"]["ok"]
    assert not checks("--repair", "--yes")["memory"]["ok"]


def test_a_folder_in_place_of_the_memory_is_reported(tmp_path: Path) -> None:
    fill(tmp_path / ".marksweep" / "store.db")
    (tmp_path / ".marksweep" / "graph.db").mkdir()
    found = checks()["memory"]
    assert not found["ok"]
    assert found["found"].startswith("a folder; expected a file")


def test_a_memory_without_content_is_sound(tmp_path: Path) -> None:
    folder = tmp_path / ".marksweep"
    folder.mkdir(mode=0o700)
    fill(folder / "store.db")
    (folder / "graph.db").touch(0o600)
    assert checks()["memory"]["found"] == "sound"


def test_a_rebuild_of_the_memory_that_was_killed_is_begun_again(tmp_path: Path) -> None:
    path = remembering(tmp_path)
    (path.parent / "graph.db.rebuilt").write_bytes(path.read_bytes())
    overwrite_a_page(path)
    assert "graph.db.rebuilt" in checks()["leftovers"]["found"]
    assert checks("--repair", "--yes")["memory"]["ok"]
    assert not list(path.parent.glob("*.rebuilt*"))
    assert checks()["memory"]["found"] == "sound"


def test_an_unreadable_memory_is_left_unchanged(tmp_path: Path) -> None:
    folder = tmp_path / ".marksweep"
    folder.mkdir(mode=0o700)
    fill(folder / "store.db")
    path = folder / "graph.db"
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5_000)
    before = path.read_bytes()
    found = checks("--repair", "--yes")["memory"]
    assert not found["ok"]
    assert "index again" in found["found"].replace("\n", " ")
    assert path.read_bytes() == before
    assert not list(folder.glob("*.rebuilt*"))


def test_a_damaged_store_does_not_hide_a_damaged_memory(tmp_path: Path) -> None:
    for name in ("store.db", "graph.db"):
        path = tmp_path / ".marksweep" / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5_000)
    found = checks()
    assert not found["store"]["ok"]
    assert not found["memory"]["ok"]


def test_repairing_without_a_terminal_needs_yes(tmp_path: Path) -> None:
    fill(tmp_path / "set.json")
    left = tmp_path / ".set.json.0123.draft"
    left.write_bytes(b"half of")
    assert run("doctor", "--store", "set.json", "--repair").exit_code == 3
    assert run("doctor", "--store", "set.json", "--mend").exit_code == 3
    assert left.exists()


def test_an_unreachable_falkordb_is_reported() -> None:
    found = checks("--falkordb", "redis://127.0.0.1:1")["FalkorDB"]
    assert not found["ok"]
    assert "127.0.0.1:1" in found["found"]


@pytest.mark.parametrize(
    ("options", "words", "ok"),
    [
        (("--appendonly", "no"), "Set appendonly yes", False),
        (("--appendonly", "yes"), "can lose seconds", True),
        (("--appendonly", "yes", "--appendfsync", "always"), "survives a kill", True),
    ],
)
def test_what_a_server_keeps_when_it_is_killed_is_reported(
    options: tuple[str, ...], words: str, ok: bool
) -> None:
    with running_redis(*options) as url:
        found = checks("--store", url)["durability"]
    assert (words in found["found"], found["ok"]) == (True, ok)


@pytest.mark.parametrize("kind", [SqliteStore, JsonStore])
def test_all_workspaces_and_their_journals_survive_a_rebuild(
    tmp_path: Path, kind: type[SqliteStore | JsonStore]
) -> None:
    path = tmp_path / ("set.db" if kind is SqliteStore else "set.json")
    for workspace in ("default", "other"):
        context = Segments(path, workspace=workspace)
        context.write("something", segment_id=f"in-{workspace}")
        context.collect(context.plan(target_tokens=0))
        context.close()
    health.rebuild(path)
    for workspace in ("default", "other"):
        context = Segments(path, workspace=workspace)
        assert context.search_stash()[0].found.segment.segment_id == f"in-{workspace}"
        assert [entry.event for entry in context.history()][:1] == [Event.SWEPT]
        context.close()
