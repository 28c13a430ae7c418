"""The fixed references, by their published formulas."""

from __future__ import annotations

import pytest

from marksweep.replay.records import Wire
from marksweep.replay.references import STUB, Gdsf, Mask, OriginalScore
from tests.replay.stories import answers, by_words, calls, says, user

ENOUGH = 10_000


def original(*later: Wire) -> OriginalScore:
    """Make a user message, an agent message, a call with its output, and later messages."""
    made = OriginalScore(by_words)
    made.start([], ENOUGH)
    made.add([user("name_one"), says("hm"), calls({}), answers("name_two")])
    for message in later:
        made.add([message])
    made.add([])
    return made


def test_the_original_score_is_recency_type_references_and_generation() -> None:
    made = original()
    recency = [1 / (1 + age / 10) for age in (3, 2, 1)]
    kinds = (0.7, 0.5, 0.2)
    assert [made.worth(at) for at in range(3)] == pytest.approx(
        [0.4 * each + 0.3 * kind for each, kind in zip(recency, kinds, strict=True)]
    )


def test_the_original_score_counts_up_to_five_references() -> None:
    for times, counted in ((1, 1), (5, 5), (6, 5)):
        # each mentions something in the output, and nothing that another mentions
        output = answers("\n".join(f"name_{n}" for n in range(10, 20)))
        made = OriginalScore(by_words)
        made.start([], ENOUGH)
        made.add([calls({}), output])
        for n in range(times):
            made.add([says(f"name_{10 + n}")])
        made.add([])
        age = times + 1
        assert made.worth(0) == pytest.approx(0.4 / (1 + age / 10) + 0.3 * 0.2 + 0.2 * counted / 5)


def test_the_original_score_has_an_old_generation_after_twenty_units() -> None:
    for fillers, generation in ((17, 0), (18, 0.1)):
        made = original(*(says("hm") for _ in range(fillers)))
        age = fillers + 3
        assert made.worth(0) == pytest.approx(0.4 / (1 + age / 10) + 0.3 * 0.7 + generation)


def test_gdsf_is_references_by_size_above_what_was_dropped_last() -> None:
    made = Gdsf(by_words)
    made.start([], 34)
    made.add([user("name_one and more words here")])  # 5 + 4 tokens
    made.add([says("name_one")])  # 5 tokens; refers to the first
    made.add([user("some other words that fill")])  # 9 tokens
    made.add([])
    assert [made.worth(at) for at in range(3)] == pytest.approx([2 / 9, 1 / 5, 1 / 9])
    made.add([user("w " * 11)])  # 15 tokens: 38 in all, so the least goes
    made.context()
    made.add([says("x")])
    made.add([])
    assert [made.worth(at) for at in range(4)] == pytest.approx(
        [2 / 9, 1 / 5, 1 / 15, 1 / 9 + 1 / 5]
    )


def test_masking_leaves_a_stub_for_all_but_the_last_outputs() -> None:
    made = Mask(by_words)
    made.start([], ENOUGH)
    for n in range(12):
        made.add([calls({}, first=n), answers(f"a long output of call {n}", n)])
    outputs = [message["content"] for message in made.context() if message["role"] == "tool"]
    assert outputs[:2] == [STUB, STUB]
    assert outputs[2:] == [f"a long output of call {n}" for n in range(2, 12)]
