"""The clairvoyant bound: the best that dropping whole messages can do, knowing every later need.

A message is dropped right after the last need it serves, since keeping it longer only costs. So the
only question per message is how many of its needs it stays for. `keep[m, j]` is 1 if message m
stays until the j-th step that could use it; the budget holds at every step; the weight of the needs
covered is maximal. A tool result may go alone and leaves a stub; a call goes only with its results.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from marksweep.replay.needs import Study
from marksweep.replay.records import Wire
from marksweep.replay.references import STUB

MAX_NODES = 500
"""Nodes of its tree that the solver may look at; 0 leaves it out.

Most programs are solved at the first node. A limit in nodes, unlike one in seconds, gives the same
bound on a slow machine as on a fast one.
"""


class Solved(StrEnum):
    """How a bound was found."""

    EXACT = "exact"
    STOPPED = "stopped"
    """The solver used up its nodes: the better of its result and the greedy one."""
    GREEDY = "greedy"
    """No solver, or the program is too big for it: the greedy result."""


class Foresight(msgspec.Struct, frozen=True):
    """Per message, the index of the last step whose context still holds it (-1: none)."""

    until: tuple[int, ...]
    solved: Solved
    covered: float
    """Weight of the needs covered."""


class Problem:
    """The integer program of one trajectory: variables, rows and weights, before any solver."""

    def __init__(
        self, found: Study, prices: Sequence[int], limit: int, stub: int, src_weight: float
    ) -> None:
        messages, pinned = found.trajectory.messages, found.trajectory.pinned
        self.found = found
        self.room: list[int] = []
        spent = sum(prices[:pinned])
        for step in found.steps:
            self.room.append(limit - spent - sum(prices[step.tail : step.at]))
        self.first = self._first_steps(found, len(messages))
        self.call_of = _calls(messages)
        self.results: dict[int, list[int]] = {}
        for result, call in self.call_of.items():
            self.results.setdefault(call, []).append(result)
        self.weight = [
            prices[m] - stub
            if m in self.call_of
            else prices[m] + stub * len(self.results.get(m, ()))
            for m in range(len(messages))
        ]
        self.needs = self._needs(src_weight)
        self.stops = self._stops()

    @staticmethod
    def _first_steps(found: Study, count: int) -> list[int]:
        """Per message, the first step at which it is no longer tail."""
        first = [len(found.steps)] * count
        for k, step in enumerate(found.steps[:-1]):
            for m in range(step.tail, step.at):
                first[m] = k + 1
        return first

    def _needs(self, src_weight: float) -> list[tuple[int, tuple[int, ...], float]]:
        """Step, sources and weight of each need that can be scored."""
        needs = []
        for k, step in enumerate(self.found.steps):
            if self.room[k] < 0:
                continue
            needs += [(k, n.sources, 1 / len(step.any)) for n in step.any]
            needs += [(k, n.sources, src_weight / len(step.src)) for n in step.src]
        return needs

    def _stops(self) -> dict[int, list[int]]:
        """Per message, the steps it may be kept for: those that need it or one of its results.

        A step with less than no room empties the context, so nothing is kept beyond it.
        """
        walls = [k for k, room in enumerate(self.room) if room < 0]
        stops: dict[int, set[int]] = {}
        for k, sources, _ in self.needs:
            for m in sources:
                wall = bisect_left(walls, self.first[m])
                if wall < len(walls) and walls[wall] <= k:
                    continue
                stops.setdefault(m, set()).add(k)
                if m in self.call_of:
                    stops.setdefault(self.call_of[m], set()).add(k)
        return {m: sorted(steps) for m, steps in sorted(stops.items())}


def foresee(
    found: Study,
    prices: Sequence[int],
    limit: int,
    *,
    stub: int,
    src_weight: float = 1.0,
    nodes: int = MAX_NODES,
) -> Foresight:
    """Solve a trajectory; `src_weight` is the weight of a src step against an any step."""
    problem = Problem(found, prices, limit, stub, src_weight)
    greedy = _greedy(problem)
    if nodes == 0:
        return greedy
    try:
        from marksweep.replay.milp import solve
    except ImportError:
        return greedy
    solved = solve(problem, nodes)
    if solved is None:
        return greedy
    if solved.solved is Solved.STOPPED and solved.covered < greedy.covered:
        return msgspec.structs.replace(greedy, solved=Solved.STOPPED)
    return solved


def _calls(messages: tuple[Wire, ...]) -> dict[int, int]:
    """Index of the message that made the call, per tool result."""
    calls = {}
    last = 0
    for m, message in enumerate(messages):
        if message["role"] == "tool":
            calls[m] = last
        else:
            last = m
    return calls


def covered(problem: Problem, until: list[int]) -> float:
    """Weight of the needs that a schedule covers."""
    return sum(
        weight
        for k, sources, weight in problem.needs
        if any(problem.first[m] <= k <= until[m] for m in sources)
    )


def _greedy(problem: Problem) -> Foresight:
    """Assign room to needs by weight per token and step, each by its cheapest source."""
    schedule = _Schedule(problem)
    order = []
    for n, (k, sources, weight) in enumerate(problem.needs):
        cost = min((schedule.price(m, k) for m in sources), default=0)
        order.append((-weight / (1 + cost), n))
    for _, n in sorted(order):
        k, sources, _ = problem.needs[n]
        if any(problem.first[m] <= k <= schedule.until[m] for m in sources):
            continue
        for m in sorted(sources, key=lambda m: (schedule.price(m, k), m)):
            if schedule.keep(m, k):
                break
    return Foresight(tuple(schedule.until), Solved.GREEDY, covered(problem, schedule.until))


class _Schedule:
    """Until when each message stays, and the room that is left at each step."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._room = list(problem.room)
        self.until = [-1] * len(problem.weight)

    def price(self, m: int, k: int) -> int:
        """Tokens times steps that keeping m until k adds."""
        return sum(self._problem.weight[e] * (k - start + 1) for e, start in self._extra(m, k))

    def keep(self, m: int, k: int) -> bool:
        """Keep m until k if there is room at every step."""
        take: dict[int, int] = {}
        extra = self._extra(m, k)
        for e, start in extra:
            for step in range(start, k + 1):
                take[step] = take.get(step, 0) + self._problem.weight[e]
        if any(self._room[step] < tokens for step, tokens in take.items()):
            return False
        for step, tokens in take.items():
            self._room[step] -= tokens
        for e, _ in extra:
            self.until[e] = k
        return True

    def _extra(self, m: int, k: int) -> list[tuple[int, int]]:
        """Messages that keeping m until k adds, each with the step it starts from."""
        call = self._problem.call_of.get(m)
        needed = [m] if call is None else [m, call]
        starts = [(e, max(self._problem.first[e], self.until[e] + 1)) for e in needed]
        return [(e, start) for e, start in starts if start <= k]


class Clairvoyant:
    """Replays a schedule made with foresight, as if it were a collector."""

    def __init__(self, found: Study, foresight: Foresight) -> None:
        self._pinned = found.trajectory.pinned
        self._messages = found.trajectory.messages
        self._steps = found.steps
        self._until = foresight.until
        self._calls = _calls(found.trajectory.messages)
        self._answered = set(self._calls.values())

    def start(self, pinned: list[Wire], limit: int) -> None:  # noqa: ARG002 - the schedule knows
        """Begin a run."""
        self._k = -1

    def add(self, messages: list[Wire]) -> None:  # noqa: ARG002 - the schedule knows
        """Advance one step."""
        self._k += 1

    def context(self) -> list[Wire]:
        """What the schedule holds at this step."""
        step = self._steps[self._k]
        kept = []
        for m in range(self._pinned, step.tail):
            message = self._messages[m]
            if self._until[m] >= self._k:
                kept.append(message)
            elif m in self._calls and self._until[self._calls[m]] >= self._k:
                kept.append({**message, "content": STUB})
        head = [*self._messages[: self._pinned]]
        return [*head, *kept, *self._messages[step.tail : step.at]]
