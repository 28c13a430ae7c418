"""The contract of graph stores: runs, soft deletion, purging, isolation, leases."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import pytest

from marksweep.errors import StoreBusy
from marksweep.stores.graph.base import GraphStore, Nodes, Run, Seen
from marksweep.stores.graph.nouns import Kind, Memory, Record
from marksweep.stores.leases import hold, new_holder
from tests.graph.graph_contract import OnStore, everything, found, shape
from tests.graph.graphs import START, entity, file, later, note


def begin(store: GraphStore, run_id: str, repository: str = "/repo") -> None:
    """Begin a run."""
    store.begin_run("w", Run(run_id, repository, "all files", START))


def nodes_of(*records: Record) -> Nodes:
    """Return the ids of records' memories, chunks and entities."""
    return Nodes(
        tuple(each.memory.memory_id for each in records),
        tuple(chunk.chunk_id for each in records for chunk in each.chunks),
        tuple({entity.entity_id for each in records for entity in each.entities}),
    )


def ids_of(*records: Record) -> list[str]:
    """Return the ids of records' memories."""
    return [each.memory.memory_id for each in records]


class RunContract(OnStore):
    """Stale is set once, at the end of a complete run, within its repository and scope."""

    def test_what_a_complete_run_did_not_see_becomes_stale(self, store: GraphStore) -> None:
        kept, gone = file("w", "kept.py", {"a": []}), file("w", "gone.py", {"b": []})
        begin(store, "run-1")
        store.put("w", [kept, gone])
        store.finish_run("w", "run-1", ids_of(kept, gone), later(minutes=1))
        begin(store, "run-2")
        store.stamp("w", "run-2", [Seen(kept.memory.memory_id, 9, 99)], later(days=1))
        run = store.finish_run("w", "run-2", ids_of(kept, gone), later(days=1))
        assert (run.seen, run.stale, run.finished_at) == (1, 1, later(days=1))
        rows = {row.relative_path: row for row in store.files("w", "/repo")}
        assert not rows["kept.py"].stale
        assert (rows["kept.py"].size, rows["kept.py"].mtime_ns) == (9, 99)
        assert rows["gone.py"].stale
        assert found(store, "w", "def") == ["def a(): "]

    def test_a_file_that_was_seen_elsewhere_is_there_from_then_on(self, store: GraphStore) -> None:
        record = file("w", "a.py", {"a": []})
        store.put("w", [record])
        begin(store, "run-2")
        store.stamp("w", "run-2", [Seen(record.memory.memory_id, 1, 1, "/new/a.py")], later(days=1))
        assert [row.file_path for row in store.files("w", "/repo")] == ["/new/a.py"]
        store.stamp("w", "run-2", [Seen(record.memory.memory_id, 2, 2)], later(days=1))
        assert [row.file_path for row in store.files("w", "/repo")] == ["/new/a.py"]

    def test_an_interrupted_run_makes_nothing_stale(self, store: GraphStore) -> None:
        begin(store, "run-1")
        store.put("w", [file("w", "a.py", {"a": []}), file("w", "b.py", {"b": []})])
        store.finish_run("w", "run-1", ids_of(file("w", "a.py", {})), later(minutes=1))
        begin(store, "run-2")
        store.stamp("w", "run-2", [], later(days=1))
        assert store.counts("w").stale == 0
        newest, oldest = store.runs("w", "/repo")
        assert {newest.run_id, oldest.run_id} == {"run-1", "run-2"}
        assert {newest.finished_at, oldest.finished_at} == {None, later(minutes=1)}

    def test_neither_another_repository_nor_another_scope_is_touched(
        self, store: GraphStore
    ) -> None:
        mine = file("w", "a.py", {"a": []})
        theirs = file("w", "a.py", {"a": []}, repository="/other")
        go = file("w", "a.go", {"g": []}, language="go")
        remark = note("w", "a note")
        store.put("w", [mine, theirs, go, remark])
        begin(store, "run-2")
        store.finish_run("w", "run-2", ids_of(mine, theirs, remark), later(days=1))
        assert [r.stale for r in store.files("w", "/repo")] == [False, True]
        assert [r.stale for r in store.files("w", "/other")] == [False]
        assert store.counts("w").stale == 1

    def test_a_stale_file_that_is_seen_again_is_live(self, store: GraphStore) -> None:
        record = file("w", "a.py", {"alpha": []})
        store.put("w", [record])
        assert store.mark_stale("w", ids_of(record)) == 1
        assert store.mark_stale("w", ids_of(record)) == 0
        assert found(store, "w", "alpha") == []
        begin(store, "run-2")
        store.stamp("w", "run-2", [Seen(record.memory.memory_id, 1, 1)], later(days=1))
        assert found(store, "w", "alpha") == ["def alpha(): "]

    def test_only_code_memories_can_become_stale(self, store: GraphStore) -> None:
        remark = note("w", "a note")
        store.put("w", [remark])
        assert store.mark_stale("w", ids_of(remark)) == 0


class SweepContract(OnStore):
    """What is hidden can be restored until it is purged; what changed is left alone."""

    def test_a_survey_holds_every_node_and_strong_edge(self, store: GraphStore) -> None:
        code = file("w", "a.py", {"a": ["b"], "c": []})
        store.put("w", [code, note("w", "Ada", mentions=("Ada",))])
        survey = store.survey("w")
        assert survey.version == store.version("w")
        memory_ids = {row.key: row.memory_id for row in survey.memories}
        chunk_ids = dict(zip(survey.chunks, store.ids("w", Kind.CHUNK, survey.chunks), strict=True))
        entity_ids = dict(
            zip(survey.entities, store.ids("w", Kind.ENTITY, survey.entities), strict=True)
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

    def test_a_survey_of_the_memories_holds_the_same_memories(self, store: GraphStore) -> None:
        store.put("w", [file("w", "a.py", {"a": ["b"]}), note("w", "Ada")])
        whole, light = store.survey("w"), store.survey_memories("w")
        assert (light.version, light.memories) == (whole.version, whole.memories)
        assert len(light.memories) == 2
        assert not light.chunks
        assert store.survey_memories("nowhere").memories == ()

    def test_every_kind_of_write_raises_the_version(self, store: GraphStore) -> None:
        code, other = file("w", "a.py", {"a": ["b"]}), note("w", "Ada", mentions=("Ada", "ADA"))
        memory_id = code.memory.memory_id
        entities = [entity.entity_id for entity in other.entities]
        versions = [store.version("w")]

        nodes = nodes_of(code)

        def hide() -> None:
            store.soft_delete("w", nodes, version=store.version("w"), plan_id="p", at=later(days=4))

        writes: tuple[Callable[[], object], ...] = (
            lambda: store.put("w", [code, other]),
            lambda: store.pin("w", [memory_id], "ann"),
            lambda: store.unpin("w", [memory_id]),
            lambda: store.touch("w", [memory_id], later(days=1)),
            lambda: store.merge("w", entities[0], entities[1:]),
            lambda: begin(store, "r"),
            lambda: store.stamp("w", "r", [Seen(memory_id, 1, 1)], later(days=2)),
            lambda: store.finish_run("w", "r", [memory_id], later(days=3)),
            lambda: store.mark_stale("w", [memory_id]),
            hide,
            lambda: store.restore("w", nodes),
            hide,
            lambda: store.purge("w", nodes, before=later(days=9)),
            lambda: store.load("w", [code.memory]),
            lambda: store.remove("w", [memory_id]),
        )
        for write in writes:
            write()
            versions.append(store.version("w"))
            assert versions[-1] > versions[-2]

    def test_soft_deleted_rows_do_not_show_and_can_be_restored(self, store: GraphStore) -> None:
        record = note("w", "hide and seek", mentions=("Ada",))
        store.put("w", [record, note("w", "seek elsewhere")])
        before = everything(store, "w")
        version = store.version("w")
        done = store.soft_delete(
            "w", nodes_of(record), version=version, plan_id="p1", at=later(days=1)
        )
        assert done == nodes_of(record)
        assert found(store, "w", "seek") == ["seek elsewhere"]
        assert store.entities("w") == ()
        counts = store.counts("w")
        assert (counts.memories, counts.deleted) == (1, 3)
        rows = store.deleted("w", plan_id="p1")
        assert {row.node_id for row in rows} == {
            *done.memories,
            *done.chunks,
            *done.entities,
        }
        assert {row.deleted_at for row in rows} == {later(days=1)}
        assert store.deleted("w", before=later(days=1)) == ()
        back = store.restore("w", Nodes(memories=record_id(record)))
        assert back == done
        assert everything(store, "w") == before

    def test_rows_that_changed_since_the_plan_are_left_alone(self, store: GraphStore) -> None:
        records = [note("w", f"note {n}", mentions=(f"Name{n}",)) for n in range(5)]
        touched, pinned, rewritten, shared, plain = records
        store.put("w", records)
        version = store.version("w")
        store.touch("w", ids_of(touched), later(minutes=1))
        store.pin("w", ids_of(pinned), "ann")
        store.put("w", [rewritten])
        store.put("w", [note("w", "new holder", mentions=("Name3",))])
        done = store.soft_delete(
            "w", nodes_of(*records), version=version, plan_id="p", at=later(days=1)
        )
        assert set(done.memories) == set(ids_of(shared, plain))
        assert set(done.chunks) == {c.chunk_id for r in (shared, plain) for c in r.chunks}
        assert done.entities == (plain.entities[0].entity_id,)

    def test_a_pinned_memory_is_never_hidden(self, store: GraphStore) -> None:
        record = note("w", "pinned")
        store.put("w", [record])
        store.pin("w", ids_of(record), "ann")
        version = store.version("w")
        done = store.soft_delete("w", nodes_of(record), version=version, plan_id="p", at=START)
        assert len(done) == 0
        assert found(store, "w", "pinned") == ["pinned"]

    def test_a_deleted_file_that_is_seen_again_comes_back_whole(self, store: GraphStore) -> None:
        record = file("w", "a.py", {"alpha": ["beta"]})
        store.put("w", [record])
        before = {each.name for each in store.entities("w")}
        hide(store, record)
        begin(store, "run-2")
        store.stamp("w", "run-2", [Seen(record.memory.memory_id, 1, 1)], later(days=2))
        assert found(store, "w", "alpha") == ["def alpha(): beta"]
        assert {each.name for each in store.entities("w")} == before
        assert store.counts("w").deleted == 0

    def test_purging_erases_only_what_is_past_its_grace(self, store: GraphStore) -> None:
        old, young = note("w", "old", mentions=("Old",)), note("w", "young", mentions=("Young",))
        live = note("w", "live", mentions=("Live",))
        store.put("w", [old, young, live])
        hide(store, old, day=1)
        hide(store, young, day=5)
        every = nodes_of(old, young, live)
        gone = store.purge("w", every, before=later(days=3))
        assert gone == nodes_of(old)
        assert store.counts("w").deleted == 3
        assert store.fetch("w", ids_of(old)) == ()
        assert store.purge("w", every, before=later(days=3)) == Nodes()
        assert found(store, "w", "live") == ["live"]

    def test_purging_spares_what_came_back_to_life(self, store: GraphStore) -> None:
        back = note("w", "back", mentions=("Shared",))
        gone = note("w", "gone", mentions=("Shared",))
        store.put("w", [back, gone])
        hide(store, back, gone)
        store.restore("w", Nodes(memories=record_id(back)))
        purged = store.purge("w", nodes_of(back, gone), before=later(days=9))
        assert purged.memories == record_id(gone)
        assert purged.entities == ()
        assert [each.name for each in store.entities("w")] == ["Shared"]
        assert shape(store, "w") == (1, 1, 1, 1, 0)

    def test_purging_a_memory_takes_its_chunks_words_and_relations(self, store: GraphStore) -> None:
        record = file("w", "a.py", {"alpha": ["beta"]})
        store.put("w", [record, file("w", "b.py", {"alpha": [], "beta": []})])
        hide(store, record)
        gone = store.purge("w", Nodes(memories=record_id(record)), before=later(days=9))
        assert gone.chunks == nodes_of(record).chunks
        assert shape(store, "w") == (1, 2, 2, 2, 0)
        assert store.counts("w").deleted == 0

    def test_purging_many_rows_works_in_batches(self, store: GraphStore) -> None:
        records = [file("w", f"{n}.py", {f"f{n}": ["shared"]}) for n in range(1200)]
        store.put("w", records)
        hide(store, *records)
        gone = store.purge("w", nodes_of(*records), before=later(days=9))
        assert len(gone) == len(nodes_of(*records))
        assert everything(store, "w") == []

    def test_an_island_of_related_entities_can_be_purged(self, store: GraphStore) -> None:
        record = file("w", "a.py", {"ping": ["pong"], "pong": ["ping"]})
        store.load("w", [*record.entities, *record.relations])
        nodes = Nodes(entities=tuple(each.entity_id for each in record.entities))
        version = store.version("w")
        done = store.soft_delete("w", nodes, version=version, plan_id="p", at=START)
        assert set(done.entities) == set(nodes.entities)
        store.purge("w", done, before=later(days=9))
        assert everything(store, "w") == []

    def test_no_operation_reaches_another_workspace(self, store: GraphStore) -> None:
        for workspace_id in ("w", "other"):
            store.put(
                workspace_id,
                [
                    file(workspace_id, "a.py", {"a": ["b"]}),
                    note(workspace_id, "same", mentions=("Ada",)),
                ],
            )
        before = everything(store, "other"), store.version("other")
        others = [i.memory_id for i in before[0] if isinstance(i, Memory)]
        nodes = nodes_of(file("other", "a.py", {"a": ["b"]}), note("other", "same"))
        store.pin("w", others, "x")
        store.touch("w", others, later(days=1))
        store.mark_stale("w", others)
        begin(store, "run-9")
        store.stamp("w", "run-9", [Seen(each, 1, 1) for each in others], later(days=1))
        store.finish_run("w", "run-9", others, later(days=1))
        version = store.version("w") + 100
        store.soft_delete("w", nodes, version=version, plan_id="p", at=START)
        store.restore("w", nodes)
        store.purge("w", nodes, before=later(days=9))
        store.merge("w", entity("other", "a").entity_id, [entity("other", "b").entity_id])
        store.remove("w", others)
        assert (everything(store, "other"), store.version("other")) == before


class LeaseContract(OnStore):
    """One holder at a time; a dead process holds nothing."""

    def test_a_lease_has_one_holder(self, store: GraphStore) -> None:
        first, second = new_holder(), new_holder()
        assert store.acquire("w", "prune", first, 30) == ""
        assert store.acquire("w", "prune", second, 30) == first
        assert store.acquire("w", "index", second, 30) == ""
        assert store.acquire("other", "prune", second, 30) == ""
        assert store.renew("w", "prune", first, 30)
        assert not store.renew("w", "prune", second, 30)
        store.release("w", "prune", second)
        assert store.acquire("w", "prune", second, 30) == first
        store.release("w", "prune", first)
        assert store.acquire("w", "prune", second, 30) == ""

    def test_a_lease_ends_by_itself(self, store: GraphStore) -> None:
        first, second = "elsewhere:1:x", new_holder()
        assert store.acquire("w", "prune", first, 0.05) == ""
        time.sleep(0.1)
        assert store.acquire("w", "prune", second, 30) == ""
        assert not store.renew("w", "prune", first, 30)

    def test_nobody_waits_for_a_dead_process(self, store: GraphStore) -> None:
        process = subprocess.Popen(["true"])
        process.wait()
        host = new_holder().rsplit(":", 2)[0]
        assert store.acquire("w", "prune", f"{host}:{process.pid}:x", 60) == ""
        assert store.acquire("w", "prune", new_holder(), 60) == ""

    def test_a_held_workspace_refuses_and_says_who_has_it(self, store: GraphStore) -> None:
        with (
            hold(store, "w", "prune"),
            pytest.raises(StoreBusy, match="held for prune by process"),
            hold(store, "w", "prune", wait_seconds=0.1),
        ):
            pass
        with hold(store, "w", "prune") as lease:
            lease.check()


def hide(store: GraphStore, *records: Record, day: float = 1) -> None:
    """Soft-delete records."""
    version = store.version("w")
    store.soft_delete(
        "w", nodes_of(*records), version=version, plan_id=f"p{day}", at=later(days=day)
    )


def record_id(record: Record) -> tuple[str, ...]:
    """Return the id of one record's memory."""
    return (record.memory.memory_id,)
