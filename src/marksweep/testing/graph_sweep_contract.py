"""The contract of graph stores: runs, soft deletion, purging, isolation, leases."""

# ruff: noqa: D102, S101  these are tests

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from marksweep.errors import StoreBusy
from marksweep.stores.graph.base import GraphStore, Nodes, Run, Seen
from marksweep.stores.graph.leases import hold, new_holder
from marksweep.stores.graph.nouns import Kind, Memory, Record
from marksweep.testing.graph_contract import everything, found, on_store, shape
from marksweep.testing.graphs import START, entity, file, later, note


async def begin(store: GraphStore, run_id: str, repository: str = "/repo") -> None:
    """Begin a run."""
    await store.begin_run("w", Run(run_id, repository, "all files", START))


def nodes_of(*records: Record) -> Nodes:
    """Name records' memories, chunks and entities."""
    return Nodes(
        tuple(each.memory.memory_id for each in records),
        tuple(chunk.chunk_id for each in records for chunk in each.chunks),
        tuple({entity.entity_id for each in records for entity in each.entities}),
    )


def ids_of(*records: Record) -> list[str]:
    """Name records' memories."""
    return [each.memory.memory_id for each in records]


class RunContract:
    """Stale is set once, at the end of a complete run, within its repository and scope."""

    @on_store
    async def test_what_a_complete_run_did_not_see_becomes_stale(self, store: GraphStore) -> None:
        kept, gone = file("w", "kept.py", {"a": []}), file("w", "gone.py", {"b": []})
        await begin(store, "run-1")
        await store.put("w", [kept, gone])
        await store.finish_run("w", "run-1", ids_of(kept, gone), later(minutes=1))
        await begin(store, "run-2")
        await store.stamp("w", "run-2", [Seen(kept.memory.memory_id, 9, 99)], later(days=1))
        run = await store.finish_run("w", "run-2", ids_of(kept, gone), later(days=1))
        assert (run.seen, run.stale, run.finished_at) == (1, 1, later(days=1))
        rows = {row.relative_path: row for row in await store.files("w", "/repo")}
        assert not rows["kept.py"].stale
        assert (rows["kept.py"].size, rows["kept.py"].mtime_ns) == (9, 99)
        assert rows["gone.py"].stale
        assert await found(store, "w", "def") == ["def a(): "]

    @on_store
    async def test_an_interrupted_run_makes_nothing_stale(self, store: GraphStore) -> None:
        await begin(store, "run-1")
        await store.put("w", [file("w", "a.py", {"a": []}), file("w", "b.py", {"b": []})])
        await store.finish_run("w", "run-1", ids_of(file("w", "a.py", {})), later(minutes=1))
        await begin(store, "run-2")
        await store.stamp("w", "run-2", [], later(days=1))
        assert (await store.counts("w")).stale == 0
        newest, oldest = await store.runs("w", "/repo")
        assert {newest.run_id, oldest.run_id} == {"run-1", "run-2"}
        assert {newest.finished_at, oldest.finished_at} == {None, later(minutes=1)}

    @on_store
    async def test_neither_another_repository_nor_another_scope_is_touched(
        self, store: GraphStore
    ) -> None:
        mine = file("w", "a.py", {"a": []})
        theirs = file("w", "a.py", {"a": []}, repository="/other")
        go = file("w", "a.go", {"g": []}, language="go")
        remark = note("w", "a note")
        await store.put("w", [mine, theirs, go, remark])
        await begin(store, "run-2")
        await store.finish_run("w", "run-2", ids_of(mine, theirs, remark), later(days=1))
        assert [r.stale for r in await store.files("w", "/repo")] == [False, True]
        assert [r.stale for r in await store.files("w", "/other")] == [False]
        assert (await store.counts("w")).stale == 1

    @on_store
    async def test_a_stale_file_that_is_seen_again_is_live(self, store: GraphStore) -> None:
        record = file("w", "a.py", {"alpha": []})
        await store.put("w", [record])
        assert await store.mark_stale("w", ids_of(record)) == 1
        assert await store.mark_stale("w", ids_of(record)) == 0
        assert await found(store, "w", "alpha") == []
        await begin(store, "run-2")
        await store.stamp("w", "run-2", [Seen(record.memory.memory_id, 1, 1)], later(days=1))
        assert await found(store, "w", "alpha") == ["def alpha(): "]

    @on_store
    async def test_only_code_memories_can_become_stale(self, store: GraphStore) -> None:
        remark = note("w", "a note")
        await store.put("w", [remark])
        assert await store.mark_stale("w", ids_of(remark)) == 0


class SweepContract:
    """What is hidden can come back until it is purged; what changed is left alone."""

    @on_store
    async def test_a_survey_holds_every_node_and_strong_edge(self, store: GraphStore) -> None:
        code = file("w", "a.py", {"a": ["b"], "c": []})
        await store.put("w", [code, note("w", "Ada", mentions=("Ada",))])
        survey = await store.survey("w")
        assert survey.version == await store.version("w")
        memory_ids = {row.key: row.memory_id for row in survey.memories}
        chunk_ids = dict(
            zip(survey.chunks, await store.ids("w", Kind.CHUNK, survey.chunks), strict=True)
        )
        entity_ids = dict(
            zip(survey.entities, await store.ids("w", Kind.ENTITY, survey.entities), strict=True)
        )
        owned = {
            (memory_ids[owner], chunk_ids[chunk])
            for chunk, owner in zip(survey.chunks, survey.chunk_owners, strict=True)
        }
        assert {(c.memory_id, c.chunk_id) for c in code.chunks} <= owned
        assert len(owned) == 3
        mentions = {
            (chunk_ids[chunk], entity_ids[entity_])
            for chunk, entity_ in zip(survey.mention_chunks, survey.mention_entities, strict=True)
        }
        assert {(m.chunk_id, m.entity_id) for m in code.mentions} <= mentions
        assert len(mentions) == 4

    @on_store
    async def test_a_survey_of_the_memories_holds_the_same_memories(
        self, store: GraphStore
    ) -> None:
        await store.put("w", [file("w", "a.py", {"a": ["b"]}), note("w", "Ada")])
        whole, light = await store.survey("w"), await store.survey_memories("w")
        assert (light.version, light.memories) == (whole.version, whole.memories)
        assert len(light.memories) == 2
        assert not light.chunks
        assert (await store.survey_memories("nowhere")).memories == ()

    @on_store
    async def test_every_kind_of_write_raises_the_version(self, store: GraphStore) -> None:
        code, other = file("w", "a.py", {"a": ["b"]}), note("w", "Ada", mentions=("Ada", "ADA"))
        memory_id = code.memory.memory_id
        entities = [entity.entity_id for entity in other.entities]
        versions = [await store.version("w")]

        async def wrote(work: Awaitable[object]) -> None:
            await work
            versions.append(await store.version("w"))
            assert versions[-1] > versions[-2]

        await wrote(store.put("w", [code, other]))
        await wrote(store.pin("w", [memory_id], "ann"))
        await wrote(store.unpin("w", [memory_id]))
        await wrote(store.touch("w", [memory_id], later(days=1)))
        await wrote(store.merge("w", entities[0], entities[1:]))
        await wrote(begin(store, "r"))
        await wrote(store.stamp("w", "r", [Seen(memory_id, 1, 1)], later(days=2)))
        await wrote(store.finish_run("w", "r", [memory_id], later(days=3)))
        await wrote(store.mark_stale("w", [memory_id]))
        nodes = nodes_of(code)
        seen = await store.version("w")
        await wrote(store.soft_delete("w", nodes, version=seen, plan_id="p", at=later(days=4)))
        await wrote(store.restore("w", nodes))
        seen = await store.version("w")
        await wrote(store.soft_delete("w", nodes, version=seen, plan_id="p", at=later(days=4)))
        await wrote(store.purge("w", nodes, before=later(days=9)))
        await wrote(store.load("w", [code.memory]))
        await wrote(store.remove("w", [memory_id]))

    @on_store
    async def test_soft_deleted_rows_do_not_show_and_can_be_restored(
        self, store: GraphStore
    ) -> None:
        record = note("w", "hide and seek", mentions=("Ada",))
        await store.put("w", [record, note("w", "seek elsewhere")])
        before = await everything(store, "w")
        version = await store.version("w")
        done = await store.soft_delete(
            "w", nodes_of(record), version=version, plan_id="p1", at=later(days=1)
        )
        assert done == nodes_of(record)
        assert await found(store, "w", "seek") == ["seek elsewhere"]
        assert await store.entities("w") == ()
        counts = await store.counts("w")
        assert (counts.memories, counts.deleted) == (1, 3)
        rows = await store.deleted("w", plan_id="p1")
        assert {row.node_id for row in rows} == {
            *done.memories,
            *done.chunks,
            *done.entities,
        }
        assert {row.deleted_at for row in rows} == {later(days=1)}
        assert await store.deleted("w", before=later(days=1)) == ()
        back = await store.restore("w", Nodes(memories=record_id(record)))
        assert back == done
        assert await everything(store, "w") == before

    @on_store
    async def test_rows_that_changed_since_the_plan_are_left_alone(self, store: GraphStore) -> None:
        records = [note("w", f"note {n}", mentions=(f"Name{n}",)) for n in range(5)]
        touched, pinned, rewritten, shared, plain = records
        await store.put("w", records)
        version = await store.version("w")
        await store.touch("w", ids_of(touched), later(minutes=1))
        await store.pin("w", ids_of(pinned), "ann")
        await store.put("w", [rewritten])
        await store.put("w", [note("w", "new holder", mentions=("Name3",))])
        done = await store.soft_delete(
            "w", nodes_of(*records), version=version, plan_id="p", at=later(days=1)
        )
        assert set(done.memories) == set(ids_of(shared, plain))
        assert set(done.chunks) == {c.chunk_id for r in (shared, plain) for c in r.chunks}
        assert done.entities == (plain.entities[0].entity_id,)

    @on_store
    async def test_a_pinned_memory_is_never_hidden(self, store: GraphStore) -> None:
        record = note("w", "pinned")
        await store.put("w", [record])
        await store.pin("w", ids_of(record), "ann")
        version = await store.version("w")
        done = await store.soft_delete(
            "w", nodes_of(record), version=version, plan_id="p", at=START
        )
        assert len(done) == 0
        assert await found(store, "w", "pinned") == ["pinned"]

    @on_store
    async def test_a_deleted_file_that_is_seen_again_comes_back_whole(
        self, store: GraphStore
    ) -> None:
        record = file("w", "a.py", {"alpha": ["beta"]})
        await store.put("w", [record])
        before = {each.name for each in await store.entities("w")}
        await hide(store, record)
        await begin(store, "run-2")
        await store.stamp("w", "run-2", [Seen(record.memory.memory_id, 1, 1)], later(days=2))
        assert await found(store, "w", "alpha") == ["def alpha(): beta"]
        assert {each.name for each in await store.entities("w")} == before
        assert (await store.counts("w")).deleted == 0

    @on_store
    async def test_purging_erases_only_what_is_past_its_grace(self, store: GraphStore) -> None:
        old, young = note("w", "old", mentions=("Old",)), note("w", "young", mentions=("Young",))
        live = note("w", "live", mentions=("Live",))
        await store.put("w", [old, young, live])
        await hide(store, old, day=1)
        await hide(store, young, day=5)
        every = nodes_of(old, young, live)
        gone = await store.purge("w", every, before=later(days=3))
        assert gone == nodes_of(old)
        assert (await store.counts("w")).deleted == 3
        assert await store.fetch("w", ids_of(old)) == ()
        assert await store.purge("w", every, before=later(days=3)) == Nodes()
        assert await found(store, "w", "live") == ["live"]

    @on_store
    async def test_purging_spares_what_came_back_to_life(self, store: GraphStore) -> None:
        back = note("w", "back", mentions=("Shared",))
        gone = note("w", "gone", mentions=("Shared",))
        await store.put("w", [back, gone])
        await hide(store, back, gone)
        await store.restore("w", Nodes(memories=record_id(back)))
        purged = await store.purge("w", nodes_of(back, gone), before=later(days=9))
        assert purged.memories == record_id(gone)
        assert purged.entities == ()
        assert [each.name for each in await store.entities("w")] == ["Shared"]
        assert await shape(store, "w") == (1, 1, 1, 1, 0)

    @on_store
    async def test_purging_a_memory_takes_its_chunks_words_and_relations(
        self, store: GraphStore
    ) -> None:
        record = file("w", "a.py", {"alpha": ["beta"]})
        await store.put("w", [record, file("w", "b.py", {"alpha": [], "beta": []})])
        await hide(store, record)
        gone = await store.purge("w", Nodes(memories=record_id(record)), before=later(days=9))
        assert gone.chunks == nodes_of(record).chunks
        assert await shape(store, "w") == (1, 2, 2, 2, 0)
        assert (await store.counts("w")).deleted == 0

    @on_store
    async def test_purging_many_rows_works_in_batches(self, store: GraphStore) -> None:
        records = [file("w", f"{n}.py", {f"f{n}": ["shared"]}) for n in range(1200)]
        await store.put("w", records)
        await hide(store, *records)
        gone = await store.purge("w", nodes_of(*records), before=later(days=9))
        assert len(gone) == len(nodes_of(*records))
        assert await everything(store, "w") == []

    @on_store
    async def test_an_island_of_related_entities_can_be_purged(self, store: GraphStore) -> None:
        record = file("w", "a.py", {"ping": ["pong"], "pong": ["ping"]})
        await store.load("w", [*record.entities, *record.relations])
        nodes = Nodes(entities=tuple(each.entity_id for each in record.entities))
        version = await store.version("w")
        done = await store.soft_delete("w", nodes, version=version, plan_id="p", at=START)
        assert set(done.entities) == set(nodes.entities)
        await store.purge("w", done, before=later(days=9))
        assert await everything(store, "w") == []

    @on_store
    async def test_no_operation_reaches_another_workspace(self, store: GraphStore) -> None:
        for workspace_id in ("w", "other"):
            await store.put(
                workspace_id,
                [
                    file(workspace_id, "a.py", {"a": ["b"]}),
                    note(workspace_id, "same", mentions=("Ada",)),
                ],
            )
        before = await everything(store, "other"), await store.version("other")
        strangers = [i.memory_id for i in before[0] if isinstance(i, Memory)]
        nodes = nodes_of(file("other", "a.py", {"a": ["b"]}), note("other", "same"))
        await store.pin("w", strangers, "x")
        await store.touch("w", strangers, later(days=1))
        await store.mark_stale("w", strangers)
        await begin(store, "run-9")
        await store.stamp("w", "run-9", [Seen(each, 1, 1) for each in strangers], later(days=1))
        await store.finish_run("w", "run-9", strangers, later(days=1))
        version = await store.version("w") + 100
        await store.soft_delete("w", nodes, version=version, plan_id="p", at=START)
        await store.restore("w", nodes)
        await store.purge("w", nodes, before=later(days=9))
        await store.merge("w", entity("other", "a").entity_id, [entity("other", "b").entity_id])
        await store.remove("w", strangers)
        assert (await everything(store, "other"), await store.version("other")) == before


class LeaseContract:
    """One holder at a time, and a dead one holds nothing."""

    @on_store
    async def test_a_lease_has_one_holder(self, store: GraphStore) -> None:
        first, second = new_holder(), new_holder()
        assert await store.acquire("w", "prune", first, 30) == ""
        assert await store.acquire("w", "prune", second, 30) == first
        assert await store.acquire("w", "index", second, 30) == ""
        assert await store.acquire("other", "prune", second, 30) == ""
        assert await store.renew("w", "prune", first, 30)
        assert not await store.renew("w", "prune", second, 30)
        await store.release("w", "prune", second)
        assert await store.acquire("w", "prune", second, 30) == first
        await store.release("w", "prune", first)
        assert await store.acquire("w", "prune", second, 30) == ""

    @on_store
    async def test_a_lease_ends_by_itself(self, store: GraphStore) -> None:
        first, second = "elsewhere:1:x", new_holder()
        assert await store.acquire("w", "prune", first, 0.05) == ""
        await asyncio.sleep(0.1)
        assert await store.acquire("w", "prune", second, 30) == ""
        assert not await store.renew("w", "prune", first, 30)

    @on_store
    async def test_nobody_waits_for_a_dead_process(self, store: GraphStore) -> None:
        process = await asyncio.create_subprocess_exec("true")
        await process.wait()
        host = new_holder().rsplit(":", 2)[0]
        assert await store.acquire("w", "prune", f"{host}:{process.pid}:x", 60) == ""
        assert await store.acquire("w", "prune", new_holder(), 60) == ""

    @on_store
    async def test_a_held_workspace_refuses_and_says_who_has_it(self, store: GraphStore) -> None:
        async with hold(store, "w", "prune"):
            with pytest.raises(StoreBusy, match="held for prune by process"):
                async with hold(store, "w", "prune", wait_seconds=0.1):
                    pass
        async with hold(store, "w", "prune") as lease:
            await lease.check()


async def hide(store: GraphStore, *records: Record, day: float = 1) -> None:
    """Soft-delete records."""
    version = await store.version("w")
    await store.soft_delete(
        "w", nodes_of(*records), version=version, plan_id=f"p{day}", at=later(days=day)
    )


def record_id(record: Record) -> tuple[str, ...]:
    """Name one record's memory."""
    return (record.memory.memory_id,)
