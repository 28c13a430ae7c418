"""The contract of graph stores, continued: merging entities permanently."""

from __future__ import annotations

from marksweep.stores.graph.base import GraphStore, Item
from marksweep.stores.graph.nouns import Alias, Mention, Relation
from tests.graph.graph_contract import CALLEES, CALLERS, OnStore, everything
from tests.graph.graphs import entity, file, note

CONFIG, LOWER, SHORT = (entity("w", name) for name in ("Config", "config", "cfg"))


def names(store: GraphStore) -> set[str]:
    """Return the names of the live entities."""
    return {each.name for each in store.entities("w")}


def linked(store: GraphStore) -> set[str]:
    """Return what `Config` calls and what calls it."""
    to = {link.source for link in store.links("w", ["Config"], CALLERS)}
    return to | {link.target for link in store.links("w", ["Config"], CALLEES)}


def calls(items: list[Item]) -> set[tuple[str, str]]:
    """Return the ends of the relations."""
    return {(i.source_id, i.target_id) for i in items if isinstance(i, Relation)}


class MergeContract(OnStore):
    """Merged entities are one from then on, whatever is added."""

    def test_merged_entities_keep_all_their_edges(self, store: GraphStore) -> None:
        store.put(
            "w",
            [
                file("w", "a.py", {"caller": ["Config"]}),
                file("w", "b.py", {"other": ["config"], "config": ["deep"]}),
            ],
        )
        assert store.merge("w", CONFIG.entity_id, [LOWER.entity_id, "unknown"]) == 1
        assert linked(store) == {"caller", "other", "deep"}
        assert "config" not in names(store)
        mentions = [i for i in everything(store, "w") if isinstance(i, Mention)]
        assert sum(m.entity_id == CONFIG.entity_id for m in mentions) == 3

    def test_what_comes_later_under_a_merged_name_goes_to_the_one_that_was_kept(
        self, store: GraphStore
    ) -> None:
        store.put("w", [file("w", "a.py", {"a": ["Config"]}), file("w", "b.py", {"b": ["config"]})])
        store.merge("w", CONFIG.entity_id, [LOWER.entity_id])
        store.put("w", [file("w", "b.py", {"b": ["config"], "new": ["config"]})])
        assert names(store) == {"a", "b", "new", "Config"}
        assert linked(store) == {"a", "b", "new"}

    def test_the_kept_name_outlives_the_file_that_wrote_it(self, store: GraphStore) -> None:
        first, second = file("w", "a.py", {"a": ["Config"]}), file("w", "b.py", {"b": ["config"]})
        store.put("w", [first, second])
        store.merge("w", CONFIG.entity_id, [LOWER.entity_id])
        store.put("w", [file("w", "a.py", {"a": []}), file("w", "b.py", {"b": []})])
        assert names(store) == {"a", "b"}
        store.put("w", [second])
        assert names(store) == {"a", "b", "Config"}

    def test_merging_what_was_merged_into_leaves_one(self, store: GraphStore) -> None:
        record = file("w", "a.py", {"a": ["Config"], "b": ["config"], "c": ["cfg"]})
        store.put("w", [record])
        store.merge("w", LOWER.entity_id, [SHORT.entity_id])
        store.merge("w", CONFIG.entity_id, [LOWER.entity_id])
        store.put("w", [record])
        assert names(store) == {"a", "b", "c", "Config"}
        aliases = {i for i in everything(store, "w") if isinstance(i, Alias)}
        assert aliases == {
            Alias(gone.entity_id, CONFIG.entity_id, "Config", "function") for gone in (LOWER, SHORT)
        }

    def test_a_relation_between_the_merged_goes_and_one_to_itself_stays(
        self, store: GraphStore
    ) -> None:
        store.put("w", [file("w", "a.py", {"Config": ["config"], "config": ["config"]})])
        store.merge("w", CONFIG.entity_id, [LOWER.entity_id])
        merged = everything(store, "w")
        assert calls(merged) == {(CONFIG.entity_id, CONFIG.entity_id)}
        store.put("w", [file("w", "a.py", {"Config": ["config"], "config": ["config"]})])
        assert calls(everything(store, "w")) == calls(merged)

    def test_aliases_move_with_the_graph(self, store: GraphStore) -> None:
        record = file("w", "a.py", {"a": ["Config", "config"]})
        store.put("w", [record])
        store.merge("w", CONFIG.entity_id, [LOWER.entity_id])
        before = everything(store, "w")
        store.load("v", before)
        assert [i for i in everything(store, "v") if isinstance(i, Alias)] == [
            Alias(LOWER.entity_id, CONFIG.entity_id, "Config", "function")
        ]
        store.load("w", [entity("w", "config")])
        assert everything(store, "w") == before

    def test_erasing_the_last_memory_of_a_name_forgets_its_aliases(self, store: GraphStore) -> None:
        secret = note("w", "about them", mentions=("Ada", "ada"))
        store.put("w", [secret])
        keep, gone = entity("w", "Ada", "name"), entity("w", "ada", "name")
        store.merge("w", keep.entity_id, [gone.entity_id])
        store.remove("w", [secret.memory.memory_id])
        assert everything(store, "w") == []

    def test_a_merge_of_what_is_not_there_changes_nothing(self, store: GraphStore) -> None:
        store.put("w", [file("w", "a.py", {"a": ["Config"]})])
        before = everything(store, "w")
        assert store.merge("w", CONFIG.entity_id, ["unknown", CONFIG.entity_id]) == 0
        assert store.merge("w", "unknown", [CONFIG.entity_id]) == 0
        assert everything(store, "w") == before
