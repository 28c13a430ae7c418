"""Atoms, as the measure defines them."""

from __future__ import annotations

import pytest

from marksweep.replay.atoms import EXTRACTORS, Extractor, atoms_of, names, squeeze, tokens, values


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("call snake_case now", {"snake_case"}),
        ("open src/app.py", {"src/app.py"}),
        ("open src/apple", {"src/apple"}),
        ("id 12345 here", {"12345"}),
        ("a camelCase name", {"camelCase"}),
        ("os.path is inner", {"os.path"}),
        ("plain words only", set()),
        ("a_b", set()),  # fewer than 5 characters
        ("...src/app.py:", {"src/app.py"}),  # stripped at both ends
        ("_abcd abcd_", set()),  # the mark must be an inner one
        ("/abcde abcde/", set()),
        ("v1.2 x", set()),
        ("word.", set()),
        ("foo-.bar", set()),  # a dot, but not between letters
        ("1234", set()),
    ],
)
def test_identifiers_are_recognised_by_their_form(line: str, expected: set[str]) -> None:
    assert names(line) == expected


def test_an_identifier_has_at_most_120_characters() -> None:
    longest = "a_" + "b" * 118
    assert longest in names(f"x {longest}")
    assert f"{longest}b" not in names(f"x {longest}b")


def test_a_line_counts_from_24_characters_on() -> None:
    assert "x" * 24 in names("x" * 24)
    assert names("x" * 23) == set()


@pytest.mark.parametrize("margin", ["12: ", "  7 | ", "3\t", "44→", "+ ", "- "])
def test_line_numbers_and_diff_marks_are_not_part_of_a_line(margin: str) -> None:
    text = "return the value of it all"
    assert text in names(margin + text)


def test_the_length_of_a_line_is_that_without_its_number() -> None:
    assert not any(" " in atom for atom in names("1234567: only twenty characters"[:24]))


def test_white_space_is_squeezed() -> None:
    assert squeeze("  a \t b\u00a0 c ") == "a b c"
    assert "if the gap is very wide here" in names("  if  the  gap  is very   wide  here")


def test_the_second_extractor_takes_tokens_and_raw_lines() -> None:
    assert tokens('x "HAT001", foo ab1 abc1') == {
        '"HAT001",', "abc1", 'x "HAT001", foo ab1 abc1',
    }  # fmt: skip
    assert tokens("plain words") == set()
    assert tokens("twelve chars") == {"twelve chars"}
    longest = "a" * 159 + "1"
    assert longest in tokens(f"x {longest}")
    assert f"a{longest}" not in tokens(f"x a{longest}")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('say "gold member" and `x y`', {"gold member", "x y"}),
        ("it's Bob's", set()),  # an apostrophe quotes nothing
        ('an empty "" one', set()),
        ("took 12.5 ms, 40% of 3 days", {"12.5 ms", "40%", "3 days"}),
        ("pay $1,250.50 or €7", {"$1,250.50", "€7"}),
        ("in 2024 there were 17", set()),  # a bare number has no unit
        ("  KeyError: no key here", {"KeyError: no key here", "Error"}),
        ("all went well", set()),
        ("see user_profile", {"user", "profile"}),
        ("see loadConfigFile", {"load", "Config", "File"}),
        ("see src/parser.py", {"parser"}),  # parts below four characters say too little
        ("plain words only", set()),
    ],
)
def test_the_third_extractor_takes_what_a_person_would_underline(
    line: str, expected: set[str]
) -> None:
    assert values(line) == expected


@pytest.mark.parametrize("extract", EXTRACTORS.values())
def test_every_atom_can_be_found_in_its_line(extract: Extractor) -> None:
    line = "  12: raise  ValueError(f\"no 'user_name' in {path}\")  # after 30 s, src/app/main.py"
    found = extract(line)
    assert found
    assert all(atom in squeeze(line) for atom in found)


def test_each_atom_knows_the_lines_that_hold_it() -> None:
    held = atoms_of("a foo_bar b\nno\n  c   foo_bar", names)
    assert held["foo_bar"] == ["a foo_bar b", "c foo_bar"]
