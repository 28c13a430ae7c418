"""Every strategy passes the contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from marksweep import Action, PlanningContext, Proposal
from marksweep.core.score import seed_retention
from marksweep.strategies.coverage import Coverage
from marksweep.strategies.mask import Mask
from marksweep.strategies.registry import STRATEGIES, Choice
from marksweep.strategies.scored import Disposal, Scored
from marksweep.testing.contracts.strategy import StrategyContract


class TestBudget(StrategyContract):
    def choice(self) -> Choice:
        return "budget"


class TestCoverage(StrategyContract):
    def choice(self) -> Choice:
        return "coverage"


class TestCoverageQuality(StrategyContract):
    def choice(self) -> Choice:
        return "coverage_quality"


class TestCoverageThatBringsNothingBack(StrategyContract):
    def choice(self) -> Choice:
        return lambda tools: Coverage(tools.texts, tools.trimmed)


class TestDead(StrategyContract):
    def choice(self) -> Choice:
        return "dead"


class TestGarbage(StrategyContract):
    def choice(self) -> Choice:
        return "garbage"


class TestHybrid(StrategyContract):
    def choice(self) -> Choice:
        return "hybrid"


class TestMask(StrategyContract):
    def choice(self) -> Choice:
        return "mask"


class TestMaskOfEverything(StrategyContract):
    def choice(self) -> Choice:
        return lambda tools: Mask(tools.outcomes, tools.trimmed, bulky=80, spare=0)


class TestScored(StrategyContract):
    def choice(self) -> Choice:
        return "scored"


class TestScoredByRetentionAndDeleting(StrategyContract):
    def choice(self) -> Choice:
        return Scored(seed_retention, disposal=Disposal.AUTO)


class TestSummarize(StrategyContract):
    def choice(self) -> Choice:
        return "summarize"


class TestSuperseded(StrategyContract):
    def choice(self) -> Choice:
        return "superseded"


class TestTruncate(StrategyContract):
    def choice(self) -> Choice:
        return "truncate"


class TestUnreachable(StrategyContract):
    def choice(self) -> Choice:
        return "unreachable"


class Restless:
    """Masks a little more each time."""

    name = "restless"

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        for i in context.free():
            segment = context.segments[i]
            less = msgspec.structs.replace(segment, tokens=segment.tokens - 1)
            yield Proposal((i,), Action.MASK, "a little less", less)


class Moody:
    """Ranks differently each time it is created."""

    made = 0
    name = "moody"

    def __init__(self) -> None:
        Moody.made += 1
        self._is_backwards = Moody.made % 2 == 0

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        free = context.free()
        for i in reversed(free) if self._is_backwards else free:
            yield Proposal((i,), Action.STASH, "as I like")


class OfRestless(StrategyContract):
    def choice(self) -> Choice:
        return Restless()


class OfMoody(StrategyContract):
    def choice(self) -> Choice:
        return lambda _: Moody()


def test_the_contract_notices_a_strategy_that_never_converges() -> None:
    with pytest.raises(AssertionError):
        OfRestless().test_law_5_a_second_collection_changes_nothing()


def test_the_contract_notices_a_strategy_that_ranks_differently_each_time() -> None:
    law: Any = OfMoody.test_law_8_the_same_messages_give_the_same_plan

    @settings(phases=[Phase.generate])  # finding the smallest history takes ten times as long
    @given(data=st.data(), share=st.integers(1, 99))
    def checked(data: st.DataObject, share: int) -> None:
        law.hypothesis.inner_test(OfMoody(), data, "openai_chat", share, "alone")

    with pytest.raises(AssertionError):
        checked()


def test_no_strategy_is_left_out() -> None:
    tested = [case().choice() for case in StrategyContract.__subclasses__()]
    assert set(STRATEGIES) <= {choice for choice in tested if isinstance(choice, str)}
