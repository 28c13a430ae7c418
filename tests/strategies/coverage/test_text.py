"""Atoms: the parts of a text that may be needed again."""

from __future__ import annotations

import pytest

from marksweep.messages import FunctionCall, Message, Part, Role, Text, texts_of
from marksweep.strategies.coverage.text import Kind, acted_on, atoms_of, calls_of


def found(text: str, kind: Kind) -> set[str]:
    return {atom for atom, k in atoms_of(text).items() if k is kind}


def test_a_line_is_looked_at_in_three_ways() -> None:
    text = '  12: value = load_all("a/b.txt"), naïve Größe'
    bare = 'value = load_all("a/b.txt"), naïve Größe'
    assert found(text, Kind.LINE) == {bare, f"12: {bare}"}
    assert found(text, Kind.NAME) == {"load_all", "a/b.txt"}
    assert found(text, Kind.WORD) == {"value", "naïve", "Größe"}


@pytest.mark.parametrize(
    "text",
    ['"id": "HAT001",', "[HAT001]", "HAT001: sold", "id=HAT001;", "<b>HAT001</b>", "x HAT001."],
)
def test_a_name_is_found_whatever_is_around_it(text: str) -> None:
    assert "HAT001" in found(text, Kind.NAME)


def test_a_path_is_found_before_a_line_number() -> None:
    assert "lib/text_box.py" in found("lib/text_box.py:55: def draw", Kind.NAME)


@pytest.mark.parametrize("mark", ["  12\t", "+ ", "- ", "> ", "3. ", "// ", "2026-11-18 07:12:03 "])
def test_a_line_is_the_same_without_its_number_mark_or_time(mark: str) -> None:
    line = "return the port of the proxy"
    assert line in found(mark + line, Kind.LINE)


def test_text_in_any_script_has_atoms() -> None:
    assert "設定ファイル" in found("設定ファイル を読む", Kind.WORD)
    assert "путь_к_файлу" in found("открой путь_к_файлу", Kind.NAME)


def said(words: str) -> Text:
    return Text(part=0, words=words, is_observed=False)


def test_an_agent_acts_on_all_of_its_code_and_on_the_names_it_says() -> None:
    answer = "The ticket HAT001 was cancelled"
    assert set(acted_on([said(answer)])) == {"HAT001"}
    assert "ticket" not in acted_on([said(f"{answer}\n```\ncancel flight\n```")])
    assert "cancel" in acted_on([said(f"{answer}\n```\ncancel flight\n```")])


def test_calls_differ_by_all_that_they_are_called_with() -> None:
    def edit(new: str, name: str) -> Part:
        return Part(function_call=FunctionCall(name, "edit", {"path": "a.py", "new": new}))

    long = "return the port of the proxy\n" * 10
    parts = (Part(text="Now:"), edit(long, "c1"), edit(f"{long}.", "c2"), edit("x = 1", "c3"))
    calls = calls_of([*texts_of(Message(Role.MODEL, parts, "m"))])
    assert calls == [["edit", "a.py", long], ["edit", "a.py", f"{long}."], ["edit", "a.py\nx = 1"]]
    bare = Message(Role.MODEL, (Part(function_call=FunctionCall("c", "list", {})),), "m")
    assert calls_of([*texts_of(bare)]) == [["list"]]
