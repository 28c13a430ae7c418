"""Exporting a store to a file and importing it restores the same store, on every backend."""

from __future__ import annotations

import gzip
import json
import signal
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from marksweep.errors import BadInput, NotFound, Refused, StoreCorrupt, StoreTooNew
from marksweep.model import Entry, Event
from marksweep.segments import Segments
from marksweep.stores.base import DEFAULT_WORKSPACE, Store
from marksweep.stores.memory import MemoryStore
from marksweep.stores.open import open_store
from marksweep.stores.transfer import (
    FORMAT,
    WorkspaceCounts,
    export_store,
    import_store,
    verify_store,
)
from marksweep.testing.builders import segment
from marksweep.testing.contracts.handles import stashed
from marksweep.testing.faults import FaultyStore
from tests.servers import running_redis

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
BACKENDS = ("memory", "sqlite", "json", "redis")
AROUND = (BACKENDS[-1], BACKENDS[0])
"""In this order, every backend is the source and the target of another."""

ODD = "ψ a/b:c\ud800"
"""A name that needs escaping in files, keys and JSON."""


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    with running_redis() as url:
        yield url


@pytest.fixture
def opened(tmp_path: Path, redis_url: str) -> Iterator[Callable[[str], Store]]:
    stores: list[Store] = []

    def open_one(backend: str) -> Store:
        name = f"{backend}-{len(stores)}"
        places = {
            "memory": "memory:",
            "sqlite": str(tmp_path / f"{name}.db"),
            "json": str(tmp_path / name / "context.json"),
            "redis": redis_url.removesuffix("0") + str(len(stores) + 1),
        }
        stores.append(open_store(places[backend]))
        return stores[-1]

    yield open_one
    import redis

    with redis.Redis.from_url(redis_url) as server:
        server.flushall()
    for store in stores:
        store.close()


def fill(store: Store) -> None:
    """Sweep, undo and plan in some workspaces; keep only a journal or only a stash in others."""
    for name in (DEFAULT_WORKSPACE, ODD):
        context = Segments(store, workspace=name, limit=10_000, clock=lambda: NOW)
        added = [segment(f"s{n}", text=f"words {n} \ud800 of {name}") for n in range(12)]
        context.add(*added)
        context.collect(context.plan_for(["s1", "s2"]))
        undone = context.collect(context.plan_for(["s3"]))
        context.undo(undone.plan_id)
        context.save(context.plan_for(["s4"]))
        context.collect(context.plan_for(["s5", "s3"]))
    plan = Segments(store, workspace=ODD).plan_for(["s0"])
    store.stash.put("only stashed", [stashed("x"), stashed("y")])
    plan = msgspec.structs.replace(plan, workspace="w", heap="graph")
    store.journal.append("graph:w", Entry(Event.SWEEPING, NOW, plan_id="p", plan=plan))


def items(path: Path) -> list[tuple[str, object]]:
    return list(FORMAT.items(path))


@pytest.mark.parametrize(
    ("source", "target"), [*zip(BACKENDS, BACKENDS, strict=True), *pairwise(BACKENDS), AROUND]
)
def test_what_comes_out_is_what_went_in(
    opened: Callable[[str], Store], tmp_path: Path, source: str, target: str
) -> None:
    before, after = opened(source), opened(target)
    fill(before)
    path = tmp_path / "store.jsonl.gz"
    moved = export_store(before, path, NOW)
    assert [each.workspace for each in moved] == sorted(
        [DEFAULT_WORKSPACE, "graph:w", "only stashed", ODD]
    )
    assert moved[0] == WorkspaceCounts(
        DEFAULT_WORKSPACE, segments=8, stashed=4, entries=moved[0].entries
    )
    assert import_store(after, path) == moved
    export_store(after, tmp_path / "again.jsonl.gz", NOW)
    assert items(path) == items(tmp_path / "again.jsonl.gz")
    context = Segments(after, workspace=ODD, limit=10_000)
    assert context.search_stash("words 5")[0].found.segment.segment_id == "s5"
    swept = next(each for each in context.history() if each.event is Event.SWEPT)
    assert set(context.undo(swept.plan_id)) == {"s3", "s5"}


def test_the_file_is_its_owners_alone_and_never_replaced(tmp_path: Path) -> None:
    store = MemoryStore()
    fill(store)
    path = tmp_path / "new" / "store.jsonl.gz"
    export_store(store, path, NOW)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]
    with pytest.raises(Refused, match="Name a new file"):
        export_store(store, path, NOW)


def test_some_workspaces_can_be_moved_and_unknown_ones_are_reported(tmp_path: Path) -> None:
    store, path = MemoryStore(), tmp_path / "store.jsonl.gz"
    fill(store)
    with pytest.raises(NotFound, match=r"no workspace 'nobody'; there are 'default'"):
        export_store(store, path, NOW, ["nobody"])
    assert not path.exists()
    export_store(store, path, NOW, [ODD, "graph:w"])
    other = MemoryStore()
    with pytest.raises(NotFound, match=r"has no workspace 'default'; it has 'graph:w'"):
        import_store(other, path, [DEFAULT_WORKSPACE])
    assert [each.workspace for each in import_store(other, path, ["graph:w"])] == ["graph:w"]
    assert other.all_workspaces() == ("graph:w",)


def _cut(body: bytes) -> bytes:
    return body[: len(body) // 2]


def _flip(body: bytes) -> bytes:
    lines = gzip.decompress(body).replace(b"words 7", b"words 8", 1)
    return gzip.compress(lines)


def _foreign(_: bytes) -> bytes:
    header = {"marksweep_graph": 1, "workspace_id": "w", "made_at": "2026-06-01T12:00:00Z"}
    return gzip.compress(json.dumps(header).encode() + b"\n")


def _newer(body: bytes) -> bytes:
    return gzip.compress(gzip.decompress(body).replace(b'store":1', b'store":2', 1))


def _shuffled(body: bytes) -> bytes:
    first, *rest, last = gzip.decompress(body).splitlines(keepends=True)
    return gzip.compress(b"".join([first, *reversed(rest), last]))


def _nested(body: bytes) -> bytes:
    first, second, *_ = gzip.decompress(body).splitlines(keepends=True)
    return gzip.compress(first + second + b'{"stashed":' + b"[" * 100_000 + b"\n")


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (_cut, StoreCorrupt, "not a complete backup"),
        (_flip, StoreCorrupt, "checksum does not match"),
        (_shuffled, StoreCorrupt, "out of order"),
        (_foreign, StoreCorrupt, "marksweep_graph"),
        (_newer, StoreTooNew, "format 2, this marksweep knows up to 1"),
        (_nested, StoreCorrupt, "nested too deeply"),
        (lambda _: b"", StoreCorrupt, "it is empty"),
        (lambda _: b"hello", StoreCorrupt, "not a complete backup"),
    ],
)
def test_a_file_that_is_damaged_or_foreign_changes_nothing(
    tmp_path: Path, change: Callable[[bytes], bytes], error: type[Exception], says: str
) -> None:
    store, path = MemoryStore(), tmp_path / "store.jsonl.gz"
    fill(store)
    export_store(store, path, NOW)
    path.write_bytes(change(path.read_bytes()))
    other = MemoryStore()
    with pytest.raises(error, match=says):
        import_store(other, path)
    assert other.all_workspaces() == ()
    with pytest.raises(BadInput, match="is not a file"):
        import_store(other, tmp_path)


def test_a_workspace_that_holds_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    store, path = MemoryStore(), tmp_path / "store.jsonl.gz"
    fill(store)
    export_store(store, path, NOW)
    changes: list[Callable[[Store], object]] = [
        lambda it: it.segments.write(ODD, put=[segment("mine")]),
        lambda it: it.stash.put(ODD, [stashed("mine")]),
        lambda it: it.journal.append(ODD, Entry(Event.PURGED, NOW)),
    ]
    for change in changes:
        other = MemoryStore()
        change(other)
        with pytest.raises(Refused, match="holds something else"):
            import_store(other, path)
        assert other.all_workspaces() == (ODD,)
    again = MemoryStore()
    assert import_store(again, path) == import_store(again, path)
    changes[0](again)
    with pytest.raises(Refused, match="holds something else"):
        verify_store(again, path)
    with pytest.raises(StoreCorrupt, match="not in the store"):
        verify_store(MemoryStore(), path)


class Died(Exception):
    pass


def test_an_import_that_died_at_any_write_is_finished_by_the_next(tmp_path: Path) -> None:
    store, path = MemoryStore(), tmp_path / "store.jsonl.gz"
    fill(store)
    moved = export_store(store, path, NOW)
    deaths = 0
    for after in range(1, 10_000):
        target, left = MemoryStore(), after

        def moment() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Died

        try:
            import_store(FaultyStore(target, moment), path)
        except Died:
            deaths += 1
            assert import_store(target, path) == moved
        else:
            break
    assert deaths > 40


KILLED = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from marksweep.stores import checked_lines, transfer
from marksweep.stores.open import open_store
written = checked_lines.LineWriter.add
def add(self, item):
    written(self, item)
    if self.items == 20:
        os.kill(os.getpid(), signal.SIGKILL)
checked_lines.LineWriter.add = add
transfer.export_store(open_store(sys.argv[1]), Path(sys.argv[2]), datetime.now(UTC))
"""


def test_an_export_that_is_killed_leaves_no_file_under_its_name(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store.db")
    fill(store)
    path = tmp_path / "store.jsonl.gz"
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "store.db"), str(path)], check=False
    )
    assert ran.returncode == -signal.SIGKILL
    assert not path.exists()
    assert export_store(store, path, NOW) == verify_store(store, path)
    store.close()


def test_a_large_stash_passes_through_little_memory(tmp_path: Path) -> None:
    store, other = open_store(tmp_path / "store.db"), open_store(tmp_path / "other.db")
    text = "x" * 10_000
    for start in range(0, 1_000, 100):
        store.stash.put("w", [stashed(f"s{n}", text=text) for n in range(start, start + 100)])
    tracemalloc.start()
    export_store(store, tmp_path / "store.jsonl.gz", NOW)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert import_store(other, tmp_path / "store.jsonl.gz")[0].stashed == 1_000
    store.close()
    other.close()
    assert peak < 5e6, f"{peak / 1e6:.1f} MB for a stash of 10 MB"


def test_the_command_moves_a_store_and_says_how_much(tmp_path: Path) -> None:
    from tests.cli.support import run

    source, target = str(tmp_path / "a.db"), str(tmp_path / "b" / "context.json")
    store = open_store(source)
    fill(store)
    store.close()
    path = str(tmp_path / "store.jsonl.gz")
    done = run("store", "export", path, "--store", source)
    assert done.exit_code == 0, done.output
    assert "'default': 8 segments, 4 stashed" in done.output
    assert run("store", "verify", path, "--store", target).exit_code == 4
    assert run("store", "import", path, "--store", target).exit_code == 0
    assert run("store", "verify", path, "--store", target, "--json").exit_code == 0
    assert run("store", "export", path, "--store", source).exit_code == 3
    empty = run("store", "export", str(tmp_path / "e.jsonl.gz"), "--store", "memory:", "--json")
    assert (empty.exit_code, json.loads(empty.stdout)["workspaces"]) == (1, [])
