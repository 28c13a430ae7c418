"""Kills the pruner, or its server, again and again, and checks what is left.

    python -m tests.graph.kills sqlite|falkor|server DIRECTORY KILLS

A child prunes, restores and purges in a loop until it is killed at a random moment. Then another
child checks: every live memory is whole, no chunk lost its memory, and the next run completes.
With `server` the child keeps running and the server is killed and restarted; the child has to
reconnect and continue.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

from marksweep.graph.memory import KnowledgeGraph
from marksweep.graph.pruning import MemorySettings
from marksweep.heaps.graph import Limits
from marksweep.stores.graph.base import GraphStore
from marksweep.stores.graph.falkor import FalkorGraphStore
from marksweep.stores.graph.falkor.server import EmbeddedServer
from marksweep.stores.graph.nouns import Chunk, Memory, Mention, Record
from marksweep.stores.graph.sqlite import SqliteGraphStore
from marksweep.stores.sqlite import SqliteStore
from tests.graph.graph_contract import everything
from tests.graph.graphs import file, later, note
from tests.graph.memories import Clock
from tests.graph.servers import free_port, often_rewritten, start

LIVE: list[Record] = [
    *(file("w", f"live{n}.py", {f"live{n}": ["shared"]}) for n in range(20)),
    *(note("w", f"note {n}", mentions=("Ada",)) for n in range(10)),
]
SETTINGS = MemorySettings(limits=Limits(cap_percent=100, wait_seconds=30))


def dead(round_: int) -> list[Record]:
    return [file("w", f"dead{n}.py", {f"dead{n}": ["shared", f"d{round_}"]}) for n in range(15)]


class Place:
    """Where the stores of one run are."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self.directory = directory
        self.port = free_port()

    def open(self) -> tuple[KnowledgeGraph, Clock]:
        graph: GraphStore
        if self.kind == "sqlite":
            graph = SqliteGraphStore(self.directory / "graph.db")
        elif self.kind == "server":
            graph = FalkorGraphStore(f"redis://127.0.0.1:{self.port}")
        else:
            graph = FalkorGraphStore.embedded(self.directory / "falkor")
        clock = Clock()
        memory = KnowledgeGraph(
            graph,
            SqliteStore(self.directory / "journal.db"),
            backups=self.directory / "backups",
            settings=SETTINGS,
            clock=clock,
        )
        return memory, clock


def set_up(place: Place) -> None:
    memory, _ = place.open()
    memory.graph.put("w", LIVE)
    memory.close()


def prune_forever(place: Place) -> None:
    """Make files, lose them, prune them, and sometimes restore them, until killed."""
    memory, clock = place.open()
    round_ = 0
    while True:
        round_ += 1
        gone = dead(round_)
        memory.graph.put("w", gone)
        memory.graph.mark_stale("w", [record.memory.memory_id for record in gone])
        shown = memory.prune_memory("w", strategy="all")
        memory.prune_memory("w", dry_run=False, confirm=True, strategy="all", plan_id=shown.plan_id)
        if round_ % 3 == 0:
            memory.restore(
                memory_ids=[record.memory.memory_id for record in gone[:5]], workspace_id="w"
            )
        clock.wait(days=8)
        memory.purge(workspace_id="w")


def check(place: Place) -> None:
    """Look for damage, recover what was interrupted, and complete a whole run."""
    memory, clock = place.open()
    look(memory)
    memory.recover(workspace_id="w")
    clock.at = later(days=1000)
    memory.graph.mark_stale("w", [record.memory.memory_id for record in dead(0)])
    shown = memory.prune_memory("w", strategy="all")
    memory.prune_memory("w", dry_run=False, confirm=True, strategy="all", plan_id=shown.plan_id)
    clock.wait(days=8)
    memory.purge(workspace_id="w")
    look(memory)
    counts = memory.graph.counts("w")
    left = (counts.memories, counts.chunks, counts.stale, counts.deleted)
    if left != (len(LIVE), len(LIVE), 0, 0):
        raise AssertionError(f"after a complete run there are {left}")
    for part in (place.directory / "backups").glob("*.part"):
        part.unlink()
    memory.close()


def look(memory: KnowledgeGraph) -> None:
    ids = [record.memory.memory_id for record in LIVE]
    back = memory.graph.fetch("w", ids)
    if len(back) < len(ids):
        listed = {row.memory_id for row in memory.graph.survey_memories("w").memories}
        missing = set(ids) - {found.memory.memory_id for found in back}
        raise AssertionError(f"lost: {missing - listed}; stored, but not found: {missing & listed}")
    for record, found in zip(LIVE, back, strict=True):
        same = (
            found.memory.text == record.memory.text
            and found.chunks == record.chunks
            and set(found.mentions) == set(record.mentions)
            and set(found.relations) == set(record.relations)
            and all(entity.deleted_at is None for entity in found.entities)
        )
        if not same:
            raise AssertionError(f"a live memory was damaged: {found}")
    items = everything(memory.graph, "w")
    memories = {item.memory_id for item in items if isinstance(item, Memory)}
    chunks = {item.chunk_id: item for item in items if isinstance(item, Chunk)}
    for chunk in chunks.values():
        if chunk.memory_id not in memories:
            raise AssertionError(f"a chunk lost its memory: {chunk}")
    if len({chunk.memory_id for chunk in chunks.values()}) != len(memories):
        raise AssertionError("a memory lost its chunks")
    for item in items:
        if isinstance(item, Mention) and item.chunk_id not in chunks:
            raise AssertionError(f"a mention without a node: {item}")


def in_child(work, place: Place) -> int:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Run work in a separate process."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work(place)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def wait_for(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit(f"the check failed with status {status}")


def kill_the_pruner(place: Place, kills: int, rng: random.Random) -> None:
    """Kill one child after the other, and check each time."""
    wait_for(in_child(set_up, place))
    for _ in range(kills):
        victim = in_child(prune_forever, place)
        time.sleep(rng.uniform(0.01, 0.25))
        end(victim)
        wait_for(in_child(check, place))


def kill_the_server(place: Place, kills: int, rng: random.Random) -> None:
    """Kill the server under a child that keeps running, and check from time to time."""

    def begin() -> subprocess.Popen[bytes]:
        return start(place.directory, place.port, *often_rewritten())

    server = begin()
    try:
        wait_for(in_child(set_up, place))
        for number in range(kills):
            if number % CHECK_EVERY == 0:
                pruner = in_child(prune_forever, place)
            time.sleep(rng.uniform(0.01, 0.25))
            server.kill()
            server.wait()
            server = begin()
            if os.waitpid(pruner, os.WNOHANG) != (0, 0):
                raise SystemExit("the pruner gave up when its server was killed")
            if number % CHECK_EVERY == CHECK_EVERY - 1:
                end(pruner)
                wait_for(in_child(check, place))
    finally:
        server.kill()
        server.wait()


CHECK_EVERY = 5
"""Kills of the server between two checks."""


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def main() -> None:
    kind, directory, kills = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    place = Place(kind, directory)
    rng = random.Random(kills)
    if kind == "server":
        kill_the_server(place, kills, rng)
    elif kind == "falkor":
        # Held open, so that the server does not restart after each kill.
        server = EmbeddedServer(directory / "falkor")
        server.open()
        kill_the_pruner(place, kills, rng)
        server.close()
    else:
        kill_the_pruner(place, kills, rng)
    print(f"{kills} kills, no damage")


if __name__ == "__main__":
    main()
