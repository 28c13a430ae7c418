"""Solves the clairvoyant's integer program with HiGHS, through scipy."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from marksweep.replay.clairvoyant import Foresight, Problem, Solved, covered

GAP = 1e-4
"""Relative gap at which a solution counts as exact."""


def solve(problem: Problem, seconds: float) -> Foresight | None:
    """The optimum if found in time, else the best schedule found, or None."""
    column = {}
    for m, steps in problem.stops.items():
        for j in range(len(steps)):
            column[m, j] = len(column)
    keeps = len(column)
    if not keeps:
        return Foresight((-1,) * len(problem.weight), Solved.EXACT, 0.0)
    rows = _Rows()
    gain = np.zeros(keeps + len(problem.needs))

    def kept(m: int, k: int) -> int | None:
        """Column that says whether m is still there at step k."""
        steps = problem.stops.get(m, [])
        j = bisect_left(steps, k)
        return column[m, j] if j < len(steps) else None

    for (m, j), index in column.items():
        if j:
            rows.add({index: 1.0, column[m, j - 1]: -1.0}, 0.0)
        if m in problem.call_of:
            call = kept(problem.call_of[m], problem.stops[m][j])
            if call is not None:
                rows.add({index: 1.0, call: -1.0}, 0.0)
    for k, room in enumerate(problem.room):
        if room >= 0:
            load = {
                index: float(problem.weight[m])
                for m in problem.stops
                if problem.first[m] <= k and (index := kept(m, k)) is not None
            }
            if sum(load.values()) > room:
                rows.add(load, float(room))
    for n, (k, sources, weight) in enumerate(problem.needs):
        gain[keeps + n] = -weight
        cover = {keeps + n: 1.0}
        for m in sources:
            index = kept(m, k)
            if index is not None and k in problem.stops[m]:
                cover[index] = -1.0
        rows.add(cover, 0.0)
    whole = np.zeros(len(gain))
    whole[:keeps] = 1
    result = milp(
        gain,
        constraints=rows.constraint(len(gain)),
        integrality=whole,
        bounds=Bounds(0, 1),
        options={"time_limit": seconds, "mip_rel_gap": GAP},
    )
    if result.x is None:
        return None
    until = [-1] * len(problem.weight)
    for (m, j), index in column.items():
        if result.x[index] > 0.5:
            until[m] = max(until[m], problem.stops[m][j])
    state = Solved.EXACT if result.status == 0 else Solved.GREEDY
    return Foresight(tuple(until), state, covered(problem, until))


class _Rows:
    """Rows `sum of coefficients * columns <= bound`, gathered for a sparse matrix."""

    def __init__(self) -> None:
        self._values: list[float] = []
        self._rows: list[int] = []
        self._columns: list[int] = []
        self._bounds: list[float] = []

    def add(self, coefficients: dict[int, float], bound: float) -> None:
        row = len(self._bounds)
        self._bounds.append(bound)
        for column, value in coefficients.items():
            self._rows.append(row)
            self._columns.append(column)
            self._values.append(value)

    def constraint(self, columns: int) -> LinearConstraint:
        shape = (len(self._bounds), columns)
        matrix = coo_array((self._values, (self._rows, self._columns)), shape=shape).tocsc()
        return LinearConstraint(matrix, -np.inf, np.array(self._bounds))
