"""Check the server with the protocol's own tools: its conformance suite and its inspector.

make conformance        installs both from npm into .node, and runs this

The suite runs over HTTP, once for each version of the protocol. It calls its own tools, prompts and
resources by name; conformance.yml lists what our server therefore fails, with the reason. A failure
that is not listed, and a listed one that passes, are both errors. The inspector's command line
talks to the server over stdio and over HTTP as a user would.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".node/node_modules/.bin"
EXPECTED = Path(__file__).with_name("conformance.yml")
SERVE = [sys.executable, "-m", "marksweep", "serve", "--tools", "all", "--log-level", "error"]
VERSIONS = ("2025-11-25", "2026-07-28")
TOOL_FAILED = 5
"""The inspector's exit code for a tool that answers with an error."""


def environment(home: Path) -> dict[str, str]:
    """Put the Node of .node first; keep all written files inside the test's folder."""
    path = f"{ROOT / '.node/node_modules/node/bin'}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "HOME": str(home), "CI": "1"}


@contextmanager
def http_server(folder: Path) -> Iterator[str]:
    """Serve a folder over HTTP on a free port; yield the address."""
    command = [*SERVE[:-1], "info", "--http", "--port", "0", "--root", str(folder)]
    log = folder / "server.log"
    with log.open("wb") as out, subprocess.Popen(command, stderr=out) as server:
        try:
            while (found := re.search(r"listening on (\S+?)\"", log.read_text())) is None:
                if server.poll() is not None:
                    raise SystemExit(f"the server did not start:\n{log.read_text()}")
            yield found[1]
        finally:
            server.terminate()


def conformance(address: str, env: dict[str, str], folder: Path) -> Iterator[str]:
    """Run the suite for every version; return what went wrong."""
    for version in VERSIONS:
        given = ["--url", address, "--requirements", version, "--expected-failures", str(EXPECTED)]
        ran = subprocess.run(
            [BIN / "conformance", "server", *given],
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        summary = ran.stdout.partition("=== SUMMARY ===")[2]
        passed = len(re.findall(r"^✓", summary, re.MULTILINE))
        print(f"conformance {version}: {passed} scenarios pass, the others fail as listed")
        if ran.returncode:
            yield f"conformance {version} did not go as expected:\n{summary or ran.stderr}"


class Inspector:
    """The inspector's command line on one server."""

    def __init__(self, target: list[str], env: dict[str, str]) -> None:
        self._target = target
        self._env = env

    def ask(self, *words: str, expected: int = 0) -> dict[str, Any]:
        """Send one request; return the answer."""
        ran = subprocess.run(
            [BIN / "mcp-inspector", "--cli", *self._target, *words],
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode != expected:
            raise AssertionError(f"{' '.join(words)}: exit {ran.returncode}\n{ran.stderr}")
        answer: dict[str, Any] = json.loads(ran.stdout)
        return answer

    def call(self, tool: str, *pairs: str, expected: int = 0) -> dict[str, Any]:
        """Call a tool."""
        given = [word for pair in pairs for word in ("--tool-arg", pair)]
        words = ("--method", "tools/call", "--tool-name", tool, *given)
        return self.ask(*words, expected=expected)

    def data(self, tool: str, *pairs: str) -> dict[str, Any]:
        """Call a tool that answers with JSON."""
        answer: dict[str, Any] = json.loads(self.call(tool, *pairs)["content"][0]["text"])
        return answer

    def session(self) -> None:
        """List, add, sweep, restore, and provoke an error."""
        tools = self.ask("--method", "tools/list", "--strict")["tools"]
        assert {"context_add", "prune_memory"} <= {tool["name"] for tool in tools}
        assert len(self.ask("--method", "resources/list")["resources"]) == 2
        assert len(self.ask("--method", "resources/templates/list")["resourceTemplates"]) == 2
        assert len(self.ask("--method", "prompts/list")["prompts"]) == 2
        added = [{"text": "the proxy listens on 8443", "segment_id": "port", "type": "log"}]
        self.call("context_add", f"segments={json.dumps(added)}")
        plan = self.data("context_gc_analyze", "target_tokens=0")["plan_id"]
        swept = self.data("context_gc_prune", f"plan_id={plan}")
        assert swept["stashed"] == ["port"], swept
        back = self.data("context_recall", "words=proxy")
        assert back["restored"] == ["port"], back
        self.call("context_gc_prune", 'segment_ids=["port"]')
        refused = self.call("context_gc_pin", 'segment_ids=["none"]', expected=TOOL_FAILED)
        assert "not in the working set" in refused["content"][0]["text"]
        self.ask("--method", "resources/read", "--uri", "marksweep://ledger")
        self.ask("--method", "prompts/get", "--prompt-name", "clean_up")


def inspector(targets: dict[str, list[str]], env: dict[str, str]) -> Iterator[str]:
    """Run the inspector against every target; return what went wrong."""
    for name, target in targets.items():
        try:
            Inspector(target, env).session()
        except (AssertionError, ValueError) as error:
            yield f"the inspector over {name}: {error}"
        else:
            print(f"inspector over {name}: every request was answered as expected")


def main() -> int:
    """Check the server; fail if anything is not as expected."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("home", "stdio", "http"):
            (folder / part).mkdir()
        env = environment(folder / "home")
        with http_server(folder / "http") as address:
            targets = {"stdio": [*SERVE, "--root", str(folder / "stdio")], "http": [address]}
            wrong = [*inspector(targets, env), *conformance(address, env, folder)]
    for each in wrong:
        print(each, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
