"""Everything in docs/seeds.md exists: names, parameters, defaults, tools, options, tests."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import click
import msgspec
import pytest

import marksweep
from marksweep.cli.app import app
from marksweep.mcp.app import TOOLS
from marksweep.plugins.checks import PREFIXES, PRESSURE, TARGET, THRESHOLD
from marksweep.plugins.files import GC_FILES, PROFILE_FOLDERS
from marksweep.settings import Settings

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/seeds.md").read_text("utf-8")
TOOL = {tool.name: tool for tool in TOOLS}
UNKNOWN = object()
"""The default of a parameter that has none."""


class Row(NamedTuple):
    """One line of the page."""

    said: str
    default: str
    here: tuple[str, ...]
    tests: tuple[str, ...]


def rows() -> Iterator[Row]:
    for line in PAGE.split("## Where we differ")[0].splitlines():
        if line.startswith("| ") and not line.startswith("| there"):
            said, default, here, tests = (cell.strip() for cell in line.strip("| ").split("|"))
            names = [tuple(re.findall(r"`([^`]+)`", cell)) for cell in (here, tests)]
            yield Row(said, default.strip("`"), *names)


ROWS = tuple(rows())


@pytest.fixture(scope="module")
def tests() -> set[str]:
    """Return the name of every test, here and in the contracts."""
    places = (ROOT / "tests", Path(marksweep.__file__).parent / "testing")
    return {
        node.name
        for place in places
        for path in place.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


def found(name: str) -> Any:
    """Resolve a name; return its default, or UNKNOWN. LookupError: it does not exist."""
    kind, _, rest = name.partition(":")
    resolve = {"mcp": of_tool, "cli": of_command, "setting": of_setting}.get(kind)
    if resolve is not None:
        return resolve(rest)
    if kind == "env":
        known = {
            prefix + each.name for prefix in PREFIXES for each in (THRESHOLD, TARGET, PRESSURE)
        }
        return _in(rest, known)
    if kind == "file":
        return _in(rest, {str(path) for path in (*GC_FILES, *PROFILE_FOLDERS)})
    return of_python(name)


def _in(name: str, known: set[str]) -> object:
    if name not in known:
        raise LookupError(name)
    return UNKNOWN


def of_python(name: str) -> Any:
    path, _, parameter = name.rstrip(")").partition("(")
    owner: Any = None
    value: Any = marksweep
    for part in path.split("."):
        owner, value = value, _member(value, part)
    if parameter:
        given = inspect.signature(value).parameters[parameter].default
        return UNKNOWN if given is inspect.Parameter.empty else given
    if isinstance(owner, type) and issubclass(owner, msgspec.Struct):
        return _field_default(owner, path.rpartition(".")[2])
    return UNKNOWN if callable(value) or inspect.ismodule(value) else value


def _member(value: Any, part: str) -> Any:
    if hasattr(value, part):
        return getattr(value, part)
    if part in getattr(value, "__annotations__", {}):
        return UNKNOWN
    try:
        return importlib.import_module(f"{value.__name__}.{part}")
    except (ImportError, AttributeError) as error:
        raise LookupError(part) from error


def _field_default(owner: type[msgspec.Struct], name: str) -> Any:
    for field in msgspec.structs.fields(owner):
        if field.name == name:
            if field.default_factory is not msgspec.NODEFAULT:
                made = field.default_factory()
                return float(made) if isinstance(made, float) else made
            return UNKNOWN if field.default is msgspec.NODEFAULT else field.default
    return UNKNOWN


def of_tool(name: str) -> Any:
    tool, _, rest = re.sub(r"[(.]", "\0", name.rstrip(")"), count=1).partition("\0")
    if not rest:
        return _in(tool, set(TOOL))
    if name.endswith(")"):
        return TOOL[tool].parameters["properties"][rest].get("default", UNKNOWN)
    answer = get_type_hints(TOOL[tool].fn, include_extras=True)["return"]
    (data,) = get_args(answer)
    schema = msgspec.json.schema(data)
    definitions = schema.get("$defs", {})
    for part in rest.split("."):
        schema = schema.get("items", schema)
        schema = definitions.get(schema.get("$ref", "").rpartition("/")[2], schema)
        schema = schema["properties"][part]
    return schema.get("default", UNKNOWN)


def of_command(name: str) -> object:
    path, _, option = name.partition(" --")
    command: click.Command = app
    context = click.Context(app)
    for part in path.split():
        assert isinstance(command, click.Group)
        inner = command.get_command(context, part)
        if inner is None:
            raise LookupError(part)
        command = inner
    if option and not any(f"--{option}" in parameter.opts for parameter in command.params):
        raise LookupError(option)
    return UNKNOWN


def of_setting(name: str) -> Any:
    value: Any = Settings()
    for part in name.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.said)
def test_what_the_page_names_is_there(row: Row, tests: set[str]) -> None:
    assert row.here
    assert row.tests
    defaults = [found(name) for name in row.here]
    for name in row.tests:
        assert name in tests, f"{name} is not a test"
    if row.default:
        expected = eval(row.default, {"timedelta": timedelta})  # noqa: S307
        assert expected == defaults[0], f"{row.here[0]} is {defaults[0]!r}"


@pytest.mark.parametrize(
    "name",
    [
        "GCEngine.burn",
        "NoSuchThing",
        "plugins.nowhere.create_plugin",
        "GCEngine.score_segment(colour)",
        "mcp:context_gc_burn",
        "mcp:context_gc_prune(colour)",
        "mcp:context_gc_analyze.candidates.colour",
        "cli:burn",
        "cli:prune --colour",
        "setting:steps.colour",
        "env:JAATO_GC_COLOUR",
        "file:.jaato/colour.json",
    ],
)
def test_a_name_that_does_not_exist_is_detected(name: str) -> None:
    with pytest.raises((LookupError, AttributeError)):
        found(name)


def test_the_page_speaks_of_all_five_designs() -> None:
    assert len(re.findall(r"^## \d", PAGE, re.MULTILINE)) == 5
    assert len(ROWS) > 120
    named = {name for row in ROWS for name in row.here}
    for tool in TOOLS:
        if tool.name.startswith("context_gc_") and tool.name not in {
            "context_gc_undo",
            "context_gc_history",
        }:
            assert any(name.startswith(f"mcp:{tool.name}") for name in named), tool.name
