"""Everything that the operations page names exists."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import click
import pytest

from marksweep.cli.app import app
from marksweep.monitoring import METRICS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/operations.md").read_text()
CONTAINER = ROOT / "Containerfile"
COMMAND = " ".join(json.loads(CONTAINER.read_text().rpartition("\nCMD ")[2]))
PLAIN = re.sub(r"[\[\]\",`]", " ", f"{PAGE}\n marksweep {COMMAND}\n")
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
    assert len(CALLS) == 9


def test_the_container_file_copies_what_is_there_and_installs_extras_that_exist() -> None:
    text = CONTAINER.read_text().replace("\\\n", " ")
    lines = [line.partition(" ") for line in text.splitlines() if line and line[0] != "#"]
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK"}
    assert {word for word, _, _ in lines} == known | {"ENTRYPOINT", "CMD"}
    copied = [rest for word, _, rest in lines if word == "COPY" and "--from" not in rest]
    sent = (ROOT / ".dockerignore").read_text().splitlines()
    for name in (name for rest in copied for name in rest.split()[:-1]):
        assert (ROOT / name).exists()
        assert f"!{name}" in sent
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"'\.\[(.*?)\]'", text)
    assert set(extras.split(",")) <= project["optional-dependencies"].keys()
    (health,) = [rest for word, _, rest in lines if word == "HEALTHCHECK"]
    program, option, code = json.loads(health.removeprefix("CMD "))
    assert (program, option) == ("python", "-c")
    compile(code, "HEALTHCHECK", "exec")
    assert "8722/healthz" in code
