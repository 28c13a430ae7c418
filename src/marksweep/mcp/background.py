"""Collections of the long-term memory that a server runs by itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from marksweep.errors import MarksweepError
from marksweep.mcp.desk import Desk

ACTOR = "background"
"""Who the journal says it was."""

SETTLING_SECONDS = 1.0
"""How often to look whether the client has told its folders; until then there is no memory."""

logger = logging.getLogger(__name__)


@asynccontextmanager
async def collecting(desk: Desk, every_hours: float | None) -> AsyncIterator[None]:
    """Collect the memory at intervals meanwhile; None: as the project's settings say."""
    stop = asyncio.Event()
    running = asyncio.create_task(_collect(desk, every_hours, stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait([running])


async def _collect(desk: Desk, every_hours: float | None, stop: asyncio.Event) -> None:
    while not desk.is_settled:
        if await _stopped(stop, SETTLING_SECONDS):
            return
    hours = desk.settings.memory.collect_every_hours if every_hours is None else every_hours
    if not hours:
        return
    from marksweep.graph.background import Collected, collect_regularly

    def told(outcome: Collected | MarksweepError) -> None:
        if isinstance(outcome, MarksweepError):
            logger.warning("background collection: %s", outcome)
        elif outcome.skipped:
            logger.info("background collection of %r: %s", outcome.workspace_id, outcome.skipped)

    try:
        memory = await asyncio.to_thread(desk.memory)
    except MarksweepError as error:
        told(error)
        return
    every = timedelta(hours=hours)
    await collect_regularly(memory.acting_as(ACTOR), stop, every=every, told=told)


async def _stopped(stop: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return False
    return True
