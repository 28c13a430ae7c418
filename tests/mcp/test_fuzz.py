"""Random and hostile arguments to every tool: no crash, and no effect outside the workspace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import CallToolResult, TextContent, Tool

from marksweep.mcp.app import TOOLS
from marksweep.segments import Segments
from tests.mcp.support import agent

CALLS = 2_000
"""Minimum calls of one run; the nightly profile makes more."""

IDS = [f"s{number}" for number in range(8)]

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)

HOSTILE: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        -1,
        2**70,
        1.5,
        "",
        " ",
        "\0",
        "null",
        "[]",
        '{"a": 1}',
        "../../outside/secret.txt",
        "/etc/passwd",
        "~/.ssh/id_rsa",
        "file:///etc/passwd",
        "'; DROP TABLE segments; --",
        'MATCH (n) DETACH DELETE n "',
        "${HOME} `id` $(id)",
        "\u202e\ufeff\U0001f4a9",
        "a" * 5_000,
        [],
        {},
        [[]],
        {"__class__": "x"},
        ["s0", None, 3],
    ]
)


def values(schema: dict[str, Any], shapes: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Make values that fit a schema, as far as its types go."""
    if "$ref" in schema:
        return values(shapes[schema["$ref"].rpartition("/")[2]], shapes)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of(*(values(each, shapes) for each in schema["anyOf"]))
    kind = schema.get("type")
    if kind == "array":
        inner = schema.get("items") or {"type": "integer"}
        return st.lists(values(inner, shapes), max_size=4)
    if kind == "object":
        return objects(schema, shapes)
    return {
        "string": st.sampled_from([*IDS, "default"]) | words,
        "integer": st.integers(-2, 200),
        "number": st.floats(0, 200, allow_nan=False),
        "boolean": st.booleans(),
    }.get(kind or "", st.none())


def objects(schema: dict[str, Any], shapes: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Make objects with what a schema requires, and some of the rest."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    fields = {name: values(each, shapes) for name, each in properties.items()}
    return st.fixed_dictionaries(
        {name: fields[name] for name in required},
        optional={name: each for name, each in fields.items() if name not in required},
    )


def calls(tool: Tool) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    """Make calls of a tool: valid ones, ones with a hostile value, and ones with an unknown key."""
    schema = tool.input_schema
    sound = objects(schema, schema.get("$defs", {}))
    names = st.sampled_from([*schema.get("properties", {}), "stray"])
    spoiled = st.builds(lambda given, name, bad: given | {name: bad}, sound, names, HOSTILE)
    return st.tuples(st.just(tool.name), sound | spoiled)


def every_call() -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    tools = [
        Tool(name=each.name, input_schema=each.parameters, output_schema=each.output_schema)
        for each in TOOLS
    ]
    return st.one_of(*map(calls, tools))


def test_no_arguments_crash_a_tool_or_leave_the_workspace(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret.txt").write_text("kept outside the workspace")
    (inside / "a.py").write_text("def a():\n    return 1\n")
    seen: set[str] = set()

    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(agent(inside)) as one,
    ):

        @settings(max_examples=max(CALLS, settings().max_examples), database=None)
        @given(call=every_call())
        def fuzz(call: tuple[str, dict[str, Any]]) -> None:
            name, arguments = call
            result = portal.call(one.client.call_tool, name, arguments)
            judge(name, result)
            if not result.is_error:
                seen.add(name)

        fuzz()
        # Tools that rarely succeed on random input must at least work now.
        portal.call(one.call, "context_gc_analyze")
        portal.call(one.call, "memory_stats")

    assert {path.name for path in tmp_path.iterdir()} == {"inside", "outside"}
    assert {path.name for path in outside.iterdir()} == {"secret.txt"}
    assert (outside / "secret.txt").read_text() == "kept outside the workspace"
    assert len(seen) >= 10, f"only {sorted(seen)} ever worked: the calls are not valid"
    check_store(inside)


def judge(name: str, result: CallToolResult) -> None:
    content = result.content[0]
    assert isinstance(content, TextContent)
    assert "Traceback" not in content.text
    assert not content.text.startswith(f"Error executing tool {name}"), "an unhandled error"
    assert "kept outside the workspace" not in content.text
    assert result.structured_content is None
    assert result.is_error or isinstance(json.loads(content.text), dict)


def check_store(folder: Path) -> None:
    context = Segments(folder / ".marksweep" / "store.db")
    live = {segment.segment_id for segment in context.list()}
    stashed = {hit.found.segment.segment_id for hit in context.search_stash(limit=10_000)}
    context.close()
    assert not live & stashed
