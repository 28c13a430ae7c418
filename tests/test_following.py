"""A host that owns its history and sends it whole: extended, rewound, collected, resumed."""

from __future__ import annotations

import copy
import json
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marksweep.conversation import Conversation
from marksweep.core.budget import Budget
from marksweep.core.plan import plan_recall
from marksweep.core.strategy import Proposal
from marksweep.dialects import validate
from marksweep.errors import BadInput, Refused, StoreBusy, UnreadableWarning
from marksweep.following import Kept, Overlap, unmarked
from marksweep.messages import texts_of
from marksweep.model import Action, utc_now
from marksweep.sections import Section, Sections
from marksweep.stores.memory import MemoryStore
from marksweep.strategies.chosen import Chosen
from marksweep.testing.histories import Answered, Call, Said, Script, render_script

PROVIDERS = ["openai_chat", "openai_responses", "anthropic", "gemini"]


def work(steps: int, dialect: str = "anthropic") -> list[Any]:
    beats: list[Said | Answered] = [Said("fix the parser")]
    for n in range(steps):
        text = f"content of file {n}\n" * 60
        beats.append(Answered(f"step {n}", calls=(Call("read", {"path": f"{n}.py"}, text),)))
    return [unmarked(message) for message in render_script(Script(tuple(beats)), dialect)]


def sent(kept: list[Kept]) -> list[Any]:
    return [each.message for each in kept]


def grown(talk: Conversation, history: list[Any]) -> list[Kept]:
    """Follow a history as it grows, message by message."""
    kept: list[Kept] = []
    for end in range(1, len(history) + 1):
        kept = talk.follow(history[:end])
    return kept


def test_the_callers_own_objects_and_keys_come_back() -> None:
    history = work(3)
    keys = [f"id {n}" for n in range(len(history))]
    kept = Conversation(limit=100_000).follow(history, keys)
    assert [each.key for each in kept] == keys
    assert all(each.message is given for each, given in zip(kept, history, strict=True))
    assert not any(each.is_changed for each in kept)


@pytest.mark.parametrize("dialect", PROVIDERS)
def test_what_a_collection_changed_is_flagged_and_the_rest_is_the_callers(dialect: str) -> None:
    history = work(30, dialect)
    kept = grown(Conversation(limit=3_000, dialect=dialect), history)
    assert any(each.is_changed for each in kept) or len(kept) < len(history)
    for each in kept:
        if not each.is_changed:
            assert each.message is history[each.key]
    assert not validate(sent(kept), dialect)


@pytest.mark.parametrize("dialect", PROVIDERS)
def test_a_retry_gives_equal_messages(dialect: str) -> None:
    talk, history = Conversation(limit=3_000, dialect=dialect), work(30, dialect)
    kept = grown(talk, history)
    assert talk.follow(copy.deepcopy(history)) == kept
    assert talk.follow(history) == kept


@pytest.mark.parametrize("dialect", PROVIDERS)
def test_a_restart_gives_equal_messages(dialect: str, tmp_path: Path) -> None:
    history, path = work(30, dialect), tmp_path / "talk.db"
    with closing(Conversation(limit=3_000, dialect=dialect, store=path)) as first:
        kept = grown(first, history)
    with closing(Conversation(limit=3_000, dialect=dialect, store=path)) as again:
        assert sent(again.follow(history)) == sent(kept)


def test_recalled_text_that_was_shortened_is_not_a_message_of_the_host() -> None:
    """It was known as one after a restart: then every request was a rewind to it."""
    store, history = MemoryStore(), work(6)
    talk = Conversation(limit=100_000, dialect="anthropic", store=store)
    talk.follow(history)
    heap = talk._heap
    note = heap.note(Sections((Section("recalled\n" * 60),)), heap.live()["m4"])
    short = heap.form.say("recalled\n", note.segment_id)
    for put in (note, heap.revised(note, short)):
        store.segments.write(talk.workspace, put=[put])
        again = Conversation(limit=100_000, dialect="anthropic", store=store)
        assert again.overlap(history) == Overlap(len(history), 0)
        assert again.context().segments[-1].topic_id == "turn_0"
    talk.collect(talk.plan(0, strategy=Chosen([note.segment_id])))
    again = Conversation(limit=100_000, dialect="anthropic", store=store)
    assert again.overlap(history) == Overlap(len(history), 0)
    assert sent(again.follow(history)) == history


def test_the_same_history_for_another_limit_or_with_more_tools_is_not_a_retry() -> None:
    store, history = MemoryStore(), work(6)
    request = {"messages": history, "tools": [{"name": "read", "input_schema": {}}]}
    for limit in (10_000, 3_000):
        talk = Conversation(limit=limit, dialect="anthropic", store=store)
        kept = talk.follow(request)
    assert talk.tokens < 3_000
    more = {**request, "tools": [{**request["tools"][0], "description": "reads a file " * 500}]}
    assert len(json.dumps(sent(talk.follow(more)))) < len(json.dumps(sent(kept)))


def test_cache_marks_move_without_a_difference_and_are_never_more_than_the_clients() -> None:
    talk = Conversation(limit=3_000, dialect="anthropic")
    history = work(30)
    for end in range(1, len(history) + 1, 2):
        request = copy.deepcopy(history[:end])
        last = request[-1]
        if isinstance(last["content"], str):
            last["content"] = [{"type": "text", "text": last["content"]}]
        last["content"][-1]["cache_control"] = {"type": "ephemeral"}
        kept = talk.follow(request)
        assert json.dumps(sent(kept)).count("cache_control") == 1
    assert len(kept) < len(history) or any(each.is_changed for each in kept)
    assert talk.history[0].raw == history[0]


def test_an_argument_that_is_called_like_a_mark_makes_a_difference() -> None:
    talk = Conversation(limit=100_000, dialect="anthropic")
    call = {"type": "tool_use", "id": "1", "name": "set", "input": {"cache_control": "on"}}
    history = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [call]}]
    talk.follow(history)
    other = copy.deepcopy(history)
    other[1]["content"][0]["input"]["cache_control"] = "off"  # type: ignore[index]
    assert talk.overlap(other).known == 1


def test_a_rewind_takes_back_what_the_host_took_back() -> None:
    talk = Conversation(limit=100_000)
    history = work(6)
    talk.follow(history)
    other = [*history[:5], {"role": "user", "content": "do something else"}]
    assert sent(talk.follow(other)) == other
    assert [message.raw for message in talk.history] == other
    assert talk.follow(history)[-1].message == history[-1]


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic"])
def test_a_rewind_to_a_swept_request_that_the_model_had_not_answered_brings_it_back(
    dialect: str,
) -> None:
    asked = [Said("fix the parser"), Said("and the lexer: " + "why? " * 400)]
    history = render_script(Script((*asked, Answered("done"))), dialect)
    store = MemoryStore()
    talk = Conversation(limit=10**6, store=store, dialect=dialect)
    talk.follow(history)
    roomy, talk.budget = talk.budget, Budget.of(300)
    talk.collect(talk.plan(0, strategy="truncate"))
    assert len(talk.history) == 2
    talk.budget = roomy
    assert sent(talk.follow(history[:2])) == history[:2]
    reopened = Conversation(limit=10**6, store=store, dialect=dialect)
    assert reopened.extend(history[2:]) == ["m3"]


@pytest.mark.parametrize("dialect", PROVIDERS)
def test_a_rewind_past_what_was_swept_leaves_nothing_of_the_rest(dialect: str) -> None:
    history = work(30, dialect)
    talk = Conversation(limit=3_000, dialect=dialect)
    grown(talk, history)
    short = history[:4]
    assert talk.overlap(short).loses_sweep
    kept = talk.follow(short)
    assert not validate(sent(kept), dialect)
    assert kept[-1].message is short[-1]
    while talk.latest():
        talk.undo()
    assert [message.raw for message in talk.history] == short
    assert not talk.store.stash.count(talk.workspace)
    assert not validate(sent(grown(talk, history)), dialect)


def test_what_cannot_be_read_stays_where_it_is_also_after_a_restart(tmp_path: Path) -> None:
    odd = {"type": "unheard_of", "role": 17}
    history = [*work(3)[:3], odd, *work(3)[3:]]
    talk = Conversation(limit=100_000, dialect="anthropic", store=tmp_path / "talk.db")
    with pytest.warns(UnreadableWarning):
        assert sent(talk.follow(history)) == history
    assert sent(talk.follow(history)) == history
    talk.close()
    again = Conversation(limit=100_000, dialect="anthropic", store=tmp_path / "talk.db")
    assert again.overlap(history).taken_back == 0
    assert sent(again.follow(history)) == history
    again.close()


def test_a_whole_request_counts_its_tools_and_its_system_prompt() -> None:
    body = {"system": "be brief " * 50, "tools": [{"name": "read"}], "messages": work(3)}
    talk = Conversation(limit=100_000, dialect="anthropic")
    bare = Conversation(limit=100_000, dialect="anthropic")
    bare.follow(work(3))
    talk.follow(body)
    assert talk.tokens > bare.tokens + 50
    assert sent(talk.follow(body)) == work(3)


@pytest.mark.parametrize("messages", [17, "hello", {"messages": "hello"}])
def test_what_is_not_a_history_is_refused(messages: Any) -> None:
    with pytest.raises(BadInput):
        Conversation(limit=100).follow(messages)


def test_nothing_readable_is_an_error_and_not_an_empty_conversation() -> None:
    with pytest.raises(BadInput, match="none of 1 messages"):
        Conversation(limit=100, dialect="anthropic").follow([{"kind": "request"}])


def test_nothing_readable_does_not_take_a_known_conversation_back() -> None:
    talk = Conversation(limit=100_000, dialect="anthropic")
    talk.follow(work(3))
    with pytest.raises(BadInput, match="none of 2 messages"):
        talk.follow([{"kind": "request"}, 17])
    assert [message.raw for message in talk.history] == work(3)


def test_keys_must_be_as_many_as_messages() -> None:
    with pytest.raises(BadInput, match="1 keys for 7 messages"):
        Conversation(limit=100_000).follow(work(3), ["one"])


def test_the_last_messages_can_be_taken_back_live_or_swept() -> None:
    talk = Conversation(limit=3_000, dialect="anthropic")
    history = work(30)
    grown(talk, history)
    talk.drop_last(2)
    assert talk.overlap(history).known == len(history) - 2
    talk.drop_last(len(history) - 5)
    assert [message.raw for message in talk.history] == history[:3]
    talk.clear()
    assert talk.messages == []
    assert not talk.store.stash.count(talk.workspace)
    with pytest.raises(BadInput):
        talk.drop_last()


def test_a_state_is_json_and_continues_elsewhere_with_its_undo() -> None:
    talk = Conversation(limit=3_000, dialect="anthropic")
    history = work(30)
    kept = grown(talk, history)
    state = json.loads(json.dumps(talk.state()))
    other = Conversation.from_state(state, limit=3_000, workspace="elsewhere")
    assert other.dialect == "anthropic"
    assert sent(other.follow(history)) == sent(kept)
    assert other.undo() == talk.undo()
    while other.latest():
        other.undo()
    assert [message.raw for message in other.history] == history


def test_a_state_does_not_overwrite_a_conversation() -> None:
    store = MemoryStore()
    talk = Conversation(limit=3_000, store=store)
    talk.extend(work(2))
    with pytest.raises(Refused, match="not empty"):
        Conversation.from_state(talk.state(), limit=3_000, store=store)


@pytest.mark.parametrize("state", [{}, {"version": 1}, [], "x"])
def test_what_is_not_a_state_is_refused(state: Any) -> None:
    with pytest.raises(BadInput, match="not a state"):
        Conversation.from_state(state, limit=3_000)


@given(
    ends=st.lists(st.integers(1, 41), min_size=1, max_size=8),
    branches=st.lists(st.booleans(), min_size=8, max_size=8),
    dialect=st.sampled_from(PROVIDERS),
    strategy=st.sampled_from(["coverage", "truncate", "mask", "summarize"]),
)
@settings(max_examples=30, deadline=None)
def test_whatever_the_host_does_it_gets_a_valid_history_and_the_same_again(
    ends: list[int], branches: list[bool], dialect: str, strategy: str
) -> None:
    talk = Conversation(limit=1_500, dialect=dialect, strategy=strategy)
    history = work(20, dialect)
    said = render_script(Script((Said("something else"),)), dialect)
    for end, branches_off in zip(ends, branches, strict=False):
        request = history[:end] + (said if branches_off else [])
        if validate(request, dialect):
            continue
        kept = talk.follow(request)
        assert not validate(sent(kept), dialect)
        assert talk.follow(request) == kept
        assert kept[-1].message is request[-1]


def is_there(talk: Conversation, text: str) -> bool:
    """Whether a line is in the conversation, or found in its stash."""
    live = [each.words for message in talk.history for each in texts_of(message)]
    return f"{text}\n" in "\n".join([*live, *talk.recall(text)])


@pytest.mark.parametrize("strategy", ["coverage", "truncate", "mask", "summarize"])
@pytest.mark.parametrize("dialect", PROVIDERS)
def test_a_host_may_keep_what_it_was_given_to_send(dialect: str, strategy: str) -> None:
    """It continues the same conversation, so that everything that was ever swept can be found."""
    talk = Conversation(limit=3_000, dialect=dialect, strategy=strategy)
    history = work(30, dialect)
    host: list[Any] = []
    for message in history:
        host = sent(talk.follow([*host, message]))
        again = talk.follow(host)
        assert sent(again) == host
        assert not any(each.is_changed for each in again)
        assert not validate(host, dialect)
    assert len(host) < len(history) or host != history
    assert talk.overlap(host) == talk.overlap(host)
    assert is_there(talk, "content of file 1")
    assert talk.overlap(history).known == len(history)
    while talk.latest():
        talk.undo()
    assert [message.raw for message in talk.history] == history


@pytest.mark.parametrize("strategy", ["coverage", "truncate", "summarize"])
@pytest.mark.parametrize("dialect", PROVIDERS)
def test_a_host_that_keeps_what_it_was_given_is_followed_also_if_every_request_collects(
    dialect: str, strategy: str
) -> None:
    talk = Conversation(limit=1_500, dialect=dialect, strategy=strategy)
    history = work(20, dialect)
    host: list[Any] = []
    for start in range(0, len(history), 5):
        host = sent(talk.follow([*host, *history[start : start + 5]]))
        assert not validate(host, dialect)
    while talk.latest():
        talk.undo()
    assert [message.raw for message in talk.history] == history


def test_a_host_that_keeps_what_it_was_given_may_rewind() -> None:
    talk = Conversation(limit=3_000, dialect="anthropic")
    host: list[Any] = []
    for message in work(30):
        host = sent(talk.follow([*host, message]))
    other = [*host[:5], {"role": "user", "content": "do something else"}]
    kept = talk.follow(other)
    assert not validate(sent(kept), "anthropic")
    assert [each.key for each in kept if each.key is not None] == list(range(len(other)))
    assert kept[-1].message is other[-1]
    assert talk.follow(sent(kept)) == [Kept(each, i) for i, each in enumerate(sent(kept))]


def reordered(value: Any) -> Any:
    """Return a value with the keys of its objects in reverse order."""
    if isinstance(value, list):
        return [reordered(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: reordered(each) for key, each in reversed(value.items())}


@pytest.mark.parametrize("dialect", PROVIDERS)
def test_a_host_may_keep_what_it_was_given_with_keys_in_another_order(dialect: str) -> None:
    talk = Conversation(limit=3_000, dialect=dialect, strategy="truncate")
    host: list[Any] = []
    for message in work(30, dialect):
        host = [reordered(each) for each in sent(talk.follow([*host, message]))]
    assert len(host) < 30
    overlap = talk.overlap([*host, {"role": "user", "content": "and now?"}])
    assert overlap == Overlap(len(host), 0)


def test_what_a_host_that_keeps_what_it_was_given_rewinds_to_is_the_end() -> None:
    """Nothing that was swept after it comes back behind it."""
    talk, worked = Conversation(limit=100_000, dialect="openai_chat"), work(9, "openai_chat")
    said = (Said("of dates"), Answered("ok"), Said("go on"), Answered("ok"))
    talk.follow([*worked, *render_script(Script(said), "openai_chat")])
    talk.collect(talk.plan(talk.tokens * 9 // 10, strategy="mask"))
    talk.collect(talk.plan(0, strategy=Chosen([f"m{len(worked) + 2}"])))
    kept = [message.raw for message in talk.history]
    assert sent(talk.follow(kept)) == kept
    end = len(worked) + 1
    assert [kept[end - 1]["content"], kept[end]["content"]] == ["of dates", "go on"]
    assert sent(talk.follow(kept[:end])) == kept[:end]


@pytest.mark.parametrize("dialect", PROVIDERS)
def test_a_host_that_rewinds_to_before_a_recalled_note_takes_no_message_before_it_back(
    dialect: str,
) -> None:
    ended = render_script(Script((Said("go"), Answered("done"), Said("and now?"))), dialect)[1:]
    history = [*work(4, dialect), *ended]
    talk = Conversation(limit=10**6, dialect=dialect, strategy="truncate")
    talk.follow(history)
    talk.collect(talk.plan(0))
    answer = next(m.message_id for m in talk.history if m.raw == ended[0])
    note = talk._heap.note(Sections((Section("content of file 1"),)), talk._heap.live()[answer])
    talk.collect(plan_recall(talk.context(), Proposal((), Action.RECALL, "asked for", note)))
    host = sent(talk.follow(history))
    at = [m.message_id for m in talk.history].index(note.segment_id)
    talk.follow(host)
    assert not validate(sent(talk.follow(host[:at])), dialect)
    while talk.latest():
        talk.undo()
    assert [message.raw for message in talk.history] == history[: -len(ended)]


def test_a_host_that_rewinds_to_a_recalled_note_gets_the_same_again() -> None:
    said = (Said("go"), Answered("done"), Said("and now?"), Answered("yes"), Said("thanks"))
    history = render_script(Script(said), "openai_chat")
    talk = Conversation(limit=10**6, dialect="openai_chat")
    talk.follow(history)
    note = talk._heap.note(Sections((Section("what was said before"),)), talk._heap.live()["m2"])
    talk.collect(plan_recall(talk.context(), Proposal((), Action.RECALL, "asked for", note)))
    host = sent(talk.follow(history))
    talk.follow(host)
    assert host[1] not in history
    kept = talk.follow(host[:2])
    assert talk.follow(host[:2]) == kept


def test_a_message_that_was_dropped_and_is_sent_again_is_there_again() -> None:
    talk = Conversation(limit=10**6, dialect="anthropic", strategy="truncate")
    history = work(10)
    talk.follow(history)
    talk.collect(talk.plan(0))
    question = {"role": "user", "content": "and now?"}
    host = [*sent(talk.follow(history)), question]
    talk.follow(host)
    talk.drop_last()
    assert sent(talk.follow(host))[-1] == question


def test_an_undo_by_others_is_no_rewind_of_a_host_that_keeps_what_it_was_given() -> None:
    talk = Conversation(limit=10**6, dialect="anthropic", strategy="truncate")
    history = work(10)
    talk.follow(history)
    talk.collect(talk.plan(0))
    host = sent(talk.follow(history))
    assert len(host) < len(history)
    talk.undo()
    assert sent(talk.follow(host)) == history


def test_two_that_follow_the_same_history_at_once_add_a_message_once() -> None:
    store, history, meanwhile = MemoryStore(lock_timeout=0.0), work(3), list[Thread]()

    def clock() -> datetime:
        if meanwhile:
            other = meanwhile.pop()
            other.start()
            other.join()
        return utc_now()

    def interfere() -> None:
        with suppress(StoreBusy):
            second.follow(history)

    first = Conversation(limit=100_000, dialect="anthropic", store=store, clock=clock)
    second = Conversation(limit=100_000, dialect="anthropic", store=store)
    for talk in (first, second):
        talk.follow(history[:-1])
    meanwhile.append(Thread(target=interfere))
    assert sent(first.follow(history)) == history
    assert sent(second.follow(history)) == history


@pytest.mark.parametrize("dialect", PROVIDERS)
def test_a_host_may_continue_with_what_it_was_given_once(dialect: str) -> None:
    """Such as a run that begins with a collected session: its own list is not collected again."""
    talk = Conversation(limit=3_000, dialect=dialect)
    history = work(40, dialect)
    half = len(history) // 2
    host = sent(grown(talk, history[:half]))
    for at, message in enumerate(history[half:], half):
        host = [*host, message]
        kept = talk.follow(host)
        assert not validate(sent(kept), dialect)
        assert talk.overlap(history[: at + 1]).known == at + 1
        assert all(each.message is host[each.key] for each in kept if not each.is_changed)
    assert talk.tokens <= 3_000
    assert is_there(talk, "content of file 1")
