"""The contract of graph stores: remembering, hostile names, moving.

Derive a class from these and from those in `graph_search_contract`, `graph_merge_contract` and
`graph_sweep_contract`, and give it an `open_store` fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import msgspec
import pytest

from marksweep.errors import BadInput, StoreError
from marksweep.stores.graph.base import Copy, GraphQuery, GraphStore, Item, Link, LinkQuery, Nodes
from marksweep.stores.graph.nouns import Memory, Mention
from marksweep.stores.leases import hold
from tests.graph.graphs import HOSTILE, file, later, note

CALLERS = LinkQuery(relation="calls", to_name=True)
CALLEES = LinkQuery(relation="calls", to_name=False)

OpenStore = Callable[[], AbstractContextManager[GraphStore]]


class OnStore:
    """Opens a store for each test with `open_store`."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Iterator[GraphStore]:
        with open_store() as store:
            yield store


def everything(store: GraphStore, workspace_id: str) -> list[Item]:
    """Return a whole graph in an order that does not depend on its history."""
    return sorted(store.export(workspace_id), key=repr)


def shape(store: GraphStore, workspace_id: str) -> tuple[int, int, int, int, int]:
    """Count memories, chunks, entities, mentions and relations."""
    c = store.counts(workspace_id)
    return c.memories, c.chunks, c.entities, c.mentions, c.relations


def found(store: GraphStore, workspace_id: str, words: str) -> list[str]:
    """Search; return the texts of the chunks."""
    hits = store.search(workspace_id, GraphQuery(words=words))
    return [hit.chunk.text for hit in hits]


class RememberContract(OnStore):
    """What is put can be fetched, replaced, moved and removed."""

    def test_what_is_put_is_fetched_whole(self, store: GraphStore) -> None:
        record = file("w", "a.py", {"parse": ["read", "split"], "read": []})
        store.put("w", [record])
        (back,) = store.fetch("w", [record.memory.memory_id])
        assert back.memory == record.memory
        assert back.chunks == record.chunks
        assert back.entities == record.entities
        assert set(back.mentions) == set(record.mentions)
        assert set(back.relations) == set(record.relations)

    def test_every_property_of_a_memory_survives(self, store: GraphStore) -> None:
        plain = note("w", "remember me", tags=("b", "a", "b c"))
        memory = msgspec.structs.replace(
            plain.memory,
            metadata={"n": 1, "x": 1.5, "t": True, "none": None, "s": 'a "b"'},
            pinned=True,
            pinned_by="ann",
            read_at=later(days=1),
            last_seen_at=later(minutes=3),
            expires_at=later(days=9),
            lines=7,
        )
        store.put("w", [msgspec.structs.replace(plain, memory=memory)])
        (back,) = store.fetch("w", [memory.memory_id])
        assert back.memory == memory

    def test_a_copy_has_what_its_source_has_and_outlives_it(self, store: GraphStore) -> None:
        calls = {"parse": ["read", "split"], "read": []}
        source = file("w", "a.py", calls)
        twin = file("w", "a.py", calls, repository="/worktree")
        other = file("w", "a.py", {"parse": []}, repository="/other")
        store.put("w", [source])
        copies = [
            Copy(source.memory.memory_id, twin.memory),
            Copy(source.memory.memory_id, other.memory),
            Copy("gone", msgspec.structs.replace(other.memory, memory_id="m2")),
        ]
        assert store.copy("w", copies) == (twin.memory.memory_id,)
        (back,) = store.fetch("w", [twin.memory.memory_id])
        assert (back.memory, back.chunks, back.entities) == (
            twin.memory,
            twin.chunks,
            twin.entities,
        )
        assert set(back.mentions) == set(twin.mentions)
        assert set(back.relations) == set(twin.relations)
        store.remove("w", [source.memory.memory_id])
        assert found(store, "w", "split") == ["def parse(): read split"]
        assert shape(store, "w") == (1, 2, 3, 4, 2)
        store.put("w", [source])
        store.remove("w", [twin.memory.memory_id])
        assert found(store, "w", "split") == ["def parse(): read split"]
        store.remove("w", [source.memory.memory_id])
        assert found(store, "w", "split") == []
        assert shape(store, "w") == (0, 0, 0, 0, 0)

    def test_a_copy_over_a_memory_leaves_nothing_of_what_it_had(self, store: GraphStore) -> None:
        source = file("w", "a.py", {"parse": ["split"]})
        twin = file("w", "a.py", {"parse": ["split"]}, repository="/worktree")
        before = file("w", "a.py", {"old": ["gone"]}, repository="/worktree")
        store.put("w", [source, before])
        store.copy("w", [Copy(source.memory.memory_id, twin.memory)])
        assert shape(store, "w") == (2, 2, 2, 4, 2)

    def test_a_changed_file_loses_its_vanished_symbols(self, store: GraphStore) -> None:
        store.put("w", [file("w", "a.py", {"old": ["gone"], "kept": []})])
        store.put("w", [file("w", "a.py", {"kept": []})])
        clean = file("w", "a.py", {"kept": []})
        assert shape(store, "w") == (1, 1, 1, 1, 0)
        (back,) = store.fetch("w", [clean.memory.memory_id])
        assert [chunk.symbol for chunk in back.chunks] == ["kept"]
        assert found(store, "w", "gone") == []

    def test_an_entity_that_another_file_mentions_stays(self, store: GraphStore) -> None:
        store.put("w", [file("w", "a.py", {"a": ["shared"]}), file("w", "b.py", {"shared": []})])
        store.put("w", [file("w", "a.py", {"a": []})])
        assert {each.name for each in store.entities("w")} == {"a", "shared"}

    def test_putting_again_keeps_pin_creation_and_reading_times(self, store: GraphStore) -> None:
        record = file("w", "a.py", {"a": []})
        memory_id = record.memory.memory_id
        store.put("w", [record])
        assert store.pin("w", [memory_id], "ann: the entry point") == 1
        assert store.touch("w", [memory_id], later(days=1)) == 1
        store.put("w", [file("w", "a.py", {"b": []}, at=later(days=2))])
        (back,) = store.fetch("w", [memory_id])
        assert back.memory.created_at == record.memory.created_at
        assert back.memory.read_at == later(days=1)
        assert (back.memory.pinned, back.memory.pinned_by) == (True, "ann: the entry point")
        assert store.unpin("w", [memory_id]) == 1
        (back,) = store.fetch("w", [memory_id])
        assert (back.memory.pinned, back.memory.pinned_by) == (False, "")

    def test_a_moved_file_takes_its_pin_along_and_leaves_nothing(self, store: GraphStore) -> None:
        old = file("w", "old.py", {"a": ["b"]})
        store.put("w", [old])
        store.pin("w", [old.memory.memory_id], "ann")
        new = file("w", "new.py", {"a": ["b"]}, at=later(days=1), moved_from=old.memory.memory_id)
        store.put("w", [new])
        assert store.fetch("w", [old.memory.memory_id]) == ()
        (back,) = store.fetch("w", [new.memory.memory_id])
        assert back.memory.pinned_by == "ann"
        assert back.memory.created_at == old.memory.created_at
        assert shape(store, "w") == (1, 1, 2, 2, 1)

    def test_a_batch_is_written_whole_or_not_at_all(self, store: GraphStore) -> None:
        good = file("w", "a.py", {"a": []})
        broken = file("w", "b.py", {"b": []})
        broken = msgspec.structs.replace(broken, mentions=(Mention("no such chunk", "x"),))
        with pytest.raises(BadInput, match="a mention has no chunk"):
            store.put("w", [good, broken])
        assert shape(store, "w") == (0, 0, 0, 0, 0)

    def test_fetching_keeps_the_order_asked_for(self, store: GraphStore) -> None:
        records = [file("w", f"{name}.py", {name: []}) for name in "abc"]
        store.put("w", records)
        wanted = [records[i].memory.memory_id for i in (2, 0, 1)]
        back = store.fetch("w", [wanted[0], "unknown", *wanted[1:]])
        assert [each.memory.memory_id for each in back] == wanted

    def test_removing_takes_what_only_that_memory_holds(self, store: GraphStore) -> None:
        gone = file("w", "a.py", {"a": ["shared", "only"]})
        store.put("w", [gone, file("w", "b.py", {"b": ["shared"]})])
        removed = store.remove("w", [gone.memory.memory_id, "unknown"])
        assert removed.memories == (gone.memory.memory_id,)
        assert set(removed.chunks) == {chunk.chunk_id for chunk in gone.chunks}
        assert {each.name for each in store.entities("w")} == {"b", "shared"}
        assert found(store, "w", "only") == []

    def test_links_are_directed_and_say_where(self, store: GraphStore) -> None:
        store.put("w", [file("w", "a.py", {"top": ["middle"], "middle": ["leaf"]})])
        (caller,) = store.links("w", ["middle"], CALLERS)
        assert caller == Link("top", "middle", "calls", "a.py", "/repo", (1,))
        (callee,) = store.links("w", ["middle"], CALLEES)
        assert callee == Link("middle", "leaf", "calls", "a.py", "/repo", (2,))
        assert store.links("w", ["unknown"], CALLERS) == ()
        assert store.links("w", ["middle"], LinkQuery(relation="imports", to_name=True)) == ()

    def test_a_method_is_asked_for_by_its_whole_name_or_its_last_part(
        self, store: GraphStore
    ) -> None:
        made = {"Shop.open": [], "Door.open": [], "own": ["Shop.open"], "any": ["open"]}
        store.put("w", [file("w", "a.py", made)])

        def callers(name: str) -> list[str]:
            return [link.source for link in store.links("w", [name], CALLERS)]

        assert callers("open") == ["own", "any"]
        assert callers("Shop.open") == ["own", "any"]
        assert callers("Door.open") == ["any"]
        found = store.definitions("w", ["open"], 9)
        assert [(each.symbol, each.line) for each in found] == [("Shop.open", 1), ("Door.open", 2)]
        (only,) = store.definitions("w", ["Door.open"], 9)
        assert (only.symbol, only.file, only.kind) == ("Door.open", "a.py", "function")

    def test_the_number_of_links_is_bounded(self, store: GraphStore) -> None:
        store.put("w", [file("w", "a.py", {f"f{n}": ["leaf"] for n in range(9)})])
        few = store.links("w", ["leaf"], LinkQuery(relation="calls", to_name=True, limit=3))
        assert [link.source for link in few] == ["f0", "f1", "f2"]

    def test_what_only_hidden_files_say_is_not_a_link(self, store: GraphStore) -> None:
        stale = file("w", "stale.py", {"middle": ["old"]})
        deleted = file("w", "deleted.py", {"middle": ["gone", "leaf"]})
        live = file("w", "live.py", {"top": ["middle"], "middle": ["leaf"]})
        store.put("w", [live, stale, deleted])
        callees = {link.target for link in store.links("w", ["middle"], CALLEES)}
        assert callees == {"leaf", "old", "gone"}
        store.mark_stale("w", [stale.memory.memory_id])
        store.soft_delete(
            "w",
            Nodes(memories=(deleted.memory.memory_id,)),
            version=store.version("w"),
            plan_id="p1",
            at=later(days=1),
        )
        assert [link.target for link in store.links("w", ["middle"], CALLEES)] == ["leaf"]

    def test_an_unknown_workspace_is_empty(self, store: GraphStore) -> None:
        assert shape(store, "nowhere") == (0, 0, 0, 0, 0)
        assert store.fetch("nowhere", ["x"]) == ()
        assert store.search("nowhere", GraphQuery(words="x")) == ()
        assert store.files("nowhere", "/repo") == ()
        assert everything(store, "nowhere") == []
        assert store.survey("nowhere").memories == ()
        assert store.workspaces() == ()

    def test_the_version_grows_with_every_write(self, store: GraphStore) -> None:
        record = note("w", "one")
        seen = [store.version("w")]
        store.put("w", [record])
        seen.append(store.version("w"))
        store.touch("w", [record.memory.memory_id], later(days=1))
        seen.append(store.version("w"))
        assert seen == sorted(set(seen))

    def test_a_closed_store_refuses_further_calls(self, store: GraphStore) -> None:
        store.put("w", [note("w", "one")])
        store.close()
        with pytest.raises(StoreError):
            store.counts("w")


class HostileContract(OnStore):
    """No name, text or query is ever interpreted as part of a statement."""

    def test_hostile_names_are_only_names(self, store: GraphStore) -> None:
        bystander = note("bystander", "stays")
        store.put("bystander", [bystander])
        before = everything(store, "bystander")
        for name in HOSTILE:
            note_ = note(name, f"text {name}", source=name, mentions=(name,), tags=(name,))
            code = file(name, name, {name: [f"{name}2"]}, repository=name)
            store.put(name, [note_, code])
            memory_ids = [note_.memory.memory_id, code.memory.memory_id]
            back = store.fetch(name, memory_ids)
            assert [each.memory for each in back] == [note_.memory, code.memory], name
            assert [each.chunks for each in back] == [note_.chunks, code.chunks], name
            assert [row.relative_path for row in store.files(name, name)] == [name]
            assert store.pin(name, [note_.memory.memory_id], name) == 1
            query = GraphQuery(words=name, sources=(name,), tags=(name,))
            assert len(store.search(name, query)) <= 1
            store.search(name, GraphQuery(path=name, repository=name, words="text"))
            store.remove(name, [name])
            assert store.counts(name).memories == 2
        assert everything(store, "bystander") == before
        assert set(store.workspaces()) == {"bystander", *HOSTILE}

    def test_names_that_are_not_valid_text_are_names_too(self, store: GraphStore) -> None:
        odd = "odd \ud800 and nul \0"
        store.put(odd, [note(odd, "hello there", tags=(odd,), source=odd)])
        query = GraphQuery(words="hello", sources=(odd,), tags=(odd,), limit=10**30)
        (hit,) = store.search(odd, query)
        assert hit.memory.text == "hello there"
        assert store.search(odd, GraphQuery(limit=10**30))
        assert not store.search(odd, GraphQuery(languages=(odd,)))
        assert store.deleted(odd, plan_id=odd) == ()
        assert len(store.survey(odd).chunks) == 1
        assert len(store.survey_memories(odd).memories) == 1
        with hold(store, odd, "a test") as lease:
            lease.check()

    def test_a_limit_that_no_engine_can_count_to_is_no_limit(self, store: GraphStore) -> None:
        store.put("w", [file("w", "a.py", {"a": ["b"]})])
        without = msgspec.structs.replace(CALLERS, limit=10**30)
        assert [link.source for link in store.links("w", ["b"], without)] == ["a"]

    @pytest.mark.parametrize("value", [[1, 2], {"a": "b"}])
    def test_metadata_that_could_not_be_read_back_is_refused(
        self, store: GraphStore, value: object
    ) -> None:
        nested = note("w", "hello")
        memory = msgspec.structs.replace(nested.memory, metadata={"key": value})
        with pytest.raises(BadInput, match=r"metadata.*'key'"):
            store.put("w", [msgspec.structs.replace(nested, memory=memory)])
        assert everything(store, "w") == []

    def test_text_that_utf8_cannot_hold_is_replaced(self, store: GraphStore) -> None:
        store.put("w", [note("w", "half \ud800 and nul \0 end")])
        assert found(store, "w", "half") == ["half \ufffd and nul \ufffd end"]

    def test_a_query_of_operators_finds_nothing_and_breaks_nothing(self, store: GraphStore) -> None:
        store.put("w", [note("w", "plain words")])
        for words in ("* ^ -", '"', "(((", "%%%", "-words)", "a:b", "@words:{plain}", "NOT"):
            assert set(found(store, "w", words)) <= {"plain words"}


class MoveContract(OnStore):
    """What is exported and loaded elsewhere is the same graph."""

    def test_a_loaded_graph_equals_the_exported_one(self, store: GraphStore) -> None:
        store.put(
            "w",
            [
                file("w", "a.py", {"a": ["b", "c"], "b": ["a"]}),
                note("w", "Ada", mentions=("Ada",), tags=("t",)),
            ],
        )
        store.mark_stale("w", [file("w", "a.py", {}).memory.memory_id])
        exported = everything(store, "w")
        store.remove("w", [i.memory_id for i in exported if isinstance(i, Memory)])
        assert everything(store, "w") == []
        store.load("w", exported)
        assert everything(store, "w") == exported
        store.load("w", exported)
        assert everything(store, "w") == exported
        assert found(store, "w", "Ada") == ["Ada"]

    def test_what_was_deleted_meanwhile_is_loaded_as_it_was_exported(
        self, store: GraphStore
    ) -> None:
        record = note("w", "Ada", mentions=("Ada",))
        store.put("w", [record])
        alive = everything(store, "w")
        nodes = Nodes((record.memory.memory_id,), (record.chunks[0].chunk_id,))
        version = store.version("w")
        store.soft_delete("w", nodes, version=version, plan_id="plan-1", at=later(days=1))
        deleted = everything(store, "w")
        store.load("w", alive)
        assert everything(store, "w") == alive
        assert found(store, "w", "Ada") == ["Ada"]
        assert not store.deleted("w")
        store.load("w", deleted)
        assert everything(store, "w") == deleted
        assert found(store, "w", "Ada") == []

    def test_chunks_loaded_after_their_memory_are_found_by_its_path_and_tags(
        self, store: GraphStore
    ) -> None:
        code, tagged = file("w", "zebra/a.py", {"a": []}), note("w", "Ada", tags=("unicorn",))
        store.load("w", [code.memory, tagged.memory])
        store.load("w", [*code.chunks, *tagged.chunks])
        assert found(store, "w", "zebra") == [code.chunks[0].text]
        assert found(store, "w", "unicorn") == ["Ada"]

    def test_an_export_of_nodes_brings_their_chunks_and_edges(self, store: GraphStore) -> None:
        record = file("w", "a.py", {"a": ["b"]})
        store.put("w", [record, file("w", "b.py", {"b": []})])
        some = list(store.export("w", Nodes(memories=(record.memory.memory_id,))))
        assert record.memory in some
        brought = (*record.chunks, *record.mentions, *record.relations)
        assert all(item in some for item in brought)
        assert sum(isinstance(item, Memory) for item in some) == 1

    def test_orphans_are_loaded_as_orphans_until_their_memory_comes(
        self, store: GraphStore
    ) -> None:
        record = note("w", "lonely words", mentions=("Ada",))
        store.load("w", [*record.chunks, *record.entities, *record.mentions])
        assert store.survey("w").chunk_owners.tolist() == [-1]
        assert found(store, "w", "lonely") == []
        assert everything(store, "w") == sorted(
            [*record.chunks, *record.entities, *record.mentions], key=repr
        )
        store.load("w", [record.memory])
        assert found(store, "w", "lonely") == ["lonely words"]
