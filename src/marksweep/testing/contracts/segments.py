"""What every store of live segments must do."""

from __future__ import annotations

import pytest

from marksweep.errors import StoreError
from marksweep.model import GCPolicy, Generation, Hold, Link, Reference, Segment
from marksweep.stores.base import Changes, SegmentStore, Store
from marksweep.testing.contracts.handles import (
    HOSTILE_NAMES,
    NOON,
    Handles,
    Opener,
    Torn,
    later,
    segment,
)

FULL = Segment(
    segment_id="full",
    type="code",
    created_at=NOON,
    text="def f():\n\treturn '\\x00'\x00 \ud83d\U0001f600",
    last_touched_at=later(hours=1, microseconds=7),
    tokens=12,
    pinned=True,
    pinned_by="ann: needed",
    generation=Generation.OLD,
    gc_survival_count=3,
    refcount=2,
    file_path="src/app.py",
    line_range=(3, 9),
    symbol="f",
    tags=("bug-123", "ref:other"),
    topic_id="topic",
    project_id="project",
    task_id="task",
    references=(Reference("other"), Reference("pair", Link.ANSWERS, Hold.PAIRED)),
    policy=GCPolicy.PRESERVABLE,
    position=41,
)
"""A segment with every field set, and text that is hard to encode."""


class SegmentStoreContract(Handles):
    """What every store of live segments must do."""

    def test_an_empty_workspace_has_nothing(self, segments: SegmentStore) -> None:
        changes = segments.changes("w")
        assert changes.put == ()
        assert changes.removed == ()
        assert segments.workspaces() == ()

    def test_a_segment_comes_back_as_it_was(self, segments: SegmentStore) -> None:
        segments.write("w", put=[FULL])
        assert segments.changes("w").put == (FULL,)

    def test_another_handle_sees_what_was_written(self, store: Store, another: Opener) -> None:
        store.segments.write("w", put=[FULL, segment("b")])
        assert _by_id(another().segments.changes("w")) == {"full": FULL, "b": segment("b")}

    def test_from_zero_everything_is_told_and_said_to_be_complete(
        self, segments: SegmentStore
    ) -> None:
        segments.write("w", put=[segment("a")])
        segments.write("w", put=[segment("b")], remove=["a"])
        changes = segments.changes("w")
        assert changes.complete
        assert set(_by_id(changes)) == {"b"}

    def test_the_version_grows_with_every_write(self, segments: SegmentStore) -> None:
        versions = [segments.write("w", put=[segment("a", str(n))]) for n in range(3)]
        assert versions == sorted(set(versions))
        assert segments.changes("w").version == versions[-1] > 0

    def test_a_write_of_nothing_changes_nothing(self, segments: SegmentStore) -> None:
        version = segments.write("w", put=[segment("a")])
        assert segments.write("w") == version
        assert segments.changes("w", version) == Changes(version)

    def test_only_what_happened_since_is_told(self, segments: SegmentStore) -> None:
        segments.write("w", put=[segment("a"), segment("b"), segment("c")])
        before = segments.changes("w").version
        segments.write("w", put=[segment("b", "new")])
        segments.write("w", put=[segment("d")], remove=["c"])
        changes = segments.changes("w", before)
        assert not changes.complete
        assert _by_id(changes) == {"b": segment("b", "new"), "d": segment("d")}
        assert changes.removed == ("c",)
        assert segments.changes("w", changes.version) == Changes(changes.version)

    def test_another_handles_writes_show_up(self, store: Store, another: Opener) -> None:
        neighbour = another()
        store.segments.write("w", put=[segment("a"), segment("b")])
        before = neighbour.segments.changes("w").version
        store.segments.write("w", put=[segment("c")], remove=["a"])
        changes = neighbour.segments.changes("w", before)
        assert set(_by_id(changes)) >= {"c"}
        assert changes.complete or changes.removed == ("a",)
        assert "a" not in _by_id(changes)

    def test_a_put_replaces_the_segment_with_that_id(self, segments: SegmentStore) -> None:
        segments.write("w", put=[segment("a", "old")])
        segments.write("w", put=[segment("a", "new")])
        assert segments.changes("w").put == (segment("a", "new"),)

    def test_the_last_of_two_puts_in_one_write_wins(self, segments: SegmentStore) -> None:
        segments.write("w", put=[segment("a", "first"), segment("a", "second")])
        assert segments.changes("w").put == (segment("a", "second"),)

    def test_an_id_removed_and_put_in_one_write_is_there(self, segments: SegmentStore) -> None:
        before = segments.write("w", put=[segment("a", "old")])
        segments.write("w", put=[segment("a", "new")], remove=["a"])
        changes = segments.changes("w", before)
        assert changes.put == (segment("a", "new"),)
        assert changes.removed == ()

    def test_a_segment_that_came_back_is_not_told_as_removed(self, segments: SegmentStore) -> None:
        before = segments.write("w", put=[segment("a"), segment("b")])
        segments.write("w", remove=["a"])
        segments.write("w", put=[segment("a", "again")])
        changes = segments.changes("w", before)
        assert _by_id(changes) == {"a": segment("a", "again")}
        assert changes.removed == ()

    def test_removing_an_unknown_id_is_no_error(self, segments: SegmentStore) -> None:
        segments.write("w", put=[segment("a")])
        segments.write("w", remove=["nobody", "nobody"])
        assert set(_by_id(segments.changes("w"))) == {"a"}

    def test_a_version_the_store_never_had_gets_everything(self, segments: SegmentStore) -> None:
        version = segments.write("w", put=[segment("a")])
        changes = segments.changes("w", version + 1_000)
        assert changes.complete
        assert set(_by_id(changes)) == {"a"}

    def test_a_reader_who_was_away_too_long_gets_everything(self, segments: SegmentStore) -> None:
        many = [segment(f"s{n}") for n in range(25_000)]
        before = segments.write("w", put=[segment("stays"), *many])
        for start in range(0, 25_000, 5_000):
            segments.write("w", remove=[each.segment_id for each in many[start : start + 5_000]])
        changes = segments.changes("w", before)
        assert changes.complete or len(changes.removed) == 25_000
        if changes.complete:
            assert set(_by_id(changes)) == {"stays"}
        segments.write("w", put=[segment("new")])
        assert set(_by_id(segments.changes("w", changes.version))) == {"new"}

    def test_workspaces_are_apart(self, segments: SegmentStore) -> None:
        segments.write("one", put=[segment("a", "first")])
        segments.write("two", put=[segment("a", "second"), segment("b")])
        segments.write("two", remove=["b"])
        assert segments.changes("one").put == (segment("a", "first"),)
        assert segments.changes("two").put == (segment("a", "second"),)
        assert segments.workspaces() == ("one", "two")

    def test_an_emptied_workspace_is_not_named(self, segments: SegmentStore) -> None:
        segments.write("w", put=[segment("a")])
        segments.write("w", remove=["a"])
        assert segments.workspaces() == ()

    def test_hostile_workspace_names_are_names(self, store: Store, another: Opener) -> None:
        for name in HOSTILE_NAMES:
            store.segments.write(name, put=[segment("a", f"in {name!r}")])
        again = another().segments
        assert again.workspaces() == tuple(sorted(HOSTILE_NAMES))
        for name in HOSTILE_NAMES:
            assert again.changes(name).put == (segment("a", f"in {name!r}"),)

    def test_hostile_ids_are_ids(self, store: Store, another: Opener) -> None:
        wanted = {name: segment(name, file_path=name, tags=[name]) for name in HOSTILE_NAMES}
        before = store.segments.write("w", put=list(wanted.values()))
        assert _by_id(another().segments.changes("w")) == wanted
        store.segments.write("w", remove=HOSTILE_NAMES)
        assert set(store.segments.changes("w", before).removed) == set(HOSTILE_NAMES)
        assert another().segments.changes("w").put == ()

    def test_a_very_long_text_is_kept(self, segments: SegmentStore) -> None:
        long = segment("long", "word " * 200_000 + "=" * 100_000)
        segments.write("w", put=[long])
        assert segments.changes("w").put == (long,)

    def test_a_write_that_fails_halfway_leaves_nothing(self, segments: SegmentStore) -> None:
        before = segments.write("w", put=[segment("a")])
        with pytest.raises(RuntimeError, match="torn"):
            segments.write("w", put=Torn([segment("b"), segment("c")]), remove=["a"])
        assert segments.changes("w", before) == Changes(before)
        assert set(_by_id(segments.changes("w"))) == {"a"}

    def test_a_closed_store_refuses(self, store: Store) -> None:
        store.close()
        with pytest.raises(StoreError, match="closed"):
            store.segments.changes("w")
        with pytest.raises(StoreError, match="closed"):
            store.segments.write("w", put=[segment("a")])
        store.close()


def _by_id(changes: Changes) -> dict[str, Segment]:
    assert len({each.segment_id for each in changes.put}) == len(changes.put)
    return {each.segment_id: each for each in changes.put}
