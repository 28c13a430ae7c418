"""The call graph of real packages, compared with the result of Python's own parser."""

from __future__ import annotations

import ast
import asyncio
import random
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from marksweep.errors import BadInput, UnknownName
from marksweep.graph.call_graph import Ask, Linked
from marksweep.graph.memory import KnowledgeGraph
from marksweep.indexing.indexer import index_codebase
from marksweep.stores.graph.base import GraphStore
from marksweep.stores.graph.falkor import FalkorGraphStore
from marksweep.stores.graph.open import open_graph
from marksweep.stores.memory import MemoryStore

PACKAGES = {"click": 400, "rich": 150}
"""Packages that are installed with marksweep, and how many names of each are queried."""

MANY = 100_000


class Site(NamedTuple):
    """A call or inheritance: source, target, and where."""

    source: str
    file: str
    line: int


class Truth(ast.NodeVisitor):
    """Calls and bases of a package, from Python's syntax trees."""

    def __init__(self) -> None:
        self.calls: defaultdict[str, set[Site]] = defaultdict(set)
        self.bases: defaultdict[str, set[Site]] = defaultdict(set)
        self.imports: defaultdict[str, set[str]] = defaultdict(set)
        self._file = ""
        self._around: list[str] = []

    def read(self, root: Path) -> Truth:
        for path in sorted(root.rglob("*.py")):
            self._file = path.relative_to(root).as_posix()
            self.visit(ast.parse(path.read_text("utf-8")))
        return self

    def _inside(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self._around.append(node.name)
        for child in ast.iter_child_nodes(node):
            if child not in node.decorator_list:
                self.visit(child)
        self._around.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = _inside  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        heir = ".".join((*self._around, node.name))
        for base in node.bases:
            named = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(named, ast.Name | ast.Attribute):
                name = named.id if isinstance(named, ast.Name) else named.attr
                self.bases[name].add(Site(heir, self._file, named.lineno))
        self._inside(node)

    def visit_Call(self, node: ast.Call) -> None:
        caller = ".".join(self._around) or self._file
        if isinstance(node.func, ast.Name):
            self.calls[node.func.id].add(Site(caller, self._file, node.func.lineno))
        elif isinstance(node.func, ast.Attribute):
            line = node.func.end_lineno or 0
            self.calls[node.func.attr].add(Site(caller, self._file, line))
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.imports[self._file].update(alias.name for alias in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module == "__future__":
            return
        folders = self._file.split("/")[:-1]
        kept = folders[: len(folders) - node.level + 1] if node.level else []
        module = ".".join([*kept, *([node.module] if node.module else [])])
        self.imports[self._file].add(module or "." * node.level)


def sites(found: Linked) -> set[Site]:
    assert found.complete
    return {
        Site(each.link.source, each.link.file, line)
        for each in found.links
        for line in each.link.lines
    }


@pytest.fixture(params=["sqlite", "falkordb"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KnowledgeGraph]:
    """An empty memory on each store."""
    if request.param == "sqlite":
        store: GraphStore = open_graph(tmp_path / "graph.db")
    else:
        url = request.getfixturevalue("falkor_url")
        store = FalkorGraphStore(url, prefix=f"calls-{tmp_path.name}:")
    opened = KnowledgeGraph(store, MemoryStore(), backups=tmp_path / "backups")
    yield opened
    opened.close()


def indexed(memory: KnowledgeGraph, root: Path) -> KnowledgeGraph:
    asyncio.run(index_codebase(root, store=memory.graph))
    return memory


@pytest.mark.parametrize("package", PACKAGES)
def test_calls_bases_and_imports_are_those_that_python_itself_finds(
    package: str, memory: KnowledgeGraph
) -> None:
    found = find_spec(package)
    assert found is not None
    assert found.submodule_search_locations is not None
    root = Path(found.submodule_search_locations[0])
    truth = Truth().read(root)
    indexed(memory, root)
    chosen = random.Random(package).sample(
        sorted(truth.calls), min(PACKAGES[package], len(truth.calls))
    )
    for name in chosen:
        assert sites(memory.call_graph(name, limit=MANY)) == truth.calls[name], name
    for name, expected in truth.bases.items():
        assert sites(memory.call_graph(name, Ask.SUBCLASSES, limit=MANY)) == expected, name
    for file, modules in truth.imports.items():
        links = memory.call_graph(file, Ask.IMPORTS, limit=MANY).links
        assert {each.link.target for each in links if each.link.file == file} == modules, file


SHOP = {
    "shop/door.py": """class Door:
    def open(self):
        self.knock()

    def knock(self):
        ring()


def ring():
    pass
""",
    "shop/front.py": """from .door import Door


class Front(Door):
    def enter(self):
        self.open()


def visit(front):
    front.enter()
    Door().open()
""",
    "main.py": "from shop.front import visit\nvisit(1)\n",
}


@pytest.fixture
def shop(memory: KnowledgeGraph, tmp_path: Path) -> KnowledgeGraph:
    for name, text in SHOP.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text)
    return indexed(memory, tmp_path / "tree")


def shown(found: Linked) -> list[str]:
    return [
        f"{each.depth} {each.link.source} {each.link.relation} {each.link.target} "
        f"{each.link.file}:{','.join(map(str, each.link.lines))}"
        for each in found.links
    ]


def test_each_question_has_its_direction(shop: KnowledgeGraph) -> None:
    def ask(name: str, question: str) -> list[str]:
        return shown(shop.call_graph(name, question))

    assert ask("open", "callers") == [
        "1 Front.enter calls open shop/front.py:6",
        "1 visit calls open shop/front.py:11",
    ]
    assert ask("visit", "callees") == [
        "1 visit calls enter shop/front.py:10",
        "1 visit calls Door shop/front.py:11",
        "1 visit calls open shop/front.py:11",
    ]
    assert ask("Door.open", "callees") == ["1 Door.open calls Door.knock shop/door.py:3"]
    assert ask("front.py", "imports") == ["1 shop/front.py imports shop.door shop/front.py:1"]
    assert ask("shop.front", "importers") == ["1 main.py imports shop.front main.py:1"]
    assert ask("Front", "inherits") == ["1 Front inherits Door shop/front.py:4"]
    assert ask("Door", "subclasses") == ["1 Front inherits Door shop/front.py:4"]
    assert ask("nobody", "callers") == []


def test_an_answer_without_links_says_what_may_be_wrong_with_the_question(
    shop: KnowledgeGraph,
) -> None:
    assert str(shop.call_graph("visitt")) == (
        "No callers of visitt are known. It is not defined in indexed code, either. Check the "
        "name, or index the codebase first."
    )
    assert str(shop.call_graph("shop/front.py", Ask.IMPORTERS)) == (
        "No importers of shop/front.py are known. Name a module as imports write it, such as "
        "shop.door, not its file, or index the codebase first."
    )
    assert "are known.\n" in f"{shop.call_graph('visit', Ask.SUBCLASSES)}\n"


def test_an_impact_goes_on_until_nothing_new_is_reached_or_the_depth_is(
    shop: KnowledgeGraph,
) -> None:
    all_of_it = shop.call_graph("ring()", Ask.IMPACT, depth=9)
    assert [(each.depth, each.link.source) for each in all_of_it.links] == [
        (1, "Door.knock"),
        (2, "Door.open"),
        (3, "Front.enter"),
        (3, "visit"),
        (4, "main.py"),
        (4, "visit"),
    ]
    assert all_of_it.complete
    just = shop.call_graph("ring", Ask.IMPACT, depth=4)
    assert (just.links, just.complete) == (all_of_it.links, True)
    assert not shop.call_graph("ring", Ask.IMPACT, depth=3).complete
    first = shop.call_graph("ring", Ask.IMPACT, depth=1)
    assert (len(first.links), first.complete) == (1, False)
    few = shop.call_graph("ring", Ask.IMPACT, depth=9, limit=3)
    assert (len(few.links), few.complete) == (3, False)
    assert [(d.symbol, d.file, d.line) for d in all_of_it.definitions] == [
        ("ring", "shop/door.py", 9)
    ]


def test_an_invalid_question_is_refused_with_a_reason(shop: KnowledgeGraph) -> None:
    with pytest.raises(UnknownName, match="known are callers, callees"):
        shop.call_graph("open", "friends")
    with pytest.raises(BadInput, match="no name to ask for"):
        shop.call_graph("  ")
    with pytest.raises(BadInput, match="expected 1 or more"):
        shop.call_graph("open", limit=0)
