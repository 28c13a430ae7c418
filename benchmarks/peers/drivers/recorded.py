"""The main program of drivers that make a context before every step of recorded runs.

Reads jobs as JSON lines on stdin: messages, a limit, and before which messages a context is wanted.
Prints for each job the contexts and the seconds that the peer took.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

Messages = list[dict[str, Any]]
Collect = Callable[[Messages], Messages]
"""Return the context for a history so far. It is longer each time."""

START, LAND = 0.9, 0.6
"""Shares of the limit at which a peer with such thresholds starts and stops: those of marksweep."""

SUMMARY = "The agent worked on the task. " * 20
"""What a fake model writes as a summary: as long as a real one, without information."""


def main(peers: dict[str, Callable[[int], Collect]]) -> None:
    """Run the peer that is named on the command line."""
    for line in sys.stdin:
        job = json.loads(line)
        collect = peers[sys.argv[1]](job["limit"])
        contexts, seconds = [], 0.0
        for at in job["steps"]:
            history = job["messages"][:at]
            started = time.perf_counter()
            contexts.append(collect(history))
            seconds += time.perf_counter() - started
        print(json.dumps({"contexts": contexts, "seconds": seconds}))
