"""Whether search and indexing are slower than in another checkout of marksweep.

    git worktree add --detach /tmp/before COMMIT
    python -m benchmarks.against /tmp/before [PACKAGE] [--queries 30] [--rounds 5]

Each version has a process of its own. The two take turns at every step: index the same package,
then answer the same docstrings and names. Of each step the quickest round counts, because other
work on the machine only adds to a time.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from marksweep.indexing.indexer import index_codebase
from marksweep.stores.graph.base import GraphQuery, GraphStore
from marksweep.stores.graph.falkor import FalkorGraphStore
from marksweep.stores.graph.sqlite import SqliteGraphStore

MOST = 1.1
"""How many times the other's time it may take. On a busy machine runs differ by more than that."""
STORES = ("SQLite", "FalkorDB")
HERE = Path(__file__).resolve().parent.parent


class Ask(Protocol):
    """Let a version index into a store, or search it; milliseconds come back."""

    def __call__(self, store: str, query: str | None = None) -> float: ...


def answer(tree: Path, folder: Path) -> None:
    """Time the version of marksweep that this process runs, one line of input after the other."""
    store: GraphStore | None = None
    for number, line in enumerate(sys.stdin):
        kind, query = msgspec.json.decode(line, type=tuple[str, str | None])
        if query is None:
            if store:
                store.close()
            place = folder / str(number)
            embedded = kind == "FalkorDB"
            store = FalkorGraphStore.embedded(place) if embedded else SqliteGraphStore(place)
        assert store, "index before you search"
        started = time.perf_counter()
        if query is None:
            asyncio.run(index_codebase(tree, store=store, workspace_id="bench"))
        else:
            store.search("bench", GraphQuery(words=query, limit=20))
        print(1000 * (time.perf_counter() - started), flush=True)
    if store:
        store.close()


@contextmanager
def version(checkout: Path, tree: Path) -> Iterator[Ask]:
    """Run a checkout in an environment of its own, which the processes it starts have too."""
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

            def ask(store: str, query: str | None = None) -> float:
                requests.write(msgspec.json.encode((store, query)) + b"\n")
                requests.flush()
                return float(answers.readline() or sys.exit(f"{checkout} failed"))

            yield ask
            requests.close()


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
    queries = [query for query, _ in (*read.docstrings, *read.names)]
    took: defaultdict[tuple[str, str | None], list[list[float]]] = defaultdict(list)
    with ExitStack() as stack:
        tree = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="marksweep-bench-")))
        search.write(read.files, tree)
        both = [stack.enter_context(version(path, tree)) for path in (given.checkout, HERE)]
        for store in STORES * given.rounds:
            for query in (None, *queries):
                took[store, query].append([ask(store, query) for ask in both])
    best = {
        step: [min(times) for times in zip(*pairs, strict=True)] for step, pairs in took.items()
    }
    rows = []
    for store in STORES:
        searches = zip(*(best[store, query] for query in queries), strict=True)
        for what, (old, new) in (
            ("indexing", best[store, None]),
            ("search, p50", map(statistics.median, searches)),
        ):
            shown = f"{new / old:.2f}× ({new:,.1f} ms, before {old:,.1f} ms)"
            rows.append(Row(f"{store}: {what}", f"≤ {MOST}×", shown, new <= MOST * old))
    print_rows(rows)
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--answer"]:
        answer(*map(Path, sys.argv[2:]))
    else:
        sys.exit(main())
