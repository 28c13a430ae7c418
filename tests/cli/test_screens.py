"""The main screens are those that were last reviewed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.screens import FOLDER, SCREENS, WIDTHS, drawn, kept, project


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with project() as prepared:
        yield prepared


@pytest.mark.parametrize("width", WIDTHS)
def test_every_screen_matches_its_reviewed_file(folder: Path, width: int) -> None:
    """After an intended change: run python -m tests.cli.screens, and review the difference."""
    for name, text in drawn(folder, width):
        assert text == kept(name, width).read_text(), f"{name} at {width} columns"
        wrapped = [line for line in text.splitlines() if ":  marksweep " not in line]
        assert max(map(len, wrapped)) <= width, name


def test_no_screen_is_kept_that_is_no_longer_drawn() -> None:
    expected = {kept(name, width).name for name in SCREENS for width in WIDTHS}
    assert {path.name for path in FOLDER.iterdir()} == expected
