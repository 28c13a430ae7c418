"""Runs: where adjacent segments are swept whole, one line stands for all of them.

A line is a segment. One step of its run inserts it, the others name it, so that it is removed once
something of the run is restored. Next to a run that grows, an old line is replaced by one that
covers both. Where nothing is swept, no line changes, so the provider's cache stays valid.

There is no line inside a unit, such as between a call and its result, and none at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import msgspec

from marksweep.core.context import PlanningContext
from marksweep.model import Action, Segment


class Lines(Protocol):
    """Classifies a heap's segments, and makes lines."""

    def is_said(self, segment: Segment) -> bool:
        """Whether it is part of the sequence that is read; others only take room."""
        ...

    def is_line(self, segment: Segment) -> bool:
        """Whether it stands for segments that were swept earlier."""
        ...

    def line(self, run: Sequence[Segment]) -> Segment | None:
        """Make the line for a run, which may include old lines; None if it is not worth one."""
        ...


class Run(msgspec.Struct, frozen=True):
    """Adjacent segments that are swept, and the line that stands for them."""

    steps: tuple[int, ...]
    """The numbers of the steps that take them."""
    old: tuple[int, ...]
    """Live lines that are replaced, by index."""
    line: Segment
    cost: int
    """Tokens of the line minus those of the old ones."""


class Runs(msgspec.Struct, frozen=True):
    """All runs of a plan."""

    leaving: tuple[Run, ...] = ()
    staying: tuple[int, ...] = ()
    """Lines that the plan would have swept alone: they stay."""

    def cost(self, context: PlanningContext) -> int:
        """Tokens that all lines add to the plan's result."""
        stay = sum([context.sizes[i] for i in self.staying])
        return stay + sum([run.cost for run in self.leaving])

    def within(self, room: int, context: PlanningContext) -> Runs:
        """Insert as many lines as there is room for, those of the longest runs first."""
        runs = self
        while runs.leaving and runs.cost(context) > room:
            least = min(runs.leaving, key=lambda run: (len(run.steps), -run.line.position))
            runs = Runs(tuple([run for run in runs.leaving if run is not least]), runs.staying)
        return runs if runs.cost(context) <= room else Runs()


class RunFinder:
    """Finds the runs of a plan, anew whenever it has grown."""

    def __init__(self, context: PlanningContext, lines: Lines) -> None:
        self._context = context
        self._lines = lines
        self._made: dict[tuple[int, ...], Segment | None] = {}
        """The line for each run so far: most runs are the same when the plan has grown."""

    @cached_property
    def _old(self) -> frozenset[int]:
        """Lines that are live and may be replaced: not pinned or locked."""
        context, is_line = self._context, self._lines.is_line
        return frozenset(
            [
                i
                for i, segment in enumerate(context.segments)
                if is_line(segment) and context.may_yield((i,), Action.TRIM)
            ]
        )

    @cached_property
    def _unsaid(self) -> frozenset[int]:
        """What is not part of the sequence that is read."""
        is_said = self._lines.is_said
        return frozenset([i for i, s in enumerate(self._context.segments) if not is_said(s)])

    def find(self, steps: Mapping[int, tuple[int, ...]]) -> Runs:
        """Find the runs of adjacent segments that steps sweep, by the members of each step."""
        if not steps:
            return Runs()
        sizes, old_lines = self._context.sizes, self._old
        leaving: list[Run] = []
        staying: list[int] = []
        counted: set[int] = set()
        """Steps whose members a line covers. One with scattered members counts where it begins."""
        step_of = {i: n for n, members in steps.items() for i in members}
        for run in self._neighbours(step_of):
            old = old_lines.intersection(run.members)
            going = [step_of[i] for i in run.members if i in step_of and i not in old]
            numbers = tuple([n for n in dict.fromkeys(going) if n not in counted])
            gone = [i for n in numbers for i in steps[n] if i not in old_lines]
            line = self._line(sorted([*gone, *old])) if gone and run.is_open else None
            place = self._place(run.members)
            if line is not None and place is not None:
                # What it covers may begin earlier, where no line may be.
                line = msgspec.structs.replace(line, position=place)
                live = tuple(sorted(old - step_of.keys()))
                cost = line.tokens - sum([sizes[i] for i in live])
                leaving.append(Run(numbers, live, line, cost))
                counted.update(numbers)
            else:
                staying += sorted(old & step_of.keys())
        return Runs(tuple(leaving), tuple(staying))

    def _neighbours(self, step_of: Mapping[int, int]) -> Iterator[_Neighbours]:
        """Yield the runs of what is swept; a run at the end of the heap is left out."""
        count, units = len(self._context.segments), iter(self._context.units)
        unsaid = self._unsaid
        between = unsaid | self._old
        """What stays without separating what is before it from what is after it."""
        unit, reach = next(units, None), -1
        end = 0
        for first in sorted(step_of):
            if first < end or first in unsaid:
                continue
            start = first
            while start > end and start - 1 in between:
                start -= 1
            end = first
            while end < count and (end in step_of or end in between):
                end += 1
            if end == count:
                return
            members = [i for i in range(start, end) if i not in unsaid]
            while unit is not None and unit[0] < members[0]:
                if unit[0] not in step_of:
                    reach = max(reach, unit[-1])
                unit = next(units, None)
            yield _Neighbours(members, reach < end)

    def _place(self, members: Sequence[int]) -> int | None:
        """Return the first position in a run that is behind what is before it; None if none is.

        A note shares the position of the segment before it, and a line there could precede that.
        """
        segments, first = self._context.segments, members[0]
        before = segments[first - 1].position if first else None
        places = [segments[i].position for i in members]
        return next((place for place in places if before is None or place > before), None)

    def _line(self, run: Sequence[int]) -> Segment | None:
        said = tuple([i for i in run if i not in self._unsaid])
        if said not in self._made:
            segments = self._context.segments
            self._made[said] = self._lines.line([segments[i] for i in said]) if said else None
        return self._made[said]


class _Neighbours(NamedTuple):
    """Segments that are swept, with old lines among and beside them, by index."""

    members: list[int]
    is_open: bool
    """Whether a line may stand for them: no unit that stays continues after them."""
