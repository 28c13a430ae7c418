"""The main program of every driver: reads a transcript from stdin, prints the time of a call.

A driver runs in the interpreter of its peer, so it and this file use nothing of marksweep.
Building the peer's own message objects is not timed; what the call itself does is.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

Messages = list[dict[str, Any]]
Work = Callable[[], Sequence[Any]]
Prepare = Callable[[Messages, int], Work]
"""Build what a call needs from chat messages and a budget in tokens; return the call to time."""

ENOUGH_SECONDS = 1.0
MOST_RUNS = 9


def tokens(text: str) -> int:
    """Count four characters as a token."""
    return -(-len(text) // 4)


def main(package: str, calls: dict[str, Prepare]) -> None:
    """Time the call that is named on the command line: the quickest of several runs."""
    prepare = calls[sys.argv[1]]
    given = json.load(sys.stdin)
    seconds: list[float] = []
    left = 0
    while len(seconds) < MOST_RUNS and sum(seconds) < ENOUGH_SECONDS:
        work = prepare(given["messages"], given["budget"])
        started = time.process_time()
        result = work()
        seconds.append(time.process_time() - started)
        left = len(result)
    said = {"seconds": min(seconds), "messages": left, "version": _version(package)}
    print(json.dumps(said))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "from source"
