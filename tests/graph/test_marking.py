"""Which nodes go, compared with a plain implementation of the rules."""

from __future__ import annotations

from array import array
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep.core.plan import plan_from
from marksweep.core.roots import Focus
from marksweep.errors import BadInput, UnknownName
from marksweep.graph.cross_references import Memories, mark_together
from marksweep.graph.strategies import PruneStrategy
from marksweep.heaps.graph import GraphContext, GraphHeap, GraphRules
from marksweep.model import Reference, Segment
from marksweep.stores.codec import microseconds
from marksweep.stores.graph.base import MemoryRow, Survey
from marksweep.stores.graph.nouns import CODE_INDEXER, Kind
from marksweep.stores.graph.sqlite import SqliteGraphStore
from tests.graph.graphs import START, later

NOW = later(days=100)


def row(key: int, *, stale: bool = False, pinned: bool = False, deleted: bool = False,
        source: str = CODE_INDEXER, read_days_ago: float | None = None, tags: str = "[]",
        age_days: float = 10, content: str = "") -> MemoryRow:  # fmt: skip
    read = None if read_days_ago is None else microseconds(NOW - timedelta(days=read_days_ago))
    created = microseconds(NOW - timedelta(days=age_days))
    return MemoryRow(
        key, f"m{key}", source, "/repo", f"/repo/{key}.py", f"{key}.py", content, 1,
        int(stale), int(pinned), "ann" if pinned else "", created, None, read,
        microseconds(START) if deleted else None, tags,
    )  # fmt: skip


@st.composite
def surveys(draw: st.DrawFn) -> Survey:
    keys = range(1, draw(st.integers(0, 6)) + 1)
    flags = st.booleans()
    memories = tuple(
        row(
            key,
            stale=draw(flags),
            pinned=draw(flags) and draw(flags),
            deleted=draw(flags) and draw(flags),
            read_days_ago=draw(st.sampled_from([None, 0.5, 5])),
        )
        for key in keys
    )
    chunks = draw(st.lists(st.integers(100, 115), unique=True, max_size=12))
    owners = [draw(st.sampled_from([-1, *keys, 77])) for _ in chunks]
    entities = draw(st.lists(st.integers(200, 210), unique=True, max_size=8))
    mentions = draw(
        st.lists(st.tuples(st.integers(100, 116), st.integers(200, 211)), unique=True, max_size=20)
    )
    return Survey(
        version=1,
        memories=memories,
        chunks=array("q", chunks),
        chunk_owners=array("q", owners),
        deleted_chunks=frozenset(draw(st.sets(st.sampled_from(chunks)))) if chunks else frozenset(),
        entities=array("q", entities),
        deleted_entities=frozenset(),
        mention_chunks=array("q", [chunk for chunk, _ in mentions]),
        mention_entities=array("q", [entity for _, entity in mentions]),
    )


def taken(survey: Survey, strategy: PruneStrategy) -> dict[Kind, set[int]]:
    context = GraphContext(survey, GraphRules(), NOW, ids=lambda _, keys: list(map(str, keys)))
    plan = plan_from(context, strategy, strategy.rank(context))
    assert plan.size_before == context.size
    assert plan.freed == sum(len(step.segments) for step in plan.steps)
    assert all(step.size == len(step.segments) for step in plan.steps)
    found: dict[Kind, set[int]] = {kind: set() for kind in Kind}
    for name in (name for step in plan.steps for name in step.segments):
        kind, _, key = name.partition(":")
        assert int(key) not in found[Kind(kind)], "taken twice"
        found[Kind(kind)].add(int(key))
    return found


@given(survey=surveys())
def test_all_takes_exactly_what_the_rules_say(survey: Survey) -> None:
    rows = {each.key: each for each in survey.memories}
    going = {
        key
        for key, each in rows.items()
        if each.stale
        and not each.pinned
        and each.deleted_us is None
        and (each.read_us is None or microseconds(NOW) - each.read_us >= 86_400_000_000)
    }
    owner = dict(zip(survey.chunks, survey.chunk_owners, strict=True))
    staying = {key for key, each in rows.items() if each.deleted_us is None and key not in going}
    chunks = {
        chunk
        for chunk, of in owner.items()
        if (of in going or of == -1) and chunk not in survey.deleted_chunks
    }
    edges = zip(survey.mention_chunks, survey.mention_entities, strict=True)
    held = {entity for chunk, entity in edges if owner.get(chunk) in staying}
    assert taken(survey, PruneStrategy.ALL) == {
        Kind.MEMORY: going,
        Kind.CHUNK: chunks,
        Kind.ENTITY: set(survey.entities) - held,
    }


@given(survey=surveys())
def test_one_strategy_never_takes_more_than_all(survey: Survey) -> None:
    everything = taken(survey, PruneStrategy.ALL)
    for strategy in PruneStrategy:
        some = taken(survey, strategy)
        assert all(some[kind] <= everything[kind] for kind in Kind)


@given(survey=surveys(), limit=st.integers(0, 12))
def test_a_plan_takes_no_more_than_its_limit_and_says_what_is_left(
    survey: Survey, limit: int
) -> None:
    context = GraphContext(survey, GraphRules(), NOW, ids=lambda _, keys: list(map(str, keys)))
    proposals = tuple(PruneStrategy.ALL.rank(context))
    whole = plan_from(context, "all", proposals)
    part = plan_from(context.within(limit, proposals), "all", proposals)
    assert part.freed <= limit
    assert part.target_size == whole.target_size
    assert bool(part.short_by) == bool(part.blockers)
    assert part.freed + part.short_by == whole.freed + whole.short_by
    fits = [step.size for step in whole.steps if step.size <= limit]
    assert part.freed > 0 or not fits, "the next run would make no progress"


def test_a_plan_is_refused_by_the_heap_of_another_workspace(tmp_path: Path) -> None:
    store = SqliteGraphStore(tmp_path / "graph.db")
    here, there = GraphHeap(store, "here"), GraphHeap(store, "there")
    context = here.context(GraphRules(), NOW)
    plan = plan_from(context, "all", PruneStrategy.ALL.rank(context))
    here.check(plan)
    with pytest.raises(BadInput, match="workspace 'here', not for the graph of 'there'"):
        there.check(plan)
    store.close()


def test_an_unknown_strategy_names_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="stale_code"):
        PruneStrategy.named("stale")


def segment(name: str, *targets: str, pinned: bool = False) -> Segment:
    return Segment(
        segment_id=name,
        type="note",
        created_at=START,
        pinned=pinned,
        references=tuple(Reference(target) for target in targets),
    )


def test_a_segment_in_use_keeps_the_memory_it_cites() -> None:
    memories = [row(1, stale=True), row(2, stale=True)]
    segments = [segment("used", "m1", pinned=True), segment("garbage", "m2")]
    crossed = mark_together(segments, Memories.of(memories, {"m1", "m2"}), Focus(now=NOW))
    assert crossed.memories == {"m1": "cited by segment used"}


def test_a_memory_that_stays_keeps_the_segment_it_cites_and_one_that_goes_does_not() -> None:
    memories = [row(1, tags='["ref:s1"]'), row(2, stale=True, tags='["ref:s2"]')]
    segments = [segment("s1"), segment("s2")]
    crossed = mark_together(segments, Memories.of(memories, {"m2"}), Focus(now=NOW))
    assert crossed.segments == {"s1": "cited by memory m1"}


def test_a_segment_and_a_memory_that_only_keep_each_other_are_kept_by_nothing() -> None:
    memories = [row(1, stale=True, tags='["ref:s1"]')]
    crossed = mark_together([segment("s1", "m1")], Memories.of(memories, {"m1"}), Focus(now=NOW))
    assert crossed.memories == {}
    assert crossed.segments == {}


def test_a_chain_across_both_heaps_is_followed() -> None:
    memories = [row(1, stale=True, tags='["ref:s2"]'), row(2, stale=True)]
    segments = [segment("s1", "m1", pinned=True), segment("s2", "m2")]
    crossed = mark_together(segments, Memories.of(memories, {"m1", "m2"}), Focus(now=NOW))
    assert set(crossed.memories) == {"m1", "m2"}
    assert crossed.segments == {"s2": "cited by memory m1"}
