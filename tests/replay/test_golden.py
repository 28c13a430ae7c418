"""Golden results: one story computed by hand, and the synthetic transcript of the demo.

A change of these figures is a change of the measure, and needs a reason.
"""

from __future__ import annotations

import pytest

from marksweep.replay.atoms import names
from marksweep.replay.clairvoyant import Clairvoyant, Solved, foresee
from marksweep.replay.drive import Collector, Pricer, drive
from marksweep.replay.hits import Reader, proofs
from marksweep.replay.inputs import Inputs
from marksweep.replay.measures import Outcome, figures, gap
from marksweep.replay.needs import study
from marksweep.replay.records import price
from marksweep.replay.references import STUB, Truncate
from marksweep.replay.report import Request, replay
from tests.replay.stories import BASH, by_words, sample_trajectory

LIMIT = 45
"""Prefix 17, messages 2 to 7: 9, 6, 9, 10, 12 and 6 tokens.

Before step 6 the tail (4, 5) has 19, so 9 are left: 2 goes, 3 stays, and holds what is needed.
Before step 8 the tail (6, 7) has 18, so 10 are left: 3 and 4 go, and 5 stays. What is needed was
in 3 and 4, so it is missed. Keeping 3 alone would have satisfied both.
"""


def outcome(collector: Collector) -> Outcome:
    found = study(BASH, names)
    steps = drive(found, proofs(found), collector, LIMIT, tokens=Pricer(by_words), reader=Reader())
    return Outcome("bash", tuple(steps))


def test_a_story_counted_by_hand() -> None:
    found = study(BASH, names)
    prices = [price(message, by_words) for message in BASH.messages]
    assert prices[2:8] == [9, 6, 9, 10, 12, 6]
    sight = foresee(found, prices, LIMIT, stub=by_words(STUB) + 4)
    low, high = outcome(Truncate(by_words)), outcome(Clairvoyant(found, sight))
    assert [step.any for step in low.steps] == [None, None, 1.0, 0.0]
    assert [step.src for step in low.steps] == [None, None, 1.0, 0.0]
    assert [step.any for step in high.steps] == [None, None, 1.0, 1.0]
    assert sight.solved is Solved.EXACT
    assert figures([low]).recall == 50.0
    assert gap([low], [low], [high]).percent == 0.0
    assert gap([high], [low], [high]).percent == 100.0
    # step 6: 2 goes, so 3 is read again; step 8: 3 and 4 go, so 5 is
    assert [step.churn for step in low.steps] == [0, 0, 6, 10]
    assert [step.cost for step in low.steps] == pytest.approx([17, 16.7, 26.7, 29.7])


GOLDEN = {
    "truncate": (36.49, 31.23, 1248.62, 1.2402),
    "mask last 10": (36.49, 31.23, 1414.09, 1.3208),
    "GDSF": (62.46, 58.60, 389.72, 0.7579),
    "original score": (53.16, 49.12, 334.53, 0.7273),
    "random": (74.21, 70.53, 322.28, 0.7226),
    "clairvoyant": (96.32, 96.14, 105.06, 0.5202),
}
"""Recall any and src in percent, churn, and cost, of the sample transcript at 25 %."""


def test_the_sample_transcript_has_the_figures_it_had() -> None:
    request = Request(strategies=tuple(GOLDEN), budgets=("25%",))
    result = replay(Inputs((sample_trajectory(),), (), ()), request).result
    assert [bound.how for bound in result.bounds] == ["exact"]
    for row in result.rows:
        found = (row.recall_any, row.recall_src, row.churn, row.cost)
        assert found == pytest.approx(GOLDEN[row.strategy], abs=0.01), row.strategy
    assert {row.strategy for row in result.rows} == set(GOLDEN)
