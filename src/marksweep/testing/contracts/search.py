"""What every search must find, in the stash and among live segments alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import pytest

from marksweep.heaps.stash_search import search_stash
from marksweep.model import Segment, Stashed
from marksweep.stores.base import Query, Store
from marksweep.testing.contracts.handles import (
    HOSTILE_NAMES,
    NOON,
    Handles,
    Opener,
    later,
    segment,
    stashed,
)

Find = Callable[..., list[str]]
"""Searches workspace "w" with the fields of a Query; returns ids, best first."""

FILLER = [segment(f"filler-{n}", "nothing of interest is here") for n in range(8)]
"""Makes a word that only one segment has rare."""


class SearchContract(Handles):
    """What every search must find."""

    @pytest.fixture(params=["segments", "stash", "recall"])
    def put(self, request: pytest.FixtureRequest, store: Store) -> Callable[..., Find]:
        """Return a function that puts segments somewhere and returns one that searches there."""

        def put(segments: Iterable[Segment]) -> Find:
            if request.param == "segments":
                store.segments.write("w", put=list(segments))
            else:
                store.stash.put("w", [Stashed(each, "plan", NOON) for each in segments])
            return find

        def find(**query: Any) -> list[str]:  # noqa: ANN401
            asked = Query(**query)
            if request.param == "segments":
                return [hit.found.segment_id for hit in store.segments.search("w", asked)]
            stash = store.stash
            is_recall = request.param == "recall"
            hits = search_stash(stash, "w", asked) if is_recall else stash.search("w", asked)
            return [hit.found.segment.segment_id for hit in hits]

        return put

    def test_recall_ranks_what_was_swept_alike_in_every_store(self, store: Store) -> None:
        swept = [
            segment("port", "the proxy listens on port 8080", position=10),
            segment("planned", "we planned the proxy", position=20),
            segment("reply", "and then it was moved", position=11),
            segment("named", "open_session reads proxy_port", position=30),
            *FILLER,
        ]
        store.stash.put("w", [Stashed(each, "plan", NOON) for each in swept])

        def found(words: str) -> list[str]:
            hits = search_stash(store.stash, "w", Query(words=words))
            return [hit.found.segment.segment_id for hit in hits]

        assert found("planning") == ["planned"]
        assert found("port proxy") == ["named", "port", "planned"]
        assert found("OpenSession") == ["named"]

    def test_recall_looks_at_what_a_large_stash_chooses(self, store: Store) -> None:
        many = [segment(f"n{n}", f"note {n} about berth_{n}", position=3 * n) for n in range(600)]
        store.stash.put("w", [Stashed(each, "plan", NOON) for each in many])
        hits = search_stash(store.stash, "w", Query(words="berth_377 note", limit=5))
        assert hits[0].found.segment.segment_id == "n377"
        assert len(hits) == 5
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    def test_any_word_finds_and_more_rank_higher(self, put: Callable[..., Find]) -> None:
        find = put(
            [
                segment("one", "the retry logic"),
                segment("both", "the retry logic of the connection pool"),
                segment("other", "connection refused"),
                *FILLER,
            ]
        )
        found = find(words="connection RETRY!")
        assert found[0] == "both"
        assert set(found) == {"one", "both", "other"}

    def test_a_rarer_word_ranks_higher(self, put: Callable[..., Find]) -> None:
        common = [segment(f"c{n}", "database query") for n in range(3)]
        find = put([*common, segment("rare", "deadlock query"), *FILLER])
        assert find(words="database deadlock")[0] == "rare"

    def test_a_repeated_word_ranks_higher(self, put: Callable[..., Find]) -> None:
        find = put(
            [
                segment("once", "cache and more text"),
                segment("often", "cache cache cache text"),
                *FILLER,
            ]
        )
        assert find(words="cache") == ["often", "once"]

    def test_scores_fall_from_the_first_hit(self, store: Store) -> None:
        texts = ["alpha beta gamma", "alpha beta", "alpha", "gamma", *("delta " * 6).split()]
        store.stash.put("w", [stashed(str(n), text=text) for n, text in enumerate(texts)])
        hits = store.stash.search("w", Query(words="alpha gamma"))
        scores = [hit.score for hit in hits]
        assert len(scores) == 4
        assert scores == sorted(scores, reverse=True)
        assert hits[0].found.segment.segment_id == "0"

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("call read_config_file() first", "read_config_file"),
            ("call read_config_file() first", "config"),
            ("call read_config_file() first", "readConfigFile"),
            ("class HTTPServerError(Exception)", "HTTPServerError"),
            ("class HTTPServerError(Exception)", "server"),
            ("class HTTPServerError(Exception)", "http_server_error"),
            ("see src/app.py:12", "src/app.py"),
            ("see src/app.py:12", "app.py"),
            ("__init__ and self._value", "__init__"),
            ("port 8080 is taken", "8080"),
            ("utf8 decoding", "utf8"),
            ("垃圾回收器删除不可达的对象", "回收"),
            ("垃圾回收器删除不可达的对象", "不可达"),
            ("キャッシュを削除する", "削除"),
            ("캐시를 비웠습니다", "캐시"),
            ("Straße nach Zürich", "STRASSE"),
            ("Ünïcödé names", "ünïcödé"),
            ("ｆｕｌｌ width", "full"),
            ("mixed日本語text", "日本"),
            ("mixed日本語text", "mixed"),
        ],
    )
    def test_identifiers_paths_and_scripts_are_found(
        self, put: Callable[..., Find], text: str, words: str
    ) -> None:
        find = put([segment("it", text), *FILLER])
        assert find(words=words) == ["it"]

    def test_file_symbol_type_and_tags_are_searched_too(self, put: Callable[..., Find]) -> None:
        find = put(
            [
                segment("by-file", file_path="lib/parser.py"),
                segment("by-symbol", symbol="parseHeader"),
                segment("by-type", type="decision"),
                segment("by-tag", tags=["bug-123"]),
                *FILLER,
            ]
        )
        assert find(words="parser") == ["by-file"]
        assert find(words="header") == ["by-symbol"]
        assert find(words="decision") == ["by-type"]
        assert find(words="bug-123") == ["by-tag"]

    @pytest.mark.parametrize(
        "words",
        [
            "AND",
            "a OR b",
            'quote" NEAR(',
            "text:*",
            "-minus",
            "^caret",
            "(((",
            "{words}: x",
            "'; --",
        ],
    )
    def test_operators_are_inert(self, put: Callable[..., Find], words: str) -> None:
        find = put([segment("it", "or and near not minus caret x b"), *FILLER])
        assert find(words=words) in (["it"], [])

    @pytest.mark.parametrize("words", ["!!!", " ", "\x00", "\ud800", "()", "🙂"])
    def test_words_without_letters_find_nothing(self, put: Callable[..., Find], words: str) -> None:
        assert put([segment("it", words), *FILLER])(words=words) == []

    def test_unknown_words_find_nothing(self, put: Callable[..., Find]) -> None:
        assert put(FILLER)(words="xylophone") == []

    def test_every_filter_must_match(self, put: Callable[..., Find]) -> None:
        full = {
            "type": "code",
            "file_path": "a.py",
            "task_id": "t1",
            "tags": ["x", "y"],
            "created_at": later(hours=1),
        }
        others = {
            "type": "log",
            "file_path": "b.py",
            "task_id": "t2",
            "tags": ["x"],
            "created_at": later(hours=3),
        }
        odd = [segment(f"not-{k}", "needle", **{**full, k: v}) for k, v in others.items()]
        find = put([segment("it", "needle", **full), *odd, *FILLER])
        query = {
            "types": ("code", "note"),
            "file_path": "a.py",
            "task_id": "t1",
            "tags": ("x", "y"),
            "since": later(hours=1),
            "until": later(hours=2),
        }
        assert find(**query) == ["it"]
        assert find(words="needle", **query) == ["it"]
        for field in others:
            name = {"type": "types", "created_at": "until"}.get(field, field)
            rest = {key: value for key, value in query.items() if key != name}
            assert set(find(words="needle", **rest)) == {"it", f"not-{field}"}

    def test_times_are_from_inclusive_until_exclusive(self, put: Callable[..., Find]) -> None:
        find = put([segment(str(n), "x", created_at=later(hours=n)) for n in range(4)])
        assert set(find(since=later(hours=1), until=later(hours=3))) == {"1", "2"}
        naive = datetime(2025, 6, 1, 14, 0)  # noqa: DTZ001 - naive times are read as UTC
        assert set(find(since=naive)) == {"2", "3"}

    def test_tags_are_matched_whole(self, put: Callable[..., Find]) -> None:
        find = put(
            [
                segment("both", tags=["a", "b"]),
                segment("joined", tags=["a\nb"]),
                segment("longer", tags=["ab"]),
                segment("escaped", tags=["a\\nb"]),
            ]
        )
        assert find(tags=("a",)) == ["both"]
        assert find(tags=("a\nb",)) == ["joined"]
        assert find(tags=("a\\nb",)) == ["escaped"]
        assert find(tags=("",)) == []

    def test_hostile_filter_values_are_values(self, put: Callable[..., Find]) -> None:
        for n, name in enumerate(HOSTILE_NAMES):
            fields = {"file_path": name, "task_id": name, "tags": [name], "type": name}
            find = put([segment(f"h{n}", "x", **fields)])
        for n, name in enumerate(HOSTILE_NAMES):
            assert find(file_path=name, task_id=name, tags=(name,), types=(name,)) == [f"h{n}"]

    def test_the_limit_cuts_the_worst(self, put: Callable[..., Find]) -> None:
        find = put([segment(f"s{n}", "word " * n + "pad " * (9 - n)) for n in range(1, 9)] + FILLER)
        everything = find(words="word", limit=100)
        assert len(everything) == 8
        assert everything[0] == "s8"
        assert find(words="word", limit=3) == everything[:3]
        assert find(words="word", limit=10**30) == everything
        assert find(words="word", limit=0) == []
        assert find(limit=0) == []
        assert len(find()) == 16

    def test_replaced_and_removed_words_are_no_longer_found(self, store: Store) -> None:
        store.segments.write("w", put=[segment("a", "zebra"), segment("b", "zebra")])
        store.segments.write("w", put=[segment("a", "giraffe")], remove=["b"])
        assert store.segments.search("w", Query(words="zebra")) == ()
        assert len(store.segments.search("w", Query(words="giraffe"))) == 1
        store.stash.put("w", [stashed("a", text="zebra"), stashed("b", text="zebra")])
        store.stash.put("w", [stashed("a", text="giraffe")])
        store.stash.remove("w", "plan-1", ["b"])
        assert store.stash.search("w", Query(words="zebra")) == ()
        assert len(store.stash.search("w", Query(words="giraffe"))) == 1

    def test_another_handle_finds_it_too(self, store: Store, another: Opener) -> None:
        neighbour = another()
        neighbour.segments.search("w", Query(words="zebra"))
        neighbour.stash.search("w", Query(words="zebra"))
        store.segments.write("w", put=[segment("a", "zebra")])
        store.stash.put("w", [stashed("a", text="zebra")])
        assert len(neighbour.segments.search("w", Query(words="zebra"))) == 1
        assert len(neighbour.stash.search("w", Query(words="zebra"))) == 1

    def test_workspaces_do_not_find_each_others(self, store: Store) -> None:
        store.segments.write("one", put=[segment("a", "zebra")])
        store.stash.put("one", [stashed("a", text="zebra")])
        store.segments.write("two", put=[segment("b", "zebra")])
        store.stash.put("two", [stashed("b", text="zebra")])
        for words in ("zebra", ""):
            (live,) = store.segments.search("two", Query(words=words))
            (kept,) = store.stash.search("two", Query(words=words))
            assert live.found.segment_id == kept.found.segment.segment_id == "b"
        assert store.stash.search("three", Query(words="zebra")) == ()

    def test_without_words_the_stash_gives_the_last_put_first(self, store: Store) -> None:
        store.stash.put("w", [stashed("a"), stashed("b")])
        store.stash.put("w", [stashed("c"), stashed("a")])
        found = [hit.found.segment.segment_id for hit in store.stash.search("w", Query())]
        assert found == ["a", "c", "b"]

    def test_without_words_live_segments_come_last_touched_first(self, store: Store) -> None:
        store.segments.write(
            "w",
            put=[
                segment("old", last_touched_at=later(hours=1)),
                segment("new", last_touched_at=later(hours=3)),
                segment("mid", last_touched_at=later(hours=2)),
            ],
        )
        found = [hit.found.segment_id for hit in store.segments.search("w", Query())]
        assert found == ["new", "mid", "old"]

    def test_a_query_as_long_as_a_book_is_answered(self, put: Callable[..., Find]) -> None:
        find = put([segment("it", "needle"), *FILLER])
        assert find(words="needle " + " ".join(f"w{n}" for n in range(50_000))) == ["it"]

    def test_many_values_may_be_asked_for_at_once(self, put: Callable[..., Find]) -> None:
        tags = tuple(f"tag-{n}" for n in range(1_000))
        find = put([segment("it", "needle", tags=tags), *FILLER])
        types = (*(f"type-{n}" for n in range(1_000)), "note")
        assert find(words="needle", tags=tags, types=types) == ["it"]
        assert find(tags=tags, types=types) == ["it"]
