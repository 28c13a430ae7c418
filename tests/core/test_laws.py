"""The run-time checks detect a plan that breaks a law."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from marksweep.core.context import PlanningContext
from marksweep.core.laws import broken_laws
from marksweep.core.plan import make_plan
from marksweep.core.roots import Focus
from marksweep.model import (
    Action,
    Blocker,
    GCPolicy,
    Hold,
    Link,
    Plan,
    Reference,
    Segment,
    Step,
    Unit,
)
from marksweep.strategies.chosen import Chosen
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
    return make_plan(PlanningContext.of(snapshot(*HEAP), Focus(now=NOW), target), Scored())


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


def test_a_plan_of_a_part_is_judged_with_the_rest() -> None:
    whole, part = snapshot(*HEAP), snapshot(*HEAP[:3])
    part = msgspec.structs.replace(part, rest_size=30, rest_segments=3)
    part = msgspec.structs.replace(part, fingerprint=whole.fingerprint)
    context = PlanningContext.of(part, Focus(now=NOW))
    plan = make_plan(context, Chosen(["a", "pinned"]))
    assert broken_laws(part, {}, plan) == ()
    assert broken_laws(part, {"a": "a root"}, plan) != ()
    assert any("there are 30" in law for law in broken_laws(snapshot(*HEAP[:3]), {}, plan))


def test_a_plan_in_another_unit_than_its_heap_is_detected() -> None:
    plan = msgspec.structs.replace(honest(60), unit=Unit.NODES)
    assert "counts nodes" in " ".join(broken_laws(snapshot(*HEAP), {}, plan))


FORGERIES: list[tuple[dict[str, Any], str]] = [
    ({"steps": steps(("pinned",)), "size_after": 50}, "pinned must stay"),
    ({"steps": steps(("locked",)), "size_after": 50}, "locked must stay"),
    ({"steps": steps(("a",)), "size_after": 50}, "a must stay (a root)"),
    ({"steps": steps(("call",)), "size_after": 50}, "would be split"),
    ({"steps": steps(("call",), ("result",)), "size_after": 40}, "would be split"),
    ({"size_before": 61}, "61 tokens before"),
    ({"steps": steps(("b",)), "size_after": 49}, "49 tokens after"),
    ({"steps": (Step(("b",), Action.STASH, 9, "x"),), "size_after": 50}, "frees 9 tokens"),
    (
        {"steps": steps(("b",), ("call", "result")), "size_after": 30, "target_size": 50},
        "not needed",
    ),
    ({"steps": steps(("b",)), "size_after": 50, "target_size": 5}, "does not say why"),
    ({"fingerprint": "other"}, "another snapshot"),
]


@pytest.mark.parametrize(("forged", "said"), FORGERIES, ids=[said for _, said in FORGERIES])
def test_a_forged_plan_is_detected(forged: dict[str, Any], said: str) -> None:
    base = msgspec.structs.replace(honest(60), target_size=45, blockers=(Blocker("x", 1, 1),))
    plan = msgspec.structs.replace(base, **forged)
    if said == "does not say why":
        plan = msgspec.structs.replace(plan, blockers=())
    found = broken_laws(snapshot(*HEAP), {"a": "a root"}, plan)
    assert any(said in law for law in found), found
