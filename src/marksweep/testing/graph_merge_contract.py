"""The contract of graph stores, continued: merging entities, for good."""

# ruff: noqa: D102, S101  these are tests

from __future__ import annotations

from marksweep.stores.graph.base import GraphStore, Item
from marksweep.stores.graph.nouns import Alias, Mention, Relation
from marksweep.testing.graph_contract import everything, on_store
from marksweep.testing.graphs import entity, file, note

CONFIG, LOWER, SHORT = (entity("w", name) for name in ("Config", "config", "cfg"))


async def names(store: GraphStore) -> set[str]:
    """Name the live entities."""
    return {each.name for each in await store.entities("w")}


def calls(items: list[Item]) -> set[tuple[str, str]]:
    """Give the ends of the relations."""
    return {(i.source_id, i.target_id) for i in items if isinstance(i, Relation)}


class MergeContract:
    """Entities that were merged are one from then on, whatever is put."""

    @on_store
    async def test_merged_entities_keep_all_their_edges(self, store: GraphStore) -> None:
        await store.put(
            "w",
            [
                file("w", "a.py", {"caller": ["Config"]}),
                file("w", "b.py", {"other": ["config"], "config": ["deep"]}),
            ],
        )
        assert await store.merge("w", CONFIG.entity_id, [LOWER.entity_id, "unknown"]) == 1
        near = await store.neighbours("w", [CONFIG.entity_id])
        assert {each.name for each in near} == {"caller", "other", "deep"}
        assert "config" not in await names(store)
        mentions = [i for i in await everything(store, "w") if isinstance(i, Mention)]
        assert sum(m.entity_id == CONFIG.entity_id for m in mentions) == 3

    @on_store
    async def test_what_comes_later_under_a_merged_name_goes_to_the_one_that_was_kept(
        self, store: GraphStore
    ) -> None:
        await store.put(
            "w", [file("w", "a.py", {"a": ["Config"]}), file("w", "b.py", {"b": ["config"]})]
        )
        await store.merge("w", CONFIG.entity_id, [LOWER.entity_id])
        await store.put("w", [file("w", "b.py", {"b": ["config"], "new": ["config"]})])
        assert await names(store) == {"a", "b", "new", "Config"}
        near = await store.neighbours("w", [CONFIG.entity_id])
        assert {each.name for each in near} == {"a", "b", "new"}

    @on_store
    async def test_the_kept_name_outlives_the_file_that_wrote_it(self, store: GraphStore) -> None:
        first, second = file("w", "a.py", {"a": ["Config"]}), file("w", "b.py", {"b": ["config"]})
        await store.put("w", [first, second])
        await store.merge("w", CONFIG.entity_id, [LOWER.entity_id])
        await store.put("w", [file("w", "a.py", {"a": []}), file("w", "b.py", {"b": []})])
        assert await names(store) == {"a", "b"}
        await store.put("w", [second])
        assert await names(store) == {"a", "b", "Config"}

    @on_store
    async def test_merging_what_was_merged_into_leaves_one(self, store: GraphStore) -> None:
        record = file("w", "a.py", {"a": ["Config"], "b": ["config"], "c": ["cfg"]})
        await store.put("w", [record])
        await store.merge("w", LOWER.entity_id, [SHORT.entity_id])
        await store.merge("w", CONFIG.entity_id, [LOWER.entity_id])
        await store.put("w", [record])
        assert await names(store) == {"a", "b", "c", "Config"}
        aliases = {i for i in await everything(store, "w") if isinstance(i, Alias)}
        assert aliases == {
            Alias(gone.entity_id, CONFIG.entity_id, "Config", "function") for gone in (LOWER, SHORT)
        }

    @on_store
    async def test_a_relation_between_the_merged_goes_and_one_to_itself_stays(
        self, store: GraphStore
    ) -> None:
        await store.put("w", [file("w", "a.py", {"Config": ["config"], "config": ["config"]})])
        await store.merge("w", CONFIG.entity_id, [LOWER.entity_id])
        merged = await everything(store, "w")
        assert calls(merged) == {(CONFIG.entity_id, CONFIG.entity_id)}
        await store.put("w", [file("w", "a.py", {"Config": ["config"], "config": ["config"]})])
        assert calls(await everything(store, "w")) == calls(merged)

    @on_store
    async def test_aliases_move_with_the_graph(self, store: GraphStore) -> None:
        record = file("w", "a.py", {"a": ["Config", "config"]})
        await store.put("w", [record])
        await store.merge("w", CONFIG.entity_id, [LOWER.entity_id])
        before = await everything(store, "w")
        await store.load("v", before)
        assert [i for i in await everything(store, "v") if isinstance(i, Alias)] == [
            Alias(LOWER.entity_id, CONFIG.entity_id, "Config", "function")
        ]
        await store.load("w", [entity("w", "config")])
        assert await everything(store, "w") == before

    @on_store
    async def test_erasing_the_last_memory_of_a_name_forgets_its_aliases(
        self, store: GraphStore
    ) -> None:
        secret = note("w", "about them", mentions=("Ada", "ada"))
        await store.put("w", [secret])
        keep, gone = entity("w", "Ada", "name"), entity("w", "ada", "name")
        await store.merge("w", keep.entity_id, [gone.entity_id])
        await store.remove("w", [secret.memory.memory_id])
        assert await everything(store, "w") == []

    @on_store
    async def test_a_merge_of_what_is_not_there_changes_nothing(self, store: GraphStore) -> None:
        await store.put("w", [file("w", "a.py", {"a": ["Config"]})])
        before = await everything(store, "w")
        assert await store.merge("w", CONFIG.entity_id, ["unknown", CONFIG.entity_id]) == 0
        assert await store.merge("w", "unknown", [CONFIG.entity_id]) == 0
        assert await everything(store, "w") == before
