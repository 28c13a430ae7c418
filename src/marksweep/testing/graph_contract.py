"""The contract of graph stores: remembering, hostile names, moving.

Derive a class from these and from those in `graph_search_contract`, `graph_merge_contract` and
`graph_sweep_contract`, and give it an `open_store` fixture.
"""

# ruff: noqa: D102, S101  these are tests

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import msgspec
import pytest

from marksweep.errors import BadInput, StoreError
from marksweep.stores.graph.base import GraphQuery, GraphStore, Item, Nodes
from marksweep.stores.graph.nouns import Memory, Mention
from marksweep.testing.graphs import HOSTILE, entity, file, later, note

OpenStore = Callable[[], AbstractAsyncContextManager[GraphStore]]
Suite = TypeVar("Suite")


def on_store(
    test: Callable[[Suite, GraphStore], Awaitable[None]],
) -> Callable[[Suite, OpenStore], None]:
    """Run a test on a store opened for it, in an event loop of its own."""

    def run(self: Suite, open_store: OpenStore) -> None:
        async def body() -> None:
            async with open_store() as store:
                await test(self, store)

        asyncio.run(body())

    run.__name__ = run.__qualname__ = getattr(test, "__name__", "test")
    run.__doc__ = test.__doc__
    return run


async def everything(store: GraphStore, workspace_id: str) -> list[Item]:
    """Take a whole graph in an order that does not depend on how it came about."""
    return sorted([item async for item in store.export(workspace_id)], key=repr)


async def shape(store: GraphStore, workspace_id: str) -> tuple[int, int, int, int, int]:
    """Count memories, chunks, entities, mentions and relations."""
    c = await store.counts(workspace_id)
    return c.memories, c.chunks, c.entities, c.mentions, c.relations


async def found(store: GraphStore, workspace_id: str, words: str) -> list[str]:
    """Search, and tell the texts of the chunks."""
    hits = await store.search(workspace_id, GraphQuery(words=words))
    return [hit.chunk.text for hit in hits]


class RememberContract:
    """What is put can be fetched, replaced, moved and removed."""

    @on_store
    async def test_what_is_put_is_fetched_whole(self, store: GraphStore) -> None:
        record = file("w", "a.py", {"parse": ["read", "split"], "read": []})
        await store.put("w", [record])
        (back,) = await store.fetch("w", [record.memory.memory_id])
        assert back.memory == record.memory
        assert back.chunks == record.chunks
        assert back.entities == record.entities
        assert set(back.mentions) == set(record.mentions)
        assert set(back.relations) == set(record.relations)

    @on_store
    async def test_every_property_of_a_memory_survives(self, store: GraphStore) -> None:
        plain = note("w", "remember me", tags=("b", "a", "b c"))
        memory = msgspec.structs.replace(
            plain.memory,
            metadata={"n": 1, "x": 1.5, "t": True, "none": None, "s": 'a "b"'},
            pinned=True,
            pinned_by="ann",
            read_at=later(days=1),
            last_seen_at=later(minutes=3),
            lines=7,
        )
        await store.put("w", [msgspec.structs.replace(plain, memory=memory)])
        (back,) = await store.fetch("w", [memory.memory_id])
        assert back.memory == memory

    @on_store
    async def test_a_changed_file_loses_its_vanished_symbols(self, store: GraphStore) -> None:
        await store.put("w", [file("w", "a.py", {"old": ["gone"], "kept": []})])
        await store.put("w", [file("w", "a.py", {"kept": []})])
        clean = file("w", "a.py", {"kept": []})
        assert await shape(store, "w") == (1, 1, 1, 1, 0)
        (back,) = await store.fetch("w", [clean.memory.memory_id])
        assert [chunk.symbol for chunk in back.chunks] == ["kept"]
        assert await found(store, "w", "gone") == []

    @on_store
    async def test_an_entity_that_another_file_mentions_stays(self, store: GraphStore) -> None:
        await store.put(
            "w", [file("w", "a.py", {"a": ["shared"]}), file("w", "b.py", {"shared": []})]
        )
        await store.put("w", [file("w", "a.py", {"a": []})])
        assert {each.name for each in await store.entities("w")} == {"a", "shared"}

    @on_store
    async def test_putting_again_keeps_pin_creation_and_reading_times(
        self, store: GraphStore
    ) -> None:
        record = file("w", "a.py", {"a": []})
        memory_id = record.memory.memory_id
        await store.put("w", [record])
        assert await store.pin("w", [memory_id], "ann: the entry point") == 1
        assert await store.touch("w", [memory_id], later(days=1)) == 1
        await store.put("w", [file("w", "a.py", {"b": []}, at=later(days=2))])
        (back,) = await store.fetch("w", [memory_id])
        assert back.memory.created_at == record.memory.created_at
        assert back.memory.read_at == later(days=1)
        assert (back.memory.pinned, back.memory.pinned_by) == (True, "ann: the entry point")
        assert await store.unpin("w", [memory_id]) == 1
        (back,) = await store.fetch("w", [memory_id])
        assert (back.memory.pinned, back.memory.pinned_by) == (False, "")

    @on_store
    async def test_a_moved_file_takes_its_pin_along_and_leaves_nothing(
        self, store: GraphStore
    ) -> None:
        old = file("w", "old.py", {"a": ["b"]})
        await store.put("w", [old])
        await store.pin("w", [old.memory.memory_id], "ann")
        new = file("w", "new.py", {"a": ["b"]}, at=later(days=1), moved_from=old.memory.memory_id)
        await store.put("w", [new])
        assert await store.fetch("w", [old.memory.memory_id]) == ()
        (back,) = await store.fetch("w", [new.memory.memory_id])
        assert back.memory.pinned_by == "ann"
        assert back.memory.created_at == old.memory.created_at
        assert await shape(store, "w") == (1, 1, 2, 2, 1)

    @on_store
    async def test_a_batch_is_written_whole_or_not_at_all(self, store: GraphStore) -> None:
        good = file("w", "a.py", {"a": []})
        broken = file("w", "b.py", {"b": []})
        broken = msgspec.structs.replace(broken, mentions=(Mention("no such chunk", "x"),))
        with pytest.raises(BadInput, match="a mention has no chunk"):
            await store.put("w", [good, broken])
        assert await shape(store, "w") == (0, 0, 0, 0, 0)

    @on_store
    async def test_fetching_keeps_the_order_asked_for(self, store: GraphStore) -> None:
        records = [file("w", f"{name}.py", {name: []}) for name in "abc"]
        await store.put("w", records)
        wanted = [records[i].memory.memory_id for i in (2, 0, 1)]
        back = await store.fetch("w", [wanted[0], "unknown", *wanted[1:]])
        assert [each.memory.memory_id for each in back] == wanted

    @on_store
    async def test_removing_takes_what_only_that_memory_holds(self, store: GraphStore) -> None:
        gone = file("w", "a.py", {"a": ["shared", "only"]})
        await store.put("w", [gone, file("w", "b.py", {"b": ["shared"]})])
        removed = await store.remove("w", [gone.memory.memory_id, "unknown"])
        assert removed.memories == (gone.memory.memory_id,)
        assert set(removed.chunks) == {chunk.chunk_id for chunk in gone.chunks}
        assert {each.name for each in await store.entities("w")} == {"b", "shared"}
        assert await found(store, "w", "only") == []

    @on_store
    async def test_neighbours_are_found_both_ways(self, store: GraphStore) -> None:
        await store.put("w", [file("w", "a.py", {"top": ["middle"], "middle": ["leaf"]})])
        near = await store.neighbours("w", [entity("w", "middle").entity_id])
        assert [each.name for each in near] == ["leaf", "top"]
        assert await store.neighbours("w", ["unknown"]) == ()

    @on_store
    async def test_what_only_hidden_files_relate_is_no_neighbour(self, store: GraphStore) -> None:
        stale = file("w", "stale.py", {"middle": ["old"]})
        deleted = file("w", "deleted.py", {"middle": ["gone", "leaf"]})
        live = file("w", "live.py", {"top": ["middle"], "middle": ["leaf"]})
        await store.put("w", [live, stale, deleted])
        middle = [entity("w", "middle").entity_id]
        assert {each.name for each in await store.neighbours("w", middle)} == {
            *("top", "leaf", "old", "gone")
        }
        await store.mark_stale("w", [stale.memory.memory_id])
        await store.soft_delete(
            "w",
            Nodes(memories=(deleted.memory.memory_id,)),
            version=await store.version("w"),
            plan_id="p1",
            at=later(days=1),
        )
        assert [each.name for each in await store.neighbours("w", middle)] == ["leaf", "top"]

    @on_store
    async def test_an_unknown_workspace_is_empty(self, store: GraphStore) -> None:
        assert await shape(store, "nowhere") == (0, 0, 0, 0, 0)
        assert await store.fetch("nowhere", ["x"]) == ()
        assert await store.search("nowhere", GraphQuery(words="x")) == ()
        assert await store.files("nowhere", "/repo") == ()
        assert await everything(store, "nowhere") == []
        assert (await store.survey("nowhere")).memories == ()
        assert await store.workspaces() == ()

    @on_store
    async def test_the_version_grows_with_every_write(self, store: GraphStore) -> None:
        record = note("w", "one")
        seen = [await store.version("w")]
        await store.put("w", [record])
        seen.append(await store.version("w"))
        await store.touch("w", [record.memory.memory_id], later(days=1))
        seen.append(await store.version("w"))
        assert seen == sorted(set(seen))

    @on_store
    async def test_a_closed_store_refuses_further_calls(self, store: GraphStore) -> None:
        await store.put("w", [note("w", "one")])
        await store.close()
        with pytest.raises(StoreError):
            await store.counts("w")


class HostileContract:
    """No name, text or query is ever read as part of a statement."""

    @on_store
    async def test_hostile_names_are_only_names(self, store: GraphStore) -> None:
        bystander = note("bystander", "stays")
        await store.put("bystander", [bystander])
        before = await everything(store, "bystander")
        for name in HOSTILE:
            note_ = note(name, f"text {name}", source=name, mentions=(name,), tags=(name,))
            code = file(name, name, {name: [f"{name}2"]}, repository=name)
            await store.put(name, [note_, code])
            memory_ids = [note_.memory.memory_id, code.memory.memory_id]
            back = await store.fetch(name, memory_ids)
            assert [each.memory for each in back] == [note_.memory, code.memory], name
            assert [each.chunks for each in back] == [note_.chunks, code.chunks], name
            assert [row.relative_path for row in await store.files(name, name)] == [name]
            assert await store.pin(name, [note_.memory.memory_id], name) == 1
            query = GraphQuery(words=name, sources=(name,), tags=(name,))
            assert len(await store.search(name, query)) <= 1
            await store.search(name, GraphQuery(path=name, repository=name, words="text"))
            await store.remove(name, [name])
            assert (await store.counts(name)).memories == 2
        assert await everything(store, "bystander") == before
        assert set(await store.workspaces()) == {"bystander", *HOSTILE}

    @on_store
    async def test_text_that_utf8_cannot_hold_is_replaced(self, store: GraphStore) -> None:
        await store.put("w", [note("w", "half \ud800 and nul \0 end")])
        assert await found(store, "w", "half") == ["half \ufffd and nul \ufffd end"]

    @on_store
    async def test_a_query_of_operators_finds_nothing_and_breaks_nothing(
        self, store: GraphStore
    ) -> None:
        await store.put("w", [note("w", "plain words")])
        for words in ("* ^ -", '"', "(((", "%%%", "-words)", "a:b", "@words:{plain}", "NOT"):
            assert set(await found(store, "w", words)) <= {"plain words"}


class MoveContract:
    """What is exported and loaded elsewhere is the same graph."""

    @on_store
    async def test_a_loaded_graph_equals_the_exported_one(self, store: GraphStore) -> None:
        await store.put(
            "w",
            [
                file("w", "a.py", {"a": ["b", "c"], "b": ["a"]}),
                note("w", "Ada", mentions=("Ada",), tags=("t",)),
            ],
        )
        await store.mark_stale("w", [file("w", "a.py", {}).memory.memory_id])
        exported = await everything(store, "w")
        await store.remove("w", [i.memory_id for i in exported if isinstance(i, Memory)])
        assert await everything(store, "w") == []
        await store.load("w", exported)
        assert await everything(store, "w") == exported
        await store.load("w", exported)
        assert await everything(store, "w") == exported
        assert await found(store, "w", "Ada") == ["Ada"]

    @on_store
    async def test_an_export_of_nodes_brings_their_chunks_and_edges(
        self, store: GraphStore
    ) -> None:
        record = file("w", "a.py", {"a": ["b"]})
        await store.put("w", [record, file("w", "b.py", {"b": []})])
        some = [i async for i in store.export("w", Nodes(memories=(record.memory.memory_id,)))]
        assert record.memory in some
        brought = (*record.chunks, *record.mentions, *record.relations)
        assert all(item in some for item in brought)
        assert sum(isinstance(item, Memory) for item in some) == 1

    @on_store
    async def test_orphans_are_loaded_as_orphans_until_their_memory_comes(
        self, store: GraphStore
    ) -> None:
        record = note("w", "lonely words", mentions=("Ada",))
        await store.load("w", [*record.chunks, *record.entities, *record.mentions])
        assert (await store.survey("w")).chunk_owners.tolist() == [-1]
        assert await found(store, "w", "lonely") == []
        assert await everything(store, "w") == sorted(
            [*record.chunks, *record.entities, *record.mentions], key=repr
        )
        await store.load("w", [record.memory])
        assert await found(store, "w", "lonely") == ["lonely words"]
