from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep.search.words import (
    MAX_QUERY_WORDS,
    MAX_WORD_CHARS,
    index_words,
    query_words,
    segment_words,
)
from marksweep.testing.contracts.handles import segment


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("plain words, here.", "plain words here"),
        ("snake_case", "snakecase snake case"),
        ("CamelCase", "camelcase camel case"),
        ("HTTPServer", "httpserver http server"),
        ("getURL2", "geturl2 get url2"),
        ("__init__", "init"),
        ("src/app.py", "src app py"),
        ("v1.2.3", "v1 2 3"),
        ("___", ""),
        ("Straße", "strasse"),
        ("ﬁne", "fine"),
        ("日本語", "日 本 語 日本 本語"),
        ("猫", "猫"),
        ("get猫name", "get 猫 name"),
        ("\x00a\x00b", "a b"),
        ("\ud800x", "x"),
    ],
)
def test_text_is_split_into_words_and_their_parts(text: str, words: str) -> None:
    assert index_words(text).split() == words.split()


def test_unspaced_scripts_are_asked_for_by_pairs() -> None:
    assert query_words("日本語 猫 ok") == ["日本", "本語", "猫", "ok"]


def test_a_segments_words_are_those_of_all_its_searched_fields() -> None:
    found = segment("a", "text", file_path="f.py", symbol="sym", tags=["t1"], type="log")
    assert segment_words(found).split() == ["text", "f", "py", "sym", "log", "t1"]


def test_a_long_query_is_cut_after_the_first_different_words() -> None:
    assert query_words(" ".join(["same"] * 99 + [f"w{n}" for n in range(999)]))[:2] == [
        "same",
        "w0",
    ]
    assert len(query_words(" ".join(f"w{n}" for n in range(999)))) == MAX_QUERY_WORDS


@given(st.text(st.characters(exclude_categories=[])))
def test_words_contain_no_operator_of_the_search_syntax(text: str) -> None:
    words = index_words(text).split(" ")
    assert all(sign.isalnum() or not sign.isascii() for word in words for sign in word)
    assert all(len(word) <= 3 * MAX_WORD_CHARS for word in words)
    assert set(query_words(text)) <= set(words)


@pytest.mark.parametrize("sign", ["a", "=", "猫", "aB", "é"])
def test_a_megabyte_of_one_character_is_split_quickly(sign: str) -> None:
    start = time.process_time()
    index_words(sign * 1_000_000)
    assert time.process_time() - start < 5
