"""Nodes as plans and the journal name them: kind and id in one word."""

from __future__ import annotations

from collections.abc import Iterable

from marksweep.model import Plan
from marksweep.stores.graph.base import Nodes
from marksweep.stores.graph.nouns import Kind


def journal_name(workspace_id: str) -> str:
    """Name the journal of a workspace's graph, apart from that of its segments."""
    return f"graph:{workspace_id}"


def ref(kind: Kind, node_id: str) -> str:
    """Name a node in a plan: its kind and its id."""
    return f"{kind}:{node_id}"


def nodes_of(refs: Iterable[str]) -> Nodes:
    """Read the nodes that a plan names."""
    found: dict[Kind, list[str]] = {kind: [] for kind in Kind}
    for each in refs:
        kind, _, node_id = each.partition(":")
        found[Kind(kind)].append(node_id)
    return Nodes(*(tuple(found[kind]) for kind in Kind))


def planned(plan: Plan) -> Nodes:
    """Read all the nodes that a plan names."""
    return nodes_of(each for step in plan.steps for each in step.segments)


def refs_of(nodes: Nodes) -> tuple[str, ...]:
    """Name nodes as plans do."""
    return tuple(ref(kind, node_id) for kind in Kind for node_id in nodes.of(kind))


def without(nodes: Nodes, done: Nodes) -> Nodes:
    """Leave out nodes that are done."""
    return Nodes(*(tuple(sorted(set(nodes.of(kind)) - set(done.of(kind)))) for kind in Kind))
