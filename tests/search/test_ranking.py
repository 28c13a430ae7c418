"""The order of what a search found: rarity, names, siblings, one hit of equal chunks."""

from __future__ import annotations

import pytest

from marksweep.search.ranking import (
    CANDIDATES,
    MAX_POSTINGS,
    Asked,
    Match,
    candidates,
    fields,
    finding,
    ranked,
)
from marksweep.search.words import stem


def match(
    key: int, text: str, symbol: str = "", *, path: str = "", memory: str = "", position: int = 0
) -> Match[int]:
    found = fields(text, symbol, path)
    return Match(key, memory or f"m{key}", position, path, symbol, *found)


def order(rows: list[Match[int]], query: str, holders: dict[str, int], limit: int = 9) -> list[int]:
    stemmed = [(stem(word), count) for word, count in holders.items()]
    return list(ranked(rows, Asked.of(query), stemmed, 100, limit))


def test_a_score_is_bm25_over_the_whole_index() -> None:
    scores = ranked([match(1, "fox fox hen")], Asked.of("fox"), [("fox", 10)], 100, 9)
    # ln(1 + 90.5 / 10.5) * 2 * 3 / (2 + 2 * (0.25 + 0.75 * 3 / 60)), by hand
    assert scores == {1: pytest.approx(2.2639 * 6 / 2.575, rel=1e-3)}


def test_rare_words_count_for_more_and_ties_go_by_name_and_place() -> None:
    rows = [match(3, "red"), match(2, "red"), match(1, "hen")]
    assert order(rows, "red hen", {"red": 50, "hen": 2}) == [1, 2, 3]
    assert order(rows, "red hen", {"red": 50, "hen": 2}, limit=2) == [1, 2]
    assert order([], "red", {"red": 1}) == []


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


def test_common_words_do_not_find_what_rare_words_find() -> None:
    many = 100 * MAX_POSTINGS
    assert finding([("the", MAX_POSTINGS), ("fox", 3), ("hen", 9)], many) == ["fox", "hen"]
    assert finding([("the", 10 * MAX_POSTINGS)], many) == ["the"]
    assert finding([("the", 401), ("fox", 3), ("hen", 400)], 1000) == ["fox", "hen"]
    assert finding([("the", CANDIDATES), ("fox", 3)], CANDIDATES) == ["fox", "the"]
    assert finding([], many) == []


def test_enough_is_ranked_for_any_limit() -> None:
    assert candidates(5) == CANDIDATES
    assert candidates(CANDIDATES) == 2 * CANDIDATES
