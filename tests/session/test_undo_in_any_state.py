"""Whatever a session does, its history is valid; undoing everything restores the start."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep.dialects import validate
from marksweep.errors import ModelError, NotFound
from marksweep.ledger import ChildKind, InstructionSource
from marksweep.messages import Message, Part, Role
from marksweep.plugins import GCConfig, load_gc_plugin
from marksweep.plugins.discovery import BUILT_IN
from marksweep.session import Session
from marksweep.session.providers import Respond
from marksweep.stores.memory import MemoryStore
from tests.laws.talking import few
from tests.plugins.histories import text, unpaired, words
from tests.session.test_keeping import say, work

operations = st.lists(st.sampled_from(["say", "collect", "undo", "reopen"]), max_size=12)


def opened(store: MemoryStore, plugin: str, target: int) -> Session:
    """Open a session that collects only by hand."""
    chat = Session(lambda _: "yes", context_limit=2_000, counter=words, store=store)
    config = GCConfig(auto_trigger=False, target_percent=target, preserve_recent_turns=1)
    chat.set_gc_plugin(load_gc_plugin(plugin), config)
    return chat


@few
@given(operations=operations, plugins=st.data(), target=st.integers(0, 40), turns=st.integers(2, 8))
def test_random_work_collections_undo_and_restarts_lose_nothing(
    operations: list[str], plugins: st.DataObject, target: int, turns: int
) -> None:
    store = MemoryStore()
    said = [message for n in range(turns) for message in work(n)]
    chat = opened(store, "gc_truncate", target)
    say(chat, said)
    for at, operation in enumerate(operations):
        if operation == "say":
            more = work(20 + at)
            say(chat, more)
            said += more
        elif operation == "collect":
            chat.manual_gc()
        elif operation == "reopen":
            chat = opened(store, plugins.draw(st.sampled_from(BUILT_IN)), target)
        else:
            undo(chat)
        assert unpaired(chat.history) == set()
        assert validate(list(chat.history), "openai_chat") == []
        assert chat.get_context_usage()["total_tokens"] == sum(map(words, chat.history))
    while undo(chat):
        pass
    assert list(chat.history) == said


def undo(chat: Session) -> bool:
    """Undo the latest collection; return whether there was one."""
    try:
        chat.undo_gc()
    except NotFound:
        return False
    return True


@pytest.mark.parametrize("plugin", BUILT_IN)
def test_what_came_after_a_collection_stays_when_it_is_undone(plugin: str) -> None:
    chat = opened(MemoryStore(), plugin, 10)
    say(chat, [message for n in range(9) for message in work(n)])
    before = chat.history
    assert chat.manual_gc().tokens_freed
    say(chat, work(20))
    after = chat.history[-4:]
    chat.undo_gc()
    assert chat.history == (*before, *after)


def failing(_: object) -> str:
    raise ModelError("down")


def collecting(store: MemoryStore, model: Respond) -> Session:
    """Open a session that collects when it is due."""
    chat = Session(model, context_limit=1_000, counter=words, store=store)
    chat.set_gc_plugin(load_gc_plugin("gc_truncate", {"notify_on_gc": False}))
    return chat


def test_a_message_that_was_shortened_and_taken_back_does_not_return_with_undo() -> None:
    store = MemoryStore()
    chat = collecting(store, failing)
    with pytest.raises(ModelError):
        chat.send_message("\n".join(f"line {n} of the log" for n in range(600)))
    assert chat.get_gc_history()[0].tokens_freed
    assert chat.history == ()
    chat = collecting(store, lambda _: "fine")
    chat.send_message("hello")
    with pytest.raises(NotFound):
        chat.undo_gc()
    assert [message.text for message in chat.history] == ["hello", "fine"]


def test_a_message_after_one_taken_back_and_a_restart_comes_after_what_was_swept() -> None:
    store = MemoryStore()
    chat = Session(failing, counter=words, store=store)
    log = Message(Role.USER, (Part(text=text(900, "log")),), "z")  # last among equal positions
    said = [Message.from_text(Role.USER, "look at this"), log]
    say(chat, said)
    chat = collecting(store, failing)
    chat.budget.add_child(
        InstructionSource.CONVERSATION,
        "log",
        900,
        kind=ChildKind.WORKING_OUTPUT,
        message_ids=["z"],
    )
    with pytest.raises(ModelError):
        chat.send_message("well?")
    assert chat.get_gc_history()[0].tokens_freed
    chat = Session(lambda _: "fine", counter=words, store=store)
    chat.send_message("and now?")
    undo(chat)
    assert [message.text for message in chat.history[2:]] == ["and now?", "fine"]
    assert list(chat.history[:2]) == said
