"""The small set of tools, as a model sees it: short definitions, bounded text, clumsy calls."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import TextContent, Tool

from marksweep.mcp.app import build_server
from marksweep.mcp.bounds import bounded, bounded_data
from marksweep.mcp.server_state import ServerState
from marksweep.mcp.tool import understood
from marksweep.tokens import count, default_counter
from tests.mcp.support import Agent, data_of, with_agent
from tests.mcp.test_surface import TEXT_ONLY

DEFINITION_TOKENS = 1_500

NAMES = ["remember", "recall", "forget", "index_codebase", "who_calls", "prune_memory"]


def offered() -> list[Tool]:
    async def listed() -> list[Tool]:
        async with Client(build_server(ServerState())) as client:
            return (await client.list_tools()).tools

    return asyncio.run(listed())


def test_by_default_six_tools_are_offered_in_few_tokens() -> None:
    tools = offered()
    assert [tool.name for tool in tools] == NAMES
    as_sent = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in tools
    ]
    assert not default_counter().label(1).startswith("≈"), "the exact counter is needed"
    assert count(json.dumps(as_sent)) < DEFINITION_TOKENS


def test_every_tool_says_when_to_call_it_and_answers_with_bounded_text() -> None:
    for tool in offered():
        words = (tool.description or "").lower()
        assert "call " in words or "not for" in words, tool.name
        assert tool.output_schema is None, tool.name
        assert tool.input_schema["properties"]["max_tokens"]["default"] == 2_000, tool.name
        assert "title" not in json.dumps(tool.input_schema), tool.name


async def say(one: Agent, tool: str, /, **arguments: Any) -> str:
    """Call a tool that must succeed; return its text. There is no structured content."""
    result = await one.client.call_tool(tool, arguments)
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert not result.is_error, content.text
    assert result.structured_content is None
    return content.text


def test_a_note_is_written_found_replaced_and_forgotten(tmp_path: Path) -> None:
    async def first(one: Agent) -> None:
        assert (await say(one, "remember", text="The shop listens on port 80")).startswith("Rem")

    async def second(one: Agent) -> None:
        found = await say(one, "recall", query="which port has the shop")
        assert "port 80" in found
        old = found.partition(" m")[2].partition(" ")[0]
        said = await say(one, "remember", text="The shop is on port 9090", replaces=f"m{old}")
        assert "No longer valid" in said
        found = await say(one, "recall", query="shop port")
        assert "9090" in found
        assert "port 80\n" not in f"{found}\n"
        assert "port 80" in await say(one, "recall", query=f"m{old}")
        said = await say(one, "forget", ids="latest")
        new = said.partition(": ")[2]
        assert "Nothing matches" in await say(one, "recall", query="9090")
        assert await say(one, "forget", ids=[new], restore=True) == f"Restored: {new}"

    with_agent(tmp_path, first, tools="few")
    with_agent(tmp_path, second, tools="few")


def test_code_is_indexed_recalled_asked_and_pruned(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("def pay():\n    check()\n\n\ndef check():\n    pass\n")

    async def work(one: Agent) -> None:
        assert "Functions: 2" in await say(one, "index_codebase")
        assert "[code shop.py:1-2 pay" in await say(one, "recall", query="pay", where="code")
        said = await say(one, "who_calls", symbol="check()")
        assert said.splitlines() == [
            "defined: function check shop.py:5",
            "pay calls check shop.py:2",
        ]
        assert "1 pay calls check" in await say(one, "who_calls", name="check", ask="impact")
        said = await say(one, "who_calls", symbol="nobody")
        assert said.startswith("No callers of nobody are known. It is not defined")
        (tmp_path / "shop.py").unlink()
        (tmp_path / "other.py").write_text("x = 1\n")
        await say(one, "index_codebase", max_shrink=1)
        assert "shop.py" in await say(one, "prune_memory")
        confirmed = {"dry_run": False, "confirm": True, "workspace_id": "default"}
        done = await say(one, "prune_memory", **confirmed)
        plan = done.rpartition("by plan ")[2].strip(".")
        assert "shop.py" not in await say(one, "prune_memory")
        assert (await say(one, "forget", ids=plan, restore=True)).startswith("Restored: m")
        shown = await say(one, "prune_memory")
        assert "shop.py" in shown
        plan = shown.partition("prune_memory(workspace_id='default', plan_id='")[2].split("'")[0]
        assert f"by plan {plan}" in await say(one, "prune_memory", **confirmed, plan_id=plan)
        assert (await say(one, "forget", ids="latest", restore=True)).startswith("Restored: m")

    with_agent(tmp_path, work, tools="few")


def test_every_answer_is_within_its_bound(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        for number in range(20):
            await say(one, "remember", text=f"needle {number} " + "long words to fill it " * 400)
        for bound in (60, 500, 2_000):
            text = await say(one, "recall", query="needle", limit=20, max_tokens=bound)
            assert count(text) <= bound
            assert "needle" in text
        assert count(await say(one, "recall", query="needle", limit=100)) <= 2_000

    with_agent(tmp_path, work, tools="few")


def test_every_error_is_within_the_bound_of_its_call(tmp_path: Path) -> None:
    long = "a name " * 9_000

    async def work(one: Agent) -> None:
        for tool, arguments in (
            ("recall", {long: 1}),
            ("recall", {"as_of": long}),
            ("recall", {"query": long}),
            ("remember", {"text": "x", "replaces": [long]}),
            ("index_codebase", {"languages": [long]}),
        ):
            assert count(await one.fail(tool, **arguments, max_tokens=60)) <= 60, tool
        assert count(await one.fail("recall", max_tokens=long)) <= 100

    with_agent(tmp_path, work, tools="few")


def test_long_tags_do_not_hide_a_note_and_its_id(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        said = await say(one, "remember", text="The port is 80", tags=["long " * 9_000])
        found = await say(one, "recall", query="port")
        assert said.removeprefix("Remembered: ") in found
        assert found.endswith("The port is 80")

    with_agent(tmp_path, work, tools="few")


@pytest.mark.parametrize("bound", ["lots", -1, 0, 49])
@pytest.mark.parametrize(("tool", "tools"), [("recall", "few"), ("memory_stats", "all")])
def test_a_bound_without_room_for_an_answer_is_refused(
    tmp_path: Path, bound: object, tool: str, tools: str
) -> None:
    async def work(one: Agent) -> None:
        said = await one.fail(tool, max_tokens=bound)
        assert said == f"max_tokens is {bound!r}; expected a whole number, at least 50."

    with_agent(tmp_path, work, tools=tools)


def test_errors_say_what_is_wrong(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        assert "expected a date" in await one.fail("recall", query="x", as_of="last week")
        assert "there is no parameter 'colour'" in await one.fail("recall", colour="red")
        assert "Nothing was remembered" in await one.fail("remember", text="x", replaces=["m0"])
        assert "'text' is missing" in await one.fail("remember")
        assert "expected at least 1 character." in await one.fail("remember", text="")
        assert "expected at least 1 item." in await one.fail("forget", ids=[])
        assert "such as 30d" in await one.fail("remember", text="x", ttl="a month")
        assert (await say(one, "remember", text="y", ttl="2w")).startswith("Remembered")

    with_agent(tmp_path, work, tools="few")


def test_what_models_send_for_nothing_and_for_numbers_is_understood(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        nothing = {"tags": None, "replaces": "", "pin": None, "ttl": "30 days"}
        await say(one, "remember", text="Ticket 42 is done", **nothing, max_tokens=None)
        asked = {"where": "NOTE", "tags": "", "path": None, "as_of": None, "limit": None}
        assert "Ticket 42" in await say(one, "recall", query=42, **asked, max_tokens=200.0)
        assert "No longer" in await say(one, "remember", text="It is not", replaces="latest")
        assert "No callers" in await say(one, "who_calls", symbol="x", ask="Callers", limit=None)

    with_agent(tmp_path, work, tools="few")


def test_the_full_set_has_the_small_one_and_answers_with_data(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        names = {tool.name for tool in (await one.client.list_tools()).tools}
        assert {*NAMES, "context_add", "search_memory"} <= names
        added = await one.call("context_add", segments={"content": "a needle"})
        assert len(added["segment_ids"]) == 1
        assert "needle" in await say(one, "recall", query="needle")

    with_agent(tmp_path, work, tools="all")


def test_entities_are_merged_over_the_protocol(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await say(one, "remember", text="we use `load_config` here")
        await say(one, "remember", text="there `Load_Config` is used")
        shown = await one.call("memory_merge")
        assert len(shown["groups"]) == 1
        done = await one.call("memory_merge", plan_id=shown["plan_id"])
        assert len(done["gone"]) == 1
        assert (await one.call("memory_merge"))["groups"] == []

    with_agent(tmp_path, work)


def test_a_prune_says_in_json_too_what_it_did_not_take_and_why(tmp_path: Path) -> None:
    async def work(one: Agent) -> None:
        await say(one, "remember", text="The key is in vault seven")
        await say(one, "remember", text="The key is in  vault seven")
        await say(one, "recall", query="vault")
        shown = await one.call("prune_memory", strategy="duplicates")
        assert shown["not_taken"] == ["Not taken: 2 nodes, read recently."]

    with_agent(tmp_path, work)


SCHEMA = {
    "properties": {
        "text": {"type": "string"},
        "ids": {"type": "array", "items": {"type": "string"}},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/Part"}},
        "where": {"type": "array", "items": {"type": "string", "enum": ["live", "NOTE"]}},
        "how": {"$ref": "#/$defs/How", "default": "fast"},
        "hows": {"type": "array", "items": {"$ref": "#/$defs/How"}},
        "maybe": {"anyOf": [{"type": "array", "items": {}}, {"type": "null"}]},
        "either": {"anyOf": [{"type": "array", "items": {}}, {"type": "string"}]},
    },
    "$defs": {
        "Part": {"properties": {"text": {"type": "string"}, "how": {"$ref": "#/$defs/How"}}},
        "How": {"type": "string", "enum": ["fast", "slow"]},
    },
}


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"content": "x"}, {"text": "x"}),
        ({"content": "x", "text": "y"}, {"content": "x", "text": "y"}),
        ({"ids": "a"}, {"ids": ["a"]}),
        ({"id": "a"}, {"ids": ["a"]}),
        ({"ids": '["a", "b"]'}, {"ids": ["a", "b"]}),
        ({"ids": "[not json"}, {"ids": ["[not json"]}),
        ({"parts": {"content": "x"}}, {"parts": [{"text": "x"}]}),
        ({"parts": '{"text": "x"}'}, {"parts": [{"text": "x"}]}),
        ({"parts": "x"}, {"parts": [{"text": "x"}]}),
        ({"ids": ""}, {"ids": []}),
        ({"ids": None}, {}),
        ({"text": None, "content": "x"}, {"text": "x"}),
        ({"parts": {"text": None}}, {"parts": [{}]}),
        ({"where": "Live"}, {"where": ["live"]}),
        ({"where": ["note", "attic"]}, {"where": ["NOTE", "attic"]}),
        ({"how": "SLOW"}, {"how": "slow"}),
        ({"hows": "Slow"}, {"hows": ["slow"]}),
        ({"parts": {"text": "x", "how": "SLOW"}}, {"parts": [{"text": "x", "how": "slow"}]}),
        ({"maybe": None}, {"maybe": None}),
        ({"either": "x"}, {"either": "x"}),
        ({"unknown": 1}, {"unknown": 1}),
    ],
)
def test_clumsy_arguments_are_read_as_they_are_meant(
    given: dict[str, Any], meant: dict[str, Any]
) -> None:
    assert understood(given, SCHEMA) == meant


async def ask(one: Agent, tool: str, /, bound: int = 600, **arguments: Any) -> dict[str, Any]:
    """Call a tool of the full set that must succeed within a bound; return its data, if it has any.

    The bound covers the whole result except for its envelope; there is only text.
    """
    result = await one.client.call_tool(tool, {**arguments, "max_tokens": bound})
    (text,) = result.content
    assert isinstance(text, TextContent)
    assert not result.is_error, text.text
    sent = result.model_dump(mode="json", exclude_defaults=True)
    assert set(sent) <= {"content", "result_type", "meta"}, tool
    assert count(text.text) <= bound, tool
    return {} if tool in TEXT_ONLY else data_of(result)


def test_every_answer_on_the_working_set_is_within_its_bound(tmp_path: Path) -> None:
    long = [
        {"segment_id": f"s{n}", "text": f"needle {n} " + "words of a log " * 1_000}
        for n in range(40)
    ]
    names = [each["segment_id"] for each in long]

    async def work(one: Agent) -> None:
        await ask(one, "context_gc_configure", limit_tokens=10**9)
        assert "cut" not in await ask(one, "context_add", segments=long)
        found = await ask(one, "context_search", bound=2_000, words="needle", limit=100)
        assert "segments has 40" in found["cut"]
        assert len(found["segments"]) > 2
        assert (await ask(one, "context_gc_analyze", max_candidates=99, target_tokens=0))["plan_id"]
        await ask(one, "context_focus", open_files=[f"a/long/path/{n}.py" for n in range(900)])
        await ask(one, "context_gc_pin", segment_ids=names)
        await ask(one, "context_gc_unpin", segment_ids=names)
        await ask(one, "context_gc_prune", segment_ids=names)
        shown = await ask(one, "context_recall", words="needle", limit=100, action="show")
        assert shown["found"][0]["text"].startswith("needle")
        await ask(one, "context_gc_undo")
        await ask(one, "context_gc_history", limit=1_000)
        await ask(one, "context_gc_compress", segment_id="s1", text="needle " + "short " * 2_000)
        ghosts = [f"ghost-{n}" for n in range(1_000)]
        assert count(await one.fail("context_gc_pin", segment_ids=ghosts)) <= 2_000

    with_agent(tmp_path, work)


def test_every_answer_on_the_memory_is_within_its_bound(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    for number in range(40):
        body = "".join(f"def f{number}_{n}(x):\n    return x  # needle {n}\n" for n in range(30))
        (code / f"m{number}.py").write_text(body)

    async def work(one: Agent) -> None:
        await ask(one, "index_codebase", path="code")
        assert (await ask(one, "search_memory", query="needle", limit=100))["hits"]
        await ask(one, "who_calls", symbol="f1_1", ask="impact", limit=1_000)
        for path in sorted(code.iterdir())[1:]:
            path.unlink()
        await ask(one, "index_codebase", path="code", max_shrink=1)
        pruned = await ask(one, "prune_memory", limit=10_000)
        assert "planned.memories has 39" in pruned["cut"]
        done = await ask(
            one,
            "prune_memory",
            dry_run=False,
            confirm=True,
            workspace_id="default",
            limit=10_000,
        )
        await ask(one, "memory_pin", memory_ids=["m1"])
        await ask(one, "restore_memory", plan_id=done["plan_id"])
        for tool in ("memory_history", "memory_roots", "memory_stats", "memory_merge"):
            await ask(one, tool)

    with_agent(tmp_path, work)


def test_data_is_cut_in_its_long_texts_first_and_says_so() -> None:
    data: Any = {"id": "a" * 150, "text": "word " * 9_000, "rows": [{"id": n} for n in range(20)]}
    cut: Any = bounded_data(data, 500)
    assert count(json.dumps(cut, ensure_ascii=False)) <= 500
    assert cut["id"] == data["id"]
    assert cut["rows"] == data["rows"]
    assert data["text"].startswith(cut["text"].removesuffix("…"))
    assert "text has 45000 characters" in cut["cut"]
    least: Any = bounded_data(data, 200)
    assert 0 < len(least["rows"]) < 20
    fitting: dict[str, Any] = {"a": [1, 2], "b": {"c": (3, 4), "d": ()}}
    assert bounded_data(fitting, 50) == fitting


def test_a_text_is_cut_at_a_line_and_says_so() -> None:
    text = "\n".join(f"line {n} of many" for n in range(500))
    cut = bounded(text, 100)
    assert count(cut) <= 100
    *kept, note = cut.split("\n")
    assert kept == text.split("\n")[: len(kept)]
    assert "max_tokens" in note
    assert bounded("short", 100) == "short"
