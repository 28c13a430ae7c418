"""What a note of recalled text looks like, and what is left of it when it is shortened."""

from __future__ import annotations

import pytest

from marksweep.heaps.stash_search import note_of
from marksweep.sections import Gap, Piece, Section, Sections


def test_a_sign_is_between_excerpts_that_were_apart() -> None:
    said = (Section("one"), Section(", two", glued=True), Gap(0, 0), Section("three", glued=True))
    assert note_of(Sections(said)) == "[recalled]\none, two\n[…]\nthree"


@pytest.mark.parametrize("head", [[], [Section("[recalled]")]])
def test_a_note_loses_excerpts_and_keeps_its_head(head: list[Piece]) -> None:
    kept = (*head, Gap(1, 1), Section("two"), Section("three"), Section(", four", glued=True))
    assert note_of(Sections(kept)) == "[recalled]\ntwo\nthree, four"
    assert note_of(Sections((*head, Gap(3, 9)))) == ""


def test_a_note_that_was_cut_as_any_text_has_its_head_once() -> None:
    kept = Sections((Section("[recalled]\none"), Gap(2, 9)))
    assert note_of(kept) == "[recalled]\none"
