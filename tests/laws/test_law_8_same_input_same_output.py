"""Law 8: same input, same output, whatever the hash seed."""

from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
from marksweep.engine import GCEngine
from marksweep.segments import Segments
from marksweep.stores.memory import MemoryStore
from marksweep.testing.builders import Clock, segment

heap = Segments(MemoryStore(), limit=3000, clock=Clock(), count_tokens=len)
heap.focus(task="t1", open_files={"f1.py", "f2.py"})
for n in range(300):
    heap.add(segment(f"s{n}", hours_old=(n * 7) % 50, type=["log", "note", "code"][n % 3],
                     references={f"s{n // 2}", f"s{n // 3}"}, tags={f"tag{n % 5}", f"tag{n % 7}"},
                     file_path=f"f{n % 9}.py", task_id=f"t{n % 30}", tokens=20))
print([s.segment_id for s in heap.list()])
plan = heap.plan(target_tokens=900)
print(plan.plan_id, plan.steps, plan.blockers)
print([(e.event, e.plan_id) for e in heap.history()])
print([h.found.segment.segment_id for h in heap.search_stash("text of s5 s17")])
print(GCEngine(clock=Clock()).analyze_pruning_candidates(heap.list(), {"s299"}))
"""


def output(hash_seed: str) -> str:
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_collecting_and_planning_do_not_depend_on_the_hash_seed() -> None:
    first = output("0")
    assert "plan-" in first
    assert first == output("1") == output("4711")
