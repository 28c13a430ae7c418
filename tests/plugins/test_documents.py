"""docs/plugins.md agrees with the plugins."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from marksweep.plugins import GCConfig, load_gc_plugin
from marksweep.plugins.discovery import BUILT_IN
from marksweep.plugins.options import PLACEHOLDERS, Options

TEXT = (Path(__file__).parent.parent.parent / "docs/plugins.md").read_text()


def rows(heading: str) -> dict[str, list[str]]:
    """Read the table under a heading: first column to the others."""
    table = TEXT.split(heading)[1].split("\n\n")[1:]
    lines = next(part for part in table if part.startswith("|")).splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): row[1:] for row in cells}


def test_every_plugin_is_described_with_the_options_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    described = rows("## The plugins")
    assert set(described) == set(BUILT_IN)
    for name, (_, options) in described.items():
        said = set(re.findall(r"`(\w+)`", options))
        for option in ("summarizer", "summarize_middle_turns", "setting", "ask_owner"):
            plain = {"summarize_middle_turns": 3, "setting": "quality"}
            given = {option: plain.get(option, lambda *_: "")}
            caplog.clear()
            load_gc_plugin(name, given)
            assert (f"{name} has no option {option!r}" in caplog.text) is (option not in said)


def test_every_option_is_described() -> None:
    assert set(rows("### Options of every plugin")) == set(Options.__struct_fields__)
    assert set(re.findall(r"`\{(\w+)\}`", TEXT)) == PLACEHOLDERS


def test_every_field_of_the_configuration_is_described_with_its_default() -> None:
    described = rows("### `GCConfig`")
    assert list(described) == list(GCConfig.__struct_fields__)
    words = {None: "none", True: "true", False: "false"}
    for name, (default, _) in described.items():
        value = getattr(GCConfig(), name)
        expected = "none" if value in ({}, []) else words.get(value, f"{value:g}" if value else "")
        assert default == expected, name
