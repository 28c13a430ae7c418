from __future__ import annotations

from itertools import permutations
from math import log
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marksweep.search.bm25 import WordIndex, frequency, fts5_rarity, half_point, rarity
from marksweep.stores.base import Query
from marksweep.stores.memory import MemoryStore
from marksweep.stores.sqlite import SqliteStore
from marksweep.testing.contracts.handles import stashed

WORDS = st.sampled_from(["red", "green", "blue", "gold", "srcApp", "猫犬"])
TEXTS = st.lists(
    st.lists(WORDS, max_size=8).map(" ".join),
    min_size=1,
    max_size=12,
)

CLEARLY = 1.25
"""Above this ratio of scores both must agree. FTS5 counts punctuation in a document's length."""


def test_a_rare_word_weighs_more_and_a_common_one_hardly() -> None:
    assert fts5_rarity(100, 1) == log(99.5 / 1.5)
    assert rarity(100, 1) == log(1 + 99.5 / 1.5)
    for weigh in (rarity, fts5_rarity):
        assert weigh(100, 1) > weigh(100, 10) > weigh(100, 49) > weigh(100, 60) > 0


def test_repetition_counts_less_and_less_and_length_counts_against() -> None:
    half = half_point(10, 10.0)
    once, twice, often = (frequency(n, half) for n in (1, 2, 100))
    assert once < twice < often < 2.2
    assert twice - once > often - frequency(99, half)
    assert frequency(half, half) == 2.2 / 2
    assert frequency(1, half_point(5, 10.0)) > once > frequency(1, half_point(50, 10.0))


def test_removed_documents_leave_the_index() -> None:
    index: WordIndex[str] = WordIndex()
    index.add("a", ["x", "y"])
    index.add("b", ["x"])
    index.add("a", ["z"])
    index.discard("b")
    index.discard("nobody")
    assert index.scores(["x", "y"]) == {}
    assert set(index.scores(["z"])) == {"a"}


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=TEXTS)
def test_memory_and_sqlite_rank_alike(texts: list[str], tmp_path: Path) -> None:
    stores = (MemoryStore(), SqliteStore(tmp_path / "scores.db"))
    entries = [stashed(str(n), text=text) for n, text in enumerate(texts)]
    found = []
    for store in stores:
        workspace = "w"
        for old in store.stash.search(workspace, Query(limit=99)):
            store.stash.remove(workspace, old.found.plan_id, [old.found.segment.segment_id])
        store.stash.put(workspace, entries)
        hits = store.stash.search(workspace, Query(words="red app 猫犬 blue", limit=99))
        found.append({hit.found.segment.segment_id: hit.score for hit in hits})
        store.close()
    ours, theirs = found
    assert ours.keys() == theirs.keys()
    for a, b in permutations(ours, 2):
        if ours[a] > CLEARLY * ours[b]:
            assert theirs[a] > theirs[b]
