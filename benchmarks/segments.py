"""The segment collector: planning, growth, memory, and the incremental step."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.literal import candidates
from benchmarks.rows import Row, best_of, print_rows
from marksweep.collector import decide
from marksweep.core.budget import Budget
from marksweep.core.roots import Focus
from marksweep.engine import GCEngine
from marksweep.heaps.live_index import fingerprint_of
from marksweep.model import Plan, Segment, Snapshot
from marksweep.segments import Segments
from marksweep.stores.memory import MemoryStore
from marksweep.strategies.scored import Scored
from marksweep.testing.builders import NOW, Clock

TYPES = ("message", "code", "log", "note", "log", "code", "decision", "summary")
TOPIC_LASTS = 50
"""Segments in a row that share a topic."""
TAGS = 500
"""Number of different tags, however long the session: 200 segments of 100,000 share one."""


def working_set(size: int, tokens: int = 32) -> list[Segment]:
    """Make a coding session of this many segments over 70 days, the same one every time.

    Two of three segments refer to an earlier one: most to one of the last hundred, one in ten to
    any.
    """
    return list(_segments(size, tokens))


def _segments(size: int, tokens: int) -> Iterator[Segment]:
    tags = [(f"tag-{n}",) for n in range(TAGS)]
    names = [f"segment-{n}" for n in range(size)]
    topic = ""
    for n, name in enumerate(names):
        if n % TOPIC_LASTS == 0:
            topic = f"topic-{n // TOPIC_LASTS}"
        yield Segment(
            segment_id=name,
            type=TYPES[n % len(TYPES)],
            text=f"line {n} of the session",
            created_at=NOW - timedelta(days=70) * (1 - n / size),
            tokens=tokens,
            task_id="now" if n % 50 == 0 else None,
            topic_id=topic,
            tags=tags[n * 17 % TAGS],
            references=(names[_earlier(n)],) if n % 3 else (),  # type: ignore[arg-type]
        )


def _earlier(n: int) -> int:
    """Choose what segment `n` refers to."""
    if n % 10 == 0:
        return n * 2_654_435_761 % 2**32 % n
    return max(0, n - 1 - n * 13 % 100)


def snapshot(segments: list[Segment]) -> Snapshot:
    return Snapshot(tuple(segments), "0" * 32)


def plan(segments: list[Segment]) -> Plan:
    """Analyse and plan down to half."""
    target = sum(segment.tokens for segment in segments) // 2
    return decide(snapshot(segments), Scored(), target, Focus(now=NOW, task_id="now"))


def rows() -> list[Row]:
    """Measure everything."""
    return [_small(), _against_literal(), *_growth(), _memory(), *_steps()]


def _small() -> Row:
    segments = working_set(1_000)
    seconds = best_of(7, lambda: (fingerprint_of(segments), plan(segments)))
    return Row(
        "analysis and plan, 1,000 segments / 32k tokens",
        "≤ 20 ms",
        f"{seconds * 1000:.1f} ms",
        ok=seconds <= 0.020,
    )


def _against_literal() -> Row:
    segments = working_set(100_000)
    roots = {segment.segment_id for segment in segments if segment.task_id == "now"}
    literal = best_of(1, lambda: candidates(segments, roots, NOW), time.process_time)
    engine = GCEngine(clock=Clock())
    ours = best_of(2, lambda: engine.analyze_pruning_candidates(segments, roots), time.process_time)
    ratio = literal / ours
    return Row(
        f"100,000 segments, topics of {TOPIC_LASTS}, {TAGS} tags, against the naive way",
        "≥ 5× faster",
        f"{ratio:.1f}× ({ours:.2f} s, naive {literal:.2f} s)",
        ok=ratio >= 5,
    )


def _growth() -> Iterator[Row]:
    seconds = []
    for size, times in ((10_000, 3), (100_000, 3), (1_000_000, 2)):
        segments = working_set(size)
        gc.collect()
        seconds.append(best_of(times, partial(plan, segments), time.process_time))
        del segments
    for (small, large), what in zip(
        ((seconds[0], seconds[1]), (seconds[1], seconds[2])),
        ("10k → 100k", "100k → 1M"),
        strict=True,
    ):
        ratio = large / small
        yield Row(
            f"growth of analysis and plan, {what}",
            "≤ ×12",
            f"×{ratio:.1f} ({large:.2f} s)",
            ok=ratio <= 12,
        )


def _memory() -> Row:
    """Measure peak memory in a separate process, without texts and ids."""
    ran = subprocess.run(
        [sys.executable, "-c", "from benchmarks.segments import peak; peak(1_000_000)"],
        capture_output=True,
        text=True,
        check=True,
    )
    per_segment = float(ran.stdout)
    return Row(
        "1,000,000 segments planned: memory per segment beyond text and id",
        "≤ 600 bytes",
        f"{per_segment:.0f} bytes",
        ok=per_segment <= 600,
    )


def peak(size: int) -> None:
    """Print the peak bytes per segment of planning this many, without their texts and ids."""
    before = _peak_bytes()
    segments = working_set(size)
    plan(segments)
    names = sum(sys.getsizeof(s.segment_id) + sys.getsizeof(s.text) for s in segments)
    print((_peak_bytes() - before - names) / size)


def _peak_bytes() -> int:
    """Read the high-water mark of this process; `getrusage` would inherit its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def _steps() -> Iterator[Row]:
    for what, share in (("below the soft limit", 2.0), ("with a batch of 20", 0.25)):
        medians = [_median_step(size, share) for size in (1_000, 1_000_000)]
        ratio = medians[1] / medians[0]
        yield Row(
            f"incremental step {what}, median at 1,000,000 segments against 1,000",
            "≤ 3×",
            f"{ratio:.2f}× ({medians[1] * 1e6:.0f} µs)",
            ok=ratio <= 3,
        )


def _median_step(size: int, soft_line: float) -> float:
    """Add segments one by one to a heap of this size, with the soft limit at a share of it."""
    used = size * 32
    budget = Budget(limit=4 * used, soft_limit=int(used * soft_line), target=0, hard_limit=4 * used)
    heap = Segments(MemoryStore(), budget=budget, clock=Clock())
    heap.add(*working_set(size))
    seconds = []
    for n in range(30):
        new = Segment(
            segment_id=f"new-{n}",
            type="log",
            text="a new line",
            created_at=NOW,
            tokens=32,
            topic_id="topic-1",
            references=(f"segment-{n}",),  # type: ignore[arg-type]
        )
        started = time.perf_counter()
        heap.add(new)
        seconds.append(time.perf_counter() - started)
    return median(seconds)


if __name__ == "__main__":
    print_rows(rows())
