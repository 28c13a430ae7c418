"""Strategies that learn: they observe everything once, alone or in tiers, under any name."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import marksweep
from marksweep import Action, Conversation, Learning, PlanningContext, Proposal, Segment
from marksweep import strategies as package
from marksweep.core.budget import Budget
from marksweep.core.strategy import Strategy
from marksweep.model import Plan
from marksweep.settings import load_settings
from marksweep.stores.sqlite import SqliteStore
from marksweep.strategies.coverage import Coverage
from marksweep.strategies.registry import SEGMENT_TOOLS, STRATEGIES, Choice, strategy_of
from marksweep.strategies.tiers import in_tiers
from marksweep.strategies.truncate import Truncate
from marksweep.testing.histories import Answered, Call, Said, Script, render_script

LIMIT = 1_500
SOURCE = Path(marksweep.__file__).parent


class Oldest:
    """A third-party learning strategy that records what it observes."""

    name = "oldest"

    def __init__(self) -> None:
        self.observed: list[str] = []
        self.forgotten: list[str] = []

    def observe(self, segments: Sequence[Segment]) -> None:
        self.observed += [segment.segment_id for segment in segments]

    def forget(self, segment_ids: Sequence[str]) -> None:
        self.forgotten += segment_ids

    def target(self, context: PlanningContext, wanted: int) -> int:
        return wanted // 2

    def recall(self, context: PlanningContext) -> Proposal | None:
        return None

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        for i in context.free():
            yield Proposal((i,), Action.STASH, "the oldest left")


def reads(count: int) -> Script:
    def read(n: int) -> Answered:
        body = "\n".join(f"name_{n}_{line} = make_it({line}) and so on" for line in range(20))
        return Answered("", calls=(Call("read", {"path": f"file_{n}.py"}, body),))

    return Script((Said("Mend the parser."), *(read(n) for n in range(count))))


def said(ids: list[str]) -> list[str]:
    """Leave out the lines that replace messages."""
    return [name for name in ids if not name.startswith("gap-")]


def fed(talk: Conversation, count: int = 12) -> list[str]:
    """Add some reads to a conversation, one message at a time; return their ids."""
    ids = []
    for message in render_script(reads(count), "openai_chat"):
        ids += talk.extend([message])
        assert talk.messages
    return ids


def test_a_strategy_that_learns_observes_each_message_once() -> None:
    strategy = Oldest()
    talk = Conversation(limit=LIMIT, strategy=strategy)
    ids = fed(talk)
    gone = [name for name in ids if name not in talk._heap.live()]
    assert gone
    talk.plan()
    assert said(strategy.observed) == ids
    assert len(set(strategy.observed)) == len(strategy.observed)
    assert sorted(said(strategy.forgotten)) == sorted(gone)


def test_inside_tiers_it_observes_the_same() -> None:
    alone, inside = Oldest(), Oldest()
    for strategy in (alone, (Truncate(), inside)):
        talk = Conversation(limit=LIMIT, strategy=strategy)
        fed(talk)
        talk.plan()
    assert inside.observed == alone.observed
    assert len(inside.forgotten) == len(set(inside.forgotten)) > 0


def test_after_a_restart_it_observes_what_was_said_and_forgets_what_has_left(
    tmp_path: Path,
) -> None:
    first, second = Oldest(), Oldest()
    talk = Conversation(limit=LIMIT, strategy=first, store=SqliteStore(tmp_path / "talk.db"))
    fed(talk)
    talk.plan()
    talk.close()
    again = Conversation(limit=LIMIT, strategy=second, store=SqliteStore(tmp_path / "talk.db"))
    again.plan()
    assert said(second.observed) == said(first.observed)
    assert sorted(said(second.forgotten)) == sorted(said(first.forgotten))
    again.close()


def test_what_comes_back_is_observed_again() -> None:
    strategy = Oldest()
    talk = Conversation(limit=LIMIT, strategy=strategy)
    fed(talk)
    back = talk.undo()
    strategy.observed.clear()
    talk.plan()
    assert sorted(strategy.observed) == sorted(back)


def test_after_a_restart_it_observes_no_more_than_it_needs(tmp_path: Path) -> None:
    strategy = Oldest()
    talk = Conversation(limit=10**6, strategy="truncate", store=SqliteStore(tmp_path / "talk.db"))
    ids = fed(talk, 60)
    talk.collect(talk.plan(200))
    talk.close()
    again = Conversation(limit=200, strategy=strategy, store=SqliteStore(tmp_path / "talk.db"))
    again.plan()
    assert strategy.observed[-1] == ids[-1]
    assert 0 < len(strategy.observed) < len(ids)
    again.close()


def test_a_strategy_that_is_used_later_observes_what_is_there() -> None:
    strategy = Oldest()
    talk = Conversation(limit=10**6, strategy="truncate")
    ids = fed(talk)
    talk.use(strategy)
    assert talk.plan(200).strategy == strategy.name
    assert strategy.observed == ids


ALIKE: dict[str, Choice] = {
    "in a tuple": ("coverage",),
    "behind another tier": ("superseded", "coverage"),
    "made by a function": lambda tools: Coverage(
        tools.texts, tools.trimmed, note=tools.note, limit=tools.limit
    ),
    "joined by +": "superseded+coverage",
}


@pytest.mark.parametrize("choice", ALIKE.values(), ids=ALIKE.keys())
def test_coverage_is_the_same_however_it_is_chosen(choice: Choice) -> None:
    def history(strategy: Choice) -> tuple[Budget, list[object], list[tuple[str, ...]]]:
        talk = Conversation(limit=LIMIT, strategy=strategy)
        fed(talk)
        plans = [entry.plan for entry in talk.journal() if isinstance(entry.plan, Plan)]
        return talk.budget, talk.messages, [step.segments for p in plans for step in p.steps]

    assert history(choice) == history("coverage")


def test_a_strategy_that_learns_has_the_lines_of_all_and_may_land_deeper() -> None:
    talk = Conversation(limit=LIMIT, strategy=("garbage", Oldest()))
    assert talk.budget == Budget.of(LIMIT)
    fed(talk)
    assert talk.plan().target_size == talk.plan(strategy="truncate").target_size // 2
    assert Conversation(limit=LIMIT, strategy="truncate").budget == Budget.of(LIMIT)


@pytest.mark.parametrize("choice", ["coverage_quality", ("superseded", "coverage_quality")])
def test_a_strategy_may_want_the_whole_limit_alone_and_in_tiers(choice: Choice) -> None:
    assert Conversation(limit=LIMIT, strategy=choice).budget == Budget.at_limit(LIMIT)
    settings = load_settings(explicit={"window": {"limit_tokens": LIMIT}})
    talk = Conversation.from_settings(settings, strategy=choice)
    assert talk.budget == Budget.at_limit(LIMIT)
    assert Conversation.from_settings(settings).budget == Budget.of(LIMIT)


def test_tiers_learn_if_one_of_them_does() -> None:
    assert isinstance(in_tiers(Truncate(), Oldest()), Learning)
    assert not isinstance(in_tiers(Truncate(), Truncate()), Learning)
    assert not isinstance(Truncate(), Learning)


def test_a_later_tier_is_asked_only_for_what_is_left() -> None:
    talk = Conversation(limit=10**6, strategy="coverage")
    fed(talk)
    target = talk.tokens // 2
    asked: list[int] = []

    class Asked:
        name = "asked"

        def rank(self, context: PlanningContext) -> Iterator[Proposal]:
            asked.append(context.needed)
            yield from ()

    class First:
        name = "first"

        def rank(self, context: PlanningContext) -> Iterator[Proposal]:
            yield Proposal((context.free()[0],), Action.STASH, "one unit")

    plan = talk.plan(target, strategy=(First(), Asked()))
    assert asked == [plan.size_after - target]


def concrete_strategies() -> set[str]:
    """Return the names of all classes in strategies/ that rank."""
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    return {
        name
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and hasattr(value, "rank") and value is not Strategy
    } - {"Learning"}


def test_no_one_outside_asks_which_strategy_it_is() -> None:
    known = concrete_strategies()
    assert {"Coverage", "Mask", "Tiers"} <= known
    for path in SOURCE.rglob("*.py"):
        if "strategies" in path.relative_to(SOURCE).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                names = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                assert not names & known, f"{path}:{node.lineno}"


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_every_strategy_by_name_has_a_name_and_ranks(name: str) -> None:
    made = strategy_of(name, SEGMENT_TOOLS)
    assert made.name
    assert callable(made.rank)
