"""The core of all adapters: limits, keys, checkpoints, recall, and continuing after a failure."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from marksweep.adapters.core import Adapter, Sent, missing
from marksweep.dialects import validate
from marksweep.errors import BadInput
from marksweep.fit import Fitted
from marksweep.testing.histories import Answered, Call, Said, Script, render_script


def work(task: str, steps: int, tool: str = "read") -> list[Any]:
    beats: list[Said | Answered] = [Said(task)]
    for n in range(steps):
        text = f"{task}: content of file {n}\n" * 60
        beats.append(Answered(f"step {n}", calls=(Call(tool, {"path": f"{n}.py"}, text),)))
    return render_script(Script(tuple(beats)), "openai_chat")


def adapter(limit: int | str = 3_000, **options: Any) -> Adapter:
    return Adapter(limit, dialect="openai_chat", **options)


def grown(made: Adapter, history: list[Any], key: str = "a", **more: Any) -> Fitted:
    for end in range(1, len(history) + 1, 2):
        fitted = made.fit(history[:end], key, **more)
    return fitted


def sent(fitted: Fitted) -> list[Any]:
    return [kept.message for kept in fitted.kept]


def test_untouched_values_come_back_by_index_and_the_rest_is_flagged() -> None:
    history = work("fix the parser", 20)
    fitted = grown(adapter(), history)
    assert fitted.is_changed
    assert not validate(sent(fitted), "openai_chat")
    for kept in fitted.kept:
        if not kept.is_changed:
            assert kept.message is history[kept.key]


def test_a_limit_in_percent_is_of_the_models_window() -> None:
    history = work("fix the parser", 20)
    assert sent(grown(adapter("30%"), history, window=10_000)) == sent(grown(adapter(), history))
    assert sent(grown(adapter("30%", window=10_000), history)) == sent(grown(adapter(), history))


def test_another_model_with_another_window_continues_the_same_conversation() -> None:
    made, history = adapter("30%"), work("fix the parser", 40)
    for number, end in enumerate(range(1, len(history) + 1, 2)):
        fitted = made.fit(history[:end], "a", window=(20_000, 40_000)[number % 2])
        assert len(fitted.kept) <= end
        assert fitted.conversation.tokens <= (6_000, 12_000)[number % 2]
        assert not validate(sent(fitted), "openai_chat")


def test_a_limit_in_percent_without_a_window_says_what_to_pass() -> None:
    with pytest.raises(BadInput, match="Pass window="):
        adapter("30%").fit(work("fix the parser", 1), "a")


@pytest.mark.parametrize("limit", ["0%", "101%", "many", "", 0, -1, "%", "0"])
def test_an_invalid_limit_is_refused_when_it_is_set(limit: int | str) -> None:
    with pytest.raises(BadInput, match="expected"):
        adapter(limit)


@pytest.mark.parametrize("window", [0, -5, "200k"])
def test_an_invalid_window_is_refused_when_it_is_set(window: Any) -> None:
    with pytest.raises(BadInput, match="window is"):
        adapter("60%", window=window)


def test_a_misspelt_strategy_is_refused_when_it_is_set() -> None:
    with pytest.raises(BadInput, match="covrage"):
        adapter(strategy="covrage")


def test_keep_is_a_list_of_names() -> None:
    with pytest.raises(BadInput, match=r"keep=\['todo'\]"):
        adapter(keep="todo")


def test_results_of_a_kept_tool_are_never_swept() -> None:
    plan = [
        {"role": "assistant", "tool_calls": [_call("t", "todo")], "content": None},
        {"role": "tool", "tool_call_id": "t", "content": "1. the parser\n" * 100},
    ]
    history = [*work("fix the parser", 2), *plan, *work("go on", 20)]
    assert plan[1] in sent(grown(adapter(keep=["todo"]), history))
    assert plan[1] not in sent(grown(adapter(), history))


def test_messages_of_a_kept_role_are_never_swept() -> None:
    history = work("fix the parser", 20)
    said = [m for m in history if m["role"] == "assistant"]
    kept = sent(grown(adapter(limit=2_500, keep=["assistant"]), history))
    assert [m for m in kept if m["role"] == "assistant"] == said


def _call(name: str, tool: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": tool, "arguments": "{}"}}


def test_a_checkpoint_changes_only_when_something_was_collected() -> None:
    made, history = adapter(12_000), work("fix the parser", 40)
    states: list[Any] = [None]
    for end in range(1, len(history) + 1, 2):
        fitted = made.fit(history[:end], "a")
        states.append(made.checkpoint(fitted, states[-1]))
    assert states[1] is None
    changes = sum(a is not b for a, b in pairwise(states))
    assert 1 <= changes <= 5


def test_another_process_continues_from_a_checkpoint_or_from_the_store(tmp_path: Path) -> None:
    first, history = adapter(store=tmp_path / "a.db"), work("fix the parser", 20)
    fitted = grown(first, history)
    state = first.checkpoint(fitted)
    first.close()
    for again, given in ((adapter(), state), (adapter(store=tmp_path / "a.db"), None)):
        resumed = again.fit(history, "a", state=given)
        swept = {kept.key for kept in fitted.kept}
        assert {kept.key for kept in resumed.kept} <= swept
        assert "content of file 0" in again.recall("content of file 0", "a")
        again.close()


def test_recall_finds_by_id_and_words_what_was_swept_of_that_key_only() -> None:
    made, history = adapter(), work("fix the parser", 20)
    grown(made, history, "a")
    assert "content of file 1" in made.recall("content of file 1", "a")
    assert "content of file 0" in made.recall("m3", "a")
    assert "nothing" in made.recall("content of file 1", "b")


def test_recall_can_be_limited_to_one_of_several_conversations_with_a_key() -> None:
    made = adapter()
    talks = [grown(made, work(f"task {n}", 12), "a").conversation for n in range(12)]
    assert "task 1: content" in made.recall("content of file 1", talk=talks[1])
    for talk in talks:
        assert talk.workspace.rpartition(":")[2] in {str(n) for n in range(1, 13)}
    assert "task 10: content" not in made.recall("task content of file", talk=talks[1])
    assert "task 10: content" in made.recall("task content of file", talk=talks[10])


def test_another_model_finds_no_cached_prompt() -> None:
    """So it is a good time to collect."""
    history = work("fix the parser", 16)
    same, other = adapter(12_000), adapter(12_000)
    for end in range(1, len(history) + 1, 2):
        same.fit(history[:end], "a", model="one")
        other.fit(history[:end], "a", model="one")
    more = [*history, {"role": "user", "content": "go on"}]
    assert not same.fit(more, "a", model="one").is_changed
    assert other.fit(more, "a", model="two").is_changed


def test_usage_calibrates_the_conversation() -> None:
    made, history = adapter(), work("fix the parser", 20)
    fitted = grown(made, history[:9])
    before = fitted.conversation.tokens
    made.observe(Sent.of(fitted), 4 * before, 0)
    assert made.fit(history[:11], "a").conversation.tokens < before
    made.observe(None, 10)
    made.observe(Sent.of(fitted), None)


def test_usage_that_is_reported_late_is_compared_with_its_own_request() -> None:
    """Reports that agree with our count change nothing, even if other requests were sent since."""
    history, late = work("fix the parser", 20), list[Sent]()
    plain, reported = adapter(), adapter()
    for end in range(1, len(history) + 1, 2):
        fitted = reported.fit(history[:end], "a")
        assert sent(fitted) == sent(plain.fit(history[:end], "a"))
        late.append(Sent.of(fitted))
        if len(late) > 2:
            before = late.pop(0)
            reported.observe(before, before.tokens, 0)


def test_a_failure_returns_what_the_framework_had_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = adapter()
    with caplog.at_level(logging.WARNING, "marksweep.adapters"):
        for _ in range(3):
            assert made.guarded(lambda: sent(made.fit([], "a")), ["same"]) == ["same"]
        assert asyncio.run(made.guarded_async(lambda: 1 // 0, 7)) == 7
    assert made.failures == 4
    assert [record.name for record in caplog.records] == ["marksweep.adapters"]
    assert "there are no messages" in caplog.text


def test_threads_can_share_an_adapter() -> None:
    made = adapter()
    histories = [work(f"task {n}", 20) for n in range(6)]
    with ThreadPoolExecutor(6) as threads:
        fitted = list(threads.map(lambda n: grown(made, histories[n], f"{n}"), range(6)))
    for n, each in enumerate(fitted):
        assert set(re.findall(r"task \d", str(sent(each)))) == {f"task {n}"}
        assert len(str(sent(each))) < len(str(histories[n])) / 2
        assert not validate(sent(each), "openai_chat")


def test_in_an_event_loop_the_work_is_done_in_a_thread() -> None:
    made = adapter()
    assert asyncio.run(made.guarded_async(threading.get_ident, 0)) != threading.get_ident()


FRAMEWORKS = {
    "langchain": ("langchain.agents.middleware", "langchain"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "openai_agents": ("agents", "openai-agents"),
    "litellm": ("litellm", "litellm"),
    "google_adk": ("google.adk", "google-adk"),
    "agent_framework": ("agent_framework", "agent-framework"),
}
"""What each adapter imports, and the extra that installs it."""


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_an_adapter_without_its_framework_says_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, extra = FRAMEWORKS[name]
    monkeypatch.delitem(sys.modules, f"marksweep.adapters.{name}", raising=False)
    for each in [m for m in sys.modules if m == module or m.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, each)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"pip install 'marksweep\[{extra}\]'"):
        import_module(f"marksweep.adapters.{name}")


def test_a_missing_framework_is_named_with_what_to_install() -> None:
    message = str(missing("langchain", ImportError("No module named 'langchain'")))
    assert "pip install 'marksweep[langchain]'" in message
    assert "No module named 'langchain'" in message
