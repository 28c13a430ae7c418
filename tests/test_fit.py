"""Many conversations of one host, distinguished by their content."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from marksweep import Fit
from marksweep import fit as fit_module
from marksweep.collector import Notify
from marksweep.conversation import Conversation
from marksweep.dialects import validate
from marksweep.errors import BadInput, NotFound
from marksweep.following import unmarked
from marksweep.model import Plan
from marksweep.recalling import recall
from marksweep.stores.memory import MemoryStore
from marksweep.testing.histories import Answered, Call, Said, Script, render_script


def work(task: str, steps: int, dialect: str = "anthropic") -> list[Any]:
    beats: list[Said | Answered] = [Said(task)]
    for n in range(steps):
        text = f"{task}: content of file {n}\n" * 60
        beats.append(Answered(f"step {n}", calls=(Call("read", {"path": f"{n}.py"}, text),)))
    return [unmarked(message) for message in render_script(Script(tuple(beats)), dialect)]


def grown(fit: Fit, history: list[Any], key: str = "") -> list[Any]:
    sent: list[Any] = []
    for end in range(1, len(history) + 1, 2):
        sent = fit(history[:end], key)
    return sent


def unnumbered(sent: Any) -> Any:
    """Return what was sent, without the number of its conversation."""
    return json.loads(re.sub(r"recall\(\\\"m\d+\.", r'recall(\\"m', json.dumps(sent)))


def test_conversations_that_take_turns_do_not_mix() -> None:
    fit = Fit(3_000)
    one, other = work("fix the parser", 30), work("fix the lexer", 30)
    for end in range(1, len(one) + 1, 2):
        sent = fit(one[:end]), fit(other[:end])
    assert "lexer" not in str(sent[0])
    assert "parser" not in str(sent[1])
    assert unnumbered(sent[0]) == unnumbered(grown(Fit(3_000), one))


def test_a_conversation_that_is_opened_again_at_once_is_not_collected_early() -> None:
    """Closing it does not empty the provider's cache; 80 % of the limit is no reason to collect."""
    many, few = Fit(8_000, most_open=1), Fit(8_000)
    one, other = work("fix the parser", 12), work("fix the lexer", 12)
    for end in range(1, len(one) + 1, 2):
        for history in (one, other):
            assert unnumbered(many(history[:end])) == unnumbered(few(history[:end]))
    assert few.conversation(few.workspaces()[0]).tokens > 0.76 * 8_000


def test_equal_beginnings_are_distinguished_by_the_hosts_key() -> None:
    fit = Fit(3_000)
    history = work("fix the parser", 30)
    assert unnumbered(grown(fit, history, "a")) == unnumbered(grown(fit, history, "b"))
    assert fit.follow(history, "a").conversation is not fit.follow(history, "b").conversation


def test_a_rewind_past_a_sweep_is_a_branch_and_both_keep_their_sweeps() -> None:
    fit = Fit(3_000)
    history = work("fix the parser", 30)
    sent = grown(fit, history)
    other = [*history[:9], {"role": "user", "content": "rather fix the lexer"}]
    branched = fit.follow(other)
    assert not validate([kept.message for kept in branched.kept], "anthropic")
    assert branched.conversation is not fit.follow(history).conversation
    assert fit(history) == sent


def test_conversations_with_the_same_instructions_do_not_take_each_others_sweeps() -> None:
    """Agents of one program differ only in what their users ask."""
    fit = Fit(3_000, dialect="openai_chat")
    system = {"role": "system", "content": "You are a careful engineer."}
    examples = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    for beginning in ([system], [system, *examples]):
        histories = [[*beginning, *work(f"task {n}", 8, "openai_chat")] for n in range(12)]
        sent = [
            [fit(history[:end]) for end in range(len(beginning) + 1, len(history) + 1, 2)][-1]
            for history in histories
        ]
        assert len({fit.follow(history).conversation.workspace for history in histories[-5:]}) == 5
        assert [fit(history) for history in histories[-5:]] == sent[-5:]
        for n, each in enumerate(sent):
            named = re.findall(r'recall\(\\?"(.*?)\\?"\)', str(each))
            assert named
            assert all(f"task {n}: content" in recall(fit.store, name) for name in named)


def test_ids_of_conversations_in_one_store_differ_also_by_two_processes(tmp_path: Path) -> None:
    """Sub-agents and a second client write to the same store: `m6` would be ambiguous."""
    fits = [Fit(3_000, store=tmp_path / "fit.db") for _ in range(2)]
    talks = []
    for n in range(4):
        sent = grown(fits[n % 2], work(f"task {n}", 20))
        talk = fits[n % 2].follow(work(f"task {n}", 20)).conversation
        talks.append({message.message_id for message in talk.history})
        named = set(re.findall(r'recall\(\\?"(.*?)\\?"\)', str(sent)))
        assert named
        for name in named:
            said = recall(talk.store, name)
            assert not set(re.findall(r"task \d", said)) - {f"task {n}"}
    assert sum(map(len, talks)) == len(set().union(*talks))
    for fit in fits:
        fit.close()


def test_conversations_expire_with_all_that_was_swept_of_them(tmp_path: Path) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    now = start
    fit = Fit(3_000, store=tmp_path / "fit.db", dialect="anthropic", clock=lambda: now)
    grown(fit, work("an old task", 20))
    now = start + timedelta(days=40)
    grown(fit, work("a new task", 20))
    fit.close()
    fit = Fit(3_000, store=tmp_path / "fit.db", dialect="anthropic", clock=lambda: now)
    assert fit.expire(start + timedelta(days=10)) == 1
    assert list(fit.store.segments.workspaces()) == list(fit.workspaces())
    assert len(fit.workspaces()) == 1
    with pytest.raises(NotFound):
        recall(fit.store, "old")
    assert "a new task" in recall(fit.store, "new task content")
    assert fit.follow(work("an old task", 20)).conversation.tokens <= 3_000
    assert fit.expire(start) == 0
    fit.close()


def test_a_store_in_memory_forgets_the_conversations_used_longest_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fit_module, "MOST_IN_MEMORY", 3)
    fit = Fit(3_000, most_open=1)
    histories = [work(f"task {n}", 20) for n in range(6)]
    for history in histories:
        grown(fit, history)
        fit(histories[0])
    assert len(fit.workspaces()) == 3
    assert set(fit.store.all_workspaces()) == set(fit.workspaces())
    assert "task 1: content" not in recall(fit.store, "task 1 content of file 1")
    assert "task 0: content" in recall(fit.store, "task 0 content of file 1")
    assert unnumbered(grown(fit, histories[1])) == unnumbered(grown(Fit(3_000), histories[1]))


def test_a_side_question_does_not_branch() -> None:
    fit = Fit(3_000)
    history = work("fix the parser", 30)
    grown(fit, history)
    talk = fit.follow([*history, {"role": "assistant", "content": "done"}]).conversation
    asked = {"role": "user", "content": "what next?"}
    fit([*history, {"role": "assistant", "content": "done"}, asked])
    more = [*history, {"role": "assistant", "content": "done"}, {"role": "user", "content": "go"}]
    assert fit.follow(more).conversation is talk


def test_idle_conversations_are_left_to_the_store_and_continue_from_there(tmp_path: Path) -> None:
    fit = Fit(3_000, store=tmp_path / "fit.db", most_open=2)
    histories = [work(f"task {n}", 20) for n in range(5)]
    for history in histories:
        grown(fit, history)
    assert len(fit._open) == 2
    for each in (fit, Fit(3_000, store=tmp_path / "fit.db")):
        for history in histories:
            found = each.follow(history)
            assert found.conversation.store.stash.count(found.conversation.workspace)
            assert found.conversation.overlap(history).known == len(history)
            assert found.conversation.tokens <= 3_000
            assert not validate([kept.message for kept in found.kept], "anthropic")
            assert each.follow(history).kept == found.kept
        each.close()


def test_processes_that_take_turns_on_one_store_continue_each_others_conversations(
    tmp_path: Path,
) -> None:
    """As workers behind a load balancer do."""
    path = tmp_path / "fit.db"
    workers = [Fit(3_000, store=path, dialect="anthropic") for _ in range(3)]
    history = work("fix the parser", 40)
    for number, end in enumerate(range(1, len(history) + 1, 2)):
        fitted = workers[number % 3].follow(history[:end])
        assert len([kept for kept in fitted.kept if kept.key is not None]) <= end
        assert fitted.conversation.overlap(history[:end]).known == end
        assert not validate([kept.message for kept in fitted.kept], "anthropic")
    assert len(workers[0].store.segments.workspaces()) == 1
    for worker in workers:
        worker.close()


def test_processes_that_begin_conversations_at_once_choose_different_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number is part of the messages' ids, by which a model asks for what was swept."""
    have_chosen, follow = Barrier(2), Conversation.follow

    def follow_together(talk: Conversation, messages: Any) -> Any:
        have_chosen.wait(20)
        return follow(talk, messages)

    monkeypatch.setattr(Conversation, "follow", follow_together)
    workers = [Fit(3_000, store=tmp_path / "fit.db") for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        begun = [
            threads.submit(worker.follow, work(f"task {n}", 20)) for n, worker in enumerate(workers)
        ]
        names = [each.result().conversation.workspace for each in begun]
    assert sorted(name.rpartition(":")[2] for name in names) == ["1", "2"]
    for worker in workers:
        worker.close()


def test_a_whole_request_comes_back_as_one() -> None:
    body = {"model": "m", "system": "be brief", "messages": work("fix the parser", 3)}
    assert Fit(100_000)(body) == body


def test_a_whole_request_without_tools_does_not_count_those_of_the_one_before() -> None:
    history = work("a", 2)
    whole = {"system": "be brief " * 1_000, "tools": [{"name": "read " * 1_000}]}
    fit = Fit(100_000)
    bare = fit.follow({"messages": history[:1]}).tokens
    assert fit.follow({"messages": history[:1], **whole}).tokens > bare + 2_000
    assert fit.follow({"messages": history[:1]}).tokens == bare
    with_nulls = {"messages": history[:1], "system": None, "tools": None}
    assert fit.follow(with_nulls).tokens == bare


def test_tools_that_were_declared_count_in_requests_that_name_none() -> None:
    history = work("a", 2)
    talk = Conversation(limit=100_000, tools=[{"name": "read " * 1_000}])
    declared = talk.tokens
    talk.follow({"messages": history[:1], "tools": [{"name": "read " * 5_000}]})
    assert talk.tokens > declared + 2_000
    talk.follow({"messages": history[:1]})
    assert declared < talk.tokens < declared + 1_000


def test_what_is_added_later_keeps_the_tools_of_the_request_before() -> None:
    history = work("a", 2)
    store = MemoryStore()
    talk = Conversation(limit=100_000, store=store, tools=[{"name": "read " * 1_000}])
    declared = talk.tokens
    talk.extend({"messages": history[:1]})
    assert talk.tokens > declared
    opened_again = Conversation(limit=100_000, store=store)
    opened_again.extend({"messages": history[1:2]})
    assert opened_again.tokens > declared


def test_threads_may_share_it() -> None:
    fit = Fit(3_000)
    histories = [work(f"task {n}", 20) for n in range(6)]
    with ThreadPoolExecutor(6) as threads:
        sent = list(threads.map(lambda history: grown(fit, history), histories))
    assert unnumbered(sent) == unnumbered([grown(Fit(3_000), history) for history in histories])


def test_a_slow_collection_does_not_make_other_conversations_wait() -> None:
    """Not even while another request of that conversation waits for it."""
    collecting, go_on = Event(), Event()

    @contextmanager
    def watch(_: Plan, __: str) -> Iterator[Notify]:
        collecting.set()
        go_on.wait(20)
        yield lambda _: None

    fit = Fit(3_000, dialect="anthropic", watch=watch)
    history = work("fix the parser", 12)
    with ThreadPoolExecutor(3) as threads:
        slow = threads.submit(grown, fit, history)
        assert collecting.wait(20)
        again = threads.submit(fit, history[:5])
        try:
            for n in range(20):
                assert threads.submit(fit, work(f"task {n}", 1)).result(5)
            assert not again.done()
        finally:
            go_on.set()
        assert again.result(20)
        assert slow.result(20)


def test_a_branch_does_not_take_what_is_swept_while_it_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, is_swept = Event(), Event()
    follow = Conversation.follow

    def slow(talk: Conversation, messages: Any) -> Any:
        if "lexer" in str(messages):
            found.set()
            is_swept.wait(2)
        return follow(talk, messages)

    monkeypatch.setattr(Conversation, "follow", slow)
    history = work("fix the parser", 30)
    fit = Fit(4_000, dialect="anthropic")
    grown(fit, history[:7])
    with ThreadPoolExecutor(1) as threads:
        branch = threads.submit(fit, [*history[:5], {"role": "user", "content": "fix the lexer"}])
        assert found.wait(20)
        sent = grown(fit, history)
        is_swept.set()
        assert "lexer" in str(branch.result(20))
    assert len(str(sent)) < len(str(history)) / 2
    assert fit(history) == sent


@pytest.mark.parametrize("messages", [[], {"messages": []}, "hello", 17])
def test_what_is_not_a_history_is_refused(messages: Any) -> None:
    with pytest.raises(BadInput):
        Fit(100, dialect="anthropic")(messages)
