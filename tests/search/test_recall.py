"""Recall: the texts that answer a query, with their neighbours."""

from __future__ import annotations

import pytest

from marksweep.search.recall import BREAK_TOKENS, PASSAGE_TOKENS, Recall, speaker_of
from marksweep.search.words import stem


def by_words(text: str) -> int:
    return len(text.split())


def indexed(*texts: str) -> Recall:
    index = Recall()
    for text in texts:
        index.add(text)
    return index


def indexed_separately(*texts: str) -> Recall:
    """Make texts that do not share scores with their neighbours."""
    index = Recall()
    for text in texts:
        index.add(text)
        index.leave_gap()
    return index


@pytest.mark.parametrize(
    "words",
    [("plan", "plans", "planned", "planning"), ("study", "studies", "studied", "studying"),
     ("move", "moves", "moved", "moving"), ("family", "families"), ("apply", "applies", "applied")],
)  # fmt: skip
def test_forms_of_a_word_meet(words: tuple[str, ...]) -> None:
    assert len({stem(word) for word in words}) == 1


def test_a_short_word_keeps_its_ending() -> None:
    assert stem("is") == "is"
    assert stem("bed") == "bed"


def test_a_word_of_nothing_but_endings_has_a_stem() -> None:
    assert stem("s" * 5_000) == "sss"


def test_the_best_text_comes_first_to_the_limit() -> None:
    index = indexed(
        *(f"filler number {n}" for n in range(60)), "the secret port is 8080", *("x",) * 60
    )
    size = by_words("the secret port is 8080") + PASSAGE_TOKENS + BREAK_TOKENS
    assert index.find("which secret port", size, by_words) == [60]


def test_neighbours_of_an_answer_come_with_it() -> None:
    filler = [f"filler {n}" for n in range(40)]
    index = indexed(*filler, "what is your dog called", "Rex", *filler)
    found = index.find("the name of the dog", 40, by_words)
    assert {40, 41} <= set(found)


def test_texts_come_in_their_order_and_within_the_limit() -> None:
    texts = [f"the cat number {n} sleeps" for n in range(30)]
    found = indexed(*texts).find("cat", 50, by_words)
    assert found == sorted(found)
    passages = indexed(*texts).passages(found)
    assert found
    assert sum(by_words(passage) + PASSAGE_TOKENS for passage in passages) <= 50


def test_neighbours_are_one_passage() -> None:
    index = indexed("a", "b", "c", "d")
    assert index.passages([0, 1, 3]) == ["a\nb", "d"]
    assert index.passages([]) == []


def test_what_is_to_be_skipped_is_not_found() -> None:
    index = indexed("the cat", "a dog")
    assert index.find("cat", 100, by_words, skip={0}) == [1]


def test_a_named_speaker_counts_more() -> None:
    index = indexed("Ann: I bought a bike", "Bob: I bought a bike")
    scores = index.scores("What did Bob buy, a bike?")
    assert scores[1] > scores[0]
    even = index.scores("Who bought a bike?")
    assert even[0] == pytest.approx(even[1])


def test_a_word_that_comes_in_clusters_says_more_than_one_strewn_evenly() -> None:
    texts = ["filler"] * 100
    for number in (10, 37, 63, 90):
        texts[number] = "walrus"
    for number in (48, 50, 51, 53):
        texts[number] = "pebble"
    scores = indexed_separately(*texts).scores("walrus or pebble")
    assert scores[50] > 2 * scores[37] > 0


def test_a_short_word_counts_less_but_a_short_number_does_not() -> None:
    scores = indexed_separately("oak", "walnut", "42", *["filler"] * 20).scores("oak walnut 42")
    assert scores[1] > scores[0] > 0
    assert scores[2] == pytest.approx(scores[1])


def test_a_speaker_is_a_name_and_a_colon() -> None:
    assert speaker_of("(1:56 pm on 8 May) Caroline: Hey") == "Caroline"
    assert speaker_of("PhD D: It didn't") == "PhD D"
    assert speaker_of("no speaker here") is None


def test_nothing_is_found_among_nothing() -> None:
    assert Recall().find("anything", 100, by_words) == []


def test_names_and_numbers_are_distinguished_to_the_last_character() -> None:
    index = indexed("load_order_117 is slow", "load_order_118 is slow", "id 1234567", "id 1234568")
    assert index.best("load_order_118", 1)[0][0] == 1
    assert index.best("1234568", 4)[0][0] == 3
    assert {number for number, _ in index.best("order", 4)} == {0, 1}


def test_no_score_is_shared_across_a_gap() -> None:
    near = indexed("the cat sleeps", "Rex")
    far = Recall()
    far.add("the cat sleeps")
    far.leave_gap()
    far.add("Rex")
    assert near.scores("cat")[1] > 0
    assert far.scores("cat")[1] == 0
    assert far.scores("cat")[0] > 0


def test_the_best_hold_a_word_themselves_and_the_last_of_equals_comes_first() -> None:
    index = indexed_separately("a cat", "beside it", "a cat", "a dog")
    assert [number for number, _ in index.best("cat", 9)] == [2, 0]
    assert index.best("cat", 0) == []
    assert Recall().best("cat", 3) == []
