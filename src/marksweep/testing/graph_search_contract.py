"""The contract of graph stores: searching. See `graph_contract`."""

# ruff: noqa: D102, S101  these are tests

from __future__ import annotations

import msgspec

from marksweep.stores.graph.base import GraphQuery, GraphStore
from marksweep.testing.graph_contract import found, on_store
from marksweep.testing.graphs import file, later, note


class SearchContract:
    """Search finds live chunks by their words, best first, and nothing by accident."""

    @on_store
    async def test_more_matching_words_rank_higher(self, store: GraphStore) -> None:
        await store.put(
            "w",
            [
                note("w", "parse the configuration file"),
                note("w", "parse a date"),
                note("w", "bake a cake"),
            ],
        )
        texts = await found(store, "w", "parse configuration")
        assert texts[0] == "parse the configuration file"
        assert set(texts) == {"parse the configuration file", "parse a date"}

    @on_store
    async def test_a_word_is_found_as_it_is_written_and_not_by_its_stem(
        self, store: GraphStore
    ) -> None:
        await store.put("w", [note("w", "letting go"), note("w", "let it be"), note("w", "lets")])
        assert await found(store, "w", "letting") == ["letting go"]
        assert await found(store, "w", "let") == ["let it be"]

    @on_store
    async def test_words_in_titles_repeated_words_and_short_texts_rank_higher(
        self, store: GraphStore
    ) -> None:
        texts = ("fox and fox and fox here", "fox here", "a fox in a text that goes on for longer")
        await store.put("w", [note("w", text) for text in texts])
        await store.put("w", [note("w", "the fox again", tags=("fox",))])
        assert await found(store, "w", "fox") == ["the fox again", *texts]

    @on_store
    async def test_what_other_workspaces_hold_does_not_change_the_order(
        self, store: GraphStore
    ) -> None:
        texts = ("red fox", "blue fox and more", "red hen and more words")
        await store.put("w", [note("w", text) for text in texts])
        before = await store.search("w", GraphQuery(words="red fox"))
        await store.put("other", [note("other", f"red {n}") for n in range(50)])
        assert await store.search("w", GraphQuery(words="red fox")) == before

    @on_store
    async def test_words_inside_identifiers_and_paths_are_found(self, store: GraphStore) -> None:
        await store.put("w", [file("w", "src/load_config.py", {"read_all_rows": []})])
        for words in ("rows", "read_all_rows", "config", "load_config.py", "READ"):
            assert len(await found(store, "w", words)) == 1, words

    @on_store
    async def test_filters_all_have_to_match(self, store: GraphStore) -> None:
        await store.put(
            "w",
            [
                note("w", "alpha one", source="chat", tags=("x", "y")),
                note("w", "alpha two", source="chat", tags=("x",), at=later(days=1)),
                file("w", "src/alpha.py", {"alpha": []}, language="python"),
                file("w", "src2/alpha.go", {"alpha": []}, language="go", repository="/other"),
            ],
        )

        async def hits(query: GraphQuery) -> set[str]:
            found = await store.search("w", msgspec.structs.replace(query, words="alpha"))
            return {hit.memory.relative_path or hit.memory.text for hit in found}

        assert await hits(GraphQuery(sources=("chat",))) == {"alpha one", "alpha two"}
        assert await hits(GraphQuery(tags=("x", "y"))) == {"alpha one"}
        assert await hits(GraphQuery(since=later(days=1))) == {"alpha two"}
        assert "alpha two" not in await hits(GraphQuery(until=later(days=1)))
        assert await hits(GraphQuery(languages=("go", "rust"))) == {"src2/alpha.go"}
        assert await hits(GraphQuery(repository="/repo")) == {"src/alpha.py"}
        assert await hits(GraphQuery(path="src")) == {"src/alpha.py"}
        assert await hits(GraphQuery(path="src/alpha.py")) == {"src/alpha.py"}
        assert await hits(GraphQuery(sources=("chat",), languages=("go",))) == set()

    @on_store
    async def test_without_words_the_newest_come_first(self, store: GraphStore) -> None:
        await store.put("w", [note("w", f"note {day}", at=later(days=day)) for day in (2, 0, 1)])
        hits = await store.search("w", GraphQuery(limit=2))
        assert [hit.memory.text for hit in hits] == ["note 2", "note 1"]

    @on_store
    async def test_a_hit_names_what_its_chunk_mentions(self, store: GraphStore) -> None:
        await store.put("w", [note("w", "Ada met Grace", mentions=("Ada", "Grace"))])
        (hit,) = await store.search("w", GraphQuery(words="met"))
        assert {each.name for each in hit.entities} == {"Ada", "Grace"}

    @on_store
    async def test_the_limit_is_kept_among_many_hidden_rows(self, store: GraphStore) -> None:
        hidden = [file("w", f"old{i}.py", {"needle": []}) for i in range(300)]
        await store.put("w", [*hidden, note("w", "needle in a long haystack of other words")])
        await store.mark_stale("w", [each.memory.memory_id for each in hidden])
        assert await found(store, "w", "needle") == ["needle in a long haystack of other words"]
