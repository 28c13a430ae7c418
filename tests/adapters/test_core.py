"""What all adapters share: limits, keys, checkpoints, recall, and going on whatever happens."""

from __future__ import annotations

import asyncio
import logging
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from marksweep.adapters.core import Adapter, missing
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


def test_a_limit_in_percent_without_a_window_says_what_to_pass() -> None:
    with pytest.raises(BadInput, match="Pass window="):
        adapter("30%").fit(work("fix the parser", 1), "a")


@pytest.mark.parametrize("limit", ["0%", "101%", "many", "", 0, -1, "%", "0"])
def test_a_limit_that_makes_no_sense_is_refused_when_it_is_given(limit: int | str) -> None:
    with pytest.raises(BadInput, match="expected"):
        adapter(limit)


@pytest.mark.parametrize("window", [0, -5, "200k"])
def test_a_window_that_makes_no_sense_is_refused_when_it_is_given(window: Any) -> None:
    with pytest.raises(BadInput, match="window is"):
        adapter("60%", window=window)


def test_a_misspelt_strategy_is_refused_when_it_is_given() -> None:
    with pytest.raises(BadInput, match="covrage"):
        adapter(strategy="covrage")


def test_keep_is_a_list_of_names() -> None:
    with pytest.raises(BadInput, match=r"keep=\['todo'\]"):
        adapter(keep="todo")


def test_what_a_kept_tool_said_never_goes() -> None:
    plan = [
        {"role": "assistant", "tool_calls": [_call("t", "todo")], "content": None},
        {"role": "tool", "tool_call_id": "t", "content": "1. the parser\n" * 100},
    ]
    history = [*work("fix the parser", 2), *plan, *work("go on", 20)]
    assert plan[1] in sent(grown(adapter(keep=["todo"]), history))
    assert plan[1] not in sent(grown(adapter(), history))


def test_what_a_kept_role_said_never_goes() -> None:
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


def test_another_process_goes_on_from_a_checkpoint_or_from_the_store(tmp_path: Path) -> None:
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


def test_usage_calibrates_the_conversation() -> None:
    made, history = adapter(), work("fix the parser", 20)
    fitted = grown(made, history[:9])
    before = fitted.conversation.tokens
    made.observe("a", 4 * before, 0)
    assert made.fit(history[:11], "a").conversation.tokens < before
    made.observe("nobody", 10)
    made.observe("a", None)


def test_a_failure_gives_what_the_framework_had_and_is_logged_once(
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


def test_many_threads_may_share_one() -> None:
    made = adapter()
    histories = [work(f"task {n}", 20) for n in range(6)]
    with ThreadPoolExecutor(6) as threads:
        fitted = list(threads.map(lambda n: grown(made, histories[n], f"{n}"), range(6)))
    for n, each in enumerate(fitted):
        assert set(re.findall(r"task \d", str(sent(each)))) == {f"task {n}"}
        assert len(str(sent(each))) < len(str(histories[n])) / 2
        assert not validate(sent(each), "openai_chat")


def test_a_missing_framework_is_named_with_what_to_install() -> None:
    told = str(missing("langchain", ImportError("No module named 'langchain'")))
    assert "pip install 'marksweep[langchain]'" in told
    assert "No module named 'langchain'" in told
