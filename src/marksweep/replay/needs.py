"""Needs: what an action takes from the past.

An atom of an action is needed if an earlier message behind the pinned prefix holds it, and neither
the prefix, nor the tail of the step, nor the stoplist does. Atoms of a step that have the same
sources are one need, so that a file written back does not count once per line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from marksweep.replay.atoms import Extractor, atoms_of
from marksweep.replay.records import Trajectory, Wire, calls_of, content_of, leaves, text_of

_BASH = re.compile(r"```bash\s*\n(.*?)```", re.DOTALL)
_FENCED = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_DIGIT = re.compile(r"\d")

STOP_AT_LEAST = 3
"""Trajectories whose actions may hold an atom before it can be a habit."""


class Need(msgspec.Struct, frozen=True):
    """Atoms that one step takes from the same earlier messages, and those messages' indices."""

    atoms: tuple[str, ...]
    sources: tuple[int, ...]


class Step(msgspec.Struct, frozen=True):
    """An assistant message behind the prefix, with the tail before it and what it needs."""

    at: int
    """Index of the assistant message."""
    tail: int
    """Index of the first message of the tail, which ends before `at`."""
    any: tuple[Need, ...] = ()
    src: tuple[Need, ...] = ()
    """The same, but only observations count as sources."""


class Study(msgspec.Struct, frozen=True):
    """A trajectory with its steps, and per message the lines that hold each atom."""

    trajectory: Trajectory
    steps: tuple[Step, ...]
    lines: tuple[dict[str, list[str]], ...]

    @property
    def need_steps(self) -> int:
        """Steps that need something."""
        return sum(1 for step in self.steps if step.any)


def uses_calls(messages: Iterable[Wire]) -> bool:
    """Whether a trajectory acts by tool calls rather than by blocks of its text."""
    return any(message.get("tool_calls") for message in messages)


def action_of(message: Wire, *, by_calls: bool, answers: bool) -> str:
    """What a step does, as text; reasoning never counts.

    With tool calls: the leaves of their arguments. Without, in a trajectory that has none: its
    bash blocks, or its last fenced block. `answers` also counts what a plain answer says in text
    with a digit, for agents whose answer is the action.
    """
    if by_calls:
        calls = calls_of(message)
        if calls:
            return "\n".join(leaf for _, arguments in calls for leaf in leaves(arguments))
        if answers:
            return "\n".join(word for word in content_of(message).split() if _DIGIT.search(word))
        return ""
    text = content_of(message)
    blocks = _BASH.findall(text)
    return "\n".join(blocks or _FENCED.findall(text)[-1:])


def actions(trajectory: Trajectory, *, answers: bool) -> Iterator[tuple[int, str]]:
    """Index and action of every assistant message behind the prefix."""
    by_calls = uses_calls(trajectory.messages)
    for at in range(trajectory.pinned, len(trajectory.messages)):
        message = trajectory.messages[at]
        if message["role"] == "assistant":
            yield at, action_of(message, by_calls=by_calls, answers=answers)


def habits(
    trajectories: Sequence[Trajectory], share: float, extract: Extractor, *, answers: bool = False
) -> set[str]:
    """Atoms in the actions of more than `max(3, share * n)` trajectories: known without context."""
    seen: Counter[str] = Counter()
    for trajectory in trajectories:
        seen.update(
            {
                atom
                for _, act in actions(trajectory, answers=answers)
                for atom in atoms_of(act, extract)
            }
        )
    limit = max(STOP_AT_LEAST, share * len(trajectories))
    return {atom for atom, count in seen.items() if count > limit}


def study(
    trajectory: Trajectory,
    extract: Extractor,
    stop: frozenset[str] = frozenset(),
    *,
    answers: bool = False,
) -> Study:
    """Find the steps of a trajectory and what each needs."""
    messages, pinned = trajectory.messages, trajectory.pinned
    lines = tuple(atoms_of(text_of(message), extract) for message in messages)
    known = set(stop).union(*lines[:pinned])
    holders: dict[str, list[int]] = {}
    steps = []
    tail = pinned
    for at, action in actions(trajectory, answers=answers):
        fresh = set().union(*lines[tail:at])
        wanted = sorted(
            atom
            for atom in atoms_of(action, extract)
            if atom in holders and atom not in known and atom not in fresh
        )
        steps.append(
            Step(
                at,
                tail,
                _grouped((atom, holders[atom]) for atom in wanted),
                _grouped(
                    (atom, [i for i in holders[atom] if messages[i]["role"] != "assistant"])
                    for atom in wanted
                ),
            )
        )
        for index in range(tail, at):
            for atom in lines[index]:
                holders.setdefault(atom, []).append(index)
        tail = at
    return Study(trajectory, tuple(steps), lines)


def _grouped(wanted: Iterable[tuple[str, list[int]]]) -> tuple[Need, ...]:
    groups: dict[tuple[int, ...], list[str]] = {}
    for atom, sources in wanted:
        if sources:
            groups.setdefault(tuple(sources), []).append(atom)
    return tuple(Need(tuple(found), sources) for sources, found in groups.items())
