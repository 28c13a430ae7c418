"""A recorded session: which of its content is dead weight.

A host does not show its context to a server, but it records it. This reads such a file (Claude
Code, Codex, or any provider's messages), and finds what was superseded or repeated, and what
nothing in use refers to.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from marksweep.dialects import History
from marksweep.dialects.transcripts import read_transcript
from marksweep.errors import BadInput
from marksweep.model import Plan
from marksweep.reading import DEAD, Reading
from marksweep.settings import Settings

LARGEST_FILE = 200_000_000
"""Maximum bytes of one session file: it is held in memory."""

Progress = Callable[[int, int, str], None]
"""Receives how many of how many stages are done, and what comes next."""


class Weighed(msgspec.Struct, frozen=True):
    """A session, and the plan that removes its dead weight."""

    path: Path
    dialect: str
    messages: int
    skipped: int
    plan: Plan


def weigh(path: Path, progress: Progress, settings: Settings) -> Weighed:
    """Read a session file and plan to remove its dead weight. The file is not changed."""
    progress(0, 3, "reading")
    history = _read(path)
    progress(1, 3, "counting tokens")
    reading = Reading(history, limit=0, strategy=DEAD, prices=settings.prices)
    progress(2, 3, "looking for dead weight")
    plan = reading.conversation.plan(0)
    progress(3, 3, "done")
    skipped = len(history.skipped)
    return Weighed(path, history.dialect, len(history.messages), skipped, plan)


def _read(path: Path) -> History:
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise BadInput(f"{path} is not a file. Name the file of one session.")
        if size > LARGEST_FILE:
            raise BadInput(
                f"{path} has {size:,} bytes; at most {LARGEST_FILE:,} are read. Split it first."
            )
        return read_transcript(path.read_bytes(), str(path), most=LARGEST_FILE).history
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}. Check the path.") from error
