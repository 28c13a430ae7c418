"""Search finds code by its docstring and by name, in real packages, on both stores."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.search import (
    HIT_AT_5,
    IDENTIFIER_HIT_AT_1,
    MRR,
    SAME,
    Corpus,
    corpus,
    first_ten,
    graph_search,
    index,
    quality,
)
from marksweep.stores.graph.falkor import FalkorGraphStore
from marksweep.stores.graph.sqlite import SqliteGraphStore


def package(name: str, queries: int) -> Corpus:
    found = find_spec(name)
    assert found is not None
    assert found.submodule_search_locations is not None
    return corpus(Path(found.submodule_search_locations[0]), queries)


@pytest.fixture
def ours(tmp_path: Path) -> SqliteGraphStore:
    return SqliteGraphStore(tmp_path / "graph.db")


def test_docstrings_and_identifiers_find_their_file(ours: SqliteGraphStore, tmp_path: Path) -> None:
    read = package("rich", 80)
    index(ours, read.files, tmp_path / "tree")
    docs = quality(graph_search(ours), read.docstrings)
    assert docs.mrr >= MRR
    assert docs.five >= HIT_AT_5
    assert quality(graph_search(ours), read.names).first >= IDENTIFIER_HIT_AT_1
    ours.close()


def test_both_stores_give_the_same_first_ten(
    ours: SqliteGraphStore, tmp_path: Path, falkor_url: str
) -> None:
    read = package("click", 40)
    other = FalkorGraphStore(falkor_url, prefix=f"quality-{tmp_path.name}:")
    for store in (ours, other):
        index(store, read.files, tmp_path / "tree")
    asked = [query for query, _ in (*read.docstrings, *read.names)]
    same = sum(first_ten(ours, query) == first_ten(other, query) for query in asked)
    assert same >= SAME * len(asked)
    ours.close()
    other.close()
