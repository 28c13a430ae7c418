"""The run-time checks notice a plan that breaks a law."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from marksweep.core.laws import broken_laws
from marksweep.core.plan import make_plan
from marksweep.core.roots import Focus
from marksweep.core.scene import Scene
from marksweep.model import Action, GCPolicy, Hold, Kept, Link, Plan, Reference, Segment, Step
from marksweep.strategies.scored import Scored
from marksweep.testing.builders import NOW, segment, snapshot

PAIR = (Reference("call", Link.ANSWERS, Hold.PAIRED),)
HEAP = (
    segment("a"),
    segment("b"),
    segment("pinned", pinned=True),
    segment("locked", policy=GCPolicy.LOCKED),
    segment("call"),
    segment("result", references=PAIR),
)


def honest(target: int) -> Plan:
    return make_plan(Scene.of(snapshot(*HEAP), Focus(now=NOW)), Scored(), target)


def steps(*names: tuple[str, ...], replacement: Segment | None = None) -> tuple[Step, ...]:
    return tuple(
        Step(
            ids,
            Action.STASH,
            10 * len(ids) - (replacement.tokens if replacement else 0),
            "x",
            replacement,
        )
        for ids in names
    )


@pytest.mark.parametrize("target", [0, 20, 40, 60])
def test_an_honest_plan_breaks_none(target: int) -> None:
    assert broken_laws(snapshot(*HEAP), {}, honest(target)) == ()


FORGERIES: list[tuple[dict[str, Any], str]] = [
    ({"steps": steps(("pinned",)), "tokens_after": 50}, "pinned must stay"),
    ({"steps": steps(("locked",)), "tokens_after": 50}, "locked must stay"),
    ({"steps": steps(("a",)), "tokens_after": 50}, "a must stay (a root)"),
    ({"steps": steps(("call",)), "tokens_after": 50}, "would be split"),
    ({"steps": steps(("call",), ("result",)), "tokens_after": 40}, "would be split"),
    ({"tokens_before": 61}, "61 tokens before"),
    ({"steps": steps(("b",)), "tokens_after": 49}, "49 tokens after"),
    ({"steps": (Step(("b",), Action.STASH, 9, "x"),), "tokens_after": 50}, "frees 9 tokens"),
    (
        {"steps": steps(("b",), ("call", "result")), "tokens_after": 30, "target_tokens": 50},
        "not needed",
    ),
    ({"steps": steps(("b",)), "tokens_after": 50, "target_tokens": 5}, "does not say why"),
    ({"fingerprint": "other"}, "another snapshot"),
]


@pytest.mark.parametrize(("forged", "said"), FORGERIES, ids=[said for _, said in FORGERIES])
def test_a_forged_plan_is_found_out(forged: dict[str, Any], said: str) -> None:
    base = msgspec.structs.replace(honest(60), target_tokens=45, kept=(Kept("x", 1, 1),))
    plan = msgspec.structs.replace(base, **forged)
    if said == "does not say why":
        plan = msgspec.structs.replace(plan, kept=())
    found = broken_laws(snapshot(*HEAP), {"a": "a root"}, plan)
    assert any(said in law for law in found), found
