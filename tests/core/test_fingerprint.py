"""A fingerprint changes with the content, and can be kept up to date."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from marksweep.core.fingerprint import as_text, digest, fingerprint_of
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


def test_a_sum_that_was_added_to_and_taken_from_is_written_as_one_from_scratch() -> None:
    a, b = segment("a"), segment("b")
    assert as_text(digest(a) - digest(b)) == as_text(digest(a) - digest(b) + 2**128)
    assert as_text(digest(b) + digest(a)) == fingerprint_of([a, b])


def test_two_of_the_same_do_not_cancel_out() -> None:
    a = segment("a")
    assert fingerprint_of([a, a]) != fingerprint_of([])


def test_text_that_is_no_valid_unicode_shows_too() -> None:
    odd = [segment("a", text=f"log {end}") for end in ("\udcff", "\udcfe")]
    odd += [segment("\ud800"), segment("a", file_path="\udcff.py")]
    assert len({fingerprint_of([one]) for one in odd}) == len(odd)
