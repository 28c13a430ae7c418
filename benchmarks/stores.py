"""The SQLite store: stashing, searching, loading, and polling for changes."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.rows import Row, print_rows
from marksweep.heaps.stash_search import search_stash
from marksweep.model import Segment, Stashed
from marksweep.stores.base import Query
from marksweep.stores.sqlite import SqliteStore
from marksweep.testing.builders import NOW

SIZE = 100_000
BATCH = 1_000
RUN = 20
"""Batches per run; the fastest run counts, as the machine may be busy."""

TYPES = ("message", "code", "log", "note", "decision", "summary")


def words(text: str) -> list[str]:
    return text.split()


VERBS = words("read write parse load send close retry check build merge render flush cache split")
NOUNS = words(
    "config file header request response session token index table query worker buffer "
    "message segment plan stash journal lock thread socket path error result user build"
)
GLUE = words("the a of to in and is for with on that it as was not when if from by this")
NAMES = 20_000
"""Different identifiers: about as many as in a large code base."""

SEARCHES = {
    "a name": Query(words="flush_journal_4711"),
    "a question": Query(words="why does the worker retry when the socket is closed"),
    "a path": Query(words="src/session/retry_17.py"),
    "a word that most have": Query(words="the"),
    "words within a file": Query(words="read the lock", file_path="src/response/send_4.py"),
    "words and a filter nothing passes": Query(words="the error", types=("nothing",)),
    "no words, a rare tag": Query(tags=("bug-4711",)),
    "no words, a filter nothing passes": Query(types=("nothing",)),
}


def names(rng: random.Random) -> list[str]:
    """Make identifiers in the usual spellings."""
    made = []
    for number in range(NAMES):
        verb, noun = rng.choice(VERBS), rng.choice(NOUNS)
        made.append(
            rng.choice(
                (
                    f"{verb}{noun.title()}{number}",
                    f"{verb}_{noun}_{number}",
                    f"{noun}{number}.{verb}()",
                )
            )
        )
    return made


def sentences(size: int) -> Iterator[str]:
    """Make texts of about 32 tokens, typical for agents: prose, names, calls, numbers."""
    rng = random.Random(7)
    known = names(rng)
    for _ in range(size):
        words = rng.choices(GLUE, k=6) + rng.choices(VERBS + NOUNS, k=6) + rng.choices(known, k=4)
        rng.shuffle(words)
        yield " ".join((*words, str(rng.randrange(10_000))))


def segments(size: int) -> list[Segment]:
    """Make segments, the same ones every time."""
    return [
        Segment(
            segment_id=f"segment-{n}",
            type=TYPES[n % len(TYPES)],
            text=text,
            created_at=NOW + timedelta(seconds=n),
            tokens=32,
            file_path=f"src/{NOUNS[n % 25]}/{VERBS[n % 14]}_{n % 30}.py" if n % 3 else None,
            task_id=f"task-{n % 40}",
            tags=(f"bug-{n % 5_000}",),
            position=n,
        )
        for n, text in enumerate(sentences(size))
    ]


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


@contextmanager
def fresh_store() -> Iterator[SqliteStore]:
    with TemporaryDirectory(prefix="marksweep-bench-") as folder:
        store = SqliteStore(Path(folder) / "store.db")
        yield store
        store.close()


def rows() -> list[Row]:
    """Measure everything."""
    made = segments(SIZE)
    with fresh_store() as store:
        found = [*_stash(store, made), *_search(store)]
    with fresh_store() as store:
        return [*found, *_live(store, made)]


def _stash(store: SqliteStore, made: list[Segment]) -> Iterator[Row]:
    entries = [Stashed(segment, f"plan-{n // BATCH}", NOW, "old") for n, segment in enumerate(made)]
    batches = [entries[start : start + BATCH] for start in range(0, SIZE, BATCH)]

    def put(some: list[list[Stashed]]) -> None:
        for batch in some:
            store.stash.put("w", batch)

    worked = time.process_time()
    runs = [batches[start : start + RUN] for start in range(0, len(batches), RUN)]
    seconds = min(timed(lambda r=run: put(r)) for run in runs)  # type: ignore[misc]
    per_second = RUN * BATCH / seconds
    of_processor = SIZE / (time.process_time() - worked)
    yield Row(
        f"stash on SQLite, batches of {BATCH:,}, 32 tokens each",
        "≥ 20,000 segments/s",
        f"{per_second:,.0f} segments/s ({of_processor:,.0f} per second of processor time)",
        ok=per_second >= 20_000,
    )
    single = [Stashed(segment, "plan-single", NOW, "old") for segment in made[:500]]
    seconds = median([timed(lambda e=entry: store.stash.put("w", [e])) for entry in single])  # type: ignore[misc]
    yield Row(
        f"stash on SQLite, one at a time, {SIZE:,} there",
        "≤ 2 ms median",
        f"{seconds * 1000:.2f} ms",
        ok=seconds <= 0.002,
    )


def _search(store: SqliteStore) -> Iterator[Row]:
    for what, query in SEARCHES.items():
        seconds = median(
            [timed(lambda q=query: store.stash.search("w", q)) for _ in range(5)]  # type: ignore[misc]
        )
        hits = len(store.stash.search("w", query))
        yield Row(
            f"stash search over {SIZE:,}: {what}",
            "≤ 50 ms",
            f"{seconds * 1000:.1f} ms, {hits} hits",
            ok=seconds <= 0.050,
        )

    for what in ("a name", "a question", "a word that most have"):
        words = SEARCHES[what]
        seconds = median(
            [timed(lambda q=words: search_stash(store.stash, "w", q)) for _ in range(5)]  # type: ignore[misc]
        )
        yield Row(
            f"recall from a stash of {SIZE:,}: {what}",
            "≤ 50 ms",
            f"{seconds * 1000:.1f} ms, {len(search_stash(store.stash, 'w', words))} hits",
            ok=seconds <= 0.050,
        )


def _live(store: SqliteStore, made: list[Segment]) -> Iterator[Row]:
    store.segments.write("w", put=made)
    seconds = min(timed(lambda: store.segments.changes("w")) for _ in range(3))
    yield Row(
        f"load {SIZE:,} live segments from SQLite",
        "≤ 2 s",
        f"{seconds:.2f} s",
        ok=seconds <= 2,
    )
    version = store.segments.changes("w").version
    idle = median([timed(lambda: store.segments.changes("w", version)) for _ in range(1_000)])
    yield Row(
        "ask SQLite for changes when there are none",
        "≤ 0.1 ms median",
        f"{idle * 1000:.3f} ms",
        ok=idle <= 0.0001,
    )


if __name__ == "__main__":
    print_rows(rows(), sys.stdout)
