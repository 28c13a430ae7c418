"""Whether search and indexing are slower than in another checkout of marksweep.

    git worktree add --detach /tmp/before COMMIT
    python -m benchmarks.against /tmp/before [PACKAGE] [--queries 30] [--rounds 5]

Each version runs in a separate process. The two alternate at every step: index the same package,
then answer the same docstrings and names. Each step is measured in wall time and in processor time
(of the version, its worker and its embedded server). The fastest round of each step counts, because
other work on the machine only adds to a time. The range is that of the ratios of single rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from marksweep.indexing.indexer import index_codebase
from marksweep.stores.graph.base import GraphQuery, GraphStore
from marksweep.stores.graph.falkor import FalkorGraphStore
from marksweep.stores.graph.sqlite import SqliteGraphStore

MOST = 1.1
"""Allowed ratio of its time to the other's. On a busy machine runs differ by more than that."""
STORES = ("SQLite", "FalkorDB")
HERE = Path(__file__).resolve().parent.parent


class Times(NamedTuple):
    """Milliseconds of one step."""

    clock: float
    processor: float


Pair = tuple[Times, Times]
"""The other version and this one, in one round."""


class Ask(Protocol):
    """Make a version index into a store, or search it; return how long it took."""

    def __call__(self, store: str, query: str | None = None) -> Times: ...


def processor_seconds(server: Path) -> float:
    """Return the processor time of this process, of workers that ended, and of a live server."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = time.process_time() + children.ru_utime + children.ru_stime
    if server.exists():  # the id of the server's CPU clock, as clock_getcpuclockid(3) computes it
        used += time.clock_gettime((~int(server.read_text()) << 3) | 2)
    return used


def answer(tree: Path, folder: Path) -> None:
    """Time the version of marksweep that this process runs, one line of input at a time."""
    store: GraphStore | None = None
    server = folder
    for number, line in enumerate(sys.stdin):
        kind, query = msgspec.json.decode(line, type=tuple[str, str | None])
        if query is None:
            if store:
                store.close()
            place = folder / str(number)
            embedded = kind == "FalkorDB"
            store = FalkorGraphStore.embedded(place) if embedded else SqliteGraphStore(place)
            server = place / "falkordb.pid"
        assert store, "index before you search"
        used, started = processor_seconds(server), time.perf_counter()
        if query is None:
            asyncio.run(index_codebase(tree, store=store, workspace_id="bench"))
        else:
            store.search("bench", GraphQuery(words=query, limit=20))
        clock = time.perf_counter() - started
        print(1000 * clock, 1000 * (processor_seconds(server) - used), flush=True)
    if store:
        store.close()


@contextmanager
def version(checkout: Path, tree: Path) -> Iterator[Ask]:
    """Run a checkout in a separate environment, which the processes it starts inherit."""
    with tempfile.TemporaryDirectory(prefix="marksweep-bench-") as folder:
        venv.create(folder, symlinks=True)
        paths = [str(checkout.resolve() / "src"), sysconfig.get_path("purelib")]
        packages = sysconfig.get_path("purelib", vars={"base": folder})
        Path(packages, "checkout.pth").write_text("\n".join(paths))
        with subprocess.Popen(
            [Path(folder, "bin", "python"), __file__, "--answer", tree, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdin
            assert process.stdout
            requests, answers = process.stdin, process.stdout

            def ask(store: str, query: str | None = None) -> Times:
                requests.write(msgspec.json.encode((store, query)) + b"\n")
                requests.flush()
                line = answers.readline() or sys.exit(f"{checkout} failed")
                return Times(*map(float, line.split()))

            yield ask
            requests.close()


def compared(what: str, steps: Sequence[Sequence[Pair]], kind: int) -> tuple[str, str, str, bool]:
    """Make a row of the medians over some steps: of the fastest rounds, and of each round."""

    def medians(pairs: Iterable[Sequence[float]]) -> list[float]:
        return [statistics.median(each) for each in zip(*pairs, strict=True)]

    rounds = [[(old[kind], new[kind]) for old, new in step] for step in zip(*steps, strict=True)]
    ratios = [new / old for old, new in map(medians, rounds)]
    fastest = (
        [min(each) for each in zip(*step, strict=True)] for step in zip(*rounds, strict=True)
    )
    old, new = medians(fastest)
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    shown = f"{new / old:.2f}× ({new:,.1f} ms, before {old:,.1f} ms; rounds {spread})"
    return what, f"≤ {MOST}×", shown, new <= MOST * old


def main() -> int:
    from benchmarks import search
    from benchmarks.rows import Row, print_rows

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("package", nargs="?", default=search.PACKAGE)
    parser.add_argument("--queries", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if not (given.checkout / "src" / "marksweep").is_dir():
        parser.error(f"{given.checkout} is not a checkout of marksweep: it has no src/marksweep.")
    read = search.corpus(search.place(given.package), given.queries)
    docstrings, names = ([q for q, _ in asked] for asked in (read.docstrings, read.names))
    queries = [*docstrings, *names]
    kinds: dict[str, Sequence[str | None]] = {
        "indexing": [None],
        "search, p50": queries,
        "docstrings, p50": docstrings,
        "names, p50": names,
    }
    took: defaultdict[tuple[str, str | None], list[Pair]] = defaultdict(list)
    with ExitStack() as stack:
        tree = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="marksweep-bench-")))
        search.write(read.files, tree)
        old = stack.enter_context(version(given.checkout, tree))
        new = stack.enter_context(version(HERE, tree))
        for number, store in product(range(given.rounds), STORES):
            for query in (None, *queries):
                if number % 2:
                    took[store, query].append((old(store, query), new(store, query)))
                else:
                    took[store, query].append((new(store, query), old(store, query))[::-1])
    rows = [
        Row(*compared(f"{store}: {what}, {name}", [took[store, each] for each in asked], kind))
        for store in STORES
        for what, asked in kinds.items()
        for kind, name in enumerate(Times._fields)
    ]
    print_rows(rows)
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--answer"]:
        answer(*map(Path, sys.argv[2:]))
    else:
        sys.exit(main())
