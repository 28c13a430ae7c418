from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import pytest

from marksweep.errors import MarksweepError, StoreCorrupt
from marksweep.graph.background import COLLECT, Collected, collect_once, collect_regularly
from marksweep.graph.pruning import MemorySettings
from marksweep.heaps.graph import Limits
from marksweep.model import Event
from marksweep.stores.leases import hold
from tests.graph.graphs import file
from tests.graph.memories import World, sqlite_graphs


def with_stale(world: World, workspace_id: str = "w") -> str:
    record = file(workspace_id, "a.py", {"a": []})
    world.graph.put(workspace_id, [record, file(workspace_id, "b.py", {"b": []})])
    world.graph.mark_stale(workspace_id, [record.memory.memory_id])
    return record.memory.memory_id


def test_a_background_collection_deletes_and_later_purges(tmp_path: Path) -> None:
    with sqlite_graphs(tmp_path / "graph.db")() as graph:
        world = World(graph, tmp_path / "backups")
        gone = with_stale(world)
        first = collect_once(world.memory, "w")
        assert first.swept is not None
        assert first.swept.deleted.memories == (gone,)
        world.clock.wait(days=8)
        second = collect_once(world.memory, "w")
        assert second.purged.gone.memories == (gone,)
        events = [entry.event for entry in world.memory.history(workspace_id="w")]
        assert events[0] is Event.PURGED


def test_two_collections_of_one_workspace_do_not_overlap(tmp_path: Path) -> None:
    with sqlite_graphs(tmp_path / "graph.db")() as graph:
        world = World(graph, tmp_path / "backups")
        with_stale(world)
        with hold(graph, "w", COLLECT):
            done = collect_once(world.memory, "w")
        assert done.swept is None
        assert "held for collect" in done.skipped


def test_a_background_collection_keeps_to_the_cap(tmp_path: Path) -> None:
    with sqlite_graphs(tmp_path / "graph.db")() as graph:
        world = World(graph, tmp_path / "backups")
        with_stale(world)
        limits = Limits(cap_percent=1, cap_floor=1)
        done = collect_once(world.with_settings(MemorySettings(limits=limits)), "w")
        assert "more than the 1 nodes that one plan may take" in done.skipped
        assert graph.counts("w").deleted == 0


class Impatient(threading.Event):
    """A stop event that does not wait, but records for how long it should; it is set at the end."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.rounds = rounds
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        return len(self.waits) >= self.rounds


def test_the_interval_varies_by_a_tenth_so_that_processes_do_not_stay_in_step(
    tmp_path: Path,
) -> None:
    stop = Impatient(rounds=30)
    with sqlite_graphs(tmp_path / "graph.db")() as graph:
        memory = World(graph, tmp_path / "backups").memory
        collect_regularly(memory, stop, every=timedelta(hours=1), seed=7)
    waits = stop.waits
    assert len(set(waits)) == 30
    assert all(3240 <= seconds <= 3960 for seconds in waits)
    assert max(waits) - min(waits) > 360


def test_collections_run_at_intervals_until_stopped(tmp_path: Path) -> None:
    with sqlite_graphs(tmp_path / "graph.db")() as graph:
        world = World(graph, tmp_path / "backups")
        with_stale(world, "one")
        with_stale(world, "two")
        stop = threading.Event()
        reported: list[Collected | MarksweepError] = []

        def listen(done: Collected | MarksweepError) -> None:
            reported.append(done)
            if len(reported) == 4:
                stop.set()

        collect_regularly(
            world.memory, stop, every=timedelta(milliseconds=20), seed=1, report=listen
        )
        names = [done.workspace_id for done in reported if isinstance(done, Collected)]
        assert names == ["one", "two", "one", "two"]
        took = [done.swept is not None for done in reported if isinstance(done, Collected)]
        assert took == [True, True, False, False]


def test_a_workspace_that_fails_does_not_keep_others_from_being_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite_graphs(tmp_path / "graph.db")() as graph:
        world = World(graph, tmp_path / "backups")
        with_stale(world, "one")
        with_stale(world, "two")
        recover = world.memory.recover

        def failing(*, workspace_id: str) -> None:
            if workspace_id == "one":
                raise StoreCorrupt("a row of one cannot be read")
            recover(workspace_id=workspace_id)

        monkeypatch.setattr(world.memory, "recover", failing)
        reported: list[Collected | MarksweepError] = []
        collect_regularly(world.memory, Impatient(rounds=2), report=reported.append)
        failed, done = reported
        assert isinstance(failed, StoreCorrupt)
        assert isinstance(done, Collected)
        assert done.workspace_id == "two"
        assert done.swept is not None


def test_capped_collections_continue_until_all_is_gone_and_say_what_is_left(tmp_path: Path) -> None:
    with sqlite_graphs(tmp_path / "graph.db")() as graph:
        world = World(graph, tmp_path / "backups")
        records = [file("w", f"{n}.py", {f"f{n}": []}) for n in range(6)]
        graph.put("w", [*records, file("w", "live.py", {"g": []})])
        graph.mark_stale("w", [record.memory.memory_id for record in records])
        memory = world.with_settings(MemorySettings(limits=Limits(cap_percent=1, cap_floor=5)))
        stop = threading.Event()
        taken: list[int] = []
        left: list[str] = []

        def listen(done: Collected | MarksweepError) -> None:
            assert isinstance(done, Collected)
            if done.swept is None:
                stop.set()
                return
            taken.append(len(done.swept.deleted))
            left.append(done.skipped)

        collect_regularly(memory, stop, every=timedelta(milliseconds=1), jitter=0.0, report=listen)
        assert sum(taken) == graph.counts("w").deleted >= 12
        assert all(0 < nodes <= 5 for nodes in taken)
        assert len(taken) >= 3
        assert all("the next one goes on" in said for said in left[:-1])
        assert left[-1] == ""
        assert graph.counts("w").stale == 0
