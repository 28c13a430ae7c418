"""A fingerprint changes with the content, and can be kept up to date."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from marksweep.core.fingerprint import as_text, combine, digest, fingerprint_of
from marksweep.testing.builders import NOW, segment

CHANGES: list[dict[str, Any]] = [
    {"text": "other"},
    {"tokens": 11},
    {"pinned": True},
    {"last_touched_at": NOW},
    {"references": ("b",)},
    {"position": 7},
    {"tags": ("t",)},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_every_change_shows(change: dict[str, Any]) -> None:
    before = segment("a")
    after = msgspec.structs.replace(before, **change)
    assert fingerprint_of([before]) != fingerprint_of([after])


def test_the_reference_count_does_not_show_because_it_is_derived() -> None:
    assert digest(segment("a", refcount=3)) == digest(segment("a"))


def test_adding_and_removing_gives_the_same_as_starting_afresh() -> None:
    a, b, c = (segment(name) for name in "abc")
    kept = combine(combine(combine(0, added=digest(a)), added=digest(b)), added=digest(c))
    kept = combine(kept, removed=digest(b))
    assert as_text(kept) == fingerprint_of([c, a])


def test_two_of_the_same_do_not_cancel_out() -> None:
    a = segment("a")
    assert fingerprint_of([a, a]) != fingerprint_of([])


def test_text_that_is_no_valid_unicode_shows_too() -> None:
    odd = [segment("a", text=f"log {end}") for end in ("\udcff", "\udcfe")]
    odd += [segment("\ud800"), segment("a", file_path="\udcff.py")]
    assert len({fingerprint_of([one]) for one in odd}) == len(odd)
