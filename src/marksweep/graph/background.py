"""Background collections: at intervals, one at a time per workspace across processes.

Everything they do is in the journal. They do nothing that
`prune_memory` could not do: the cap applies, and deletions can be restored in the grace period.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from threading import Event

import msgspec

from marksweep.errors import MarksweepError, StoreBusy
from marksweep.graph.memory import KnowledgeGraph
from marksweep.graph.pruning import PruneResult, Purged, blockers_text
from marksweep.graph.strategies import PruneStrategy
from marksweep.stores.leases import hold

COLLECT_EVERY = timedelta(hours=1)
"""Time between two collections. Shorter frees earlier and reads the whole graph more often."""

JITTER = 0.1
"""Share by which the interval varies, so that processes started together do not stay in step."""

COLLECT = "collect"
"""The name of the lease that prevents two background collections of one workspace."""


class Collected(msgspec.Struct, frozen=True):
    """What one background collection did in a workspace."""

    workspace_id: str
    swept: PruneResult | None = None
    purged: Purged = Purged()
    skipped: str = ""
    """What could have been deleted but was not, and why."""


def collect_once(memory: KnowledgeGraph, workspace_id: str) -> Collected:
    """Finish interrupted work, delete what may go, purge what is past its grace."""
    try:
        with hold(memory.graph, workspace_id, COLLECT):
            memory.recover(workspace_id=workspace_id)
            plan = memory.plan(workspace_id, PruneStrategy.ALL).plan
            swept = memory.collect(plan) if plan.steps else None
            purged = memory.purge(workspace_id=workspace_id)
            return Collected(workspace_id, swept, purged, " ".join(blockers_text(plan)))
    except StoreBusy as busy:
        return Collected(workspace_id, skipped=str(busy))


def collect_regularly(
    memory: KnowledgeGraph,
    stop: Event,
    *,
    every: timedelta = COLLECT_EVERY,
    jitter: float = JITTER,
    seed: int | None = None,
    report: Callable[[Collected | MarksweepError], None] = lambda _: None,
) -> None:
    """Collect every workspace until stopped; report what was done or failed.

    Blocks: run it in a thread.
    """
    rng = random.Random(seed)  # noqa: S311
    while not stop.wait(every.total_seconds() * (1 + rng.uniform(-jitter, jitter))):
        try:
            names = memory.graph.workspaces()
        except MarksweepError as error:
            report(error)
            continue
        for workspace_id in names:
            try:
                report(collect_once(memory, workspace_id))
            except MarksweepError as error:
                report(error)
