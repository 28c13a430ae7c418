"""LangChain `trim_messages` as a collector, in its own environment.

Every context is trimmed from the whole history so far, as a program would call it before each
request. Dropping part of the pinned prefix is a violation, as for every other collector.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.peers.environments import CannotInstall, interpreter, last_line
from marksweep.replay.cases import Case
from marksweep.replay.counting import exact
from marksweep.replay.drive import Pricer, drive, limit_of
from marksweep.replay.hits import Reader, proofs
from marksweep.replay.measures import Outcome
from marksweep.replay.records import Wire

LANGCHAIN = "LangChain trim_messages"
DRIVER = Path(__file__).parent / "peers" / "drivers" / "run_langchain_trim.py"
MINUTES = 10
"""How long one set may take."""


class Job(msgspec.Struct, frozen=True):
    """A history, the limit, and before which messages a context is wanted."""

    messages: tuple[Wire, ...]
    limit: int
    steps: list[int]


class Precomputed:
    """Returns contexts that another process made, one after the other."""

    def __init__(self, contexts: Sequence[list[Wire]]) -> None:
        self._contexts = iter(contexts)

    def start(self, pinned: list[Wire], limit: int) -> None:
        """Do nothing: the contexts exist already."""

    def add(self, messages: list[Wire]) -> None:
        """Ignore the new messages, which the other process has seen too."""

    def context(self) -> list[Wire]:
        """Return the context of the next step."""
        return next(self._contexts)


def trimmed(cases: Sequence[Case], percent: float) -> list[Outcome]:
    """Drive `trim_messages` over trajectories; return nothing if it cannot be installed."""
    limits = [limit_of(case.prices, case.study.trajectory.pinned, percent) for case in cases]
    jobs = [
        Job(case.study.trajectory.messages, limit, [step.at for step in case.study.steps])
        for case, limit in zip(cases, limits, strict=True)
    ]
    try:
        answers = _ask(jobs)
    except CannotInstall as reason:
        print(f"\n{LANGCHAIN} was not run: {reason}\n", flush=True)
        return []
    count, outcomes = exact(), []
    for case, limit, contexts in zip(cases, limits, answers, strict=True):
        steps = drive(
            case.study,
            proofs(case.study),
            Precomputed(contexts),
            limit,
            tokens=Pricer(count),
            reader=Reader(),
        )
        outcomes.append(Outcome(case.study.trajectory.id, tuple(steps)))
    return outcomes


def _ask(jobs: Sequence[Job]) -> list[list[list[Wire]]]:
    given = b"\n".join(map(msgspec.json.encode, jobs))
    ran = subprocess.run(
        [str(interpreter("langchain")), str(DRIVER)],
        input=given,
        capture_output=True,
        timeout=MINUTES * 60,
        check=False,
    )
    if ran.returncode:
        raise CannotInstall(last_line(ran.stderr.decode()))
    return [msgspec.json.decode(line) for line in ran.stdout.splitlines()]
