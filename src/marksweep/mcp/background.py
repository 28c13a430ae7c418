"""Background collections of the long-term memory that a server runs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from marksweep.errors import MarksweepError
from marksweep.mcp.server_state import ServerState

ACTOR = "background"
"""The actor in the journal."""

SETTLING_SECONDS = 1.0
"""How often to check whether the client has named its folders; until then there is no memory."""

logger = logging.getLogger(__name__)


@asynccontextmanager
async def collecting(state: ServerState, every_hours: float | None) -> AsyncIterator[None]:
    """Collect the memory at intervals in the background; None: as the project's settings say."""
    stop = threading.Event()
    running = asyncio.create_task(asyncio.to_thread(_collect, state, every_hours, stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait([running])


def _collect(state: ServerState, every_hours: float | None, stop: threading.Event) -> None:
    while not state.is_settled:
        if stop.wait(SETTLING_SECONDS):
            return
    hours = state.settings.memory.collect_every_hours if every_hours is None else every_hours
    if not hours:
        return
    from marksweep.graph.background import Collected, collect_regularly

    def report(outcome: Collected | MarksweepError) -> None:
        if isinstance(outcome, MarksweepError):
            logger.warning("background collection: %s", outcome)
        elif outcome.skipped:
            logger.info("background collection of %r: %s", outcome.workspace_id, outcome.skipped)

    try:
        memory = state.memory()
    except MarksweepError as error:
        report(error)
        return
    every = timedelta(hours=hours)
    collect_regularly(memory.sync.acting_as(ACTOR), stop, every=every, report=report)
