"""What an agent remembers, recalls and forgets, in one session and the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from marksweep.errors import BadInput, NotFound, UnknownName
from marksweep.graph.agent_memory import AgentMemory, Where
from marksweep.graph.memory import KnowledgeGraph
from marksweep.indexing.indexer import index_codebase
from marksweep.segments import Segments
from marksweep.stores.graph.open import open_graph
from marksweep.stores.open import open_store
from marksweep.tokens import count
from tests.graph.graphs import later
from tests.graph.memories import Clock


class Session:
    """An agent's memory in a folder; opened again, it is the next session."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        store = open_store(str(folder / "store.db"))
        self.graph = KnowledgeGraph(
            open_graph(folder / "graph.db"), store, backups=folder / "backups", clock=clock
        )
        self.segments = Segments(store, workspace="default")
        self.memory = AgentMemory(self.graph, self.segments)

    def close(self) -> None:
        self.graph.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def session(tmp_path: Path, clock: Clock) -> Iterator[Session]:
    opened = Session(tmp_path, clock)
    yield opened
    opened.close()


def test_a_note_of_one_session_is_found_in_the_next(tmp_path: Path, clock: Clock) -> None:
    first = Session(tmp_path, clock)
    kept = first.memory.remember("The shop listens on port 8080", tags=["ops"])
    first.segments.write("The build broke at the lexer", segment_id="log-1", type="log")
    first.close()
    second = Session(tmp_path, clock)
    (note, *_) = second.memory.recall("which port does the shop use")
    assert (note.id, note.where, note.place) == (kept.memory_id, Where.NOTE, "ops")
    (live,) = second.memory.recall("lexer")
    assert (live.id, live.where) == ("log-1", Where.LIVE)
    second.close()


def test_all_heaps_are_ranked_together_and_can_be_distinguished(
    session: Session, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "cookie.py").write_text("def bake_cookie(jar):\n    return jar\n")
    asyncio.run(index_codebase(tree, store=session.graph.graph))
    session.memory.remember("Cookies are baked at 180 degrees")
    session.segments.write("the cookie jar is empty", segment_id="live-1")
    session.segments.write("cookie crumbs", segment_id="swept-1")
    session.segments.collect(session.segments.plan_for(["swept-1"]))
    found = {each.where: each for each in session.memory.recall("cookie")}
    assert set(found) == set(Where)
    assert found[Where.CODE].place == "cookie.py:1-2 bake_cookie"
    (only,) = session.memory.recall("cookie", where=["stashed"])
    assert only.id == "swept-1"
    assert session.memory.recall("bake_cookie")[0].where is Where.CODE
    assert [each.where for each in session.memory.recall("cookie", path="cookie.py")] == [
        Where.CODE
    ]
    with pytest.raises(UnknownName, match="known are live, stashed, note, code"):
        session.memory.recall("cookie", where=["attic"])


def test_a_note_comes_before_code_that_only_has_the_words_of_the_question(
    session: Session, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a0.py").write_text("# how much of it\nx = 1\n")
    for number in range(1, 5):
        (tree / f"a{number}.py").write_text(f"def f{number}(names):\n    return names\n")
    asyncio.run(index_codebase(tree, store=session.graph.graph))
    note = session.memory.remember("The ranking weighs names six times").memory_id
    assert session.memory.recall("how much do names weigh")[0].id == note
    assert session.memory.recall("f3")[0].place == "a3.py:1-2 f3"


def test_a_fact_that_changed_is_superseded_not_deleted(session: Session, clock: Clock) -> None:
    old = session.memory.remember("The shop listens on port 80")
    clock.wait(days=2)
    new = session.memory.remember("The shop listens on port 8080", replaces=[old.memory_id])
    assert new.replaced == (old.memory_id,)
    (now,) = session.memory.recall("shop port")
    assert (now.id, now.valid_until) == (new.memory_id, None)
    (then,) = session.memory.recall("shop port", as_of=later(days=1))
    assert (then.id, then.replaced_by) == (old.memory_id, new.memory_id)
    assert then.valid_until == later(days=2)
    whole = session.memory.recall(old.memory_id)[0]
    assert whole.replaced_by == new.memory_id


def test_an_expired_note_is_recalled_only_as_of_then_or_by_its_id(
    session: Session, clock: Clock
) -> None:
    text = "The release branch is frozen"
    note = session.memory.remember(text, ttl="2d").memory_id
    assert session.memory.recall("release branch")[0].valid_until == later(days=2)
    clock.wait(days=2)
    assert session.memory.recall("release branch") == ()
    assert session.memory.recall("latest") == ()
    (then,) = session.memory.recall("release branch", as_of=later(days=1))
    assert (then.id, then.valid_until) == (note, later(days=2))
    assert session.memory.recall(note)[0].valid_until == later(days=2)
    session.memory.remember(text)
    assert session.memory.recall("release branch")[0].valid_until is None


def test_a_fact_that_is_true_again_was_not_true_in_between(session: Session, clock: Clock) -> None:
    memory = session.memory
    old = memory.remember("The port is 80", tags=["ops"])
    clock.wait(days=2)
    new = memory.remember("The port is 8080", replaces=["latest"])
    assert new.replaced == (old.memory_id,)
    clock.wait(days=2)
    again = memory.remember("The port is 80", replaces=[new.memory_id])
    assert not again.known
    for day, text in ((1, "The port is 80"), (3, "The port is 8080"), (5, "The port is 80")):
        (then,) = memory.recall("port", as_of=later(days=day))
        assert then.text == text
    assert [each.id for each in memory.recall("latest")] == [again.memory_id]
    assert memory.remember("The port is 80").memory_id == again.memory_id
    erased = memory.erase([again.memory_id])
    assert set(erased.gone.memories) == {old.memory_id, again.memory_id}


def test_a_note_that_replaces_itself_stays_valid(session: Session) -> None:
    note = session.memory.remember("The port is 80", tags=["ops"])
    same = session.memory.remember("The port is 80", replaces=["latest"])
    assert str(same) == f"Already known: {note.memory_id}"
    (found,) = session.memory.recall("port")
    assert (found.id, found.place, found.valid_until) == (note.memory_id, "ops", None)


def test_a_replaced_note_was_valid_until_its_time_to_live_ended_if_that_was_first(
    session: Session, clock: Clock
) -> None:
    old = session.memory.remember("The port is 80", ttl="1d").memory_id
    clock.wait(days=3)
    session.memory.remember("The port is 8080", replaces=[old])
    assert session.memory.recall(old)[0].valid_until == later(days=1)


def test_indexed_code_is_not_replaced_by_a_note(session: Session, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.py").write_text("def bake(): pass\n")
    asyncio.run(index_codebase(tree, store=session.graph.graph))
    (code,) = session.memory.recall("bake")
    with pytest.raises(BadInput, match=r"cannot replace indexed code: a\.py"):
        session.memory.remember("Nothing bakes", replaces=[code.id])
    assert session.memory.recall("bake") == (code,)


def test_a_note_without_words_is_like_no_other(session: Session) -> None:
    session.memory.remember("The port is 80")
    assert session.memory.remember("!?").alike == ()
    assert session.memory.remember("!?").known


def test_what_is_to_be_replaced_must_exist(session: Session) -> None:
    with pytest.raises(NotFound, match="Nothing was remembered"):
        session.memory.remember("new", replaces=["m0"])
    assert session.memory.recall("latest") == ()


def test_a_note_that_says_nearly_the_same_is_named(session: Session) -> None:
    old = session.memory.remember("The shop listens on port 80")
    again = session.memory.remember("The shop listens on port 8080")
    assert again.alike == ((old.memory_id, "The shop listens on port 80"),)
    same = session.memory.remember("The shop listens on port 80")
    assert same.known
    assert same.memory_id == old.memory_id
    assert session.memory.remember("Ada likes tea").alike == ()


def test_what_is_forgotten_can_be_restored(session: Session) -> None:
    note = session.memory.remember("Ada owns the parser").memory_id
    session.segments.write("parser notes", segment_id="live-1")
    session.segments.write("old parser notes", segment_id="swept-1")
    session.segments.collect(session.segments.plan_for(["swept-1"]))
    gone = session.memory.forget(["latest", "live-1", "swept-1", "nobody"])
    assert gone.done == (note, "live-1")
    assert [each.partition(":")[0] for each in gone.left] == ["swept-1", "nobody"]
    assert session.memory.recall("Ada") == ()
    back = session.memory.restore([note, "live-1", "nobody"])
    assert back.done == (note, "live-1")
    assert back.left[0].startswith("nobody: ")
    assert {each.id for each in session.memory.recall("parser")} == {note, "live-1", "swept-1"}


def test_what_was_forgotten_before_is_not_called_pinned(session: Session) -> None:
    note = session.memory.remember("Ada owns the parser").memory_id
    session.memory.forget([note])
    again = session.memory.forget([note])
    assert (again.done, again.left) == ((), (f"memory {note} is forgotten already",))


def test_a_pinned_note_stays(session: Session) -> None:
    note = session.memory.remember("Never deploy on Fridays", pinned=True).memory_id
    gone = session.memory.forget([note])
    assert gone.done == ()
    assert "pinned" in gone.left[0]


def test_remembering_replacing_and_pinning_is_one_write(session: Session) -> None:
    old = session.memory.remember("The port is 80").memory_id
    graph = session.graph.graph
    before = graph.version("default")
    new = session.memory.remember("The port is 8080", replaces=[old], pinned=True).memory_id
    assert graph.version("default") == before + 1  # so a kill leaves neither both valid nor no pin
    (was, now) = (record.memory for record in graph.fetch("default", [old, new]))
    assert (was.superseded_by, was.superseded_at) == (new, now.created_at)
    assert (now.pinned, now.pinned_by) == (True, "agent")


def test_excerpts_keep_all_answers_within_the_bound(session: Session) -> None:
    for number in range(5):
        filler = "\n".join(f"filler line {number} {n} about nothing" for n in range(300))
        session.memory.remember(f"{filler}\nthe needle {number} is here\n{filler}")
    found = session.memory.recall("needle", tokens=600)
    assert len(found) == 5
    assert all("needle" in each.text and each.cut for each in found)
    assert sum(count(each.text) for each in found) <= 600
    (whole,) = session.memory.recall(found[0].id, tokens=100_000)
    assert not whole.cut
    with pytest.raises(BadInput, match="expected 1 or more"):
        session.memory.recall("needle", limit=0)


def test_an_excerpt_of_one_long_line_has_the_words_of_the_question(session: Session) -> None:
    rows = [f'{{"id": {n}, "name": "row {n}"}}' for n in range(2_000)]
    rows[1_200] = '{"id": 1200, "name": "the zebra is here"}'
    session.segments.write(", ".join(rows), segment_id="rows", type="log")
    (found,) = session.memory.recall("zebra", tokens=200)
    assert "the zebra is here" in found.text
    assert found.cut
    assert count(found.text) <= 200


def test_a_long_note_is_one_match_and_hides_no_other(session: Session, clock: Clock) -> None:
    memory = session.memory
    short = memory.remember("The needle is sharp").memory_id
    clock.wait(days=1)
    parts = "\n\n".join(f"{n} needle " + "filler words here and there " * 40 for n in range(80))
    long = memory.remember(parts).memory_id
    for query in ("needle", "latest"):
        found = memory.recall(query)
        assert {each.id: each.cut for each in found} == {short: False, long: True}
        assert len(found) == 2
        assert all("needle" in each.text for each in found)


def test_an_excerpt_is_not_a_blank_line(session: Session) -> None:
    for n in range(4):
        session.memory.remember(f"\n{n} " + "words without any line break " * 30)
    assert all(each.text for each in session.memory.recall("latest", tokens=300))


def test_without_words_the_newest_notes_come_first(session: Session, clock: Clock) -> None:
    for day in range(3):
        session.memory.remember(f"fact {day}")
        clock.wait(days=1)
    assert [each.text for each in session.memory.recall("latest", limit=2)] == ["fact 2", "fact 1"]
    assert [each.text for each in session.memory.recall("", limit=1)] == ["fact 2"]


def test_what_was_done_is_written_for_people_and_models(session: Session) -> None:
    memory = session.memory
    old = memory.remember("The shop listens on port 80")
    assert str(old) == f"Remembered: {old.memory_id}"
    assert str(memory.remember("The shop listens on port 80")) == f"Already known: {old.memory_id}"
    alike = str(memory.remember("The shop listens on\nport 81"))
    assert f"Says nearly the same: [{old.memory_id}] The shop listens on port 80 (" in alike
    new = str(memory.remember("Port 82 it is", replaces=[old.memory_id]))
    assert new.endswith(f"No longer valid, kept for recall as of earlier: {old.memory_id}")
    gone = memory.forget([old.memory_id, "nobody"])
    assert str(gone) == f"Forgotten: {old.memory_id}\nNot: nobody: nothing has this id"
    assert str(memory.restore([old.memory_id])) == f"Restored: {old.memory_id}"
    assert str(memory.forget(["nobody"])).startswith("Forgotten: nothing\n")


def test_one_text_is_not_taken_for_a_list_of_its_letters(session: Session) -> None:
    memory, agent = session.graph, session.memory
    note = memory.add_memory("Ada owns the parser", tags={"people", "code"})  # type: ignore[arg-type]
    assert note.tags == ("code", "people")
    one = note.memory_id
    calls: list[tuple[str, Callable[[], object]]] = [
        ("tags", lambda: memory.add_memory("Ada", tags="people")),
        ("replaces", lambda: memory.add_memory("Ada", replaces=one)),
        ("memory_ids", lambda: memory.pin(one, by="me")),
        ("memory_ids", lambda: memory.unpin(one)),
        ("memory_ids", lambda: memory.read_memory(one)),
        ("memory_ids", lambda: memory.forget(one, everywhere=True)),
        ("memory_ids", lambda: memory.restore(memory_ids=one)),
        ("replaces", lambda: agent.remember("Ada", replaces=one)),
        ("tags", lambda: agent.recall("Ada", tags="people")),
        ("ids", lambda: agent.forget(one)),
        ("ids", lambda: agent.erase(one)),
        ("ids", lambda: agent.restore(one)),
    ]
    for name, call in calls:
        with pytest.raises(BadInput, match=f"{name} is '.*'; expected a list of texts"):
            call()
