"""Law 12 on conversations: the user's words stay, calls stay whole, and no text is a bare marker.

Checked on provider messages, for every strategy alone and in tiers, in every dialect.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marksweep import Conversation, tidy, validate
from marksweep.dialects import read
from marksweep.errors import OverLimitWarning
from marksweep.heaps.stash_search import GAP
from marksweep.messages import Message, Role, is_summary, left_out_in, starts_turn
from marksweep.plugins import GCConfig, GCTriggerReason, load_gc_plugin
from marksweep.plugins.discovery import BUILT_IN
from marksweep.sections import NEXT_GAP, LeftOut
from marksweep.testing.histories import Answered, Call, Said, Script, render_script
from tests.laws.talking import PROVIDERS, each_strategy, shares

PROSE = "\n\n".join(f"Paragraph {n} explains what is done in step {n}, and why." for n in range(30))
FENCED = f"Now this:\n\n```bash\nmake all\n\nmake test\n```\n\n{PROSE}"
CODE = "\n\n".join(f"def f_{n}():\n    return {n}" for n in range(80))
LOG = "\n".join(f"{n:4}\tline {n} of a log" for n in range(150))
STAND_IN = re.compile(
    r"\[marksweep: (all|[\d,]+ of) [\d,]+ \w+ of .+ left out, .*; recall\(\".+\"\)\]"
)

beats = st.lists(
    st.one_of(
        st.sampled_from([Said("and the lexer?"), Said("use tabs, please"), Said("go on")]),
        st.builds(
            Answered,
            st.sampled_from(["", "I look.", PROSE, FENCED]),
            calls=st.lists(
                st.builds(
                    Call,
                    st.sampled_from(["read", "write"]),
                    st.sampled_from([{"path": "a.py"}, {"path": "b.py", "content": CODE}]),
                    st.sampled_from(["ok", CODE, LOG]),
                ),
                max_size=2,
            ).map(tuple),
        ),
    ),
    min_size=3,
    max_size=9,
).map(
    lambda found: Script(
        (Said("fix the parser"), Answered(PROSE), *found, Answered("so far"), Said("and now?"))
    )
)


def calls_of(messages: list[Message]) -> Counter[str]:
    """Return the calls with their arguments."""
    return Counter(json.dumps([c.name, c.args]) for m in messages for c in m.function_calls)


def check(before: list[Message], after: list[Message]) -> None:
    """Check what is left of a history against the law."""
    left = "\n".join(part.text for m in after for part in m.parts if part.text)
    for message in before:
        if starts_turn(message):
            assert message.text in left, "the user's words stay"
    assert calls_of(after) <= calls_of(before), "arguments are never rewritten"
    whole = "\n".join(part.text for m in before for part in m.parts if part.text)
    runs = [left_out_in(message) for message in after]
    assert not any(one and other for one, other in pairwise(runs)), "one line for a run"
    for message in after:
        if message.role is Role.MODEL:
            for part in message.parts:
                said = [line for line in (part.text or "").split("\n") if line.strip()]
                kept = [line for line in said if not line.startswith(("[marksweep: ", NEXT_GAP))]
                assert bool(kept) == bool(said), "never down to a bare marker"
                assert all(line in whole for line in kept), "cut at paragraphs"
                assert (part.text or "").count("```") % 2 == 0, "a fence stays whole"
        for result in message.function_responses:
            lines = str(result.result).split("\n")
            ours = [line for line in lines if line.startswith("[marksweep: ")]
            assert len(ours) <= 1
            assert all(STAND_IN.fullmatch(line) for line in ours)


@each_strategy
@settings(max_examples=8)
@given(script=beats, dialect=st.sampled_from(PROVIDERS), share=shares)
def test_conversations_and_tidy_show_what_a_model_can_work_with(
    strategy: Any, script: Script, dialect: str, share: int
) -> None:
    messages = render_script(script, dialect)
    before = list(read(messages, dialect).messages)
    talk = Conversation(limit=10**9, strategy=strategy, dialect=dialect)
    talk.extend(messages)
    for target in (talk.tokens * share // 100, talk.tokens * share // 200):
        talk.collect(talk.plan(target))
        check(before, talk.history)
    limit = max(300, talk.tokens)
    tidied = tidy(messages, limit=limit, strategy=strategy, dialect=dialect)
    check(before, list(read(tidied, dialect).messages))


@each_strategy
@settings(max_examples=8)
@given(script=beats, dialect=st.sampled_from(PROVIDERS), limit=st.integers(300, 3_000))
def test_what_the_user_did_not_say_is_never_shown_as_if(
    strategy: Any, script: Script, dialect: str, limit: int
) -> None:
    talk = Conversation(limit=limit, strategy=strategy, dialect=dialect)
    said: set[str] = set()
    for raw in render_script(script, dialect):
        talk.extend([raw])
        said.add(talk.history[-1].text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverLimitWarning)
            assert talk.messages
        for message in talk.history:
            if message.role is Role.USER and message.text and message.text not in said:
                is_note = message.text.startswith("[recalled]\n")
                assert is_note or left_out_in(message) or is_summary(message)


@pytest.mark.parametrize("name", BUILT_IN)
@settings(max_examples=8)
@given(script=beats, dialect=st.sampled_from(PROVIDERS), target=st.integers(10, 70))
def test_every_plugin_shows_what_a_model_can_work_with(
    name: str, script: Script, dialect: str, target: int
) -> None:
    before = list(read(render_script(script, dialect), dialect).messages)
    config = GCConfig(threshold_percent=80, target_percent=target)
    usage: Any = {"percent_used": 85.0}
    after, _ = load_gc_plugin(name).collect(before, usage, config, GCTriggerReason.THRESHOLD)
    check(before, list(after))


@each_strategy
def test_the_id_in_the_line_brings_the_whole_text_back(strategy: Any) -> None:
    script = Script((Said("go"), Answered(calls=(Call("read", {"path": "a.py"}, LOG),))))
    talk = Conversation(limit=500, strategy=strategy)
    talk.extend(render_script(script, "openai_chat"))
    (left,) = [m["content"] for m in talk.messages if m["role"] == "tool"]
    (name,) = re.findall(r'recall\("(.+)"\)', left)
    assert [str(found) for found in talk.recall(name, limit=10**6)] == [LOG]
    (part,) = talk.recall(name, limit=300)
    assert part.tokens <= 300
    assert part.startswith("   0\tline 0")
    assert talk.restore(name) == (name,)
    assert LOG in [m.function_responses[0].result for m in talk.history if m.function_responses]


def busy(steps: int, start: int = 0) -> tuple[Answered, ...]:
    """Make exchanges, each with a different result."""
    return tuple(
        Answered(calls=(Call("read", {"path": f"{n}.py"}, LOG.replace("log", f"log {n}")),))
        for n in range(start, start + steps)
    )


def lines_in(messages: list[Message]) -> list[str]:
    """Return the lines that replace whole messages."""
    return [message.text for message in messages if left_out_in(message) is not None]


@pytest.mark.parametrize("dialect", PROVIDERS)
def test_a_run_of_exchanges_that_went_leaves_one_line_that_is_counted(dialect: str) -> None:
    script = Script((Said("go"), *busy(6), Answered("done"), Said("and now?"), *busy(2, 6)))
    talk = Conversation(limit=10**6, strategy="truncate", dialect=dialect)
    talk.extend(render_script(script, dialect))
    before, ids = talk.tokens, [m.message_id for m in talk.history]
    report = talk.collect(talk.plan(before // 2))
    assert validate(talk.messages, dialect) == []
    (line,) = lines_in(talk.history)
    gone = [name for name in ids if name not in {m.message_id for m in talk.history}]
    tokens = (
        before - talk.tokens + sum(s.tokens for s in talk._heap.live().values() if s.type == GAP)
    )
    assert line == (
        f"[marksweep: {len(gone)} messages left out (calls of read), {tokens:,} tokens; "
        f'recall("{gone[0]}")]'
    )
    assert report.tokens_freed == before - talk.tokens
    assert [found.message_id for found in talk.recall(gone[0], 10**6)] == gone
    talk.undo()
    assert [m.message_id for m in talk.history] == ids


@pytest.mark.parametrize("dialect", PROVIDERS)
def test_a_line_grows_with_its_run_and_no_other_line_changes(dialect: str) -> None:
    first = Script((Said("go"), *busy(3), Answered("so far"), Said("and tabs"), *busy(6, 3)))
    talk = Conversation(limit=10**6, strategy="truncate", dialect=dialect)
    talk.extend(render_script(first, dialect))
    talk.collect(talk.plan(talk.tokens // 2))
    old, grows = lines_in(talk.history)
    sent = talk.messages
    talk.collect(talk.plan(talk.tokens * 2 // 3))
    same, grown = lines_in(talk.history)
    assert same == old
    assert LeftOut.read(grown).messages > LeftOut.read(grows).messages  # type: ignore[union-attr]
    assert grown.endswith(grows.partition("; ")[2]), "it still begins where it began"
    assert talk.messages[:2] == sent[:2], "what is before the sweep is unchanged"
    assert validate(talk.messages, dialect) == []
    again = Conversation(limit=10**6, strategy="truncate", dialect=dialect)
    again.extend(talk.messages)
    again.collect(again.plan(again.tokens * 2 // 3))
    assert len(lines_in(again.history)) == 2, "lines are recognized as lines"
    talk.undo()
    assert lines_in(talk.history) == [old, grows]
    talk.undo()
    assert lines_in(talk.history) == []


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses"])
def test_no_line_is_between_a_call_and_its_result_if_another_call_between_them_goes(
    dialect: str,
) -> None:
    script = Script((Said("go"), *busy(2), Answered("done"), Said("and now?")))
    said = render_script(script, dialect)
    said[2:4] = said[3], said[2]
    assert validate(said, dialect) == []
    talk = Conversation(limit=10**6, strategy="truncate", dialect=dialect)
    names = talk.extend(said)
    talk.pin(names[1])
    talk.collect(talk.plan(0))
    assert [m.message_id for m in talk.history[:3]] == [names[0], names[1], names[3]]
    (line,) = map(LeftOut.read, lines_in(talk.history))
    assert line is not None
    assert [found.message_id for found in talk.recall(line.first, 10**6)] == [names[2], names[4]]
    assert validate(talk.messages, dialect) == []
    talk.undo()
    assert talk.messages == said


def test_a_line_is_not_swept_by_itself() -> None:
    script = Script((Said("go"), *busy(4), Answered("so far"), Said("and now?"), Answered("ok")))
    talk = Conversation(limit=10**6, strategy="truncate")
    talk.extend(render_script(script, "openai_chat"))
    talk.collect(talk.plan(0))
    (line,) = lines_in(talk.history)
    talk.collect(talk.plan(0))
    assert lines_in(talk.history) == [line]
    assert talk.plan(0).steps == ()


@pytest.mark.parametrize("name", BUILT_IN)
def test_plugins_leave_a_line_too_and_continue_it(name: str) -> None:
    history = list(
        read(render_script(Script((Said("go"), *busy(12))), "anthropic"), "anthropic").messages
    )
    plugin = load_gc_plugin(name, {"notify_on_gc": False})
    config = GCConfig(threshold_percent=80, target_percent=40)
    usage: Any = {"percent_used": 85.0}
    after, _ = plugin.collect(history, usage, config, GCTriggerReason.THRESHOLD)
    again, _ = plugin.collect(after, usage, config, GCTriggerReason.THRESHOLD)
    for left in (after, again):
        check(history, list(left))
        assert validate(list(left), "anthropic") == []
    if name in ("gc_truncate", "gc_budget"):
        (one,), (more,) = lines_in(list(after)), lines_in(list(again))
        assert LeftOut.read(more).messages > LeftOut.read(one).messages  # type: ignore[union-attr]


THOUGHT: list[Any] = [
    {"role": "user", "content": "fix the parser"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": PROSE},
        ],
    },
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a.py"}}],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "def parse_header()"}],
    },
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t2", "name": "grep", "input": {"p": "a.py"}}],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t2", "content": "a.py: parse_header"}],
    },
    {"role": "assistant", "content": "It is parse_header in a.py."},
    {"role": "user", "content": "and now?"},
]
"""A long text that stays with a call of the same thought, which is worth more."""


@each_strategy
def test_a_text_beside_a_call_of_its_thought_is_never_a_bare_marker(strategy: Any) -> None:
    before = list(read(THOUGHT, "anthropic").messages)
    for share in range(5, 100, 2):
        talk = Conversation(limit=10**6, strategy=strategy, dialect="anthropic")
        talk.extend(THOUGHT)
        talk.collect(talk.plan(talk.tokens * share // 100))
        check(before, talk.history)
