"""Every store gives the same answer to the same search: hits, order and scores."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marksweep.graph.notes import note_record
from marksweep.stores.graph.base import GraphHit, GraphQuery
from marksweep.stores.graph.ranking import CANDIDATES, Match, candidates, joined, ranked
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
        code = file("w", "src/parse.py", {"parse": ["lexer_two"], "the": ["parse"]})
        store.put("w", [*records, code])
        return [store.search("w", query) for query in queries]


def match(key: int, text: str, title: str = "") -> Match[int]:
    return Match(key, f"m{key}", 0, title, text)


def test_a_word_counts_where_it_stands_by_itself() -> None:
    found = ranked(
        [match(1, "fox foxes _fox_ Fox, x"), match(2, "foxes and such things")], ["fox"], 9
    )
    assert list(found) == [1, 2]
    assert found[2] == 0
    # three times in 22 of 21.5 characters in the mean; in one of two texts
    damping = 1.2 * (0.25 + 0.75 * 22 / 21.5)
    assert found[1] == pytest.approx(0.6931 * 3 * 2.2 / (3 + damping), rel=1e-4)


def test_rare_words_count_for_more_and_ties_go_by_name_and_place() -> None:
    rows = [match(3, "red"), match(2, "red"), match(1, "hen")]
    assert list(ranked(rows, ["red", "hen"], 9)) == [1, 2, 3]
    assert list(ranked(rows, ["red", "hen"], 2)) == [1, 2]
    assert ranked([], ["red"], 9) == {}


def test_what_has_only_some_words_comes_behind_what_has_all() -> None:
    assert joined({1: 0.5}, {2: 9.0, 1: 0.4, 3: 0.1}, 9) == {1: 0.5, 2: 0.5, 3: 0.1}
    assert joined({1: 0.5}, {2: 9.0, 3: 0.1}, 2) == {1: 0.5, 2: 0.5}


def test_enough_is_ranked_for_any_limit() -> None:
    assert candidates(5) == CANDIDATES
    assert candidates(CANDIDATES) == 2 * CANDIDATES
