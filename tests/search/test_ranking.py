"""The order of what a search found: rarity, names, siblings, one hit of equal chunks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from marksweep.search.ranking import (
    CONSIDERED,
    MAX_POSTINGS,
    NAME_WEIGHT,
    Asked,
    Match,
    best_matches,
    considered,
    counting,
    fields,
    finding,
    held,
    ranked,
    score,
    scores,
    weighed,
)
from marksweep.search.words import stem


def match(
    key: int, text: str, symbol: str = "", *, path: str = "", memory: str = "", position: int = 0
) -> Match[int]:
    found = fields(text, symbol, path)
    return Match(key, memory or f"m{key}", position, path, symbol, *found)


def order(rows: list[Match[int]], query: str, holders: dict[str, int], limit: int = 9) -> list[int]:
    weights = weighed(held((stem(word), count) for word, count in holders.items()), 100)
    return list(ranked([(row, score(row, weights)) for row in rows], Asked.of(query), limit))


def test_a_score_is_bm25_over_the_whole_index() -> None:
    weights = weighed((("fox", 10),), 100)
    # ln(1 + 90.5 / 10.5) * 2 * 3 / (2 + 2 * (0.25 + 0.75 * 3 / 60)), by hand
    expected = pytest.approx(2.2639 * 6 / 2.575, rel=1e-3)
    assert score(match(1, "fox fox hen"), weights) == expected
    assert scores([(weights["fox"], {1: 2})], {1: 3}) == {1: expected}


def test_a_chunk_scores_the_same_whether_it_was_read_or_only_its_words_were_counted() -> None:
    read = match(1, "red fox, red hen", symbol="Fox.red_fox", path="src/fox.py")
    weights = weighed((("fox", 3), ("red", 9), ("hen", 40)), 100)
    times = {"fox": 2 + 2 * NAME_WEIGHT, "red": 2 + NAME_WEIGHT, "hen": 1}
    length = sum(len(field.split()) for field in (read.words, read.named, read.placed))
    counted = scores([(weights[word], {1: often}) for word, often in times.items()], {1: length})
    assert counted == {1: pytest.approx(score(read, weights))}
    assert fields("red fox, red hen", "Fox.red_fox", "src/fox.py").length == length
    assert fields("", "", "").length == 0


def test_rare_words_count_for_more_and_ties_go_by_name_and_place() -> None:
    rows = [match(3, "red"), match(2, "red"), match(1, "hen")]
    assert order(rows, "red hen", {"red": 50, "hen": 2}) == [1, 2, 3]
    assert order(rows, "red hen", {"red": 50, "hen": 2}, limit=2) == [1, 2]
    assert order([], "red", {"red": 1}) == []


def test_scores_that_differ_by_a_rounding_error_are_equal() -> None:
    scored = [(match(2, "red"), 0.1 + 0.2), (match(1, "red"), 0.3), (match(3, "red"), 0.30001)]
    assert list(ranked(scored, Asked.of("red hen"), 9)) == [3, 1, 2]


def test_a_word_in_a_symbol_counts_for_more_than_in_the_text() -> None:
    rows = [match(1, "parse parse a b"), match(2, "a b", symbol="Config.parse")]
    assert order(rows, "parse the thing", {"parse": 5}) == [2, 1]


def test_chunks_of_one_file_share_part_of_their_scores() -> None:
    rows = [
        match(1, "cookie jar", path="a.py", memory="a"),
        match(2, "cookie jar", path="b.py", memory="b"),
        match(3, "cookie tin", path="b.py", memory="b", position=1),
    ]
    assert order(rows, "cookie jar", {"cookie": 9, "jar": 5}) == [2, 1, 3]


def test_a_name_comes_first_as_written_then_but_for_case() -> None:
    rows = [match(1, "open open open"), match(2, "x", symbol="Open"), match(3, "x", "A.open")]
    assert order(rows, "open", {"open": 30}) == [3, 2, 1]
    # among other words a plain word is not a name
    much = match(4, "open " * 9)
    assert order([*rows, much], "open the thing", {"open": 30})[0] == 4


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("open", ("open",)),
        ("open()", ("open",)),
        ("where is open_file used", ("open_file",)),
        ("Shop::open and readAll", ("Shop.open", "readAll")),
        ("how are files opened", ()),
        ("HTTP server", ()),
        ("__ _", ()),
        ("", ()),
    ],
)
def test_names_are_distinguished_from_words(query: str, names: tuple[str, ...]) -> None:
    assert Asked.of(query).names == names


def test_equal_chunks_of_two_roots_are_one_hit_and_equal_notes_are_two() -> None:
    roots = [match(n, "fox", symbol="f", path="a.py") for n in (1, 2)]
    assert order(roots, "fox", {"fox": 2}) == [1]
    notes = [match(n, "fox") for n in (1, 2)]
    assert order(notes, "fox", {"fox": 2}) == [1, 2]


def test_words_that_a_large_share_of_texts_has_do_not_count() -> None:
    the, fox, hen = ("the", 401), ("fox", 3), ("hen", 400)
    assert held((the, ("owl", 0), hen, fox)) == (fox, hen, the)
    assert counting((fox, hen, the), 1000) == (fox, hen)
    assert counting((the,), 1000) == (the,)
    few = (fox, ("the", CONSIDERED))
    assert counting(few, CONSIDERED) == few
    assert counting((), 1000) == ()


def test_common_words_do_not_find_what_rare_words_find() -> None:
    fox, hen, the = ("fox", 3), ("hen", 9), ("the", MAX_POSTINGS - 3)
    assert finding((fox, hen, the)) == (fox, hen)
    assert finding((fox, the)) == (fox, the)
    alone = (("the", 10 * MAX_POSTINGS),)
    assert finding(alone) == alone
    assert finding(()) == ()


def test_enough_is_read_for_any_limit() -> None:
    assert considered(5) == CONSIDERED
    assert considered(2 * CONSIDERED) == 2 * CONSIDERED


def test_the_best_are_read_and_more_if_too_few_may_be_shown() -> None:
    found = {key: float(key) for key in range(1, 1000)}
    asked: list[list[int]] = []

    def read(keys: Sequence[int]) -> list[int]:
        asked.append(list(keys))
        return [key for key in keys if key % 100 == 0]

    assert best_matches(found, (), 3, read) == list(range(900, 400, -100))
    assert [len(keys) for keys in asked] == [CONSIDERED, 9 * CONSIDERED]
    assert asked[0][0] == 999


def test_what_a_name_defines_is_read_even_if_its_words_score_low() -> None:
    found = {1: 0.1, 2: 5.0, 3: 0.2}
    assert best_matches(found, (1, 3, 4), 2, list) == [3, 1, 4, 2]
