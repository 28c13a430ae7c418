"""What a client sees of the server before it calls anything."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import INVALID_PARAMS, Tool

from marksweep.mcp.app import build_server
from marksweep.mcp.server_state import ServerState
from tests.mcp.support import Agent, with_agent

ROOT = Path(__file__).parents[2]

TEXT_ONLY = {"remember", "recall", "forget", "who_calls"}
"""Tools of the small set: see test_agent_tools."""

READ_ONLY = {
    "context_gc_history",
    "context_search",
    "memory_history",
    "memory_roots",
    "memory_stats",
    "search_memory",
}
DESTRUCTIVE = {"context_gc_prune", "prune_memory", "memory_merge", "memory_drop_root"}
NOT_IDEMPOTENT = {
    "context_add",
    "context_recall",
    "context_gc_undo",
    "context_gc_compress",
    "restore_memory",
}


def tools() -> dict[str, Tool]:
    async def listed() -> list[Tool]:
        async with Client(build_server(ServerState(tools="all"))) as client:
            return (await client.list_tools()).tools

    return {tool.name: tool for tool in asyncio.run(listed()) if tool.name not in TEXT_ONLY}


def test_the_tools_are_those_of_the_design() -> None:
    assert set(tools()) == {
        "context_gc_analyze",
        "context_gc_prune",
        "context_gc_pin",
        "context_gc_unpin",
        "context_gc_configure",
        "context_add",
        "context_focus",
        "context_recall",
        "context_search",
        "context_gc_undo",
        "context_gc_history",
        "context_gc_compress",
        "index_codebase",
        "search_memory",
        "prune_memory",
        "memory_stats",
        "restore_memory",
        "memory_history",
        "memory_pin",
        "memory_roots",
        "memory_merge",
        "memory_drop_root",
    }


def test_every_tool_says_what_it_takes_and_risks_and_answers_with_text() -> None:
    for name, tool in tools().items():
        assert tool.title, name
        assert tool.description, name
        assert "Call " in tool.description, f"{name} does not say when to call it"
        assert tool.input_schema["additionalProperties"] is False, name
        assert tool.output_schema is None, f"{name} would return structured content"
        hints = tool.annotations
        assert hints is not None, name
        assert bool(hints.read_only_hint) == (name in READ_ONLY), name
        assert bool(hints.destructive_hint) == (name in DESTRUCTIVE), name
        if name not in READ_ONLY:
            assert hints.idempotent_hint == (name not in NOT_IDEMPOTENT), name
        assert hints.open_world_hint is False, name


def test_prune_memory_takes_what_the_design_of_the_memory_says() -> None:
    schema = tools()["prune_memory"].input_schema
    limit = schema["properties"].pop("limit")
    assert limit["default"] is None
    assert schema["properties"].pop("max_tokens") == {"type": "integer", "default": 2_000}
    assert schema["properties"].pop("plan_id")["default"] == ""
    found = {
        name: (given["type"], given["default"]) for name, given in schema["properties"].items()
    }
    assert found == {
        "workspace_id": ("string", ""),
        "dry_run": ("boolean", True),
        "confirm": ("boolean", False),
        "strategy": ("string", "stale_code"),
    }
    assert schema["properties"]["strategy"]["enum"] == [
        "stale_code",
        "orphaned_chunks",
        "orphaned_entities",
        "expired",
        "duplicates",
        "all",
    ]
    assert schema.get("required", []) == []


async def read(one: Agent, address: str) -> Any:
    contents = (await one.client.read_resource(address)).contents
    assert contents[0].mime_type == "application/json"
    return json.loads(contents[0].text)  # type: ignore[union-attr]


def test_resources_expose_segments_plans_journal_and_ledger(tmp_path: Path, mode: str) -> None:
    async def work(one: Agent) -> None:
        await one.add("a/b c", "d")
        plan = await one.call("context_gc_prune", segment_ids=["d"])
        live = await read(one, "marksweep://segments/a%2Fb%20c")
        assert (live["state"], live["segment"]["segment_id"]) == ("live", "a/b c")
        gone = await read(one, "marksweep://segments/d")
        assert gone["state"] == "stashed"
        assert plan["plan_id"] in gone["why"]
        shown = await read(one, f"marksweep://plans/{plan['plan_id']}")
        assert shown["steps"][0]["segments"] == ["d"]
        journal = await read(one, "marksweep://journal")
        assert journal[0]["event"] == "swept"
        ledger = await read(one, "marksweep://ledger")
        assert ledger["lines"] == [{"name": "log", "segments": 1, "tokens": ledger["tokens"]}]
        templates = (await one.client.list_resource_templates()).resource_templates
        assert len(templates) == 2
        assert len((await one.client.list_resources()).resources) == 2

    with_agent(tmp_path, work, mode)


@pytest.mark.parametrize(
    "address",
    [
        "marksweep://segments/nowhere",
        "marksweep://plans/none",
        "marksweep://segments/..%2F..%2Fetc%2Fpasswd",
        "marksweep://segments/%00",
        "marksweep://elsewhere",
        "file:///etc/passwd",
    ],
)
def test_an_unknown_resource_is_an_error_of_the_protocol(tmp_path: Path, address: str) -> None:
    async def work(one: Agent) -> None:
        with pytest.raises(MCPError) as caught:
            await one.client.read_resource(address)
        assert "root:" not in caught.value.message

    with_agent(tmp_path, work)


def test_prompts_name_the_tools_that_do_the_work(tmp_path: Path, mode: str) -> None:
    async def work(one: Agent) -> None:
        names = [prompt.name for prompt in (await one.client.list_prompts()).prompts]
        assert names == ["clean_up", "hand_over"]
        known = set(tools_of(await one.client.list_tools()))
        for name, given in (("clean_up", {"keep": "the plan"}), ("hand_over", {"to": "Ada"})):
            prompt = await one.client.get_prompt(name, given)
            text = prompt.messages[0].content.text  # type: ignore[union-attr]
            assert next(iter(given.values())) in text
            mentioned = {word.strip("(),.") for word in text.split() if word.startswith("context_")}
            assert mentioned
            assert mentioned <= known | {"context_gc_undo)."}

    with_agent(tmp_path, work, mode)


@pytest.mark.parametrize(
    ("name", "given"), [("no_such_prompt", {}), ("clean_up", {"keep": "x", "colour": "red"})]
)
def test_a_bad_request_for_a_prompt_is_refused_with_a_reason(
    tmp_path: Path, mode: str, name: str, given: dict[str, str]
) -> None:
    async def work(one: Agent) -> None:
        with pytest.raises(MCPError, match="The prompts are: clean_up, hand_over") as caught:
            await one.client.get_prompt(name, given)
        assert caught.value.code == INVALID_PARAMS

    with_agent(tmp_path, work, mode)


def tools_of(listed: Any) -> list[str]:
    return [tool.name for tool in listed.tools]


def test_an_unknown_tool_is_refused(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        try:
            words = await one.fail("context_gc_explode")
        except MCPError as error:
            words = error.message
        assert "context_gc_explode" in words

    with_agent(tmp_path, work)
