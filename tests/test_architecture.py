"""The direction of imports, read from the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import marksweep

ROOT = Path(marksweep.__file__).parent

LAYERS: tuple[frozenset[str], ...] = (
    frozenset(
        {
            "errors",
            "model",
            "messages",
            "sections",
            "tokens",
            "wire",
            "sizes",
            "money",
            "urls",
            "paths",
            "worker",
        }
    ),
    frozenset({"core"}),
    frozenset({"strategies", "heaps", "dialects", "stores", "summarizers", "indexing", "search"}),
    frozenset({"collector"}),
    frozenset({"increment"}),
    frozenset({"settings"}),
    frozenset(
        {
            "segments",
            "following",
            "fit",
            "recalling",
            "conversation",
            "async_conversation",
            "reading",
            "preview",
            "engine",
            "ledger",
            "graph",
        }
    ),
    frozenset({"plugins"}),
    frozenset({"session", "telemetry", "replay"}),
    frozenset({"monitoring"}),
    frozenset({"testing"}),
    frozenset({"web"}),
    frozenset({"proxy", "adapters"}),
    frozenset({"mcp"}),
    frozenset({"cli"}),
)
"""Each layer may import itself and those above it in this list."""

SEPARATE = (
    {"strategies", "heaps"},
    {"strategies", "stores"},
    {"cli", "testing"},
    {"proxy", "adapters"},
)
"""Parts that never import each other, whatever their layers."""

PURE = ("core", "strategies")
"""Parts without I/O, clock, randomness, logging or environment."""

IMPURE = {
    "asyncio",
    "io",
    "logging",
    "os",
    "pathlib",
    "random",
    "secrets",
    "socket",
    "sqlite3",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "urllib",
    "uuid",
}

SOURCES = sorted(path for path in ROOT.rglob("*.py"))


def part(path: Path) -> str:
    """Return the top-level part that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Return the modules a file imports, at any level."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""


def own_imports(path: Path) -> set[str]:
    """Return the parts of marksweep a file imports."""
    dotted = (name.split(".") for name in imports(path))
    return {names[1] for names in dotted if names[0] == "marksweep" and len(names) > 1}


def layer(name: str) -> int:
    for depth, names in enumerate(LAYERS):
        if name in names:
            return depth
    pytest.fail(f"{name} has no layer: add it to LAYERS")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    here = part(path)
    if here in ("__init__", "__main__"):
        return
    for other in own_imports(path):
        assert layer(other) <= layer(here), f"{here} imports {other}"
        assert {here, other} not in SEPARATE, f"{here} imports {other}"


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if part(p) in PURE], ids=lambda path: str(path.relative_to(ROOT))
)
def test_core_and_strategies_are_pure(path: Path) -> None:
    used = {name.split(".")[0] for name in imports(path)}
    assert not used & IMPURE
    source = path.read_text()
    for call in ("datetime.now", "time.time", "open(", "print("):
        assert not re.search(rf"\b{re.escape(call)}", source), f"{path.name} uses {call}"


PLANNER = "core/plan.py"
"""The only file that makes plans."""

WRITERS = ("collector.py", "heaps/", "stores/", "testing/")
"""Files that may write to a stash or a journal: the collector, heaps, stores and their tests."""


def pipeline_calls(path: Path) -> Iterator[str]:
    """Return the calls of a file that make a plan, or write to a stash or a journal."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id == "Plan":
            yield "Plan"
        if isinstance(called, ast.Attribute) and called.attr in {"put", "append", "remove"}:
            face = called.value
            name = face.attr if isinstance(face, ast.Attribute) else getattr(face, "id", "")
            if name.lstrip("_") in {"stash", "journal"}:
                yield f"{name.lstrip('_')}.{called.attr}"


def test_one_planner_makes_plans_and_one_collector_applies_them() -> None:
    found: dict[str, set[str]] = {}
    for path in SOURCES:
        name = path.relative_to(ROOT).as_posix()
        calls = set(pipeline_calls(path))
        if name == PLANNER or name.startswith("testing/"):
            calls.discard("Plan")
        if name.startswith(WRITERS):
            calls -= {"stash.put", "stash.remove", "journal.append", "journal.put"}
        if calls:
            found[name] = calls
    assert found == {}


def test_files_stay_small() -> None:
    large = {p.name: n for p in SOURCES if (n := len(p.read_text().splitlines())) > 600}
    assert large == {}


def test_a_tool_result_passes_through_few_files() -> None:
    from tools.call_paths import BARS, ways

    for name, way in ways().items():
        assert len(way.files) <= BARS[name], f"{name}: {way}"


def test_every_mutant_still_has_its_source_and_its_tests() -> None:
    from tools.mutants import MUTANTS
    from tools.mutants import ROOT as REPOSITORY

    moved = [
        f"{mutant.name}: its source occurs {count} times in {mutant.file}"
        for mutant in MUTANTS
        if (count := (ROOT / mutant.file).read_text().count(mutant.source)) != 1
    ]
    assert not moved
    for test in {test for mutant in MUTANTS for test in mutant.tests}:
        name, _, within = test.partition("::")
        assert (REPOSITORY / name).exists(), test
        assert not within or f"class {within}" in (REPOSITORY / name).read_text(), test
