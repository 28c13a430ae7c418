"""Laws of dialects and of repair, on random histories in all four formats."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marksweep.dialects import dialect_named, read, repair, validate, written
from marksweep.dialects.history import rewritten
from marksweep.heaps.forms import ProviderForm
from marksweep.messages import Role
from marksweep.testing.histories import render_script, scripts, valid
from tests.broken_histories import broken
from tests.dialects.masked import with_text
from tests.dialects.units import units, without

PROVIDERS = ["openai_chat", "openai_responses", "anthropic", "gemini"]

FEWER = settings(max_examples=settings().max_examples // 4)
"""For each pair of formats: there are sixteen."""


def texts_of_user(messages: list[Any], dialect: str) -> list[str]:
    """Return the user's texts, from the provider's own values."""
    found: list[str] = []
    for message in read(messages, dialect).messages:
        if message.role in (Role.USER, Role.TOOL):
            found += [part.text for part in message.parts if part.text and part.text.strip()]
    return found


def pairs_in(messages: list[Any]) -> tuple[list[str], list[str]]:
    """Return the ids of calls and of results, found in the JSON itself."""
    calls: list[str] = []
    results: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                look(item)
        elif isinstance(value, dict):
            kind = value.get("type")
            if kind in ("function", "tool_use"):
                calls.append(value["id"])
            elif kind == "function_call":
                calls.append(value["call_id"])
            elif kind == "function_call_output":
                results.append(value["call_id"])
            elif kind == "tool_result":
                results.append(value["tool_use_id"])
            elif value.get("role") == "tool":
                results.append(value["tool_call_id"])
            for key in ("content", "tool_calls"):
                look(value.get(key))

    look(messages)
    return calls, results


@pytest.mark.parametrize("dialect", PROVIDERS)
@given(data=st.data())
def test_what_is_read_is_written_back_to_the_last_field(dialect: str, data: st.DataObject) -> None:
    history = data.draw(valid(dialect))
    before = copy.deepcopy(history)
    read_back = read(history, dialect)
    assert rewritten(read_back, read_back.messages) == before
    assert written(read_back.messages, dialect) == before
    assert history == before


@pytest.mark.parametrize("dialect", PROVIDERS)
@given(data=st.data())
def test_a_valid_history_has_no_finding_and_is_left_as_it_is(
    dialect: str, data: st.DataObject
) -> None:
    history = data.draw(valid(dialect))
    assert validate(history, dialect) == []
    repaired, changes = repair(history, dialect)
    assert repaired is history
    assert changes == []


@pytest.mark.parametrize("dialect", PROVIDERS)
@given(data=st.data())
def test_a_repaired_history_is_valid_and_needs_no_second_repair(
    dialect: str, data: st.DataObject
) -> None:
    history = data.draw(broken(dialect))
    before = copy.deepcopy(history)
    repaired, changes = repair(history, dialect)
    assert validate(repaired, dialect) == []
    assert repair(repaired, dialect) == (repaired, [])
    assert bool(changes) == bool(validate(history, dialect))
    assert history == before


@pytest.mark.parametrize("dialect", PROVIDERS)
@given(data=st.data())
def test_a_repair_keeps_what_the_user_said(dialect: str, data: st.DataObject) -> None:
    history = data.draw(broken(dialect))
    repaired, _ = repair(history, dialect)
    left = texts_of_user(repaired, dialect)
    for text in texts_of_user(history, dialect):
        assert text in left


@pytest.mark.parametrize("dialect", PROVIDERS)
@given(data=st.data())
def test_leaving_out_whole_units_gives_no_new_finding(dialect: str, data: st.DataObject) -> None:
    history = read(data.draw(valid(dialect)), dialect)
    kind = dialect_named(dialect)
    gone = _some_units(data, history.messages, kind)
    kept = without(kind, history.messages, gone)
    raws = written(kept, dialect)
    assert validate(raws, dialect) == []
    calls, results = pairs_in(raws)
    assert set(results) <= set(calls)


def _some_units(data: st.DataObject, messages: Any, kind: Any) -> set[int]:
    """Choose units, except for the first request and what the model has not answered."""
    first = next(i for i, m in enumerate(messages) if m.role is Role.USER)
    last = max((i for i, m in enumerate(messages) if m.role is Role.MODEL), default=0)
    free = [unit for unit in units(kind, messages) if first not in unit and max(unit) < last]
    chosen = data.draw(st.lists(st.sampled_from(free), unique=True)) if free else []
    return {i for unit in chosen for i in unit}


@pytest.mark.parametrize("dialect", PROVIDERS)
@given(data=st.data())
def test_masking_results_gives_no_new_finding_and_keeps_everything_else(
    dialect: str, data: st.DataObject
) -> None:
    history = read(data.draw(valid(dialect)), dialect)
    kind = dialect_named(dialect)
    masked = [
        with_text(kind, m, lambda part: "masked" if data.draw(st.booleans()) else None)
        for m in history.messages
    ]
    raws = written(masked, dialect)
    assert validate(raws, dialect) == []
    assert pairs_in(raws) == pairs_in(written(history.messages, dialect))
    for old, new in zip(history.messages, masked, strict=True):
        if old != new:
            assert "masked" in json.dumps(new.raw)
            assert set(old.raw) == set(new.raw)


@pytest.mark.parametrize("dialect", PROVIDERS)
@given(data=st.data())
def test_a_summary_before_a_turn_gives_no_new_finding(dialect: str, data: st.DataObject) -> None:
    history = read(data.draw(valid(dialect)), dialect)
    kind = dialect_named(dialect)
    turns = [i for i, m in enumerate(history.messages) if m.role is Role.USER]
    at = data.draw(st.sampled_from(turns))
    if dialect == "openai_chat":
        at = max(at, turns[0])
    summary = ProviderForm(kind).say("What happened so far.", "summary")
    messages = [*history.messages[:at], summary, *history.messages[at:]]
    raws = written(messages, dialect)
    before = {f.rule for f in validate(history.given, dialect)}
    after = {f.rule for f in validate(raws, dialect)}
    assert after <= before | _after_results(history.messages, at)


def _after_results(messages: Any, at: int) -> set[str]:
    """Skip turns whose message also carries results: a summary cannot go there."""
    return {"results-first", "calls-answered"} if messages[at].function_responses else set()


@pytest.mark.parametrize("source", PROVIDERS)
@pytest.mark.parametrize("target", PROVIDERS)
@given(script=scripts())
@FEWER
def test_a_history_can_be_written_in_another_format(source: str, target: str, script: Any) -> None:
    history = read(render_script(script, source), source)
    raws = written(history.messages, target)
    repaired, _ = repair(raws, target)
    assert validate(repaired, target) == []
    for text in texts_of_user(render_script(script, source), source):
        assert any(text in found for found in texts_of_user(repaired, target))


@pytest.mark.parametrize("dialect", PROVIDERS)
@given(data=st.data())
def test_results_are_tied_to_their_calls_and_to_nothing_they_do_not_answer(
    dialect: str, data: st.DataObject
) -> None:
    """Pairs are found in the JSON itself, units by the references."""
    history = read(data.draw(valid(dialect)), dialect)
    unit_of = {i: unit for unit in units(dialect_named(dialect), history.messages) for i in unit}
    calls: dict[str, int] = {}
    for i, message in enumerate(history.messages):
        asked, answered = pairs_in([message.raw])
        calls |= dict.fromkeys(asked, i)
        for name in answered:
            assert unit_of[calls[name]] == unit_of[i]
    for i, message in enumerate(history.messages):
        is_instructed = [m.role for m in history.messages[i + 1 : i + 2]] == [Role.SYSTEM]
        if message.role is Role.USER and not message.function_responses and not is_instructed:
            assert unit_of[i] == (i,)
