"""A session with a store: what plugins remove can be found and restored."""

from __future__ import annotations

from pathlib import Path

import pytest

from marksweep.errors import BadInput, NotFound, StoreError
from marksweep.ledger import ChildKind, InstructionSource
from marksweep.messages import FunctionCall, Message, Part, Role, ToolResult
from marksweep.model import Event, GCPolicy
from marksweep.plugins import GCConfig, load_gc_plugin
from marksweep.plugins.discovery import BUILT_IN
from marksweep.session import Session
from marksweep.stores.base import Store
from marksweep.stores.memory import MemoryStore
from marksweep.stores.open import open_store
from tests.plugins.histories import text, words
from tests.session.test_third_party_plugins import Custom

SMALL = GCConfig(target_percent=20, preserve_recent_turns=1)


def work(n: int) -> list[Message]:
    """Make a question, a call with its result, and an answer."""
    call = FunctionCall(f"c{n}", "read", {"path": "a.py"})
    output = f"the port of proxy {n} is 80{n:02d}\n" + text(60, f"row{n}")
    return [
        Message(Role.USER, (Part(text=f"look at proxy {n}, and say what you decided there"),)),
        Message(Role.MODEL, (Part(function_call=call),)),
        Message(Role.TOOL, (Part(function_response=ToolResult(call.id, "read", output)),)),
        Message(Role.MODEL, (Part(text=f"We decided to keep proxy {n} as it is, for now."),)),
    ]


def session(store: Store | None, plugin: str) -> Session:
    made = Session(lambda _: "yes", context_limit=2_000, counter=words, store=store)
    made.set_gc_plugin(load_gc_plugin(plugin), SMALL)
    for n in range(12):
        say(made, work(n))
    return made


def say(to: Session, messages: list[Message]) -> None:
    for message in messages:
        to.append(message)


@pytest.mark.parametrize("plugin", BUILT_IN)
def test_collections_of_every_plugin_are_undone_one_by_one(plugin: str) -> None:
    chat = session(MemoryStore(), plugin)
    said = list(chat.history)
    sweeps = 0
    for n in range(3):
        was = chat.history
        chat.manual_gc()
        sweeps += chat.history != was
        more = work(20 + n)
        say(chat, more)
        said += more
    assert sweeps
    assert list(chat.history) != said
    for _ in range(sweeps):
        chat.undo_gc()
    assert list(chat.history) == said
    assert chat.get_context_usage()["total_tokens"] == sum(map(words, said))
    with pytest.raises(NotFound, match="nothing to undo"):
        chat.undo_gc()


@pytest.mark.parametrize("plugin", ["gc_truncate", "gc_summarize", "gc_superseded"])
def test_what_went_is_recalled_also_by_another_session(plugin: str, tmp_path: Path) -> None:
    store = open_store(tmp_path / "chat.db")
    chat = session(store, plugin)
    chat.manual_gc()
    assert "8003" not in str([message.parts for message in chat.history])  # ids are random
    assert "8003" in str(chat.recall("port of proxy 3"))
    chat.close()
    later = Session(lambda _: "yes", store=store)
    assert "8003" in str(later.recall("port of proxy 3"))
    store.close()


def test_what_a_third_party_plugin_takes_is_kept_too() -> None:
    store = MemoryStore()
    chat = session(store, "gc_truncate")
    before = chat.history
    chat.set_gc_plugin(Custom(keep=4), GCConfig())  # type: ignore[arg-type]
    chat.manual_gc()
    assert len(chat.history) == 5
    chat.undo_gc()
    assert chat.history == before
    events = [entry.event for entry in store.journal.read("session")]
    assert events == [Event.UNDONE, Event.RESTORING, Event.SWEPT, Event.SWEEPING]


def test_it_is_in_the_stash_before_the_session_drops_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chat = session(store := MemoryStore(), "gc_truncate")
    before = chat.history

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(store.stash, "put", fail)
    with pytest.raises(OSError, match="full"):
        chat.manual_gc()
    assert chat.history == before


def test_a_store_that_fails_stops_collections_but_not_the_conversation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chat = session(store := MemoryStore(), "gc_truncate")

    def fail(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(store.stash, "put", fail)
    results = len(chat.get_gc_history())
    before = chat.history
    refused = chat.manual_gc()
    assert chat.history == before
    assert (refused.success, refused.tokens_freed, refused.removal_list) == (False, 0, [])
    assert refused.error == "StoreError: the disk is full"
    assert chat.send_message(text(700)).text == "yes"
    assert chat.send_message(text(700)).text == "yes"
    assert [m.role for m in chat.history[-4:]] == [Role.USER, Role.MODEL] * 2
    assert not any(result.success for result in chat.get_gc_history()[results:])
    monkeypatch.undo()
    assert chat.manual_gc().tokens_freed
    chat.undo_gc()
    assert chat.history[: len(before)] == before


def test_without_a_store_undo_and_recall_work_until_the_program_ends() -> None:
    chat = session(None, "gc_truncate")
    with pytest.raises(NotFound, match="nothing was collected"):
        chat.undo_gc()
    before = chat.history
    chat.manual_gc()
    assert "8003" in str(chat.recall("port of proxy 3"))
    chat.undo_gc()
    assert chat.history == before


@pytest.mark.parametrize("plugin", BUILT_IN)
def test_after_a_restart_a_session_continues_and_its_collections_are_undone(
    plugin: str, tmp_path: Path
) -> None:
    store = open_store(tmp_path / "chat.db")
    chat = session(store, plugin)
    said = list(chat.history)
    sweeps = 0
    for n in range(2):
        was = chat.history
        chat.manual_gc()
        sweeps += chat.history != was
        say(chat, work(20 + n))
        said += chat.history[-4:]
    left, turns = chat.history, chat.get_context_usage()["turns"]
    store.close()
    store = open_store(tmp_path / "chat.db")
    later = Session(lambda _: "yes", counter=words, store=store)
    assert later.history == left
    assert later.get_context_usage()["turns"] == turns
    for _ in range(sweeps):
        later.undo_gc()
    assert list(later.history) == said
    with pytest.raises(NotFound, match="nothing to undo"):
        later.undo_gc()
    store.close()


def test_a_reopened_session_gives_no_summary_the_number_of_one_that_was_taken_out() -> None:
    store = MemoryStore()
    chat = session(store, "gc_summarize")
    chat.manual_gc()
    assert "gc_summary_1" in [m.message_id for m in chat.history]
    chat.set_gc_plugin(Custom(keep=4))  # type: ignore[arg-type]
    chat.manual_gc()
    assert "gc_summary_1" not in [m.message_id for m in chat.history]
    again = session(store, "gc_summarize")
    again.manual_gc()
    assert "gc_summary_2" in [m.message_id for m in again.history]


def test_a_reopened_session_knows_who_made_its_summaries(tmp_path: Path) -> None:
    def makers(chat: Session) -> dict[str, object]:
        entry = chat.budget.get_entry(InstructionSource.CONVERSATION)
        assert entry is not None
        summaries = {k: c for k, c in entry.children.items() if k.startswith("gc_summary_")}
        assert all(child.tokens for child in summaries.values())
        return {key: child.metadata["created_by"] for key, child in summaries.items()}

    store = open_store(tmp_path / "chat.db")
    chat = session(store, "gc_summarize")
    chat.manual_gc()
    assert makers(chat) == {"gc_summary_1": "gc_summarize"}
    store.close()
    store = open_store(tmp_path / "chat.db")
    again = Session(lambda _: "yes", counter=words, store=store)
    assert makers(again) == {"gc_summary_1": "gc_summarize"}
    again.set_gc_plugin(Custom(keep=4))  # type: ignore[arg-type]
    again.manual_gc()
    assert makers(again) == {}
    again.undo_gc()
    assert makers(again) == {"gc_summary_1": "gc_summarize"}
    store.close()


def test_what_a_message_was_declared_as_survives_a_restart_and_an_undo() -> None:
    def preserved(chat: Session) -> list[tuple[str | None, list[str]]]:
        children = chat.ledger().entries[InstructionSource.CONVERSATION].children.values()
        found = [c for c in children if c.gc_policy is GCPolicy.PRESERVABLE]
        return [(c.label, c.message_ids) for c in found]

    store = MemoryStore()
    chat = session(store, "gc_budget")
    chat.send_message("by friday please", kind=ChildKind.CLARIFICATION)
    (declared,) = preserved(chat)
    say(chat, work(20))
    again = Session(lambda _: "yes", context_limit=2_000, counter=words, store=store)
    assert preserved(again) == [declared]
    again.set_gc_plugin(load_gc_plugin("gc_budget"), SMALL)
    again.manual_gc()
    assert "by friday please" in [m.text for m in again.history]
    again.set_gc_plugin(Custom(keep=2))  # type: ignore[arg-type]
    again.manual_gc()
    assert preserved(again) == []
    again.undo_gc()
    assert preserved(again) == [declared]


def test_a_reopened_session_takes_other_instructions_but_no_other_history() -> None:
    store = MemoryStore()
    first = Session(lambda _: "yes", store=store, system_instructions="be brief")
    first.send_message("hello")
    again = Session(lambda _: "yes", store=store, system_instructions="be kind")
    assert [m.text for m in again.history] == ["be kind", "hello", "yes"]
    assert Session(lambda _: "yes", store=store, history=again.history).history == again.history
    with pytest.raises(BadInput, match="holds the history of this session already"):
        Session(lambda _: "yes", store=store, history=work(1))


def test_a_result_that_is_not_plain_data_is_kept_as_text() -> None:
    store = MemoryStore()
    chat = Session(lambda _: "yes", store=store)
    result = ToolResult("c", "look", object())
    for message in work(1)[:1]:
        chat.append(message)
    chat.append(Message(Role.MODEL, (Part(function_call=FunctionCall("c", "look")),)))
    chat.append(Message(Role.TOOL, (Part(function_response=result),)))
    assert chat.history[-1].function_responses == (result,)
    again = Session(lambda _: "yes", store=store).history[-1].function_responses
    assert "object object" in str(again[0].result)


@pytest.mark.parametrize("pinned", [3, 1])
def test_a_pinned_turn_of_a_reopened_session_keeps_its_number(pinned: int) -> None:
    """Turns 1, 2 and 4 are swept before the restart, and turn 1 comes back after it."""
    store = MemoryStore()
    chat = Session(lambda _: "we agreed on this " * 60, context_limit=100_000, store=store)
    for n in range(5):
        chat.send_message(f"wish {n}")
    most = GCConfig(preserve_recent_turns=0, pinned_turn_indices=[3], max_turns=5)
    chat.set_gc_plugin(load_gc_plugin("gc_truncate"), most)
    chat.send_message("wish 5")
    assert [m.text for m in chat.history if m.text.startswith("wish")] == [
        f"wish {n}" for n in (0, 3, 5)
    ]
    chat = Session(lambda _: "yes", context_limit=100_000, store=store)
    config = GCConfig(preserve_recent_turns=0, pinned_turn_indices=[pinned], target_percent=0)
    chat.set_gc_plugin(load_gc_plugin("gc_truncate"), config)
    if pinned == 1:
        chat.append(Message.from_text(Role.USER, "wish 6"))
        chat.undo_gc()
    result = chat.manual_gc()
    assert "Refused" not in str(result.error)
    texts = [m.text for m in chat.history]
    assert texts[texts.index(f"wish {pinned}") + 1].startswith("we agreed on this")


@pytest.mark.parametrize("plugin", BUILT_IN)
def test_a_session_that_begins_with_a_greeting_is_collected_again_and_again(plugin: str) -> None:
    greeting = Message.from_text(Role.MODEL, "Hello! How can I help you today?")
    chat = Session(lambda _: "yes " * 150, context_limit=3_000, history=[greeting])
    chat.set_gc_plugin(load_gc_plugin(plugin), GCConfig(preserve_recent_turns=0))
    for n in range(30):
        chat.send_message(f"wish {n} " * 20)
    results = chat.get_gc_history()
    assert len(results) > 3
    assert [r.error for r in results if not r.success] == []
    assert chat.get_context_usage()["percent_used"] < 100
    notices = [m for m in chat.history if m.message_id.startswith("gc_notice_")]
    assert len(notices) <= 1
    assert chat.history[0] not in notices
