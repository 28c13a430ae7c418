"""A fingerprint changes with the content, and can be kept up to date."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from marksweep.heaps.live_index import (
    ChangeCount,
    ContentFingerprint,
    Fingerprint,
    as_text,
    digest,
    fingerprint_of,
)
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


def test_text_that_is_not_valid_unicode_changes_the_fingerprint_too() -> None:
    odd = [segment("a", text=f"log {end}") for end in ("\udcff", "\udcfe")]
    odd += [segment("\ud800"), segment("a", file_path="\udcff.py")]
    assert len({fingerprint_of([one]) for one in odd}) == len(odd)


@pytest.mark.parametrize("make", [ContentFingerprint, ChangeCount])
def test_no_two_states_on_the_way_have_the_same_fingerprint(
    make: Callable[[], Fingerprint],
) -> None:
    kept = make()
    a, b, c = segment("a"), segment("b"), segment("c")
    states = [str(kept)]
    for one in (a, b, msgspec.structs.replace(a, text="shorter"), c):
        kept.put(one)
        states.append(str(kept))
    kept.drop([b, c])
    states.append(str(kept))
    assert len(set(states)) == len(states)
    kept.clear()
    assert str(kept) not in states[1:]


def test_content_that_is_back_has_its_fingerprint_back() -> None:
    kept = ContentFingerprint()
    kept.put(segment("a"))
    before = str(kept)
    assert before == fingerprint_of([segment("a")])
    kept.put(segment("b"))
    kept.put(segment("a", text="shorter"))
    kept.put(segment("a"))
    kept.drop([segment("b")])
    assert str(kept) == before
