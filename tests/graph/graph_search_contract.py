"""The contract of graph stores: searching. See `graph_contract`."""

from __future__ import annotations

import msgspec

from marksweep.search.ranking import CONSIDERED
from marksweep.stores.graph.base import GraphQuery, GraphStore
from tests.graph.graph_contract import OnStore, found
from tests.graph.graphs import file, later, note


class SearchContract(OnStore):
    """Search finds live chunks by their words, best first, and nothing by accident."""

    def test_more_matching_words_rank_higher(self, store: GraphStore) -> None:
        store.put(
            "w",
            [
                note("w", "parse the configuration file"),
                note("w", "parse a date"),
                note("w", "bake a cake"),
            ],
        )
        texts = found(store, "w", "parse configuration")
        assert texts[0] == "parse the configuration file"
        assert set(texts) == {"parse the configuration file", "parse a date"}

    def test_a_word_is_found_by_its_stem_and_a_name_by_its_parts(self, store: GraphStore) -> None:
        texts = ("planned a route", "plans and routes", "planets", "the planRoute call")
        store.put("w", [note("w", text) for text in texts])
        assert set(found(store, "w", "planning")) == {texts[0], texts[1], texts[3]}
        assert set(found(store, "w", "route")) == {texts[0], texts[1], texts[3]}
        assert found(store, "w", "plan_route")[0] == texts[3]

    def test_a_name_asked_for_as_it_is_written_comes_first(self, store: GraphStore) -> None:
        store.put(
            "w",
            [
                file("w", "a.py", {"caller": ["open", "open", "open"], "other": ["open"]}),
                file("w", "b.py", {"Shop.open": ["one", "two", "three", "four", "five", "six"]}),
                file("w", "c.py", {"Open": ["one", "two", "three", "four", "five", "six"]}),
                note("w", "open open open open"),
            ],
        )
        symbols = [hit.chunk.symbol for hit in store.search("w", GraphQuery(words="open"))]
        assert symbols[:2] == ["Shop.open", "Open"]
        for words in ("where is Shop.open defined", "Shop.open()", "Shop::open"):
            (first, *_) = store.search("w", GraphQuery(words=words))
            assert first.chunk.symbol == "Shop.open", words

    def test_a_name_is_found_among_many_better_matches_of_its_words(
        self, store: GraphStore
    ) -> None:
        others = {f"open_{n}.open_it": ["open"] * 9 for n in range(3 * CONSIDERED)}
        long = [f"word{n}" for n in range(400)]
        store.put("w", [file("w", "a.py", others), file("w", "b.py", {"Shop.open": long})])
        (hit,) = store.search("w", GraphQuery(words="open", limit=1))
        assert hit.chunk.symbol == "Shop.open"

    def test_a_chunk_that_two_roots_have_is_one_hit(self, store: GraphStore) -> None:
        store.put("w", [file("w", "a.py", {"parse": []}, repository=f"/{n}") for n in "xy"])
        (hit,) = store.search("w", GraphQuery(words="parse"))
        (other,) = store.search("w", GraphQuery(words="parse", repository="/y"))
        assert (hit.memory.repository, other.memory.repository) in (("/x", "/y"), ("/y", "/y"))

    def test_what_was_superseded_shows_only_as_of_then(self, store: GraphStore) -> None:
        old, new = note("w", "the port is 80"), note("w", "the port is 8080", at=later(days=2))
        third = note("w", "there is none", at=later(days=3))
        ids = (old.memory.memory_id, new.memory.memory_id, "unknown")
        store.put("w", [old])
        for each in (new, third):  # the third replaces the new one; the old one already was
            store.put("w", [msgspec.structs.replace(each, replaces=ids)])
        assert found(store, "w", "port") == []
        then = store.search("w", GraphQuery(words="port", as_of=later(days=1)))
        assert [hit.memory.text for hit in then] == ["the port is 80"]
        between = store.search("w", GraphQuery(as_of=later(days=2, minutes=1)))
        assert [hit.memory.text for hit in between] == ["the port is 8080"]
        (kept,) = store.fetch("w", [old.memory.memory_id])
        assert kept.memory.superseded_by == new.memory.memory_id
        assert kept.memory.superseded_at == later(days=2)
        store.put("w", [old])  # added again: valid again
        assert found(store, "w", "port") == ["the port is 80"]

    def test_a_note_past_its_time_to_live_shows_only_as_of_then(self, store: GraphStore) -> None:
        made = note("w", "the branch is frozen")
        memory = msgspec.structs.replace(made.memory, expires_at=later(days=2))
        store.put("w", [msgspec.structs.replace(made, memory=memory)])
        for words in ("branch", ""):
            ask = GraphQuery(words=words)
            for query, shown in (
                (msgspec.structs.replace(ask, now=later(days=1)), 1),
                (msgspec.structs.replace(ask, now=later(days=2)), 0),
                (msgspec.structs.replace(ask, now=later(days=3), as_of=later(days=1)), 1),
                (msgspec.structs.replace(ask, now=later(days=3), as_of=later(days=2)), 0),
            ):
                assert len(store.search("w", query)) == shown, query

    def test_words_in_titles_repeated_words_and_short_texts_rank_higher(
        self, store: GraphStore
    ) -> None:
        texts = ("fox and fox and fox here", "fox here", "a fox in a text that goes on for longer")
        store.put("w", [note("w", text) for text in texts])
        store.put("w", [note("w", "the fox again", tags=("fox",))])
        assert found(store, "w", "fox") == ["the fox again", *texts]

    def test_what_other_workspaces_hold_does_not_change_the_order(self, store: GraphStore) -> None:
        texts = ("red fox", "blue fox and more", "red hen and more words")
        store.put("w", [note("w", text) for text in texts])
        before = store.search("w", GraphQuery(words="red fox"))
        store.put("other", [note("other", f"red {n}") for n in range(50)])
        assert store.search("w", GraphQuery(words="red fox")) == before

    def test_words_inside_identifiers_and_paths_are_found(self, store: GraphStore) -> None:
        store.put("w", [file("w", "src/load_config.py", {"read_all_rows": []})])
        for words in ("rows", "read_all_rows", "config", "load_config.py", "READ"):
            assert len(found(store, "w", words)) == 1, words

    def test_filters_all_have_to_match(self, store: GraphStore) -> None:
        store.put(
            "w",
            [
                note("w", "alpha one", source="chat", tags=("x", "y")),
                note("w", "alpha two", source="chat", tags=("x",), at=later(days=1)),
                file("w", "src/alpha.py", {"alpha": []}, language="python"),
                file("w", "src2/alpha.go", {"alpha": []}, language="go", repository="/other"),
            ],
        )

        def hits(query: GraphQuery) -> set[str]:
            found = store.search("w", msgspec.structs.replace(query, words="alpha"))
            return {hit.memory.relative_path or hit.memory.text for hit in found}

        assert hits(GraphQuery(sources=("chat",))) == {"alpha one", "alpha two"}
        assert hits(GraphQuery(tags=("x", "y"))) == {"alpha one"}
        assert hits(GraphQuery(since=later(days=1))) == {"alpha two"}
        assert "alpha two" not in hits(GraphQuery(until=later(days=1)))
        without_zone = later(days=1).replace(tzinfo=None)
        assert hits(GraphQuery(since=without_zone)) == {"alpha two"}
        assert hits(GraphQuery(languages=("go", "rust"))) == {"src2/alpha.go"}
        assert hits(GraphQuery(repository="/repo")) == {"src/alpha.py"}
        assert hits(GraphQuery(path="src")) == {"src/alpha.py"}
        assert hits(GraphQuery(path="src/alpha.py")) == {"src/alpha.py"}
        assert hits(GraphQuery(sources=("chat",), languages=("go",))) == set()

    def test_without_words_the_newest_come_first(self, store: GraphStore) -> None:
        store.put("w", [note("w", f"note {day}", at=later(days=day)) for day in (2, 0, 1)])
        hits = store.search("w", GraphQuery(limit=2))
        assert [hit.memory.text for hit in hits] == ["note 2", "note 1"]

    def test_a_hit_names_what_its_chunk_mentions(self, store: GraphStore) -> None:
        store.put("w", [note("w", "Ada met Grace", mentions=("Ada", "Grace"))])
        (hit,) = store.search("w", GraphQuery(words="met"))
        assert {each.name for each in hit.entities} == {"Ada", "Grace"}

    def test_the_limit_is_kept_among_many_hidden_rows(self, store: GraphStore) -> None:
        hidden = [file("w", f"old{i}.py", {"needle": []}) for i in range(300)]
        store.put("w", [*hidden, note("w", "needle in a long haystack of other words")])
        store.mark_stale("w", [each.memory.memory_id for each in hidden])
        assert found(store, "w", "needle") == ["needle in a long haystack of other words"]
