"""Every store returns the same result for the same search: hits, order and scores."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marksweep.graph.notes import note_record
from marksweep.stores.graph.base import GraphHit, GraphQuery
from tests.graph.graph_contract import OpenStore
from tests.graph.graphs import START, file
from tests.graph.memories import sqlite_graphs
from tests.graph.servers import fresh_graphs

WORDS = (
    *("parse", "parses", "parsing", "lexer_two", "http client", "openSession", "src/app.py"),
    *("Ada Lovelace", "404", "naïve", "日本語", "a", "the", "foo-bar", "user@mail.org", "C++"),
)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join)
Corpus = list[tuple[str, str]]


@pytest.mark.timeout(300)
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    corpus=st.lists(st.tuples(texts, st.sampled_from("xy")), min_size=1, max_size=25),
    asked=st.lists(texts, min_size=1, max_size=6),
    limit=st.sampled_from([1, 3, 50]),
)
def test_searches_give_the_same_hits_in_the_same_order_on_every_store(
    falkor_url: str,
    tmp_path_factory: pytest.TempPathFactory,
    corpus: Corpus,
    asked: list[str],
    limit: int,
) -> None:
    path = tmp_path_factory.mktemp("graphs") / "graph.db"
    stores = (sqlite_graphs(path), fresh_graphs(falkor_url))
    queries = [GraphQuery(words=words, limit=limit) for words in asked]
    one, other = (answered(store, corpus, queries) for store in stores)
    assert one == other


def answered(
    open_store: OpenStore, corpus: Corpus, queries: list[GraphQuery]
) -> list[tuple[GraphHit, ...]]:
    with open_store() as store:
        records = [
            note_record("w", text, now=START, source="user", tags=(tag,)) for text, tag in corpus
        ]
        store.put("w", [*records, file("w", "src/parse.py", {"parse": ["foo-bar", "404"]})])
        code = {"parse": ["lexer_two"], "the": ["parse"]}
        store.put("w", [file("w", "src/parse.py", code)])  # an index may still count the old words
        return [store.search("w", query) for query in queries]
