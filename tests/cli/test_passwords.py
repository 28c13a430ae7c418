"""The password in a URL is never shown: not in a result, an error, a log line or a file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.cli.support import run
from tests.graph.servers import network_server
from tests.mcp.test_stdio import DEADLINE, ENVIRONMENT, SERVE, await_answers, call, hello, send
from tests.servers import running_redis

SECRET = "hunter2"  # noqa: S105
AWAY = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def locked(url: str) -> str:
    """Set a password on a server; return its address."""
    with redis.Redis.from_url(url) as client:
        client.config_set("requirepass", SECRET)
    return url.removeprefix("redis://")


@pytest.fixture(scope="module")
def redis_address() -> Iterator[str]:
    with running_redis("--appendonly", "yes") as url:
        yield locked(url)


@pytest.fixture(scope="module")
def falkordb_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with network_server(tmp_path_factory.mktemp("falkordb")) as url:
        yield locked(url)


STORES = [
    f"redis://:{SECRET}@{AWAY}/0",
    f"rediss://me:{SECRET}@{AWAY}",
    f"redis://me:{SECRET}@{AWAY}/not-a-number",
    f"redis://{AWAY}?password={SECRET}",
    f"redis://:a/{SECRET}@{AWAY}",
    f"redis://:{SECRET}@host:notaport",
    f"nosuch://:{SECRET}@{AWAY}",
]
COMMANDS = [
    ["journal"],
    ["journal", "--json"],
    ["stash", "list"],
    ["collect"],
    ["undo", "plan-x"],
    ["doctor"],
    ["doctor", "--json"],
    ["serve", "--http", "--port", "0"],
    ["serve", "--print-config", "claude-code"],
]


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_shows_the_password_of_a_store(command: list[str], store: str) -> None:
    done = run(*command, "--store", store)
    assert SECRET not in done.output
    assert "Traceback" not in done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_settings_are_shown_without_it(
    monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.setenv("MARKSWEEP_STORE", f"redis://:{SECRET}@{AWAY}")
    monkeypatch.setenv("MARKSWEEP_MEMORY", f"falkordb://:{SECRET}@{AWAY}")
    done = run("config", "show", *options)
    assert done.exit_code == 0
    assert f"redis://***@{AWAY}" in done.output
    assert f"falkordb://***@{AWAY}" in done.output
    assert SECRET not in done.output


def test_the_snippet_for_a_client_keeps_it_in_the_environment() -> None:
    store = f"redis://:{SECRET}@{AWAY}"
    done = run("serve", "--print-config", "cursor", "--store", store, "--workspace", "w")
    assert json.loads(done.stdout)["mcpServers"]["marksweep"]["args"] == [
        "serve",
        "--workspace",
        "w",
    ]
    assert "MARKSWEEP_STORE" in done.stderr
    assert SECRET not in done.output


def test_doctor_checks_the_configured_servers(
    monkeypatch: pytest.MonkeyPatch, redis_address: str, falkordb_address: str
) -> None:
    monkeypatch.setenv("MARKSWEEP_STORE", f"redis://:{SECRET}@{redis_address}")
    monkeypatch.setenv("MARKSWEEP_MEMORY", f"falkordb://:{SECRET}@{falkordb_address}")
    done = run("doctor", "--json")
    found = {check["what"]: check for check in json.loads(done.stdout)}
    assert found[f"store redis://***@{redis_address}"]["found"].startswith("0 workspaces")
    assert "answers" in found[f"memory falkordb://***@{falkordb_address}"]["found"]
    assert "0 entries" in found["journal"]["found"]
    assert done.exit_code == 0
    assert SECRET not in done.output


@pytest.mark.parametrize("scheme", ["falkordb", "redis"])
def test_doctor_accepts_a_falkordb_url_as_the_documentation_writes_it(
    falkordb_address: str, scheme: str
) -> None:
    done = run("doctor", "--falkordb", f"{scheme}://:{SECRET}@{falkordb_address}", "--json")
    found = {check["what"].partition(" ")[0]: check for check in json.loads(done.stdout)}
    assert found["FalkorDB"]["ok"], found["FalkorDB"]
    assert SECRET not in done.output


@pytest.mark.parametrize(
    "url",
    [
        f"falkordb://:{SECRET}@{AWAY}",
        f"falkordb://:wrong-{SECRET}@REAL",
        f"falkordb://:{SECRET}@host:notaport",
        f"nosuch://:{SECRET}@{AWAY}",
        "folder",
    ],
)
def test_an_unreachable_falkordb_is_a_finding_without_its_password(
    falkordb_address: str, url: str
) -> None:
    done = run("doctor", "--falkordb", url.replace("REAL", falkordb_address), "--json")
    found = {check["what"].partition(" ")[0]: check for check in json.loads(done.stdout)}
    assert not found["FalkorDB"]["ok"]
    assert SECRET not in done.output


def test_no_log_line_of_the_server_shows_it(tmp_path: Path) -> None:
    server = subprocess.Popen(
        [*SERVE, "--root", str(tmp_path), "--log-level", "debug"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, "MARKSWEEP_MEMORY": f"falkordb://:{SECRET}@host:notaport"},
    )
    send(server, *hello())
    await_answers(server, 0)
    send(server, call(1, "memory_stats"), call(2, "search_memory", query="x"))
    await_answers(server, 1, 2)
    out, err = server.communicate(timeout=DEADLINE)
    assert SECRET not in out + err
