"""Laws 8 and 10 on conversations: the same messages give the same plan, however they arrived."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from marksweep.conversation import Conversation
from marksweep.stores.memory import MemoryStore
from marksweep.testing.histories import valid
from tests.laws.talking import conversation, dialects, each_strategy, few, holding, raws, shares

SCRIPT = """
from marksweep.testing.histories import Answered, Call, Said, Script, render_script
from tests.laws.talking import STRATEGIES, PROVIDERS, TIERS, holding, raws

calls = [Call("read", {"path": f"{n % 5}.py", "limit": n}, f"def f{n}(): return {n % 7}\\n" * 30)
         for n in range(40)]
beats = [Said("fix it"), *(Answered(f"step {n}", "hm", (call,)) for n, call in enumerate(calls)),
         Said("and then?"), Answered("done")]
for dialect in PROVIDERS:
    for strategy in (*sorted(STRATEGIES), *TIERS):
        talk = holding(render_script(Script(tuple(beats)), dialect), dialect, strategy)
        plan = talk.plan(talk.tokens // 3)
        talk.collect(plan)
        print(dialect, strategy, plan.plan_id, plan.blockers, raws(talk), talk.ledger())
"""


def output(hash_seed: str) -> str:
    env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.getcwd()}  # noqa: PTH109
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_plans_and_what_they_leave_do_not_depend_on_the_hash_seed() -> None:
    first = output("0")
    assert "plan-" in first
    assert first == output("1") == output("4711")


@each_strategy
@few
@given(
    data=st.data(), dialect=dialects, share=shares, stops=st.lists(st.integers(0, 40), max_size=4)
)
def test_messages_one_by_one_make_the_same_plan_as_all_at_once(
    strategy: Any, data: st.DataObject, dialect: str, share: int, stops: list[int]
) -> None:
    """Also if the program is restarted in between, or a plan was made without applying it."""
    messages = data.draw(valid(dialect))
    store = MemoryStore()
    talk = conversation(dialect, strategy, store=store)
    for at, message in enumerate(messages):
        talk.extend([message])
        if at in stops:
            talk.plan(talk.tokens * share // 100)
        if at + 1 in stops:
            talk = conversation(dialect, strategy, store=store)
    assert raws(talk) == messages
    whole = holding(messages, dialect, strategy)
    assert decisions(talk, share) == decisions(whole, share)


def decisions(talk: Conversation, share: int) -> list[Any]:
    """Decide right after a request: only its time says how warm the prompt cache is."""
    assert talk.messages == raws(talk)
    plan = talk.plan(talk.tokens * share // 100)
    return [(step.segments, step.action, step.size, step.reason) for step in plan.steps]
