"""Solves the clairvoyant's integer program with HiGHS, through scipy."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped]
from scipy.sparse import coo_array  # type: ignore[import-untyped]

from marksweep.replay.clairvoyant import Foresight, Problem, Solved, covered

EXACT_GAP = 1e-4
"""Relative gap at which a solution counts as exact."""
MAX_PROGRAM_SIZE = 500_000
"""Coefficients of a program that is given to the solver; a transcript of 130k tokens has 115,000.

Higher solves longer transcripts exactly, and may take minutes for one.
"""


def solve(problem: Problem, nodes: int) -> Foresight | None:
    """The optimum, or the best schedule found within so many nodes; None: too big, or none found.

    No clock is asked, so the same program has the same answer on a slow machine.
    """
    program = _Program(problem)
    if not program.column:
        return Foresight((-1,) * len(problem.weight), Solved.EXACT, 0.0)
    program.keep_in_time()
    program.keep_calls()
    program.keep_within_room()
    program.cover_needs()
    if program.size > MAX_PROGRAM_SIZE:
        return None
    keeps, needs = len(program.column), len(problem.needs)
    result = milp(
        np.array([0.0] * keeps + [-weight for _, _, weight in problem.needs]),
        constraints=program.constraint(),
        integrality=np.array([1] * keeps + [0] * needs),
        bounds=Bounds(0, 1),
        options={"node_limit": nodes, "mip_rel_gap": EXACT_GAP},
    )
    if result.x is None:
        return None
    until = [-1] * len(problem.weight)
    for (m, j), index in program.column.items():
        if result.x[index] > 0.5:
            until[m] = max(until[m], problem.stops[m][j])
    state = Solved.EXACT if result.status == 0 else Solved.STOPPED
    return Foresight(tuple(until), state, covered(problem, until))


class _Program:
    """Columns `keep[m, j]` and one per need; rows `sum of coefficients * columns <= bound`."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        keys = [(m, j) for m, steps in problem.stops.items() for j in range(len(steps))]
        self.column = {key: index for index, key in enumerate(keys)}
        self._values: list[float] = []
        self._rows: list[int] = []
        self._columns: list[int] = []
        self._bounds: list[float] = []

    @property
    def size(self) -> int:
        """Coefficients that are not 0."""
        return len(self._values)

    def keep_in_time(self) -> None:
        """What was dropped does not come back."""
        for (m, j), index in self.column.items():
            if j:
                self._add({index: 1.0, self.column[m, j - 1]: -1.0}, 0.0)

    def keep_calls(self) -> None:
        """A result stays only with its call."""
        for (m, j), index in self.column.items():
            if m in self._problem.call_of:
                call = self._kept(self._problem.call_of[m], self._problem.stops[m][j])
                if call is not None:
                    self._add({index: 1.0, call: -1.0}, 0.0)

    def keep_within_room(self) -> None:
        """The budget holds at every step."""
        for k, room in enumerate(self._problem.room):
            load = {}
            for m in self._problem.stops:
                kept = self._kept(m, k) if self._problem.first[m] <= k else None
                if kept is not None:
                    load[kept] = float(self._problem.weight[m])
            if room >= 0 and sum(load.values()) > room:
                self._add(load, float(room))

    def cover_needs(self) -> None:
        """A need is covered by the sources that are still there."""
        for n, (k, sources, _) in enumerate(self._problem.needs):
            cover = {len(self.column) + n: 1.0}
            for m in sources:
                kept = self._kept(m, k)
                if kept is not None and k in self._problem.stops[m]:
                    cover[kept] = -1.0
            self._add(cover, 0.0)

    def constraint(self) -> LinearConstraint:
        shape = (len(self._bounds), len(self.column) + len(self._problem.needs))
        matrix = coo_array((self._values, (self._rows, self._columns)), shape=shape).tocsc()
        return LinearConstraint(matrix, -np.inf, np.array(self._bounds))

    def _kept(self, m: int, k: int) -> int | None:
        """The column that says whether m is still there at step k."""
        steps = self._problem.stops.get(m, [])
        j = bisect_left(steps, k)
        return self.column[m, j] if j < len(steps) else None

    def _add(self, coefficients: dict[int, float], bound: float) -> None:
        row = len(self._bounds)
        self._bounds.append(bound)
        for column, value in coefficients.items():
            self._rows.append(row)
            self._columns.append(column)
            self._values.append(value)
