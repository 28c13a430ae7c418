"""What the operations page names is there."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from marksweep.cli.app import app
from marksweep.monitoring import METRICS

PAGE = (Path(__file__).parents[1] / "docs/operations.md").read_text()
PLAIN = re.sub(r"[\[\]\",`]", " ", PAGE.replace('CMD ["serve"', "CMD marksweep serve"))
CALLS = re.findall(r"(?<=[=/ \n])marksweep (?:serve|proxy|store) [^\n]*--[^\n]*", PLAIN)


def test_every_metric_is_on_the_page() -> None:
    assert set(re.findall(r"^\| `(marksweep_\w+)`", PAGE, re.MULTILINE)) == set(METRICS)


@pytest.mark.parametrize("call", CALLS)
def test_every_command_on_the_page_has_the_options_that_it_is_given(call: str) -> None:
    words = call.split()[1:]
    command: click.Command = app
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words.pop(0))
        assert found is not None, call
        command = found
    known = {name for each in command.params for name in each.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_the_page_has_calls() -> None:
    assert len(CALLS) == 8
