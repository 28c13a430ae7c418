"""What a note of recalled text looks like, and what is left of it when it is shortened."""

from __future__ import annotations

import pytest

from marksweep.heaps.stash_search import note_of, shorter_note
from marksweep.sections import Gap, Piece, Section, Sections


def test_a_note_names_the_first_messages_that_it_is_from() -> None:
    said = Sections((Section("one"),))
    assert note_of(["m1", "m4", "m1"], said) == "[recalled from m1, m4]\none"
    assert note_of(["m1", "m2", "m3", "m4"], said) == "[recalled from m1, m2, m3, …]\none"


def test_a_sign_is_between_excerpts_that_were_apart() -> None:
    said = (Section("one"), Section(", two", glued=True), Gap(0, 0), Section("three", glued=True))
    assert note_of(["m1"], Sections(said)) == "[recalled from m1]\none, two\n[…]\nthree"


@pytest.mark.parametrize("head", [[], [Section("[recalled from m1]")]])
def test_a_note_loses_excerpts_and_keeps_its_head(head: list[Piece]) -> None:
    note = "[recalled from m1]\none\ntwo\nthree, four"
    kept = (*head, Gap(1, 1), Section("two"), Section("three"), Section(", four", glued=True))
    assert shorter_note(note, Sections(kept)) == "[recalled from m1]\ntwo\nthree, four"
    assert shorter_note(note, Sections((*head, Gap(3, 9)))) == ""


def test_a_note_that_was_cut_as_any_text_has_its_head_once() -> None:
    kept = Sections((Section("[recalled from m1]\none"), Gap(2, 9)))
    assert shorter_note("[recalled from m1]\none\ntwo\nthree", kept) == "[recalled from m1]\none"
