from __future__ import annotations

from pathlib import Path

import pytest

from marksweep.errors import StoreError
from marksweep.model import Entry, Event
from marksweep.stores.base import DEFAULT_WORKSPACE, Store
from marksweep.stores.json_file import JsonStore
from marksweep.stores.memory import MemoryStore
from marksweep.stores.salvage import salvage
from marksweep.stores.sqlite import SqliteStore
from marksweep.testing.contracts.handles import NOON, segment, stashed
from marksweep.testing.contracts.segments import FULL


def fill(store: Store, count: int = 20) -> None:
    for workspace in (DEFAULT_WORKSPACE, "other/ws"):
        live = [segment(f"s{n}", f"text {n} {{}} []", position=n) for n in range(count)]
        store.segments.write(workspace, put=[FULL, *live])
        store.stash.put(workspace, [stashed(f"t{n}", text="x" * n) for n in range(count)])
        for _ in range(3):
            store.journal.append(workspace, Entry(Event.SWEPT, NOON))
    store.close()


def test_a_sound_json_store_is_read_whole(tmp_path: Path) -> None:
    fill(JsonStore(tmp_path / "context.json"))
    found = salvage(tmp_path / "context.json")
    assert found.skipped == ()
    assert [rescued.workspace for rescued in found.workspaces] == [DEFAULT_WORKSPACE, "other/ws"]
    for rescued in found.workspaces:
        assert len(rescued.segments) == 21
        assert FULL in rescued.segments
        assert len(rescued.stashed) == 20
        assert [entry.seq for entry in rescued.entries] == [1, 2, 3]
    assert salvage(tmp_path) == found


def test_every_segment_before_a_cut_is_rescued_and_the_cut_is_named(tmp_path: Path) -> None:
    path = tmp_path / "context.json"
    fill(JsonStore(path))
    whole = path.read_text()
    for end in range(len(whole) // 4, len(whole) - 5, len(whole) // 23):
        path.write_text(whole[:end])
        before = {file: file.read_bytes() for file in tmp_path.iterdir()}
        found = salvage(path)
        complete = whole[:end].count("\n    }")
        assert len(found.workspaces[0].segments) == complete
        if not whole[:end].rstrip(", \n").endswith("}"):
            (skipped,) = found.skipped
            line = whole[:end].count("\n") + 1
            assert skipped.place.startswith(f"{path}, line {line}, column ")
        assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_damage_in_the_middle_costs_only_what_it_hit(tmp_path: Path) -> None:
    path = tmp_path / "context.json"
    fill(JsonStore(path))
    whole = path.read_text()
    at = whole.index('"text 7')
    path.write_text(whole[:at] + "#####" + whole[at + 5 :])
    found = salvage(path)
    ids = {each.segment_id for each in found.workspaces[0].segments}
    assert ids == {"full", *(f"s{n}" for n in range(20) if n != 7)}
    (skipped,) = found.skipped
    line = whole[:at].count("\n") + 1
    assert skipped.place == f"{path}, line {line}, column {at - whole.rindex(chr(10), 0, at)}"


def test_a_segment_of_the_wrong_shape_and_one_twice_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "context.json"
    good = '{"segment_id": "a", "type": "x", "created_at": "2025-06-01T12:00:00Z"}'
    path.write_text('{"segments": [' + ", ".join([good, '{"segment_id": 7}', good]) + "]}")
    found = salvage(path)
    assert [each.segment_id for each in found.workspaces[0].segments] == ["a"]
    assert len(found.skipped) == 2
    assert "occurs twice" in found.skipped[1].reason


def test_values_that_python_does_not_read_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "context.json"
    good = '{"segment_id": "a", "type": "x", "created_at": "2025-06-01T12:00:00Z"}'
    deep = f'{{"segment_id": "b", "type": {"[" * 100_000}{"]" * 100_000}}}'
    long = f'{{"segment_id": "c", "position": {"9" * 5_000}}}'
    path.write_text(f'{{"segments": [{deep}, {long}, {good}]}}')
    found = salvage(path)
    assert [each.segment_id for each in found.workspaces[0].segments] == ["a"]
    assert {each.place for each in found.skipped} >= {
        f"{path}, line 1, column {1 + path.read_text().index(each)}" for each in (deep, long)
    }


def test_torn_and_damaged_journal_lines_are_named(tmp_path: Path) -> None:
    path = tmp_path / "context.json"
    fill(JsonStore(path))
    journal = tmp_path / "context.journal.jsonl"
    lines = journal.read_bytes().split(b"\n")
    journal.write_bytes(b"\n".join([lines[0], b"{oops", lines[2], b'{"event": "sw']))
    found = salvage(path)
    assert [entry.seq for entry in found.workspaces[0].entries] == [1, 3]
    assert [skipped.place for skipped in found.skipped] == [
        f"{journal}, line 2",
        f"{journal}, line 4",
    ]


def test_a_list_without_its_header_is_searched_for_segments(tmp_path: Path) -> None:
    path = tmp_path / "context.json"
    fill(JsonStore(path))
    text = path.read_text()
    path.write_text(text[text.index('"segment_id": "s3"') :])
    found = salvage(path)
    ids = [each.segment_id for each in found.workspaces[0].segments]
    assert ids == [f"s{n}" for n in range(4, 20)]
    assert "looking everywhere" in found.skipped[0].reason


def test_what_was_rescued_can_be_put_into_a_fresh_store(tmp_path: Path) -> None:
    fill(JsonStore(tmp_path / "context.json"))
    fresh = MemoryStore()
    salvage(tmp_path / "context.json").copy_to(fresh)
    assert len(fresh.segments.changes("other/ws").put) == 21
    assert fresh.stash.count(DEFAULT_WORKSPACE) == 20
    assert len(fresh.journal.read(DEFAULT_WORKSPACE)) == 3


def test_a_sound_database_is_read_whole(tmp_path: Path) -> None:
    fill(SqliteStore(tmp_path / "store.db"))
    found = salvage(tmp_path / "store.db")
    assert found.skipped == ()
    assert [rescued.workspace for rescued in found.workspaces] == [DEFAULT_WORKSPACE, "other/ws"]
    for rescued in found.workspaces:
        assert len(rescued.segments) == 21
        assert len(rescued.stashed) == 20
        assert [entry.seq for entry in rescued.entries] == [1, 2, 3]


def test_a_damaged_database_yields_the_rows_around_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    live = [segment(f"s{n}", f"needle-{n} " + "x" * 900) for n in range(200)]
    store.segments.write("w", put=live)
    store.close()
    content = bytearray(path.read_bytes())
    page = content.index(b"needle-100 x", content.index(b'"text":"needle-100 ')) // 4096
    content[page * 4096 : (page + 1) * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    found = salvage(path)
    ids = {each.segment_id for each in found.workspaces[0].segments}
    assert {"s0", "s50", "s150", "s199"} <= ids
    assert "s100" not in ids
    assert ids <= {each.segment_id for each in live}
    assert all(str(path) in skipped.place for skipped in found.skipped)
    assert found.skipped
    assert bytes(content) == path.read_bytes()


def test_a_file_that_is_not_a_database_yields_nothing_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("dear diary " * 50)
    found = salvage(path)
    assert found.workspaces == ()
    assert "not a database" in found.skipped[0].reason


def test_where_there_is_no_store_an_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such store"):
        salvage(tmp_path / "nothing.json")
    with pytest.raises(StoreError, match="no such store"):
        salvage(tmp_path)
