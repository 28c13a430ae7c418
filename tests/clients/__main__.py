"""Real clients through `marksweep wrap`, against a provider on loopback that follows a script.

    make clients            all that are installed in .clients
    python -m tests.clients claude codex

Each does a task of thirty calls at a limit that forces several collections, is resumed, and goes on
without the proxy after that was killed in the middle of a stream. Prints the table of
docs/clients.md; ends with 1 if something is not as it must be.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec

from marksweep.following import unmarked
from tests.clients.upstream import DONE, Request, Upstream, serving

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = ROOT / ".clients" / "node_modules"

CALLS = 30
TASK = "Do the task, call by call."
MORE = "And now the second part."
SECONDS = 240


def output(step: int) -> str:
    """A command that prints about a thousand tokens, different for each step."""
    return f"for x in $(seq 1 120); do echo step {step} line $x of some output; done"


class Driven(msgspec.Struct, frozen=True):
    """How a client is driven: its limit, its start, how it goes on, and what it needs."""

    limit: str
    start: list[str]
    resume: Callable[[str], list[str]]
    """What to say to go on with the session that an output was about."""
    prepare: Callable[[Path, str], dict[str, str]]
    """Write its configuration into a home; give the environment."""


def _claude_home(home: Path, url: str) -> dict[str, str]:
    del home
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "x",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }


def _codex_home(home: Path, url: str) -> dict[str, str]:
    (home / ".codex").mkdir(exist_ok=True)
    (home / ".codex" / "config.toml").write_text(
        'model = "scripted"\nmodel_provider = "x"\n[model_providers.x]\nname = "x"\n'
        f'base_url = "{url}/v1"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n'
    )
    return {"OPENAI_API_KEY": "x"}


def _pi_home(home: Path, url: str) -> dict[str, str]:
    folder = home / ".pi" / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    model = {"id": "y", "name": "y", "contextWindow": 200_000, "maxTokens": 4_096}
    model |= {"input": ["text"], "reasoning": False}
    model["cost"] = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0)
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "x"}
    models = {"providers": {"x": {**provider, "models": [model]}}}
    (folder / "models.json").write_text(json.dumps(models))
    return {"PI_OFFLINE": "1"}


def _session_of(said: str) -> str:
    return str(json.loads(said)["session_id"])


CLAUDE = ["--allowedTools", "Bash", "--output-format", "json"]
CODEX = ["--skip-git-repo-check", "--json"]
CODEX_FREE = ["--sandbox", "danger-full-access"]
PI = ["-p", "--provider", "x", "--model", "y"]

CLIENTS = {
    "claude": Driven(
        "28k",
        ["-p", TASK, *CLAUDE],
        lambda said: ["-p", MORE, "--resume", _session_of(said), *CLAUDE],
        _claude_home,
    ),
    "codex": Driven(
        "26k",
        ["exec", *CODEX, *CODEX_FREE, TASK],
        lambda _: ["exec", *CODEX_FREE, "resume", "--last", *CODEX, MORE],
        _codex_home,
    ),
    "pi": Driven("16k", [*PI, TASK], lambda _: [*PI, "--continue", MORE], _pi_home),
}

VERSIONS = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "pi": "@earendil-works/pi-coding-agent",
}


class Run:
    """One client in a home of its own."""

    def __init__(self, name: str, home: Path, upstream: Upstream) -> None:
        self.driven = CLIENTS[name]
        self.name = name
        self.home = home
        self.upstream = upstream
        self.folder = home / "work"
        self.folder.mkdir()
        path = f"{INSTALLED / '.bin'}:{INSTALLED / 'node' / 'bin'}:{os.environ['PATH']}"
        given = self.driven.prepare(home, upstream.url)
        self.environment = {**os.environ, "HOME": str(home), "PATH": path, **given}

    def wrapped(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "marksweep", "wrap", "--limit", self.driven.limit]
        command += ["--store", str(self.home / "store.db"), self.name, "--"]
        return self._run([*command, *arguments])

    def marksweep(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._run([sys.executable, "-m", "marksweep", *words])

    def direct(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._run([str(INSTALLED / ".bin" / self.name), *arguments])

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            check=False,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )


def rewrites(requests: list[Request]) -> int:
    """Count the requests that do not begin with all that the one before held."""
    lists = [[json.dumps(unmarked(message)) for message in each.messages] for each in requests]
    plain = [[text.replace('[{"type": "text", "text": ', "") for text in each] for each in lists]
    return sum(after[: len(before) - 1] != before[:-1] for before, after in pairwise(plain))


class Row(msgspec.Struct):
    """What was found about one client."""

    client: str
    requests: int = 0
    collections: int = 0
    rewritten: int = 0
    largest: int = 0
    faults: list[str] = []


def task(name: str, row: Row) -> None:
    """A task of thirty calls, and a second run that resumes it."""
    with (
        tempfile.TemporaryDirectory() as home,
        serving(Upstream(CALLS, output)) as upstream,
    ):
        run = Run(name, Path(home), upstream)
        first = run.wrapped(*run.driven.start)
        work = upstream.work
        row.requests = len(work)
        row.rewritten = rewrites(work)
        row.largest = max((request.size for request in work), default=0)
        expect(row, first.returncode == 0 and DONE in first.stdout, f"ended: {first.stderr[-300:]}")
        said = first.stderr.split(" collections")[0].split()
        row.collections = int(said[-1]) if said and said[-1].isdigit() else 0
        expect(row, row.collections >= 3, f"{row.collections} collections")
        expect(row, row.rewritten * 5 <= row.requests, f"{row.rewritten} rewrites")
        upstream.calls += 3
        second = run.wrapped(*run.driven.resume(first.stdout))
        expect(row, second.returncode == 0, f"resumed: {second.stderr[-300:]}")
        expect(row, MORE in json.dumps(upstream.work[-1].body), "the second part arrived")
        expect(row, upstream.work[-1].last_call() == CALLS + 3, "the second part was done")
        if name != "pi":
            offered = any("mcp__marksweep" in json.dumps(each.body) for each in upstream.work)
            expect(row, offered, "recall is among its tools")
        faults = [request.fault for request in upstream.requests if request.fault]
        expect(row, not faults, f"400: {faults[:1]}")


def killed(name: str, row: Row) -> None:
    """The proxy is killed in the middle of a stream; the client goes on, and without it, too."""
    with (
        tempfile.TemporaryDirectory() as home,
        serving(Upstream(8, output)) as upstream,
    ):
        run = Run(name, Path(home), upstream)
        upstream.holds_at = 4
        done: list[subprocess.CompletedProcess[str]] = []
        thread = threading.Thread(target=lambda: done.append(run.wrapped(*run.driven.start)))
        thread.start()
        expect(row, upstream.is_holding.wait(SECONDS), "a stream was under way")
        for pid in proxies_of(run.home):
            os.kill(pid, signal.SIGKILL)
        upstream.go_on.set()
        thread.join(SECONDS)
        expect(row, bool(done) and DONE in done[0].stdout, "it went on after the kill")
        upstream.calls += 2
        after = run.direct(*run.driven.resume(done[0].stdout if done else ""))
        expect(row, after.returncode == 0, f"it goes on without: {after.stderr[-300:]}")
        faults = [request.fault for request in upstream.requests if request.fault]
        expect(row, not faults, f"400 after the kill: {faults[:1]}")


def collected(name: str, row: Row) -> None:
    """A session on disk is collected under a new id, and the client goes on with that."""
    if name not in RESUMED:
        return
    with (
        tempfile.TemporaryDirectory() as home,
        serving(Upstream(CALLS, output)) as upstream,
    ):
        run = Run(name, Path(home), upstream)
        run.direct(*run.driven.start)
        whole = upstream.work[-1]
        done = run.marksweep("resume", name, "--limit", "12k", "--yes")
        expect(row, done.returncode == 0, f"a copy was written: {done.stderr[-300:]}")
        words = " ".join(done.stderr.split())
        upstream.calls += 2
        after = run.direct(*RESUMED[name](words.split()[-1]))
        expect(row, after.returncode == 0, f"the copy was resumed: {after.stderr[-300:]}")
        later = [each for each in upstream.work if MORE in json.dumps(each.body)]
        expect(row, bool(later), f"the second part arrived: {after.stdout[-300:]} {words[-300:]}")
        first = later[0] if later else whole
        kept = len(first.messages) / len(whole.messages)
        expect(row, first.size < 0.7 * whole.size, f"{first.size} of {whole.size} bytes are left")
        expect(row, kept > 0.3, f"{len(first.messages)} of {len(whole.messages)} messages are left")
        faults = [request.fault for request in upstream.requests if request.fault]
        expect(row, not faults, f"400 after a resume: {faults[:1]}")


RESUMED: dict[str, Callable[[str], list[str]]] = {
    "claude": lambda session: ["-p", MORE, "--resume", session, *CLAUDE],
    "codex": lambda session: ["exec", *CODEX_FREE, "resume", session, *CODEX, MORE],
}


def plugged(name: str, row: Row) -> None:
    """The plugin is valid in the client's eyes, and shortens what a tool gives."""
    if name != "claude":
        return
    bulky = "for x in $(seq 1 700); do echo line $x of some bulky output; done"
    with (
        tempfile.TemporaryDirectory() as home,
        serving(Upstream(2, lambda _: bulky)) as upstream,
    ):
        run = Run(name, Path(home), upstream)
        plugin = str(Path(home) / "plugin")
        run.marksweep("plugin", "claude", plugin)
        valid = run.direct("plugin", "validate", plugin)
        expect(row, valid.returncode == 0, f"the plugin is valid: {valid.stdout[-300:]}")
        done = run.direct(*run.driven.start, "--plugin-dir", plugin)
        expect(row, done.returncode == 0, f"with the plugin: {done.stderr[-300:]}")
        results = json.dumps(upstream.work[-1].messages)
        expect(row, "recall(" in results, "output was shortened")
        expect(row, "line 350 of some" not in results, "the middle is left out")
        found = run.marksweep("swept", "h1").stdout
        expect(row, "line 350 of some" in found, f"the middle is found again: {found[-100:]}")


def proxies_of(home: Path) -> list[int]:
    """Find the proxies that work on a store in this home."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"proxy" in words and str(home / "store.db").encode() in words:
            found.append(int(process.name))
    return found


def expect(row: Row, is_so: bool, what: str) -> None:
    if not is_so:
        row.faults.append(what)


def main(names: list[str]) -> int:
    rows = []
    for name in names or list(CLIENTS):
        began = time.monotonic()
        row = Row(name, faults=[])
        for check in (task, killed, collected, plugged):
            try:
                check(name, row)
            except (subprocess.TimeoutExpired, ValueError, KeyError) as error:
                row.faults.append(f"{check.__name__}: {type(error).__name__} {error}"[:300])
        rows.append(row)
        print(f"{name}: {time.monotonic() - began:.0f} s; {row.faults or 'as it must be'}")
    print("\n| client | requests | collections | prefix rewritten | largest request | 400s |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        package = INSTALLED / VERSIONS[row.client] / "package.json"
        version = json.loads(package.read_text())["version"]
        wrong = sum("400" in fault for fault in row.faults)
        cells = [f"{row.client} {version}", row.requests, row.collections, row.rewritten]
        print("|", " | ".join(map(str, [*cells, f"{row.largest:,} bytes", wrong])), "|")
    return 1 if any(row.faults for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
