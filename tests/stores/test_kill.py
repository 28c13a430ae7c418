"""A process is killed in the middle of its work; what it reported as done is stored."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from marksweep.stores.open import open_store

ROUNDS = 12

WORK = """
import sys
from marksweep.model import Entry, Event
from marksweep.stores.open import open_store
from marksweep.testing.contracts.handles import NOON, segment, stashed

store = open_store(sys.argv[1])
start = int(sys.argv[2])
for n in range(start, start + 100_000):
    name = f"s{n}"
    with store.lock("w"):
        store.segments.write("w", put=[segment(name, f"text {n}")])
        store.stash.put("w", [stashed(name, f"plan-{n}", f"text {n}")])
        store.journal.append("w", Entry(Event.SWEEPING, NOON, f"plan-{n}"))
        store.segments.write("w", remove=[name])
        store.journal.append("w", Entry(Event.SWEPT, NOON, f"plan-{n}"))
    print(n, flush=True)
"""


@pytest.mark.parametrize("name", ["store.db", "store.json"])
def test_what_was_acknowledged_survives_a_kill(tmp_path: Path, name: str) -> None:
    rng = random.Random(name)
    place = tmp_path / name
    done = -1
    for _ in range(ROUNDS):
        command = [sys.executable, "-c", WORK, str(place), str(done + 1)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as worker:
            assert worker.stdout is not None
            for _ in range(rng.randrange(1, 6)):
                done = int(worker.stdout.readline())
            try:
                worker.wait(rng.random() / 200)
            except subprocess.TimeoutExpired:
                worker.send_signal(signal.SIGKILL)
            done = max([done, *map(int, worker.stdout.read().split())])
        store = open_store(place)
        with store.lock("w"):
            live = {each.segment_id for each in store.segments.changes("w").put}
            swept = {entry.plan_id for entry in store.journal.read("w")}
            assert live <= {f"s{done + 1}"}
            for n in range(done + 1):
                (entry,) = store.stash.get("w", [f"s{n}"])
                assert entry.segment.text == f"text {n}"
                assert f"plan-{n}" in swept
            # What was interrupted is removed, so that the next round starts clean.
            store.segments.write("w", remove=sorted(live))
            store.stash.remove("w", f"plan-{done + 1}", [f"s{done + 1}"])
        store.close()
    assert done > ROUNDS
