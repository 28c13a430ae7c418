"""The same page on a running proxy and on the MCP server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx

from tests.clients.upstream import Upstream
from tests.clients.upstream import serving as providing
from tests.mcp.support import Agent
from tests.mcp.web import ADA, BOB, BOTH, serving
from tests.proxy.test_proxy import proxy, work
from tests.web.support import Page


def test_the_page_of_a_proxy_shows_its_conversations_at_work_and_collects_them(
    tmp_path: Path,
) -> None:
    history = work("Fix the login of the shop.", 12)
    with (
        providing(Upstream(0, lambda _: "")) as upstream,
        proxy(tmp_path, upstream.url, "--limit", "100k") as running,
    ):
        assert running.process.stdout is not None
        page = Page(running.process.stdout.readline().split()[-1])
        with page.client:
            assert page.get("heaps") == []
            running.send("anthropic", history[:-1]).raise_for_status()
            ((heap,),) = [[each["heap"] for each in page.get("heaps")]]
            assert page.get("heaps")[0]["title"] == "Fix the login of the shop."
            before = page.get("view", heap=heap)
            running.send("anthropic", history).raise_for_status()
            whole = upstream.requests[-1].size
            live = page.get("view", heap=heap)
            assert live["tiles"] > before["tiles"], "the page follows the conversation"
            assert live["budget"]["limit"] == 100_000

            plan = page.post("plan", heap=heap, target=2_000)["plan"]
            page.post("collect", heap=heap, plan_id=plan["plan_id"])
            running.send("anthropic", history).raise_for_status()
            assert upstream.requests[-1].size < whole / 2, "the next request is shorter"
            assert not upstream.requests[-1].fault
            page.post("undo", heap=heap, plan_id=plan["plan_id"])
            running.send("anthropic", history).raise_for_status()
            assert upstream.requests[-1].size == whole

            asked = len(upstream.others)
            assert page.client.get("api/nothing").status_code == 404
            assert page.client.get("../marksweep/secret").status_code == 404
            assert httpx.get(page.address.partition("#")[0] + "api/heaps").status_code == 401
            assert len(upstream.others) == asked, "nothing of it goes to the provider"


def test_a_token_that_is_revoked_opens_neither_the_page_nor_the_metrics_of_a_running_proxy(
    tmp_path: Path,
) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({ADA: ["team"]}))

    def answers(token: str) -> set[int]:
        headers = {"Authorization": f"Bearer {token}"}
        paths = ("/marksweep/api/heaps", "/metrics")
        return {httpx.get(running.url + path, headers=headers).status_code for path in paths}

    # Nothing is sent to a provider: the proxy itself serves the page and the metrics.
    with proxy(tmp_path, "http://127.0.0.1:9", "--token-file", str(file)) as running:
        assert running.process.stdout is not None
        assert running.process.stdout.readline().endswith("/marksweep/\n"), "no token is printed"
        assert (answers(ADA), answers(BOB), answers("nobody")) == ({200}, {401}, {401})
        file.write_text(json.dumps({BOB: ["team"]}))
        assert (answers(ADA), answers(BOB)) == ({401}, {200})
        file.unlink()
        assert (answers(BOB), answers("nobody")) == ({401}, {401})
        assert running.totals["status"] == "ok"


def test_each_caller_of_a_server_sees_its_workspaces_only(tmp_path: Path) -> None:
    async def add() -> None:
        async with server.client(ADA) as client:
            await Agent(client).add("a", "b")

    with serving(tmp_path, BOTH) as server:
        asyncio.run(add())
        base = server.address.removesuffix("mcp") + "marksweep/"
        assert httpx.get(base).status_code == 200
        assert httpx.get(f"{base}api/heaps").status_code == 401
        page = Page(f"{base}#{ADA}")
        with page.client:
            named = [each["heap"] for each in page.get("heaps")]
            assert named == ["segments:ada", "segments:shared"]
            assert page.get("view", heap="segments:ada")["tiles"] == 2
            bobs = page.client.get("api/view", params={"heap": "segments:bob"})
            assert bobs.status_code == 404
            plan = page.post("plan", heap="segments:ada", target=0)["plan"]
            page.post("collect", heap="segments:ada", plan_id=plan["plan_id"])
            assert page.get("view", heap="segments:ada")["swept"] == len(plan["steps"])


def test_a_server_without_a_token_shows_the_page_to_this_machine_alone(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        url = server.address.removesuffix("mcp") + "marksweep/api/heaps"
        assert httpx.get(url).json()[0]["heap"] == "segments:default"
        for header in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            assert httpx.get(url, headers=header).status_code in (403, 421)
