"""The server over HTTP: who may connect, how often, and what they see."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from marksweep.errors import BadInput
from marksweep.mcp.guard import CALLERS, Guard, Rates
from marksweep.mcp.http import MAX_BODY, HttpOptions
from marksweep.segments import Segments
from marksweep.web.bearer import BearerTokens
from tests.mcp.support import Agent
from tests.mcp.test_stdio import DEADLINE, ENVIRONMENT, SERVE
from tests.mcp.web import ADA, BOB, BOTH, Server, serving

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path, BOTH) as server:
        yield server


@pytest.fixture
def open_server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as server:
        yield server


def post(server: Server, body: Any = HELLO, **headers: str) -> httpx2.Response:
    return httpx2.post(server.address, json=body, headers=ACCEPT | headers, timeout=30)


def test_tools_work_over_both_protocols_with_progress(open_server: Server, mode: str) -> None:
    reports = []

    async def work() -> None:
        async with open_server.client(mode=mode) as client:
            one = Agent(client)
            await one.add("a", "b")

            async def report(progress: float, total: float | None, message: str | None) -> None:
                reports.append(progress)

            await client.call_tool(
                "context_gc_prune", {"segment_ids": ["a"]}, progress_callback=report
            )
            assert await one.live("a", "b") == ["b"]
            assert "no parameter" in await one.fail("context_gc_undo", nothing=1)

    asyncio.run(work())
    assert reports == [0, 1]


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer wrong", f"Basic {ADA}", f"Bearer {ADA}x", ADA]
)
def test_without_a_valid_token_access_is_refused(guarded: Server, header: str | None) -> None:
    found = post(guarded, **({"Authorization": header} if header is not None else {}))
    assert found.status_code == 401
    assert found.headers["www-authenticate"].startswith("Bearer")
    assert "Authorization: Bearer TOKEN" in found.json()["error"]["message"]


def test_each_token_sees_its_own_workspaces_only(guarded: Server, mode: str) -> None:
    async def work() -> None:
        async with guarded.client(ADA, mode=mode) as client:
            one = Agent(client)
            await one.add("hers")
            assert "not open to this token" in await one.fail("memory_stats", workspace_id="bob")
            await one.call("memory_stats", workspace_id="shared")
        async with guarded.client(BOB, mode=mode) as client:
            one = Agent(client)
            assert (await one.call("context_gc_configure"))["usage"]["current"] == 0
            await one.add("hers")
            assert await one.live("hers") == ["hers"]
        async with guarded.client(BOB, workspace="ada", mode=mode) as client:
            one = Agent(client)
            assert "not open to this token" in await one.fail("context_gc_history")
        async with guarded.client(ADA, workspace="shared", mode=mode) as client:
            await Agent(client).add("ours")
        async with guarded.client(BOB, workspace="shared", mode=mode) as client:
            assert await Agent(client).live("ours") == ["ours"]

    asyncio.run(work())


def test_a_session_belongs_to_the_token_that_opened_it(guarded: Server) -> None:
    opened = post(guarded, Authorization=f"Bearer {ADA}")
    assert opened.status_code == 200
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
    assert post(guarded, listing, Authorization=f"Bearer {BOB}", **session).status_code == 404
    assert post(guarded, listing, Authorization=f"Bearer {ADA}", **session).status_code == 200


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}])
def test_a_page_from_elsewhere_is_refused(open_server: Server, headers: dict[str, str]) -> None:
    assert post(open_server, **headers).status_code == 403
    modern = headers | {"MCP-Protocol-Version": "2026-07-28"}
    assert post(open_server, **modern).status_code == 403


def test_a_rebound_host_name_is_refused(open_server: Server) -> None:
    assert post(open_server, Host="evil.example:80").status_code == 421
    modern = {"Host": "evil.example", "MCP-Protocol-Version": "2026-07-28"}
    assert post(open_server, **modern).status_code == 421
    assert post(open_server, Origin="http://localhost:3000").status_code == 200


def test_a_request_that_is_too_large_is_refused(open_server: Server) -> None:
    body = HELLO | {"padding": "x" * MAX_BODY}
    assert post(open_server, body).status_code == 413


def test_a_client_over_its_rate_is_told_to_wait(tmp_path: Path) -> None:
    with serving(tmp_path, rate=0.001) as server:
        assert post(server).status_code == 200
        refused = post(server)
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"


def test_a_rate_recovers_with_time_and_is_per_caller() -> None:
    now = 0.0
    rates = Rates(2, clock=lambda: now)
    assert [rates.take("a") for _ in range(5)] == [True] * 4 + [False]
    assert rates.take("b")
    now = 0.5
    assert [rates.take("a") for _ in range(2)] == [True, False]
    for number in range(CALLERS + 10):
        rates.take(str(number))
    assert len(rates._left) == CALLERS


def test_tokens_are_checked_when_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    for content, expected in (
        ("{", "cannot be read"),
        ('{"a-long-enough-token": "x"}', "cannot be read"),
        ('{"short": ["x"]}', "expected 16 or more"),
        ('{"a-long-enough-token": []}', "no workspace"),
    ):
        path.write_text(content)
        with pytest.raises(BadInput, match=expected):
            BearerTokens.load(str(path), "default")


def write_tokens(path: Path, tokens: dict[str, list[str]]) -> None:
    path.write_text(json.dumps(tokens))


def says_hello(server: Server, token: str) -> int:
    return post(server, Authorization=f"Bearer {token}").status_code


def test_a_revoked_token_is_refused_at_once_and_a_new_one_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    write_tokens(path, {ADA: ["ada"]})
    with serving(tmp_path, token_file=path) as server:
        for _ in range(3):  # the same size each time, within a tick of the clock
            assert (says_hello(server, ADA), says_hello(server, BOB)) == (200, 401)
            write_tokens(path, {BOB: ["bob"]})
            assert (says_hello(server, ADA), says_hello(server, BOB)) == (401, 200)
            write_tokens(path, {ADA: ["ada"]})


def test_a_server_whose_tokens_are_all_revoked_is_closed_and_not_open(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    write_tokens(path, {ADA: ["ada"]})
    with serving(tmp_path, token_file=path) as server:
        write_tokens(path, {})
        assert (says_hello(server, ADA), post(server).status_code) == (401, 401)
        write_tokens(path, {ADA: ["ada"]})
        assert says_hello(server, ADA) == 200
        path.unlink()
        assert (says_hello(server, ADA), post(server).status_code) == (401, 401)


def test_a_token_file_that_is_damaged_changes_nothing_and_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens.json"
    write_tokens(path, {ADA: ["ada"]})
    with serving(tmp_path, token_file=path) as server:
        for content in ("", '{"half', '{"short": ["x"]}'):
            path.write_text(content)
            assert (says_hello(server, ADA), post(server).status_code) == (200, 401)
            assert "stay in force" in caplog.text
            caplog.clear()


def test_a_stream_ends_when_its_token_is_revoked(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    write_tokens(path, {ADA: ["ada"], BOB: ["bob"]})
    tokens = BearerTokens({}, path)
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"before", "more_body": True})
        write_tokens(path, {BOB: ["bob"]})
        await send({"type": "http.response.body", "body": b"after", "more_body": True})
        await send({"type": "http.response.body", "body": b"long after", "more_body": True})

    async def keep(message: Any) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {ADA}".encode())]
    scope = {"type": "http", "path": "/mcp", "headers": headers, "client": ("127.0.0.1", 1)}
    asyncio.run(Guard(app, tokens, Rates(100))(scope, keep, keep))  # type: ignore[arg-type]
    assert [message.get("body") for message in sent] == [None, b"before", b""]
    assert sent[-1]["more_body"] is False
    assert tokens.secrets == {ADA, BOB}


def test_one_token_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARKSWEEP_TOKEN", ADA)
    tokens = BearerTokens.load(None, "mine")
    assert tokens.workspaces(ADA) == ("mine",)
    assert tokens.workspaces("other") is None


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104
        ("192.168.1.2", False),
        ("example.org", False),
        ("localhost.evil.example", False),
    ],
)
def test_loopback_is_recognized_by_its_address(host: str, is_loopback: bool) -> None:
    assert HttpOptions(host=host).is_loopback == is_loopback


def test_other_machines_need_a_token(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*SERVE, "--http", "--host", "0.0.0.0", "--port", "0", "--root", str(tmp_path)],  # noqa: S104
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
        env={name: value for name, value in ENVIRONMENT.items() if name != "MARKSWEEP_TOKEN"},
    )
    assert ran.returncode == 3
    assert "there is no token" in ran.stderr


def test_the_command_serves_and_ends_when_asked(tmp_path: Path) -> None:
    server = subprocess.Popen(
        [*SERVE, "--http", "--port", "0", "--root", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT | {"MARKSWEEP_TOKEN": ADA},
    )
    assert server.stderr is not None
    log = ""
    while "listening on" not in log:
        line = server.stderr.readline()
        assert line, log
        log += line
    address = log.split("listening on ")[1].split('"')[0]
    found = httpx2.post(address, json=HELLO, headers=ACCEPT, timeout=DEADLINE)
    assert found.status_code == 401
    headers = ACCEPT | {"Authorization": f"Bearer {ADA}"}
    assert httpx2.post(address, json=HELLO, headers=headers, timeout=DEADLINE).status_code == 200
    server.send_signal(signal.SIGINT)
    out, err = server.communicate(timeout=DEADLINE)
    assert out == ""
    assert ADA not in log + err


def test_many_clients_at_once_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    """Eight clients; benchmarks/mcp.py runs fifty for a minute."""
    clients, turns = 8, 12
    added: list[str] = []

    async def agent(server: Server, number: int) -> None:
        async with server.client(mode=("legacy", "2026-07-28")[number % 2]) as client:
            one = Agent(client)
            for turn in range(turns):
                name = f"c{number}-{turn}"
                await one.add(name, times=1)
                added.append(name)
                if turn % 3 == 1:
                    await one.call("context_gc_prune", segment_ids=[name])
                if turn % 6 == 4:
                    await one.call("context_recall", segment_ids=[name])

    async def work(server: Server) -> None:
        await asyncio.gather(*(agent(server, number) for number in range(clients)))

    with serving(tmp_path) as server:
        asyncio.run(work(server))
    context = Segments(tmp_path / ".marksweep" / "store.db")
    live = [segment.segment_id for segment in context.list()]
    stashed = [hit.found.segment.segment_id for hit in context.search_stash(limit=10**6)]
    context.close()
    assert len(added) == clients * turns
    assert sorted(live + stashed) == sorted(added)


def test_a_client_that_vanishes_does_not_disturb_the_others(open_server: Server) -> None:
    async def vanish() -> None:
        async with open_server.client() as client:
            task = asyncio.create_task(Agent(client).add(*(f"s{n}" for n in range(300))))
            await asyncio.sleep(0.02)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def work() -> None:
        await vanish()
        async with open_server.client() as client:
            one = Agent(client)
            await one.add("after")
            total = (await one.call("context_gc_analyze", target_tokens=0))["candidates_total"]
            assert total in (1, 301)

    asyncio.run(work())
