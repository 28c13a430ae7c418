"""Runs: where whole neighbours go, one line stands for all of them.

A line is a segment. One step of its run puts it in, the others name it, so that it leaves once
something of the run is back. Next to a run that grows, an old line makes way for one that says
both. Where nothing is swept, no line changes: what a provider has cached stays as it is.

There is no line inside a unit, between a call and its result say, and none behind all the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from marksweep.core.context import PlanningContext
from marksweep.model import Segment

STAYS = -1
"""Stands for the step of what no step takes, or takes for another stand-in."""


class Lines(Protocol):
    """Says what a heap's segments are to a reader, and makes lines."""

    def is_said(self, segment: Segment) -> bool:
        """Whether it is part of what is read in order; others only take room."""
        ...

    def is_line(self, segment: Segment) -> bool:
        """Whether it stands for others that went before."""
        ...

    def line(self, run: Sequence[Segment]) -> Segment | None:
        """Make the line for a run, old lines among it; None if it is not worth one."""
        ...


class Run(msgspec.Struct, frozen=True):
    """Neighbours that go, and the line that stands for them."""

    steps: tuple[int, ...]
    """The numbers of the steps that take them."""
    old: tuple[int, ...]
    """Live lines that make way, by index."""
    line: Segment
    cost: int
    """Tokens that the line takes beyond those of the old ones."""


class Runs(msgspec.Struct, frozen=True):
    """All runs of a plan."""

    leaving: tuple[Run, ...] = ()
    staying: tuple[int, ...] = ()
    """Lines that were to go by themselves: they stay after all."""

    def cost(self, context: PlanningContext) -> int:
        """Tokens that all lines take beyond what is left without."""
        stay = sum([context.sizes[i] for i in self.staying])
        return stay + sum([run.cost for run in self.leaving])

    def within(self, room: int, context: PlanningContext) -> Runs:
        """Leave as many lines as there is room for, those of the longest runs first."""
        runs = self
        while runs.leaving and runs.cost(context) > room:
            least = min(runs.leaving, key=lambda run: (len(run.steps), -run.line.position))
            runs = Runs(tuple([run for run in runs.leaving if run is not least]), runs.staying)
        return runs if runs.cost(context) <= room else Runs()


def find_runs(context: PlanningContext, step_of: Sequence[int], lines: Lines) -> Runs:
    """Find the runs of neighbours that steps take. `step_of` names the step of each segment."""
    leaving: list[Run] = []
    staying: list[int] = []
    counted: set[int] = set()
    """Steps whose members a line speaks of. One whose members are apart counts where it begins."""
    reach = _reach(context, step_of)
    members: dict[int, list[int]] = {}
    for i, step in enumerate(step_of):
        members.setdefault(step, []).append(i)
    is_line = [lines.is_line(segment) for segment in context.segments]
    run: list[int] = []
    for i, segment in enumerate(context.segments):
        if not lines.is_said(segment):
            continue
        if step_of[i] != STAYS or is_line[i]:
            run.append(i)
            continue
        old = [k for k in run if is_line[k]]
        going = [step_of[k] for k in run if step_of[k] != STAYS and not is_line[k]]
        steps = tuple([step for step in dict.fromkeys(going) if step not in counted])
        gone = [k for step in steps for k in members[step] if not is_line[k]]
        is_open = bool(run) and reach[run[0]] < i
        line = _line(context, sorted([*gone, *old]), lines) if gone and is_open else None
        if line is not None:
            live = tuple([k for k in old if step_of[k] == STAYS])
            cost = line.tokens - sum([context.sizes[k] for k in live])
            leaving.append(Run(steps, live, line, cost))
            counted.update(steps)
        else:
            staying += [k for k in old if step_of[k] != STAYS]
        run = []
    return Runs(tuple(leaving), tuple(staying))


def _line(context: PlanningContext, run: Sequence[int], lines: Lines) -> Segment | None:
    said = [context.segments[i] for i in run if lines.is_said(context.segments[i])]
    return lines.line(said) if said else None


def _reach(context: PlanningContext, step_of: Sequence[int]) -> list[int]:
    """Say for each place up to where units reach that stay and begin before it."""
    ends = [-1] * (len(step_of) + 1)
    for unit in context.units:
        if len(unit) > 1 and step_of[unit[0]] == STAYS:
            ends[unit[0] + 1] = unit[-1]
    for i in range(1, len(ends)):
        ends[i] = max(ends[i], ends[i - 1])
    return ends
