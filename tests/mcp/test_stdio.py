"""The server as a real child process, on stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

import marksweep
from marksweep.cli.serve import FILES, own_command, snippet
from marksweep.mcp.app import ALL
from marksweep.segments import Segments
from tests.mcp.support import Agent

SERVE = [sys.executable, "-m", "marksweep", "serve", "--tools", "all"]
SOURCE = str(Path(marksweep.__file__).parents[1])
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE}
DEADLINE = 60.0
"""Seconds after which a child that should end counts as hung. The machine may be busy."""


def child(folder: Path, *options: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=SERVE[0],
        args=[*SERVE[1:], "--root", str(folder), *options],
        env=ENVIRONMENT,
        cwd=folder,
    )


def test_a_child_process_serves_both_protocols(tmp_path: Path, mode: str) -> None:
    async def work() -> None:
        async with Client(child(tmp_path), mode=mode) as client:
            one = Agent(client)
            assert len((await client.list_tools()).tools) == len(ALL)
            await one.add("a", "b")
            pruned = await one.call("context_gc_prune", segment_ids=["a"])
            assert pruned["stashed"] == ["a"]
            assert "not live" in await one.fail("context_gc_prune", segment_ids=["a"])
            assert await one.live("a", "b") == ["b"]

    asyncio.run(work())


def test_several_servers_on_one_store_see_the_same_state(tmp_path: Path) -> None:
    async def fill(client: Client, name: str) -> None:
        one = Agent(client)
        for number in range(10):
            await one.add(f"{name}-{number}", times=2)

    async def work() -> None:
        async with (
            Client(child(tmp_path)) as first,
            Client(child(tmp_path)) as second,
            Client(child(tmp_path), mode="legacy") as third,
        ):
            await asyncio.gather(fill(first, "x"), fill(second, "y"), fill(third, "z"))
            one, other = Agent(first), Agent(second)
            await one.call("context_gc_pin", segment_ids=["y-0"])
            pruned = await other.call("context_gc_prune", segment_ids=["x-0", "y-0", "z-0"])
            assert pruned["stashed"] == ["x-0", "z-0"]
            assert [each["segment_id"] for each in pruned["kept"]] == ["y-0"]
            back = await Agent(third).call("context_recall", segment_ids=["x-0"])
            assert back["restored"] == ["x-0"]

    asyncio.run(work())
    context = Segments(tmp_path / ".marksweep" / "store.db")
    live = {segment.segment_id for segment in context.list()}
    assert live == {f"{name}-{n}" for name in "xyz" for n in range(10)} - {"z-0"}
    context.close()


def hello() -> list[dict[str, Any]]:
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    return [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]


def call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*SERVE, "--root", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=ENVIRONMENT,
    )


def send(server: subprocess.Popen[str], *messages: dict[str, Any]) -> None:
    assert server.stdin is not None
    server.stdin.writelines(json.dumps(message) + "\n" for message in messages)
    server.stdin.flush()


def await_answers(server: subprocess.Popen[str], *numbers: int) -> None:
    """Read until all of these were answered, in any order. Every line is a protocol message."""
    assert server.stdout is not None
    waiting = set(numbers)
    while waiting:
        line = server.stdout.readline()
        assert line, f"no answer to {waiting}"
        found = json.loads(line)
        assert found["jsonrpc"] == "2.0"
        waiting.discard(found.get("id"))


def test_only_the_protocol_goes_to_stdout_and_json_to_stderr(tmp_path: Path) -> None:
    server = start(tmp_path)
    private = "password=hunter2222"
    send(server, *hello())
    await_answers(server, 0)
    assert server.stdin is not None
    server.stdin.write("this is not a message\n")
    send(
        server,
        call(1, "context_add", segments=[{"text": f"my {private}", "segment_id": "a"}]),
        call(2, "context_gc_pin", segment_ids=[private]),
        call(3, "context_gc_history"),
    )
    await_answers(server, 1, 2, 3)
    out, err = server.communicate(timeout=DEADLINE)
    assert server.returncode == 0
    for line in out.splitlines():
        assert json.loads(line)["jsonrpc"] == "2.0"
    logged = [json.loads(line) for line in err.splitlines()]
    assert any(line.get("tool") == "context_add" for line in logged)
    assert "hunter2222" not in err


@pytest.mark.parametrize("ending", ["closed", "killed"])
def test_a_client_that_dies_in_a_call_leaves_a_consistent_store(
    tmp_path: Path, ending: str
) -> None:
    """The client exits while the server works; answered calls are stored, none is half done."""
    server = start(tmp_path)
    send(server, *hello())
    await_answers(server, 0)
    names = [f"s{number}" for number in range(400)]
    segments = [{"text": f"{name} words", "type": "log", "segment_id": name} for name in names]
    send(server, call(1, "context_add", segments=segments))
    await_answers(server, 1)
    send(server, call(2, "context_gc_analyze", target_tokens=0, dry_run=False))
    time.sleep(0.02)
    if ending == "killed":
        server.kill()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdout.close()
    server.stdin.close()
    server.wait(timeout=DEADLINE)
    assert server.stderr is not None
    server.stderr.close()
    context = Segments(tmp_path / ".marksweep" / "store.db")
    live = {segment.segment_id for segment in context.list()}
    stashed = {hit.found.segment.segment_id for hit in context.search_stash(limit=1_000)}
    assert live | stashed == set(names)
    assert not live & stashed
    assert len(live) in (0, len(names))
    context.close()


def test_missing_folders_end_the_start_with_a_reason(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*SERVE, "--root", str(tmp_path / "nowhere")], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "does not exist" in ran.stderr


@pytest.mark.parametrize("client", list(FILES))
def test_the_snippet_of_each_client_is_what_it_reads(client: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [*SERVE, "--print-config", client, "--root", str(tmp_path), "--workspace", "w"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert FILES[client] in ran.stderr
    options = ["--root", str(tmp_path), "--workspace", "w", "--tools", "all"]
    assert ran.stdout.strip() == snippet(client, options)
    if client == "codex":
        import tomllib

        entry = tomllib.loads(ran.stdout)["mcp_servers"]["marksweep"]
    else:
        entry = json.loads(ran.stdout)["servers" if client == "vscode" else "mcpServers"][
            "marksweep"
        ]
    assert (entry["command"],) == own_command()
    assert entry["args"] == ["serve", *options]


def test_help_and_snippets_do_not_load_the_protocol() -> None:
    script = (
        "import sys; from marksweep.cli.serve import command; "
        "from marksweep.cli.serve import snippet; snippet('cursor'); "
        "print(sorted({'mcp', 'falkordb', 'tree_sitter', 'pydantic'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_a_project_that_sends_its_memory_elsewhere_is_refused_by_every_tool(tmp_path: Path) -> None:
    (tmp_path / ".marksweep").mkdir()
    location = "redis://:hunter2@elsewhere.example"
    (tmp_path / ".marksweep/settings.toml").write_text(f"store.location = {location!r}")
    server = StdioServerParameters(
        command=SERVE[0], args=SERVE[1:], env={**ENVIRONMENT, "HOME": str(tmp_path)}, cwd=tmp_path
    )

    async def work() -> None:
        async with Client(server) as client:
            said = await Agent(client).fail("context_gc_history")
            assert "marksweep config trust" in said
            assert "elsewhere.example" in said
            assert "hunter2" not in said

    asyncio.run(work())


@pytest.fixture(scope="module")
def lasting_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """Run a server that survives every bad line, and then exits normally."""
    server = start(tmp_path_factory.mktemp("lasting"))
    send(server, *hello())
    await_answers(server, 0)
    yield server
    server.communicate(timeout=DEADLINE)
    assert server.returncode == 0


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        (json.dumps(call(7, "context_add", segments=[{"text": "half \ud800"}])), 7, -32700),
        (json.dumps(call(7, "context_recall", query="\udfff")), 7, -32700),
        ('{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', None, -32700),
        ("this is not a message", None, -32700),
        ("[" * 100_000, None, -32700),
        ('{"jsonrpc": "1.0", "id": 7, "method": "ping"}', 7, -32600),
        ('{"jsonrpc": "2.0", "id": 7, "method": 3}', 7, -32600),
        ("[1, 2]", None, -32600),
    ],
)
def test_a_line_that_is_not_a_message_is_answered_and_the_next_one_works(
    lasting_server: subprocess.Popen[str], line: str, number: int | None, code: int
) -> None:
    server = lasting_server
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(f"{line}\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    assert (answer["id"], answer["error"]["code"]) == (number, code)
    send(server, call(8, "context_gc_history"))
    await_answers(server, 8)
