from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep.errors import BadInput
from marksweep.graph.extract import MOST_ENTITIES, extract
from marksweep.graph.notes import cut, moment, note_record, same_words, time_to_live
from marksweep.stores.graph.base import checked
from marksweep.stores.graph.nouns import duplicates
from tests.graph.graphs import START, entity


def found(text: str) -> set[tuple[str, str]]:
    return {(each.kind, each.name) for each in extract(text)}


def test_urls_paths_tags_identifiers_and_names_are_found() -> None:
    text = (
        "See https://example.org/a?b=1, then src/app/main.py and ./run. "
        "Call parse_config() on HttpClient, set maxRetries and `foo.bar`. "
        "Ada Lovelace told Grace Hopper #history #2nd-try"
    )
    assert found(text) == {
        ("url", "https://example.org/a?b=1"),
        ("path", "src/app/main.py"),
        ("path", "./run"),
        ("identifier", "parse_config"),
        ("identifier", "HttpClient"),
        ("identifier", "maxRetries"),
        ("identifier", "foo.bar"),
        ("name", "Ada Lovelace"),
        ("name", "Grace Hopper"),
        ("tag", "history"),
        ("tag", "2nd-try"),
    }


@pytest.mark.parametrize("text", ["either and/or, 1/2", "#1 #42", "the end. We go", "", "a.b 3.5"])
def test_everyday_text_is_not_an_entity(text: str) -> None:
    assert found(text) == set()


def test_a_first_word_is_a_name_only_if_it_is_one_elsewhere() -> None:
    assert found("Berlin is big.") == set()
    assert found("Berlin is big. I like Berlin.") == {("name", "Berlin")}
    assert found("Müller und Söhne; dort Émile Zola") == {
        ("name", "Émile Zola"),
        ("name", "Söhne"),
    }


@given(st.text(max_size=400))
def test_extraction_never_fails_and_always_gives_the_same(text: str) -> None:
    first = extract(text)
    assert first == extract(text)
    assert len(first) == len(set(first)) <= MOST_ENTITIES
    assert all(each.name for each in first)


@given(st.text(alphabet="ab \n", max_size=600), st.integers(min_value=5, max_value=60))
def test_chunks_cover_every_word_in_order_and_keep_to_the_limit(text: str, limit: int) -> None:
    parts = list(cut(text, limit))
    assert "".join("".join(part.text.split()) for part in parts) == "".join(text.split())
    lines = text.split("\n")
    for part in parts:
        assert part.text.strip() in "\n".join(lines[part.start_line - 1 : part.end_line])
        assert len(part.text) <= limit + part.text.count("\n")


@given(st.text(min_size=1, max_size=300).filter(str.strip))
def test_any_text_makes_a_record_that_holds_together(text: str) -> None:
    record = note_record("w", text, now=START, source="user", tags=("t",))
    assert list(checked("w", [record])) == [record]
    assert record == note_record("w", text, now=START, source="user", tags=("t",))
    assert record.chunks


def test_empty_text_and_the_indexers_name_are_refused() -> None:
    with pytest.raises(BadInput, match="is empty"):
        note_record("w", " \n", now=START, source="user")
    with pytest.raises(BadInput, match="is the indexer's"):
        note_record("w", "x", now=START, source="code_indexer")


@pytest.mark.parametrize("ttl", [timedelta(), timedelta.min, timedelta.max])
def test_a_time_to_live_that_no_calendar_has_is_refused(ttl: timedelta) -> None:
    with pytest.raises(BadInput, match="expected a time to live"):
        note_record("w", "x", now=START, source="user", ttl=ttl)


def test_case_and_spacing_do_not_make_another_note() -> None:
    assert same_words("One  two\nTHREE") == same_words("one two three ")
    assert same_words("one two") != same_words("one three")


def test_duplicate_entities_are_equal_in_kind_and_name_but_for_spelling() -> None:
    entities = [
        entity("w", "Ada Lovelace", "name"),
        entity("w", "ada  lovelace", "name"),
        entity("w", "ADA-LOVELACE", "tag"),
        entity("w", "run", "function"),
        entity("w", "Run", "function"),
    ]
    groups = [[each.name for each in group] for group in duplicates(entities)]
    assert groups == [["Ada Lovelace", "ada  lovelace"]]


@pytest.mark.parametrize(
    ("text", "life"),
    [
        ("30d", timedelta(days=30)),
        (" 1 W ", timedelta(weeks=1)),
        ("30 days", timedelta(days=30)),
        ("1 hour", timedelta(hours=1)),
        ("", None),
    ],
)
def test_a_time_to_live_is_read_as_people_write_it(text: str, life: timedelta | None) -> None:
    assert time_to_live(text) == life


@pytest.mark.parametrize(
    "text", ["30", "d", "0d", "-1d", "1.5d", "1 month", "100000d", "1 d d", f"{'9' * 5000}d"]
)
def test_other_times_to_live_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="such as 30d"):
        time_to_live(text)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-05-01T12:00:00.5+02:00", datetime(2026, 5, 1, 10, 0, 0, 500_000, UTC)),
        ("2026-05-01 12:00", datetime(2026, 5, 1, 12, tzinfo=UTC)),
        ("2026-05-01", datetime(2026, 5, 1, 23, 59, 59, 999_999, UTC)),
        ("now", None),
        (" ", None),
    ],
)
def test_a_moment_is_a_time_or_the_end_of_a_day(text: str, time: datetime | None) -> None:
    assert moment(text) == time
