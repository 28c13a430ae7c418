"""Hypothesis strategies: random heaps of segments, with the cases that are hard for a collector.

These are references to absent segments, cycles, chained pairs, pins, locks, equal times and texts
that are hard to encode.
"""

from __future__ import annotations

from datetime import timedelta
from random import Random

from hypothesis import strategies as st

from marksweep.core.roots import Focus
from marksweep.model import GCPolicy, Generation, Hold, Link, Reference, Segment, Snapshot
from marksweep.testing.builders import NOW, snapshot

TYPES = ("message", "code", "log", "note", "decision", "summary")
_NAMES = ("alpha", "beta", "gamma")
_TEXTS = (
    "",
    "yes",
    "naïve – 漢字 🙂",
    "\x00 and \ud7ff",
    "a\nb\r\nc",
    '"quoted" \\ {json}',
    "x" * 300,
)


def _references(random: Random, names: list[str]) -> tuple[Reference, ...]:
    """Choose references to some of the names, or to an absent segment."""
    return tuple(
        Reference(
            random.choice([*names, "absent"]),
            random.choice([*Link]),
            random.choice([Hold.STRONG, Hold.STRONG, Hold.WEAK, Hold.PAIRED]),
        )
        for _ in range(random.randrange(4))
    )


def _segments(size: int, seed: int) -> list[Segment]:
    random = Random(seed)
    names = [f"s{n}" for n in range(size)]
    return [
        Segment(
            segment_id=name,
            type=random.choice(TYPES),
            text=f"{name} says {random.choice(_TEXTS)}",
            created_at=NOW - timedelta(hours=random.randrange(1000)),
            tokens=random.randint(1, 500),
            pinned=random.random() < 0.1,
            generation=random.choice([*Generation]),
            refcount=random.randrange(4),
            file_path=random.choice([None, *_NAMES]),
            topic_id=random.choice([None, *_NAMES]),
            task_id=random.choice([None, *_NAMES]),
            tags=tuple(random.sample([*_NAMES, "invariant"], random.choice([0, 0, 1, 2]))),
            references=_references(random, names),
            policy=random.choice([*GCPolicy, *[GCPolicy.PARTIAL] * 5]),
            position=n,
        )
        for n, name in enumerate(names)
    ]


def segment_lists(min_size: int = 0, max_size: int = 25) -> st.SearchStrategy[list[Segment]]:
    """Draw segments that refer to each other.

    Only their number and a seed are drawn. That makes a hundred heaps per second, and shrinking
    still finds the smallest heap that fails.
    """
    return st.builds(_segments, st.integers(min_size, max_size), st.integers(0, 2**32))


def snapshots() -> st.SearchStrategy[Snapshot]:
    """Draw snapshots."""
    return segment_lists().map(lambda segments: snapshot(*segments))


def foci() -> st.SearchStrategy[Focus]:
    """Draw what an agent may be working on."""
    return st.builds(
        Focus,
        now=st.just(NOW),
        task_id=st.sampled_from([None, *_NAMES]),
        active_file=st.sampled_from([None, *_NAMES]),
        recent_messages=st.frozensets(st.sampled_from(["s0", "s3", "s5"]), max_size=3),
    )


targets = st.integers(0, 4000)
"""Token targets, from 0 to more than the size of most heaps."""
