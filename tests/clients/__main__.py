"""Runs real clients through `marksweep wrap`, against a scripted provider on loopback.

    make clients                     all that install
    make clients CLIENTS="claude pi"
    make clients CLIENTS=gemini KILLS=10     only kill the proxy in mid-stream, ten times

Each does a task of thirty calls at a limit that forces several collections, is resumed, and
continues after its proxy is killed in the middle of a stream. Prints the table of docs/clients.md.
Exits with 1 if a check fails, or if a named client is not installed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from marksweep.following import unmarked
from tests.clients.driven import CALLS, CLIENTS, MORE, TASK, output, typed
from tests.clients.upstream import DONE, Request, Upstream, serving

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = ROOT / ".clients"

SECONDS = 240

KILLED_AT = 18
"""The call at which the proxy is killed; it is after the first collection of every client."""

LAST_CALL = KILLED_AT + 2
"""Calls of the task in which the proxy is killed."""

BYTES_PER_TOKEN = 4
"""Bytes per token, as this provider counts."""


class Run:
    """One client in a temporary home."""

    def __init__(self, name: str, home: Path, upstream: Upstream) -> None:
        self.driven = CLIENTS[name]
        self.name = name
        self.home = home
        self.upstream = upstream
        self.folder = home / "work"
        self.folder.mkdir()
        node = INSTALLED / "node" / "node_modules" / "node" / "bin"
        path = f"{binary(name).parent}:{node}:{os.environ['PATH']}"
        given = self.driven.prepare(home, upstream.url)
        self.environment = {**os.environ, "HOME": str(home), "PATH": path, **given}

    def typing(self, first: int, last: int, said: str = "") -> str:
        """What is typed for the steps of the task; nothing if the model calls tools."""
        return "" if self.driven.has_tools else said + typed(first, last)

    def wrapped(self, *arguments: str, words: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "marksweep", "wrap", "--limit", self.driven.limit]
        command += ["--store", str(self.home / "store.db"), self.name, "--"]
        return self._run([*command, *arguments], words)

    def marksweep(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self._run([sys.executable, "-m", "marksweep", *words])

    def direct(self, *arguments: str, words: str = "") -> subprocess.CompletedProcess[str]:
        return self._run([str(binary(self.name)), *arguments], words)

    def _run(self, command: list[str], words: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            check=False,
            cwd=self.folder,
            env=self.environment,
            input=words,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )


def binary(name: str) -> Path:
    """Return the path of a client, installed from npm or from PyPI."""
    folder = INSTALLED / name
    return folder / ("bin" if name == "aider" else "node_modules/.bin") / name


def rewrites(requests: list[Request]) -> int:
    """Count the requests that do not begin with all messages of the one before."""
    lists = [[json.dumps(unmarked(message)) for message in each.messages] for each in requests]
    plain = [[text.replace('[{"type": "text", "text": ', "") for text in each] for each in lists]
    return sum(after[: len(before) - 1] != before[:-1] for before, after in pairwise(plain))


def bytes_at(limit: str) -> int:
    """Return the bytes that a request may have at a limit, as this provider counts."""
    return BYTES_PER_TOKEN * 1_000 * int(limit.removesuffix("k"))


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
        first = run.wrapped(*run.driven.start, words=run.typing(1, CALLS))
        work = upstream.work
        row.requests = len(work)
        row.rewritten = rewrites(work)
        row.largest = max((request.size for request in work), default=0)
        expect(row, first.returncode == 0 and DONE in first.stdout, f"ended: {first.stderr[-300:]}")
        said = first.stderr.split(" collections")[0].split()
        row.collections = int(said[-1]) if said and said[-1].isdigit() else 0
        expect(row, row.collections >= 3, f"{row.collections} collections")
        expect(row, row.rewritten * 5 <= row.requests, f"{row.rewritten} rewrites")
        most = bytes_at(run.driven.limit)
        expect(row, row.largest <= most, f"a request of {row.largest} bytes, more than {most}")
        upstream.calls += 3
        words = run.typing(CALLS + 1, CALLS + 3, f"{MORE} ")
        second = run.wrapped(*run.driven.resume(first.stdout), words=words)
        expect(row, second.returncode == 0, f"resumed: {second.stderr[-300:]}")
        expect(row, MORE in json.dumps(upstream.work[-1].body), "the second part arrived")
        expect(row, upstream.work[-1].last_call() == CALLS + 3, "the second part was done")
        if run.driven.has_recall:
            offered = any(each.offers_recall for each in upstream.work)
            expect(row, offered, "recall is among its tools")
        faults = [request.fault for request in upstream.requests if request.fault]
        expect(row, not faults, f"400: {faults[:1]}")


def killed(name: str, row: Row) -> None:
    """Kill the proxy in the middle of a stream; the client continues, later without the proxy."""
    with (
        tempfile.TemporaryDirectory() as home,
        serving(Upstream(LAST_CALL, output)) as upstream,
    ):
        run = Run(name, Path(home), upstream)
        upstream.holds_at = KILLED_AT
        done: list[subprocess.CompletedProcess[str]] = []
        words = run.typing(1, LAST_CALL)
        thread = threading.Thread(
            target=lambda: done.append(run.wrapped(*run.driven.start, words=words))
        )
        thread.start()
        expect(row, upstream.is_holding.wait(SECONDS), "a stream was under way")
        for pid in proxies_of(run.home):
            os.kill(pid, signal.SIGKILL)
        upstream.go_on.set()
        thread.join(SECONDS)
        went_on = bool(done) and DONE in done[0].stdout
        expect(row, went_on, f"it continued after the kill: {done and done[0].stderr[-300:]}")
        expect(row, went_on and "started again" in done[0].stderr, "the restart was reported")
        sent = [each.messages for each in upstream.work if each.last_call() == KILLED_AT - 1]
        expect(row, len(sent) > 1, "the request was sent again")
        same = sum(messages == sent[0] for messages in sent)
        expect(row, same == len(sent), f"{same} of {len(sent)} times the same messages were sent")
        upstream.calls += 2
        said = done[0].stdout if done else ""
        upstream.tolerates_repeats = True
        after = run.direct(*run.driven.resume(said), words=run.typing(LAST_CALL + 1, LAST_CALL + 2))
        expect(row, after.returncode == 0, f"it continues without the proxy: {after.stderr[-300:]}")
        expect(row, upstream.work[-1].last_call() == upstream.calls, "what was left was done")
        faults = [request.fault for request in upstream.requests if request.fault]
        expect(row, not faults, f"400 after the kill: {faults[:1]}")


def collected(name: str, row: Row) -> None:
    """Collect a session on disk under a new id; the client continues it."""
    copy = CLIENTS[name].copy
    if copy is None:
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
        after = run.direct(*copy(words.split()[-1]))
        expect(row, after.returncode == 0, f"the copy was resumed: {after.stderr[-300:]}")
        later = [each for each in upstream.work if MORE in json.dumps(each.body)]
        expect(row, bool(later), f"the second part arrived: {after.stdout[-300:]} {words[-300:]}")
        first = later[0] if later else whole
        kept = len(first.messages) / len(whole.messages)
        expect(row, first.size < 0.7 * whole.size, f"{first.size} of {whole.size} bytes are left")
        expect(row, kept > 0.3, f"{len(first.messages)} of {len(whole.messages)} messages are left")
        faults = [request.fault for request in upstream.requests if request.fault]
        expect(row, not faults, f"400 after a resume: {faults[:1]}")


def plugged(name: str, row: Row) -> None:
    """The plugin of a client makes the same task fit, without a proxy."""
    driven = CLIENTS[name]
    if driven.plug is None:
        return
    with (
        tempfile.TemporaryDirectory() as home,
        serving(Upstream(CALLS, output)) as upstream,
    ):
        run = Run(name, Path(home), upstream)
        plugin = Path(home) / "plugin"
        written = run.marksweep("plugin", name, str(plugin), "--limit", driven.limit)
        expect(row, written.returncode == 0, f"plugin: {written.stderr[-300:]}")
        done = run.direct(*driven.start, *driven.plug(Path(home), plugin))
        ended = done.returncode == 0 and DONE in done.stdout
        expect(row, ended, f"with the plugin: {done.stderr[-300:]}")
        work = upstream.work
        largest = max(request.size for request in work)
        most = bytes_at(driven.limit) + work[0].size  # opencode does not show the fixed part
        expect(row, largest <= most, f"a request of {largest} bytes with the plugin")
        expect(row, "recall(" in json.dumps(work[-1].messages), "something was left out")
        expect(row, rewrites(work) * 5 <= len(work), f"{rewrites(work)} rewrites with the plugin")
        tools = json.dumps(work[-1].body["tools"])
        expect(row, 'recall"' in tools, "recall is offered")
        faults = [request.fault for request in upstream.requests if request.fault]
        expect(row, not faults, f"400 with the plugin: {faults[:1]}")
        figures = f"{len(work)} requests, {rewrites(work)} rewrites, {largest:,} bytes at most"
        print(f"{name} with its plugin: {figures}")


def shortened(name: str, row: Row) -> None:
    """Claude Code's plugin is valid, shortens tool output, and restores the task after /compact."""
    if name != "claude":
        return
    bulky = "seq -f 'line %g of some bulky output' 700"
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
        names = re.findall(r"h\d+\.\d+", results)
        found = run.marksweep("swept", *names[:1]).stdout
        expect(row, "line 350 of some" in found, f"the middle is found again: {found[-100:]}")
        upstream.calls = 0
        session = str(json.loads(done.stdout)["session_id"])
        run.direct("-p", "/compact", "--resume", session, "--plugin-dir", plugin)
        after = run.direct(*run.driven.resume(done.stdout), "--plugin-dir", plugin)
        expect(row, after.returncode == 0, f"after a compaction: {after.stdout[-300:]}")
        injected = f"The task, in the user's words:\n{TASK}"
        body = upstream.work[-1].body
        expect(row, json.dumps(injected)[1:-1] in json.dumps(body), "the task is injected again")
        saved = run.marksweep("swept", TASK).stdout
        expect(row, TASK in saved, f"what was compacted is saved: {saved[-100:]}")
        faults = [request.fault for request in upstream.requests if request.fault]
        expect(row, not faults, f"400 with the plugin: {faults[:1]}")


def proxies_of(home: Path) -> list[int]:
    """Find the proxies that `wrap` started on a store in this home."""
    found = []
    store = f"MARKSWEEP_STORE={home / 'store.db'}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            variables = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"proxy" in words and store in variables:
            found.append(int(process.name))
    return found


def expect(row: Row, is_so: bool, what: str) -> None:
    if not is_so:
        row.faults.append(what)


def version(name: str) -> str:
    """Read which version of a client is installed."""
    if name == "aider":
        found = next((INSTALLED / name).glob("lib/python*/site-packages/aider_chat-*.dist-info"))
        return found.name.split("-")[1].removesuffix(".dist")
    package = INSTALLED / name / "node_modules" / CLIENTS[name].package / "package.json"
    return str(json.loads(package.read_text())["version"])


def checked(name: str, checks: Sequence[Callable[[str, Row], None]]) -> Row:
    """Run checks on one client."""
    row = Row(name, faults=[])
    for check in checks:
        try:
            check(name, row)
        except (subprocess.TimeoutExpired, ValueError, KeyError) as error:
            row.faults.append(f"{check.__name__}: {type(error).__name__} {error}"[:300])
    return row


def killed_often(names: list[str], times: int) -> int:
    """Kill the proxy of each client this many times; print how often the client continued."""
    is_wrong = False
    for name in names:
        faults = [checked(name, [killed]).faults for _ in range(times)]
        for number, each in enumerate(faults, 1):
            if each:
                print(f"{name}, kill {number}: {each}", flush=True)
        print(f"{name}: {faults.count([])} of {times} continued after the kill", flush=True)
        is_wrong = is_wrong or any(faults)
    return 1 if is_wrong else 0


CHECKS = (task, killed, collected, plugged, shortened)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.clients")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--kills", type=int, default=0, help="only kill the proxy, this many times")
    given = parser.parse_args(words)
    names: list[str] = given.names
    unknown = [name for name in names if name not in CLIENTS]
    if unknown:
        print(f"no client named {unknown[0]!r}; known are {', '.join(CLIENTS)}")
        return 1
    missing = [name for name in names or CLIENTS if not binary(name).exists()]
    installed = [name for name in names or CLIENTS if name not in missing]
    if given.kills:
        return killed_often(installed, given.kills) or int(any(name in names for name in missing))
    rows = []
    for name in installed:
        began = time.monotonic()
        row = checked(name, CHECKS)
        rows.append(row)
        print(f"{name}: {time.monotonic() - began:.0f} s; {row.faults or 'ok'}", flush=True)
    print(
        "\n| client | limit | requests | collections | prefix rewritten | largest request | 400s |"
    )
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        wrong = sum("400" in fault for fault in row.faults)
        cells = [f"{row.client} {version(row.client)}", CLIENTS[row.client].limit, row.requests]
        cells += [row.collections, row.rewritten, f"{row.largest:,} bytes", wrong]
        print("|", " | ".join(map(str, cells)), "|")
    for name in missing:
        print(f"| {name} | not installed |" + " |" * 5)
    must = [name for name in missing if name in names or CLIENTS[name].is_required]
    return 1 if must or any(row.faults for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
