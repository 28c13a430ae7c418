"""Agent frameworks at their newest and their oldest version, each in its own environment.

    make adapters                                      all
    python -m tests.adapters litellm google-adk        only these

Each runs the tests of its adapter, in its own loop with its own fake model, and makes fifty calls
at a limit that forces collections. Prints the table of docs/adapters.md; exits with 1 if one fails.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from tests.adapters.contract import CALLS, AdapterContract, Row, measured, reading

PACKAGES = {
    "langchain": "langchain",
    "pydantic-ai": "pydantic-ai-slim",
    "openai-agents": "openai-agents",
    "litellm": "litellm",
    "google-adk": "google-adk",
    "agent-framework": "agent-framework-core",
}
"""What is installed for each framework; its adapter and its tests have the framework's name."""

WHICH = ("newest", "oldest")
HEAD = (
    "framework", "requests", "tokens", "paired", "objects kept", "rewritten", "seconds", "tests", ""
)  # fmt: skip
ROOT = Path(__file__).parents[2]


class Measured(msgspec.Struct):
    """A run of many calls in one version of a framework."""

    version: str
    row: Row


def main(names: list[str]) -> int:
    """Print the table."""
    if unknown := [name for name in names if name not in PACKAGES]:
        print(f"no adapter for {', '.join(unknown)}; there are {', '.join(PACKAGES)}.")
        return 1
    _print(HEAD)
    _print(["---"] * len(HEAD))
    passed = [_row(*each) for each in product(names or PACKAGES, WHICH)]
    return int(not all(passed))


def _print(cells: Any) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def _row(name: str, which: str) -> bool:
    """Test and measure one framework; print its line, and what failed above it."""
    made = subprocess.run(
        ["tools/adapters.sh", name, which], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if made.returncode:
        _print([f"{name}, {which}", *[""] * 7, f"FAILED to install: {made.stderr[-300:].strip()}"])
        return False
    python = str(ROOT / ".adapters" / f"{name}-{which}" / "bin" / "python")
    tests = _ran([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(_file(name))])
    outcome = _ran([python, "-m", "tests.adapters", "--measure", name])
    passed = tests.stdout.split("[100%]")[0].count(".") if not tests.returncode else 0
    if tests.returncode or outcome.returncode:
        print((tests.stdout[-3_000:] if tests.returncode else outcome.stderr[-3_000:]).strip())
    if outcome.returncode:
        _print([f"{name}, {which}", *[""] * 6, passed, "FAILED"])
        return False
    found = msgspec.json.decode(outcome.stdout.splitlines()[-1], type=Measured)
    row = found.row
    is_good = bool(passed) and row.paired == row.requests == CALLS + 1
    _print(
        [
            f"{name} {found.version}, {which}",
            row.requests,
            f"{row.tokens_before:,} → {row.tokens_after:,}",
            f"{row.paired} of {row.requests}",
            f"{row.preserved:,} of {row.objects:,}",
            row.rewrites,
            f"{row.seconds:.1f}",
            passed,
            "" if is_good else "FAILED",
        ]
    )
    return is_good


def _file(name: str) -> Path:
    return Path(__file__).parent / f"test_{name.replace('-', '_')}.py"


def _ran(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def measure(name: str) -> None:
    """Let an agent of this environment's framework make fifty calls; print the result."""
    module = importlib.import_module(f"tests.adapters.{_file(name).stem}")
    contracts = [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, AdapterContract) and "make" in vars(each)
    ]
    row = measured(contracts[0].make(reading(CALLS)))
    found = Measured(version(PACKAGES[name]), row)
    print(json.dumps(msgspec.to_builtins(found)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:]))
