"""Entities that are one thing under two spellings: found, shown as a plan, and merged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from marksweep.errors import BadInput
from marksweep.graph.prune import Pruner
from marksweep.graph.refs import ref
from marksweep.model import Action, Event, Plan, Report, Step, Unit
from marksweep.stores.graph.base import Nodes
from marksweep.stores.graph.nouns import Entity, Kind

STRATEGY = "merge_entities"


def duplicates(entities: Iterable[Entity]) -> list[tuple[Entity, ...]]:
    """Group entities of one kind whose normalised names are equal; the one to keep is first.

    Kept is the spelling that sorts first, which prefers capitals.
    """
    groups: defaultdict[tuple[str, str], list[Entity]] = defaultdict(list)
    for entity in entities:
        groups[entity.kind, entity.normalised].append(entity)
    return [
        tuple(sorted(group, key=lambda entity: (entity.name, entity.entity_id)))
        for _, group in sorted(groups.items())
        if len(group) > 1
    ]


def plan_merge(pruner: Pruner, workspace_id: str, now: datetime) -> Plan:
    """Say which entities would become one, and keep that in the journal."""
    version = pruner.store.version(workspace_id)
    entities = pruner.store.entities(workspace_id)
    steps = tuple(
        Step(
            tuple(ref(Kind.ENTITY, entity.entity_id) for entity in group),
            Action.COMPRESS,
            len(group) - 1,
            f"the {group[0].kind} {group[0].name!r} is also written "
            + ", ".join(repr(entity.name) for entity in group[1:]),
        )
        for group in duplicates(entities)
    )
    return pruner.keep_plan(
        workspace_id, STRATEGY, steps, version=version, live=len(entities), now=now
    )


def apply_merge(pruner: Pruner, workspace_id: str, plan: Plan, now: datetime) -> Report:
    """Merge what a plan names and is still there under those names."""
    if plan.strategy != STRATEGY:
        raise BadInput(
            f"plan {plan.plan_id} is one of {plan.strategy}, not of {STRATEGY}. Apply it by the "
            "call that made it."
        )
    with pruner.alone(workspace_id) as lease:
        pruner.record(workspace_id, Event.SWEEPING, now, plan_id=plan.plan_id)
        gone: list[str] = []
        for step in plan.steps:
            lease.check()
            wanted = tuple(each.partition(":")[2] for each in step.segments)
            found = pruner.store.find(workspace_id, Nodes(entities=wanted))
            entities = [e for e in found if isinstance(e, Entity) and e.deleted_at is None]
            for group in duplicates(entities):
                ids = [entity.entity_id for entity in group[1:]]
                pruner.store.merge(workspace_id, group[0].entity_id, ids)
                gone += ids
        done = Nodes(entities=tuple(gone))
        report = Report(
            plan.plan_id,
            plan.size_before,
            plan.size_before - len(done),
            tuple(ref(Kind.ENTITY, each) for each in gone),
            unit=Unit.NODES,
        )
        pruner.record(
            workspace_id, Event.SWEPT, now, plan_id=plan.plan_id, nodes=done, report=report
        )
    return report
