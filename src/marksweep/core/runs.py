"""Runs: where whole neighbours go, one line stands for all of them.

A line is a segment. One step of its run puts it in, the others name it, so that it leaves once
something of the run is back. Next to a run that grows, an old line makes way for one that says
both. Where nothing is swept, no line changes: what a provider has cached stays as it is.

There is no line inside a unit, between a call and its result say, and none behind all the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from marksweep.core.context import PlanningContext
from marksweep.model import Segment


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


def find_runs(context: PlanningContext, steps: Mapping[int, tuple[int, ...]], lines: Lines) -> Runs:
    """Find the runs of neighbours that steps take. `steps` are the members of each, by number."""
    leaving: list[Run] = []
    staying: list[int] = []
    counted: set[int] = set()
    """Steps whose members a line speaks of. One whose members are apart counts where it begins."""
    step_of = {i: n for n, members in steps.items() for i in members}
    for run in _neighbours(context, step_of, lines):
        old = {i for i in run.members if lines.is_line(context.segments[i])}
        going = [step_of[i] for i in run.members if i in step_of and i not in old]
        numbers = tuple([n for n in dict.fromkeys(going) if n not in counted])
        gone = [i for n in numbers for i in steps[n] if not lines.is_line(context.segments[i])]
        line = _line(context, sorted([*gone, *old]), lines) if gone and run.is_open else None
        if line is not None:
            live = tuple(sorted(old - step_of.keys()))
            cost = line.tokens - sum([context.sizes[i] for i in live])
            leaving.append(Run(numbers, live, line, cost))
            counted.update(numbers)
        else:
            staying += sorted(old & step_of.keys())
    return Runs(tuple(leaving), tuple(staying))


class _Neighbours(NamedTuple):
    """Segments that go, with old lines among and beside them, by index."""

    members: list[int]
    is_open: bool
    """Whether a line may stand for them: no unit that stays goes on behind them."""


def _neighbours(
    context: PlanningContext, step_of: Mapping[int, int], lines: Lines
) -> Iterator[_Neighbours]:
    """Give what goes, each with its neighbours; what is behind all the rest is left out."""
    segments, units = context.segments, iter(context.units)
    unit, reach = next(units, None), -1
    end = 0
    for first in sorted(step_of):
        if first < end or not lines.is_said(segments[first]):
            continue
        start = first
        while start > end and _is_between(segments[start - 1], lines):
            start -= 1
        end = first
        while end < len(segments) and (end in step_of or _is_between(segments[end], lines)):
            end += 1
        if end == len(segments):
            return
        members = [i for i in range(start, end) if lines.is_said(segments[i])]
        while unit is not None and unit[0] < members[0]:
            if unit[0] not in step_of:
                reach = max(reach, unit[-1])
            unit = next(units, None)
        yield _Neighbours(members, reach < end)


def _is_between(segment: Segment, lines: Lines) -> bool:
    """Whether a segment that stays does not part those before it from those behind it."""
    return lines.is_line(segment) or not lines.is_said(segment)


def _line(context: PlanningContext, run: Sequence[int], lines: Lines) -> Segment | None:
    said = [context.segments[i] for i in run if lines.is_said(context.segments[i])]
    return lines.line(said) if said else None
