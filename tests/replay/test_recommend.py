"""The rule that chooses a setting, the names of strategies, and the settings file."""

from __future__ import annotations

import tomllib

import pytest

from marksweep.errors import BadInput
from marksweep.replay.catalog import canonical
from marksweep.replay.recommend import code_for, recommend, settings_file
from marksweep.replay.table import Bound, Line, Result, Row


def row(strategy: str, recall: float, cost: float, broken: int = 0) -> Row:
    return Row(
        strategy=strategy,
        budget="25%",
        recall=recall,
        recall_any=recall,
        recall_src=recall,
        gap=None,
        gap_low=0.0,
        gap_high=0.0,
        churn=0.0,
        cost=cost,
        cost_to_truncate=1.0,
        fresh=0,
        cached=0,
        fresh_uncollected=0,
        cached_uncollected=0,
        rewrites=0.0,
        dollars=0.0,
        violations={"pinned changed": broken} if broken else {},
        failures=(),
        need_steps=9,
    )


def result(*rows: Row) -> Result:
    return Result((Line("a", 9, 900, 4, 3),), (), (Bound("25%", 8_240, 1, 0, 0),), rows)


def test_the_cheapest_with_enough_is_chosen() -> None:
    found = recommend(
        result(row("truncate", 91, 0.9), row("coverage", 95, 0.7), row("mask", 99, 1))
    )
    assert found is not None
    assert (found.strategy, found.limit_tokens) == ("coverage", 8_000)


def test_without_enough_it_is_the_cheapest_near_the_best() -> None:
    found = recommend(
        result(row("truncate", 60, 0.2), row("coverage", 84, 0.7), row("mask", 85, 0.9))
    )
    assert found is not None
    assert found.strategy == "coverage"


def test_what_costs_more_than_no_collection_waits_until_nothing_else_is_there() -> None:
    dear, cheap = row("coverage", 99, 1.8), row("truncate", 50, 0.8)
    found = recommend(result(dear, cheap))
    assert found is not None
    assert found.strategy == "truncate"
    alone = recommend(result(dear))
    assert alone is not None
    assert alone.strategy == "coverage"


def test_references_and_rule_breakers_are_never_chosen() -> None:
    rows = (row("clairvoyant", 99, 0.1), row("GDSF", 99, 0.1), row("mask", 99, 0.1, broken=1))
    assert recommend(result(*rows)) is None
    assert recommend(result(*rows, row("truncate", 1, 1))) is not None


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("gdsf", "GDSF"),
        ("mask_last_7", "mask last 7"),
        ("coverage", "coverage"),
        ("superseded+truncate", "superseded+truncate"),
        ("gc_hybrid:preserve_recent_turns=2", "gc_hybrid:preserve_recent_turns=2"),
    ],
)
def test_names_are_understood(given: str, name: str) -> None:
    assert canonical(given) == name


@pytest.mark.parametrize("given", ["magic", "superseded+magic", "gc_magic"])
def test_an_unknown_name_lists_the_known_ones(given: str) -> None:
    with pytest.raises(BadInput, match="known are"):
        canonical(given)


def test_an_option_that_a_plugin_does_not_have_is_refused() -> None:
    with pytest.raises(BadInput, match="speed"):
        canonical("gc_truncate:speed=9")


@pytest.mark.parametrize(
    "strategy",
    ["coverage", "superseded+mask+truncate", "mask:spare=2", "gc_hybrid", "os.path:join"],
)
def test_the_code_that_is_recommended_compiles_and_imports(strategy: str) -> None:
    code = code_for(strategy, 8_000)
    compile(code, "recommended", "exec")
    exec(code.split("\n")[0], {})  # noqa: S102 - its import line


def test_a_settings_file_keeps_other_tables_and_can_be_read() -> None:
    found = result(row("truncate", 91, 0.9))
    chosen = recommend(found)
    assert chosen is not None
    before = "[scoring.weights]\nrecency = 0.5\n[roots]\ninvariant_tags = ['a', 'b']\n"
    read = tomllib.loads(settings_file(chosen, found, before))
    lines = dict.fromkeys(("threshold_percent", "target_percent", "pressure_percent"), 100)
    assert read == {
        **tomllib.loads(before),
        "window": {"limit_tokens": 8000, **lines},
        "conversation": {"strategy": "truncate"},
    }
    with pytest.raises(BadInput, match="TOML"):
        settings_file(chosen, found, "[window")


def test_a_setting_that_can_be_expensive_says_so_where_it_is_recommended() -> None:
    chosen = recommend(result(row("coverage_quality", 95.0, 0.9)))
    assert chosen is not None
    assert "coverage_quality can cost three times as much as not collecting" in chosen.reason
    other = recommend(result(row("coverage", 95.0, 0.9)))
    assert other is not None
    assert "three times" not in other.reason
