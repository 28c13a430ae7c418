"""Queries on the call graph: who calls, imports or inherits what, and what a change reaches.

Names are matched, not types: a call `x.open()` matches `open` of any class. A query for a qualified
name such as `Session.open` returns both the certain and the possible calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from marksweep.errors import BadInput
from marksweep.stores.graph.base import Definition, GraphStore, Link, LinkQuery

MAX_LINKS = 100
"""Default limit of links in one answer."""

MAX_DEPTH = 3
"""Default depth of an impact. With more steps, it reaches most of a codebase."""

MAX_DEFINITIONS = 5
"""Definitions of an ambiguous name that are written; more would hide the links."""


class Ask(StrEnum):
    """What can be asked about a symbol, a module or a file."""

    CALLERS = "callers"
    """What calls it."""
    CALLEES = "callees"
    """What it calls."""
    IMPORTS = "imports"
    """What a file imports."""
    IMPORTERS = "importers"
    """Which files import a module."""
    INHERITS = "inherits"
    """What a class inherits from."""
    SUBCLASSES = "subclasses"
    """What inherits from a class."""
    IMPACT = "impact"
    """What a change reaches: callers and subclasses, transitively."""


_QUERIES: dict[Ask, tuple[tuple[str, bool], ...]] = {
    Ask.CALLERS: (("calls", True),),
    Ask.CALLEES: (("calls", False),),
    Ask.IMPORTS: (("imports", False),),
    Ask.IMPORTERS: (("imports", True),),
    Ask.INHERITS: (("inherits", False),),
    Ask.SUBCLASSES: (("inherits", True),),
    Ask.IMPACT: (("calls", True), ("inherits", True)),
}


class Reached(msgspec.Struct, frozen=True, gc=False):
    """A link, and its distance in steps from the name in the query."""

    link: Link
    depth: int = 1


class Linked(msgspec.Struct, frozen=True):
    """The answer to a question about a name."""

    name: str
    ask: Ask
    definitions: tuple[Definition, ...] = ()
    """Where the name is defined: several places if it is ambiguous."""
    links: tuple[Reached, ...] = ()
    complete: bool = True
    """False if there are more links than the limit, or steps beyond the depth."""

    def __str__(self) -> str:
        """Write it for people and models, a line for each link."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for each in self.definitions[:MAX_DEFINITIONS]:
            yield f"defined: {each.kind} {each.symbol} {each.file}:{each.line}"
        if (more := len(self.definitions) - MAX_DEFINITIONS) > 0:
            yield f"defined: and {more} more of this name"
        for one in self.links:
            link = one.link
            lines = ",".join(map(str, link.lines))
            step = f"{one.depth} " if self.ask is Ask.IMPACT else ""
            yield f"{step}{link.source} {link.relation} {link.target} {link.file}:{lines}"
        if not self.links:
            yield f"No {self.ask} of {self.name} are known.{self._advice()}"
        if not self.complete:
            yield "There are more; raise limit, or ask about one of these."

    def _advice(self) -> str:
        """Say what may be wrong with a question that has no answer."""
        index = "or index the codebase first."
        if self.ask is Ask.IMPORTERS:
            return f" Name a module as imports write it, such as shop.door, not its file, {index}"
        if self.definitions:
            return ""
        return f" It is not defined in indexed code, either. Check the name, {index}"


def linked(
    graph: GraphStore,
    workspace_id: str,
    name: str,
    ask: Ask,
    *,
    limit: int = MAX_LINKS,
    depth: int = MAX_DEPTH,
) -> Linked:
    """Follow the links of a name; only an impact goes further than one step.

    A link that several worktrees have at the same place is returned once.
    """
    wanted = name.strip().removesuffix("()").replace("::", ".")
    if not wanted:
        raise BadInput("no name to ask for; expected a function, class, module or file.")
    if limit < 1 or depth < 1:
        raise BadInput(f"limit is {limit} and depth is {depth}; expected 1 or more.")
    steps = depth + 1 if ask is Ask.IMPACT else 1  # the last only to know whether there are more
    found: dict[tuple[object, ...], Reached] = {}
    more = False
    seen = {wanted}
    names = [wanted]
    for step in range(1, steps + 1):
        for relation, to_name in _QUERIES[ask]:
            query = LinkQuery(
                relation=relation, to_name=to_name, limit=limit + 1, whole_names=step > 1
            )
            links = graph.links(workspace_id, names, query)
            more |= len(links) > limit
            for link in links:
                place = (link.relation, link.source, link.target, link.file, link.lines)
                if step > depth:
                    more |= place not in found
                else:
                    found.setdefault(place, Reached(link, step))
        sources = (each.link.source for each in found.values())
        names = list(dict.fromkeys(each for each in sources if each not in seen))
        seen.update(names)
        if not names or more or len(found) > limit:
            break
    definitions = graph.definitions(workspace_id, [wanted], limit)
    defined = {(each.symbol, each.file, each.line): each for each in definitions}
    return Linked(
        name=wanted,
        ask=ask,
        definitions=tuple(defined.values()),
        links=tuple(found.values())[:limit],
        complete=not more and len(found) <= limit,
    )
