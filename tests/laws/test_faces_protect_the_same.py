"""Conversation, ledger and GC plugins protect the same messages: one definition of what must stay.

Asked to free everything, each face keeps exactly what it must. So what they keep is compared, piece
by piece as the provider sees it, on random histories in every dialect.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep.core.budget import Budget
from marksweep.dialects import read
from marksweep.ledger import InstructionBudget, InstructionSource
from marksweep.messages import Message, left_out_in
from marksweep.plugins import GCConfig, GCTriggerReason, load_gc_plugin
from marksweep.plugins.discovery import BUILT_IN
from marksweep.testing.histories import Answered, Call, Said, Script, render_script, valid
from tests.laws.talking import PROVIDERS, few, holding, pieces, weigh

PERCENT_USED = {False: 85.0, True: 95.0}
"""Usage of the context in percent, below and above the hard limit."""


def said(messages: list[Message]) -> list[Message]:
    """Leave out the lines that replace messages: whether one pays depends on how a face counts."""
    return [message for message in messages if left_out_in(message) is None]


def kept_by_conversation(
    messages: list[Any], dialect: str, recent: int, is_hard: bool
) -> list[Message]:
    budget = Budget(limit=10**9, soft_limit=0, target=0, hard_limit=0 if is_hard else 10**9)
    talk = holding(messages, dialect, "truncate", preserve_recent_turns=recent, budget=budget)
    talk.collect(talk.plan(0))
    return talk.history


def unanswering(messages: list[Message]) -> list[str]:
    """Return what a provider sees except for results, which other strategies may trim."""
    parts = [part for m in messages for part in m.parts if part.function_response is None]
    return [json.dumps(part.raw, sort_keys=True) for part in parts]


def nameless(found: list[str]) -> list[str]:
    """Remove the ids for recall from lines: the faces name messages differently."""
    return [re.sub(r'recall\(\\"[^"]*\\"\)', "recall", piece) for piece in found]


def kept_by_plugin(
    name: str, history: tuple[Message, ...], recent: int, is_hard: bool
) -> list[Message]:
    budget = InstructionBudget(10**9)
    budget.follow(lambda: history, weigh)
    config = GCConfig(target_percent=0, preserve_recent_turns=recent)
    usage: Any = {"percent_used": PERCENT_USED[is_hard]}
    plugin = load_gc_plugin(name, {"notify_on_gc": False})
    return plugin.collect(history, usage, config, GCTriggerReason.MANUAL, budget)[0]


@pytest.mark.parametrize("dialect", PROVIDERS)
@few
@given(data=st.data(), recent=st.integers(0, 3), is_hard=st.booleans())
def test_a_conversation_and_every_plugin_keep_the_same(
    dialect: str, data: st.DataObject, recent: int, is_hard: bool
) -> None:
    messages = data.draw(valid(dialect, 8))
    history = read(messages, dialect).messages
    protected = kept_by_conversation(messages, dialect, recent, is_hard)
    for name in ("gc_truncate", "gc_budget"):
        kept = kept_by_plugin(name, history, recent, is_hard)
        assert nameless(pieces(said(kept))) == nameless(pieces(said(protected)))
    name = data.draw(st.sampled_from(BUILT_IN))
    kept = [m for m in kept_by_plugin(name, history, recent, is_hard) if m.raw is not None]
    assert not Counter(unanswering(said(protected))) - Counter(unanswering(kept))


@pytest.mark.parametrize("dialect", PROVIDERS)
@few
@given(data=st.data())
def test_a_conversation_and_the_ledger_give_each_message_the_same_policy(
    dialect: str, data: st.DataObject
) -> None:
    messages = data.draw(valid(dialect, 8))
    talk = holding(messages, dialect, "truncate")
    history = tuple(talk.history)
    budget = InstructionBudget(1)
    budget.follow(lambda: history, weigh)
    entry = budget.get_entry(InstructionSource.CONVERSATION)
    assert entry is not None
    by_ledger = {id_: c.gc_policy for c in entry.children.values() for id_ in c.message_ids}
    segments = talk._heap.snapshot().segments
    assert {segment.segment_id: segment.policy for segment in segments} == by_ledger


def test_what_the_user_says_beside_results_is_not_cut_with_them() -> None:
    output = "line of output 10\n" * 10
    calls = tuple(Call("read", {"path": "a.py"}, result) for result in ("", output))
    work = Answered("", calls=calls, remark="fix the parser", instructed="fix the parser")
    script = Script((Said("fix the parser"), work, Answered("")))
    history = read(render_script(script, "anthropic"), "anthropic").messages
    kept = kept_by_plugin("gc_coverage", history, 0, is_hard=False)
    words = json.dumps({"text": "fix the parser", "type": "text"})
    assert unanswering(kept).count(words) == unanswering(list(history)).count(words) > 0
    assert output not in str(kept)
