"""Random work on a store, compared with plain dicts."""

from __future__ import annotations

from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marksweep.model import Segment, Stashed
from marksweep.stores.base import Query, Store
from marksweep.testing.contracts.handles import NOON, Handles, Opener, segment

_workspaces = count()

IDS = st.sampled_from(["a", "b", "c", "d", "é", "x/y"])
PLANS = st.sampled_from(["p1", "p2"])
WORDS = st.lists(st.sampled_from(["red", "green_blue", "srcApp", "猫犬", "x9"]), max_size=4)
SEGMENTS = st.builds(lambda key, words: segment(key, " ".join(words)), IDS, WORDS)
PARTS = {
    "red": {"red"},
    "green_blue": {"green_blue", "green", "blue"},
    "srcApp": {"srcApp", "src", "app"},
    "猫犬": {"猫犬", "猫", "犬"},
    "x9": {"x9"},
}
"""The search terms that find each word, written by hand."""

Write = tuple[list[Segment], list[str]]
WRITES = st.tuples(st.lists(SEGMENTS, max_size=4), st.lists(IDS, max_size=3))
STASHES = st.lists(st.builds(lambda s, plan: Stashed(s, plan, NOON), SEGMENTS, PLANS), max_size=4)
REMOVALS = st.tuples(PLANS, st.lists(IDS, max_size=3))

bounded = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)


class StoreModelContract(Handles):
    """Whatever is done through two handles, both return what a dict would."""

    @bounded
    @given(writes=st.lists(st.tuples(st.booleans(), WRITES), max_size=8))
    def test_two_handles_tell_the_same_truth_as_a_dict(
        self, store: Store, another: Opener, writes: list[tuple[bool, Write]]
    ) -> None:
        workspace = f"model-{next(_workspaces)}"
        handles = (store, another())
        model: dict[str, Segment] = {}
        known: list[dict[str, Segment]] = [{}, {}]
        versions = [0, 0]
        for first, (put, remove) in writes:
            handles[first].segments.write(workspace, put=put, remove=remove)
            for key in remove:
                model.pop(key, None)
            model.update((each.segment_id, each) for each in put)
            reader = int(not first)
            changes = handles[reader].segments.changes(workspace, versions[reader])
            if changes.complete:
                known[reader].clear()
            for key in changes.removed:
                known[reader].pop(key, None)
            known[reader].update((each.segment_id, each) for each in changes.put)
            versions[reader] = changes.version
            assert known[reader] == model
        for handle in handles:
            assert {s.segment_id: s for s in handle.segments.changes(workspace).put} == model
            for part in sorted(set.union(*PARTS.values())):
                hits = handle.segments.search(workspace, Query(words=part))
                assert {hit.found.segment_id for hit in hits} == {
                    key for key, each in model.items() if part in _parts(each)
                }

    @bounded
    @given(work=st.lists(st.tuples(st.booleans(), STASHES | REMOVALS), max_size=8))
    def test_two_handles_keep_the_same_stash_as_a_dict(
        self,
        store: Store,
        another: Opener,
        work: list[tuple[bool, list[Stashed] | tuple[str, list[str]]]],
    ) -> None:
        workspace = f"model-{next(_workspaces)}"
        handles = (store, another())
        model: dict[tuple[str, str], Stashed] = {}
        for first, operation in work:
            if isinstance(operation, tuple):
                plan_id, keys = operation
                handles[first].stash.remove(workspace, plan_id, keys)
                for key in keys:
                    model.pop((plan_id, key), None)
            else:
                handles[first].stash.put(workspace, operation)
                for entry in operation:
                    model.pop((entry.plan_id, entry.segment.segment_id), None)
                    model[entry.plan_id, entry.segment.segment_id] = entry
            self._compare(handles[not first], workspace, model)

    @staticmethod
    def _compare(handle: Store, workspace: str, model: dict[tuple[str, str], Stashed]) -> None:
        stash = handle.stash
        newest = tuple(reversed(model.values()))
        assert stash.count(workspace) == len(model)
        assert tuple(hit.found for hit in stash.search(workspace, Query())) == newest
        for key in {key for _, key in model}:
            wanted = tuple(each for each in newest if each.segment.segment_id == key)
            assert stash.get(workspace, [key]) == wanted
        for plan in ("p1", "p2"):
            wanted = tuple(each for each in model.values() if each.plan_id == plan)
            ordered = tuple(sorted(wanted, key=lambda each: each.segment.segment_id))
            assert stash.of_plan(workspace, plan) == ordered
        for part in ("green", "app", "猫犬", "x9"):
            hits = stash.search(workspace, Query(words=part))
            assert {(hit.found.plan_id, hit.found.segment.segment_id) for hit in hits} == {
                key for key, each in model.items() if part in _parts(each.segment)
            }


def _parts(each: Segment) -> set[str]:
    return set().union(*(PARTS[word] for word in each.text.split()), {"note"})
