"""The contract of graph stores: searching. See `graph_contract`."""

from __future__ import annotations

import msgspec

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

    def test_a_word_is_found_as_it_is_written_and_not_by_its_stem(self, store: GraphStore) -> None:
        store.put("w", [note("w", "letting go"), note("w", "let it be"), note("w", "lets")])
        assert found(store, "w", "letting") == ["letting go"]
        assert found(store, "w", "let") == ["let it be"]

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
