"""The working set: what the design of context segments requires, section by section."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, cast

import pytest

from marksweep import Budget, Segment, Segments
from marksweep.errors import BadInput, NotFound, Refused
from marksweep.model import Action, Event, GCPolicy, Generation, Hold, Link, Reference, Stashed
from marksweep.stores.memory import MemoryStore
from marksweep.strategies.scored import Disposal
from marksweep.testing.builders import NOW, Clock, segment

ODD = ("a\udcff", "b\x00", "\udc00\ud800")
"""Text that occurs in files and logs but is not valid UTF-8."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def heap(clock: Clock) -> Segments:
    return Segments(MemoryStore(), limit=100_000, clock=clock, count_tokens=len)


def ids(heap: Segments) -> list[str]:
    return [s.segment_id for s in heap.list()]


class TestSection2References:
    def test_explicit_references_keep_their_target(self, heap: Segments) -> None:
        heap.add(segment("a", task_id="t"), segment("b"), segment("c"))
        heap.focus(task="t")
        heap.link("a", "b")
        heap.collect(heap.plan(target_tokens=20))
        assert ids(heap) == ["a", "b"]

    @pytest.mark.parametrize("link", [Link.DERIVED, Link.REPLY])
    def test_derived_from_and_reply_threading_are_references(
        self, heap: Segments, link: Link
    ) -> None:
        heap.add(segment("a", task_id="t"), segment("b", hours_old=50), segment("c"))
        heap.focus(task="t")
        heap.link("a", "b", link)
        heap.collect(heap.plan(target_tokens=20))
        assert ids(heap) == ["a", "b"]

    def test_shared_tags_and_topics_relate_but_do_not_keep(self, heap: Segments) -> None:
        heap.add(
            segment("a", task_id="t", tags=("bug-123",), topic_id="auth"),
            segment("tag", tags=("bug-123",), hours_old=500, type="log"),
            segment("topic", topic_id="auth", hours_old=500, type="log"),
            segment("none", hours_old=1, type="code"),
        )
        heap.focus(task="t")
        swept = [step.segments[0] for step in heap.plan(target_tokens=0).steps]
        assert swept[0] == "none"
        assert set(swept) == {"none", "tag", "topic"}

    def test_unlinking_releases_the_target(self, heap: Segments) -> None:
        heap.add(segment("a", pinned=True, references=("b",), tags=("ref:b",)), segment("b"))
        assert heap.list()[1].refcount == 1
        heap.unlink("a", "b")
        assert heap.list()[1].refcount == 0
        assert "may go" in heap.why("b")

    def test_linking_twice_is_the_same_as_once(self, heap: Segments) -> None:
        heap.add(segment("a"), segment("b"))
        heap.link("a", "b")
        heap.link("a", "b", hold=Hold.WEAK)
        assert len(heap.list()[0].references) == 1
        assert heap.list()[1].refcount == 1


class TestSection3DataModel:
    def test_a_segment_keeps_all_its_fields(self, heap: Segments) -> None:
        given = segment(
            "a",
            type="code",
            text="x = 1",
            file_path="a.py",
            line_range=(3, 9),
            symbol="f",
            tags=("t",),
            topic_id="u",
            task_id="k",
        )
        (added,) = heap.add(given)
        for name in (
            "text",
            "type",
            "created_at",
            "file_path",
            "line_range",
            "symbol",
            "tags",
            "topic_id",
            "task_id",
            "tokens",
        ):
            assert getattr(added, name) == getattr(given, name)

    def test_refcounts_are_maintained_by_the_heap_and_not_by_the_caller(
        self, heap: Segments
    ) -> None:
        heap.add(segment("a", references=("b",)), segment("b", refcount=99), segment("c"))
        heap.link("c", "b")
        assert [s.refcount for s in heap.list()] == [0, 2, 0]
        heap.collect(heap.plan_for(["c"]))
        assert [s.refcount for s in heap.list()] == [0, 1]

    def test_a_repeated_reference_counts_once_and_a_reference_to_itself_not_at_all(
        self, heap: Segments
    ) -> None:
        heap.add(segment("a", references=("b", "a"), tags=("ref:b",)), segment("b"))
        assert [s.refcount for s in heap.list()] == [0, 1]
        heap.collect(heap.plan_for(["a"]))
        assert [s.refcount for s in heap.list()] == [0]

    def test_a_paired_reference_does_not_raise_the_reference_count(self, heap: Segments) -> None:
        heap.add(segment("call"), segment("result"), segment("note"))
        heap.link("result", "call", Link.ANSWERS, Hold.PAIRED)
        assert [s.refcount for s in heap.list()] == [0, 0, 0]
        heap.link("note", "call")
        assert [s.refcount for s in heap.list()] == [1, 0, 0]

    def test_generation_and_survival_are_maintained_by_collections(self, heap: Segments) -> None:
        heap.add(segment("keep", pinned=True))
        seen = []
        for n in range(4):
            heap.add(segment(f"x{n}"))
            heap.collect(heap.plan(target_tokens=10))
            seen.append((heap.list()[0].gc_survival_count, heap.list()[0].generation))
        assert seen == [
            (1, Generation.YOUNG),
            (2, Generation.YOUNG),
            (3, Generation.OLD),
            (3, Generation.OLD),
        ]

    def test_a_collection_with_nothing_to_do_is_not_survived(self, heap: Segments) -> None:
        heap.add(segment("a"))
        heap.collect()
        assert heap.list()[0].gc_survival_count == 0

    def test_the_json_store_has_the_documented_structure(self, tmp_path: Path) -> None:
        heap = Segments(tmp_path / "context.json", clock=Clock())
        heap.add(segment("a", text="hello"))
        found = json.loads((tmp_path / "context.json").read_text())
        assert [s["segment_id"] for s in found["segments"]] == ["a"]
        heap.close()

    def test_a_file_of_the_documented_structure_is_counted_and_collected(
        self, tmp_path: Path
    ) -> None:
        made = {"type": "log", "created_at": "2026-01-01T10:00:00", "text": "x" * 60}
        bare = {"segments": [{"segment_id": name, **made} for name in "abc"]}
        (tmp_path / "context_stash.json").write_text(json.dumps(bare))
        for _ in range(2):
            heap = Segments(
                tmp_path / "context_stash.json", limit=200, clock=Clock(), count_tokens=len
            )
            assert [s.tokens for s in heap.list()] == [60, 60, 60]
            heap.close()
        heap = Segments(tmp_path / "context_stash.json", limit=200, clock=Clock())
        assert len(heap.collect().swept) == 1
        heap.close()


class TestSection4Algorithms:
    def test_roots_come_from_the_focus_the_last_messages_and_the_pins(self, heap: Segments) -> None:
        heap.add(
            segment("task", task_id="t"),
            segment("active", file_path="a.py", line_range=(1, 5)),
            segment("open", file_path="b.py"),
            segment("pin"),
            *(segment(f"m{n}", type="message") for n in range(12)),
            segment("free"),
        )
        heap.pin("pin", by="ana", why="needed for the release")
        heap.focus(task="t", file="a.py", lines=(2, 3), open_files=["b.py"])
        heap.collect(heap.plan(target_tokens=0))
        assert ids(heap) == ["task", "active", "open", "pin", *(f"m{n}" for n in range(2, 12))]
        assert heap.why("pin") == "pin must stay: pinned by ana: needed for the release"

    def test_a_file_stays_a_root_for_an_hour_after_the_focus_moved_on(
        self, heap: Segments, clock: Clock
    ) -> None:
        heap.add(segment("a", file_path="a.py"), segment("b", file_path="b.py"))
        heap.focus(file="a.py")
        heap.focus(file="b.py")
        clock.advance(minutes=59)
        assert "a must stay: in a.py, opened or edited recently" in heap.why("a")
        clock.advance(minutes=2)
        assert "may go" in heap.why("a")
        assert heap.why("b") == "b must stay: in the active file b.py"

    def test_outside_the_active_lines_the_active_file_may_go(self, heap: Segments) -> None:
        heap.add(
            segment("in", file_path="a.py", line_range=(1, 9)),
            segment("out", file_path="a.py", line_range=(50, 60)),
        )
        heap.focus(file="a.py", lines=(5, 6))
        heap.collect(heap.plan(target_tokens=0))
        assert ids(heap) == ["in"]

    def test_unreachable_goes_first_then_reachable_of_low_score(self, heap: Segments) -> None:
        heap.add(
            segment("root", task_id="t", references=("log", "decision")),
            segment("log", type="log", hours_old=90),
            segment("decision", type="decision", hours_old=90),
            segment("unreached", type="decision", hours_old=2),
        )
        heap.focus(task="t")
        steps = heap.plan(target_tokens=0).steps
        assert [step.segments[0] for step in steps] == ["unreached", "log", "decision"]

    def test_stashing_is_preferred_over_deletion(self, heap: Segments) -> None:
        heap.add(segment("a", type="log", hours_old=9999))
        assert {step.action for step in heap.plan(target_tokens=0).steps} == {Action.STASH}
        auto = heap.plan(target_tokens=0, disposal=Disposal.AUTO)
        assert {step.action for step in auto.steps} == {Action.DELETE}

    def test_why_speaks_of_the_pressure_there_is(self, clock: Clock) -> None:
        store = MemoryStore()
        heap = Segments(store, limit=100, clock=clock)
        heap.add(segment("a", policy=GCPolicy.PRESERVABLE, tokens=10))
        assert heap.why("a") == "a stays: preservable, and the pressure is not high"
        Segments(store, limit=1_000, clock=clock).add(segment("b", pinned=True, tokens=88))
        assert heap.why("a").endswith("it may go")

    def test_a_log_named_for_deletion_takes_no_decision_with_it(self, heap: Segments) -> None:
        pair = (Reference("log", Link.ANSWERS, Hold.PAIRED),)
        heap.add(
            segment("log", type="log", hours_old=9999),
            segment("decision", type="decision", hours_old=9999, references=pair),
            segment("other", type="log", hours_old=9999),
        )
        plan = heap.plan_for(["log", "other"], Disposal.AUTO)
        assert [(step.segments, step.action) for step in plan.steps] == [
            (("log", "decision"), Action.STASH),
            (("other",), Action.DELETE),
        ]

    def test_verbose_segments_of_medium_score_are_compressed(self, clock: Clock) -> None:
        heap = Segments(
            MemoryStore(), limit=9_999, clock=clock, count_tokens=len, shorten=lambda text: text[:9]
        )
        heap.add(
            segment("root", task_id="t", references=("long",)),
            segment("long", type="code", hours_old=9, text="x" * 900, tokens=900),
        )
        heap.focus(task="t")
        plan = heap.plan(target_tokens=100)
        assert [(s.segments, s.action, s.size) for s in plan.steps] == [
            (("long",), Action.COMPRESS, 891)
        ]
        heap.collect(plan)
        assert ids(heap) == ["root", "long~1"]
        assert "which refers to the original of long~1" in heap.why("long~1")
        heap.undo(plan.plan_id)
        assert ids(heap) == ["root", "long"]


class TestSection6IncrementalAndFull:
    def test_every_change_is_followed_by_a_step_that_takes_a_small_batch(
        self, clock: Clock
    ) -> None:
        heap = Segments(MemoryStore(), budget=Budget(1000, 500, 300, 900), clock=clock)
        for n in range(85):
            heap.add(segment(f"s{n}", type="log", hours_old=100 - n))
        sweeps = [entry.report for entry in heap.history() if entry.event is Event.SWEPT]
        assert sweeps
        assert all(report and 5 <= len(report.swept) <= 20 for report in sweeps)
        assert heap.tokens <= 500

    def test_a_step_takes_the_unreachable_before_what_is_in_reach(self, clock: Clock) -> None:
        heap = Segments(MemoryStore(), budget=Budget(10_000, 1_000, 900, 9_000), clock=clock)
        heap.focus(task="t")
        heap.add(segment("root", task_id="t", references=tuple(f"r{n}" for n in range(50))))
        heap.add(*(segment(f"r{n}", hours_old=500, type="log") for n in range(50)))
        heap.add(*(segment(f"g{n}", hours_old=1, type="code") for n in range(50)))
        heap.touch("root")
        swept = {entry.segment.segment_id[0] for entry in stashed(heap)}
        assert swept == {"g"}

    def test_a_step_takes_what_was_unpinned_before_what_was_just_added(self, clock: Clock) -> None:
        heap = Segments(MemoryStore(), limit=1_000, clock=clock, count_tokens=len)
        for n in range(95):
            heap.write("x" * 10, segment_id=f"old{n}")
            heap.pin(f"old{n}", by="me")
            heap.unpin(f"old{n}")
            clock.advance(minutes=1)
            assert heap.get(f"old{n}") is not None
        assert heap.store.stash.count(heap.workspace) > 0

    def test_a_step_never_takes_a_root_or_splits_a_pair(self, clock: Clock) -> None:
        heap = Segments(MemoryStore(), budget=Budget(10_000, 500, 100, 9_000), clock=clock)
        heap.add(segment("pin", pinned=True, hours_old=9999, type="log"))
        heap.add(*(segment(f"c{n}", type="code") for n in range(40)))
        for n in range(40):
            heap.add(segment(f"r{n}", type="log", hours_old=900))
            if heap.get(f"c{n}") and heap.get(f"r{n}"):
                heap.link(f"r{n}", f"c{n}", Link.ANSWERS, Hold.PAIRED)
        assert heap.get("pin") is not None
        for entry in stashed(heap):
            for reference in entry.segment.references:
                assert heap.get(reference.target) is None

    def test_over_the_hard_limit_everything_is_examined_until_comfortably_under(
        self, clock: Clock
    ) -> None:
        heap = Segments(MemoryStore(), budget=Budget.of(1000), clock=clock)
        heap.add(*(segment(f"s{n}", tokens=10) for n in range(96)))
        assert heap.tokens == 600
        (swept,) = [e for e in heap.history() if e.event is Event.SWEPT]
        assert swept.report is not None
        assert len(swept.report.swept) == 36

    def test_an_explicit_request_collects_below_the_limits_too(self, heap: Segments) -> None:
        heap.add(*(segment(f"s{n}") for n in range(10)))
        assert heap.collect(heap.plan(target_tokens=50)).tokens_after == 50

    def test_a_step_looks_at_old_segments_in_turn(self, clock: Clock) -> None:
        heap = Segments(MemoryStore(), budget=Budget(10_000, 2_100, 1_900, 9_999), clock=clock)
        heap.add(*(segment(f"code{n}", type="code", hours_old=100) for n in range(100)))
        heap.add(*(segment(f"log{n}", type="log", hours_old=0) for n in range(100)))
        clock.advance(hours=400)
        heap.add(segment("pin", pinned=True))
        for _ in range(30):
            heap.touch("pin")
        assert not stashed(heap)
        heap.add(*(segment(f"new{n}", pinned=True) for n in range(20)))
        assert {entry.segment.type for entry in stashed(heap)} == {"log"}

    @pytest.mark.parametrize("policy", [GCPolicy.PRESERVABLE, GCPolicy.CONDITIONAL])
    def test_a_step_leaves_what_only_pressure_or_its_owner_may_give_up(
        self, clock: Clock, policy: GCPolicy
    ) -> None:
        heap = Segments(MemoryStore(), budget=Budget(10_000, 500, 100, 9_000), clock=clock)
        for n in range(40):
            heap.add(segment(f"kept{n}", type="log", hours_old=900, policy=policy))
            heap.add(segment(f"free{n}", type="code", hours_old=1))
        swept = {entry.segment.segment_id[:4] for entry in stashed(heap)}
        assert swept == {"free"}


class TestSection7ToolBehaviour:
    def test_analysis_only_changes_nothing(self, heap: Segments) -> None:
        heap.add(*(segment(f"s{n}") for n in range(5)))
        before = heap.list()
        plan = heap.plan(target_tokens=0)
        assert heap.list() == before
        assert all(step.reason for step in plan.steps)
        assert (plan.tokens_before, plan.tokens_after) == (50, 0)

    def test_specific_segments_can_be_pruned(self, heap: Segments) -> None:
        heap.add(*(segment(name) for name in "abc"))
        report = heap.collect(heap.plan_for(["b"]))
        assert report.swept == ("b",)
        assert ids(heap) == ["a", "c"]

    def test_a_pin_protects_from_being_pruned_by_name(self, heap: Segments) -> None:
        heap.add(segment("a"))
        heap.pin("a", by="me")
        plan = heap.plan_for(["a"])
        assert plan.steps == ()
        assert plan.blockers[0].reason == "pinned by me"
        heap.unpin("a")
        assert heap.collect(heap.plan_for(["a"])).swept == ("a",)

    def test_unknown_ids_are_refused_by_name(self, heap: Segments) -> None:
        with pytest.raises(NotFound, match="ghost"):
            heap.plan_for(["ghost"])
        for attempt in (heap.read, heap.touch, heap.unpin, heap.why, heap.restore):
            with pytest.raises(NotFound, match="ghost"):
                attempt("ghost")

    def test_why_explains_what_became_of_a_swept_segment(self, heap: Segments) -> None:
        heap.add(segment("a", type="log"))
        plan = heap.plan(target_tokens=0)
        heap.collect(plan)
        assert heap.why("a").startswith(f"swept at 2026-06-01 12:00 by {plan.plan_id}: unreachable")


class TestSection9Compression:
    def test_compressing_replaces_the_text_and_stashes_the_original(self, heap: Segments) -> None:
        heap.add(
            segment("a", pinned=True, references=("b",)), segment("b", tokens=0, text="x" * 50)
        )
        report = heap.compress("b", "short")
        assert ids(heap) == ["a", "b~1"]
        short = heap.list()[1]
        assert (short.text, short.tokens) == ("short", 5)
        assert short.references[-1].link is Link.DERIVED
        assert report.tokens_freed == 45
        assert heap.restore("b") == ("b",)
        assert ids(heap) == ["a", "b"]

    def test_compressing_twice_keeps_the_chain(self, heap: Segments) -> None:
        heap.add(
            segment("a", pinned=True, references=("b",)), segment("b", tokens=0, text="x" * 50)
        )
        heap.compress("b", "x" * 20)
        heap.compress("b~1", "x" * 5)
        assert ids(heap) == ["a", "b~2"]
        assert "b~2" in heap.why("b~2")
        assert "must stay" in heap.why("b~2")

    def test_a_shorter_text_never_takes_the_id_of_another_segment(self, clock: Clock) -> None:
        heap = Segments(MemoryStore(), limit=10**6, clock=clock, shorten=lambda text: text[:9])
        names = ("a", "a~1", "a~01", "a~1~", "b", "b~1")
        texts = {name: f"{name} " + "word " * 400 for name in names}
        root = segment("root", task_id="t", references=names)
        heap.add(root, *(segment(n, hours_old=50, text=texts[n], tokens=0) for n in names))
        heap.focus(task="t")
        heap.collect(heap.plan_for(["b~1"]))
        before = {s.segment_id: s.text for s in heap.list()}
        plan = heap.plan(target_tokens=100)
        assert {step.action for step in plan.steps} == {Action.COMPRESS}
        heap.collect(plan)
        left = [s.text for s in heap.list() if s.segment_id != "root"]
        assert sorted(left) == sorted(text[:9] for text in texts.values() if text != texts["b~1"])
        heap.undo(plan.plan_id)
        assert {s.segment_id: s.text for s in heap.list()} == before
        heap.compress("b", "short")
        heap.restore("b~1")
        assert "short" in [s.text for s in heap.list()]
        assert texts["b~1"] in [s.text for s in heap.list()]

    @pytest.mark.parametrize("odd", [ZeroDivisionError("oops"), None, "", 5])
    def test_a_text_that_cannot_be_shortened_stops_no_collection(
        self, clock: Clock, odd: Any
    ) -> None:
        def shorten(_: str) -> str:
            if isinstance(odd, Exception):
                raise odd
            return cast("str", odd)

        heap = Segments(MemoryStore(), limit=9_999, clock=clock, shorten=shorten)
        heap.add(
            segment("root", task_id="t", references=("long",)),
            segment("long", type="code", hours_old=9, tokens=900),
        )
        heap.focus(task="t")
        assert [step.action for step in heap.plan(target_tokens=100).steps] == [Action.STASH]

    def test_a_text_that_is_not_shorter_is_refused(self, heap: Segments) -> None:
        heap.add(segment("a", tokens=0, text="short"))
        with pytest.raises(BadInput, match="must be shorter"):
            heap.compress("a", "much longer")
        assert ids(heap) == ["a"]

    def test_undoing_the_first_of_a_chain_brings_the_original_back_alone(
        self, heap: Segments
    ) -> None:
        heap.add(segment("b", tokens=0, text="x" * 100))
        first = heap.compress("b", "x" * 20)
        second = heap.compress("b~1", "x" * 5)
        heap.undo(first.plan_id)
        assert [s.segment_id for s in heap.list() if s.segment_id.startswith("b")] == ["b"]
        with pytest.raises(NotFound):
            heap.undo(second.plan_id)

    def test_what_must_stay_is_not_compressed(self, heap: Segments) -> None:
        heap.add(segment("a", tokens=0, text="x" * 50, pinned=True))
        with pytest.raises(Refused, match="pinned"):
            heap.compress("a", "short")

    def test_one_of_a_pair_is_not_compressed_because_the_other_would_go(
        self, heap: Segments
    ) -> None:
        heap.add(*(segment(name, tokens=0, text="x" * 50) for name in ("call", "result")))
        heap.link("result", "call", Link.ANSWERS, Hold.PAIRED)
        with pytest.raises(Refused, match="one unit with 'result'"):
            heap.compress("call", "short")
        assert [s.segment_id for s in heap.list()] == ["call", "result"]
        heap.unlink("result", "call")
        heap.compress("call", "short")
        assert [s.segment_id for s in heap.list()] == ["call~1", "result"]


class TestBadInput:
    def test_an_id_that_is_live_is_refused_and_nothing_is_added(self, heap: Segments) -> None:
        heap.add(segment("a"))
        with pytest.raises(BadInput, match="already live: a"):
            heap.add(segment("b"), segment("a"))
        assert ids(heap) == ["a"]

    def test_empty_and_doubled_ids_are_refused(self, heap: Segments) -> None:
        for bad in ([segment("")], [segment("a"), segment("a")]):
            with pytest.raises(BadInput, match="unique and not empty"):
                heap.add(*bad)
        assert ids(heap) == []

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"text": 5}, r"'bad' cannot be kept: Expected `str`, got `int` - at `\$.text`"),
            ({"text": b"abc"}, r"'bad' cannot be kept: Expected `str`, got `bytes` - at `\$.text`"),
            ({"type": None}, r"Expected `str`, got `null` - at `\$.type`"),
            ({"line_range": ("a", "b")}, r"line_range is \('a', 'b'\); expected two line numbers"),
            ({"line_range": (1, 2, 3)}, r"line_range is \(1, 2, 3\); expected two line numbers"),
            ({"line_range": 7}, "line_range is 7; expected two line numbers"),
            ({"policy": "sturdy"}, r"Invalid enum value 'sturdy' - at `\$.policy`"),
            ({"tokens": -1}, r"tokens is -1 in segment 'bad'; expected a number from 0 to"),
            ({"tokens": 10**30}, r"tokens is 10+ in segment 'bad'; expected"),
        ],
        ids=str,
    )
    def test_values_of_the_wrong_kind_are_refused_and_nothing_is_added(
        self, heap: Segments, values: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(BadInput, match=message):
            heap.add(segment("good"), segment("bad", **values))
        assert ids(heap) == []

    def test_lines_are_two_numbers_in_either_order(self, heap: Segments) -> None:
        with pytest.raises(BadInput, match=r"active_lines is \(1, 'x'\); expected two line"):
            heap.focus(file="a.py", lines=(1, "x"))  # type: ignore[arg-type]
        heap.add(segment("a", file_path="a.py", line_range=(9, 1)), segment("b"))
        heap.focus(file="a.py", lines=(7, 5))
        assert "in the active lines 5-7 of a.py" in heap.why("a")
        heap.collect(heap.plan(target_tokens=0))
        assert ids(heap) == ["a"]

    def test_what_is_not_live_cannot_be_named_in_a_plan(self, heap: Segments) -> None:
        with pytest.raises(NotFound, match=r"not live: gone\. .* look in the stash"):
            heap.plan_for(["gone"])

    def test_a_text_where_a_list_belongs_is_refused(self, heap: Segments) -> None:
        for name in ("tags", "references"):
            with pytest.raises(BadInput, match=f"{name} is 'bug-1'; expected a list"):
                heap.write("x", **{name: "bug-1"})  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="created_at is 'yesterday'; expected a datetime"):
            Segment(segment_id="a", type="log", created_at="yesterday")  # type: ignore[arg-type]
        assert ids(heap) == []

    @pytest.mark.parametrize("place", ["heap.db", "heap.json"])
    def test_a_counter_that_gives_fractions_is_rounded_up_and_leaves_a_sound_store(
        self, tmp_path: Path, place: str
    ) -> None:
        for at in range(3):
            heap = Segments(tmp_path / place, limit=10**6, count_tokens=lambda t: len(t) / 4)
            assert heap.write("abcde").tokens == 2
            assert len(heap.list()) == at + 1
            heap.close()

    @pytest.mark.parametrize("place", ["heap.db", "heap.json"])
    def test_text_that_is_not_valid_unicode_is_kept_and_the_store_can_be_opened_again(
        self, tmp_path: Path, clock: Clock, place: str
    ) -> None:
        odd = [segment(n, text=f"log {n}", file_path=f"{n}.py", tags=(n,)) for n in ODD]
        with contextlib.closing(Segments(tmp_path / place, limit=10**6, clock=clock)) as first:
            first.add(*odd)
            first.pin(ODD[0], by=ODD[0])
        with contextlib.closing(Segments(tmp_path / place, limit=10**6, clock=clock)) as again:
            assert ids(again) == list(ODD)
            assert [s.text for s in again.list()] == [f"log {n}" for n in ODD]
            assert again.read(ODD[0]).pinned
            plan = again.plan_for(ODD[1:])
            again.collect(plan)
            assert ids(again) == [ODD[0]]
            again.undo(plan.plan_id)
            assert ids(again) == list(ODD)

    def test_unknown_filters_are_refused_with_the_known_ones(self, heap: Segments) -> None:
        with pytest.raises(BadInput, match=r"colour.*file_path"):
            heap.search("x", colour="red")

    def test_an_unknown_plan_is_refused(self, heap: Segments) -> None:
        with pytest.raises(NotFound, match="plan-ghost"):
            heap.collect("plan-ghost")


def test_write_makes_a_segment_now_and_counts_its_tokens(heap: Segments, clock: Clock) -> None:
    made = heap.write("hello", type="decision", references=["x"], tags=["t"])
    assert (made.created_at, made.tokens, made.type) == (NOW, 5, "decision")
    assert heap.get(made.segment_id) == made


def test_reading_touches_and_getting_does_not(heap: Segments, clock: Clock) -> None:
    heap.add(segment("a"))
    before = heap.get("a")
    clock.advance(hours=1)
    assert heap.get("a") == before
    assert heap.read("a").last_touched_at == clock.now


def test_reading_returns_a_segment_that_is_larger_than_the_limit(clock: Clock) -> None:
    heap = Segments(MemoryStore(), limit=100, clock=clock, count_tokens=len)
    heap.write("x" * 1_000, segment_id="a")
    heap.restore("a")
    assert heap.read("a").text == "x" * 1_000
    assert heap.get("a") is None


def test_search_finds_live_and_stashed_segments_by_words_and_filters(heap: Segments) -> None:
    heap.add(
        segment("a", text="the parser fails on unicode", type="log", file_path="p.py"),
        segment("b", text="the parser was rewritten", type="note", tags=("parser",)),
        segment("c", text="nothing to see"),
    )
    assert {hit.found.segment_id for hit in heap.search("parser")} == {"a", "b"}
    assert [hit.found.segment_id for hit in heap.search("parser", types=["log"])] == ["a"]
    heap.collect(heap.plan_for(["a", "b"]))
    assert heap.search("parser") == ()
    assert [h.found.segment.segment_id for h in heap.search_stash("unicode")] == ["a"]
    assert [h.found.segment.segment_id for h in heap.search_stash("", tags=["parser"])] == ["b"]


def test_workspaces_do_not_see_each_other(clock: Clock) -> None:
    store = MemoryStore()
    one, other = (
        Segments(store, workspace=name, limit=10**6, clock=clock) for name in ("one", "other")
    )
    one.add(segment("a"), segment("b"))
    other.add(segment("a", text="not the same"))
    one.collect(one.plan(target_tokens=0))
    assert ids(one) == []
    assert ids(other) == ["a"]
    assert other.search_stash("text") == ()
    with pytest.raises(NotFound):
        other.restore("b")
    assert [e.event for e in other.history()] == []


def test_two_handles_on_one_store_see_the_same_state(clock: Clock) -> None:
    store = MemoryStore()
    one, other = (Segments(store, limit=10**6, clock=clock) for _ in range(2))
    one.add(segment("a"), segment("b"))
    other.pin("a", by="other")
    one.link("b", "a")
    assert one.list() == other.list()
    assert one.list()[0].pinned
    other.collect(other.plan(target_tokens=0))
    assert ids(one) == ids(other) == ["a"]
    assert one.tokens == 10


def test_the_ledger_shows_who_uses_the_window(heap: Segments) -> None:
    heap.add(segment("a", type="log", tokens=70), segment("b", type="code", tokens=30))
    assert [(line.name, line.tokens) for line in heap.ledger()] == [("log", 70), ("code", 30)]


def test_the_history_has_every_operation_newest_first(heap: Segments) -> None:
    heap.add(segment("a"), segment("b"))
    plan = heap.plan(target_tokens=10)
    heap.save(plan)
    heap.collect(plan)
    heap.undo(plan.plan_id)
    assert [entry.event for entry in heap.history()] == [
        Event.UNDONE,
        Event.RESTORING,
        Event.SWEPT,
        Event.SWEEPING,
        Event.PLANNED,
    ]
    assert {entry.plan_id for entry in heap.history()} == {plan.plan_id}


def stashed(heap: Segments) -> list[Stashed]:
    return [hit.found for hit in heap.search_stash(limit=10_000)]


def test_a_position_is_not_assigned_twice_even_if_the_last_segment_is_in_the_stash(
    clock: Clock,
) -> None:
    store = MemoryStore()
    first = Segments(store, limit=10**6, clock=clock)
    first.add(segment("z"), segment("last"))
    first.collect(first.plan_for(["last"]))
    clock.advance(seconds=1)
    again = Segments(store, limit=10**6, clock=clock)
    again.add(segment("a"))
    again.restore("last")
    assert ids(again) == ["z", "last", "a"]


def test_an_id_that_is_in_the_stash_is_not_assigned_again(heap: Segments) -> None:
    heap.add(segment("a", text="the first"))
    heap.collect(heap.plan(target_tokens=0))
    with pytest.raises(BadInput, match="in the stash: a"):
        heap.add(segment("a", text="another"))
    heap.restore("a")
    assert [each.text for each in heap.list()] == ["the first"]
