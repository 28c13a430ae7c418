"""The hit test: whether what a step needs was verbatim in the context it was given.

A source line that holds the atom must be there as it was. A short line must be there whole; of a
long one the WINDOW_CHARS characters around the atom must be inside one line. A list of bare names
scores nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from marksweep.replay.atoms import squeeze
from marksweep.replay.needs import Need, Study
from marksweep.replay.records import Wire, calls_of, content_of, text_of

WINDOW_CHARS = 200
"""Characters of a long line that must be there; a shorter line must be there whole."""
LEAD_CHARS = 40
"""Characters of the window before the atom."""


class Proof(msgspec.Struct, frozen=True, gc=False):
    """What shows that an atom was there: any of these lines, or any of these windows in a line."""

    lines: frozenset[str]
    windows: tuple[str, ...]


class StepProofs(msgspec.Struct, frozen=True):
    """Per need of a step, the proofs of its atoms."""

    any: tuple[tuple[Proof, ...], ...]
    src: tuple[tuple[Proof, ...], ...]


def proofs(found: Study) -> tuple[StepProofs, ...]:
    """Work out, once per trajectory, what would prove each need of each step."""
    return tuple(
        StepProofs(_proofs(found, step.any), _proofs(found, step.src)) for step in found.steps
    )


def window(line: str, atom: str) -> str:
    """The part of a long line that proves an atom: WINDOW_CHARS, of which LEAD_CHARS before it."""
    start = max(0, min(line.find(atom) - LEAD_CHARS, len(line) - WINDOW_CHARS))
    return line[start : start + WINDOW_CHARS]


class Shown:
    """The lines of one context, behind the pinned prefix."""

    def __init__(self, lines: set[str], long: tuple[str, ...]) -> None:
        self._lines = lines
        self._long = long

    def has(self, proof: Proof) -> bool:
        """Whether one of the lines or windows is there."""
        if not self._lines.isdisjoint(proof.lines):
            return True
        return any(part in text for part in proof.windows for text in self._long)

    def recall(self, needs: tuple[tuple[Proof, ...], ...]) -> float | None:
        """Mean over needs of the share of atoms found; None if nothing is needed."""
        if not needs:
            return None
        return sum(sum(map(self.has, need)) / len(need) for need in needs) / len(needs)


class Reader:
    """Reads contexts into `Shown`, each distinct message once."""

    def __init__(self) -> None:
        self._cache: dict[object, tuple[frozenset[str], str]] = {}

    def read(self, context: Iterable[Wire]) -> Shown:
        """The lines of these messages."""
        lines: set[str] = set()
        long = []
        for message in context:
            short, text = self._message(message)
            lines |= short
            if text:
                long.append(text)
        return Shown(lines, tuple(long))

    def lines(self, message: Wire) -> frozenset[str]:
        """The squeezed lines of a message."""
        return self._message(message)[0]

    def _message(self, message: Wire) -> tuple[frozenset[str], str]:
        key = (content_of(message), *calls_of(message))
        if key not in self._cache:
            flat = {squeeze(line) for line in text_of(message).split("\n")}
            long = sorted(line for line in flat if len(line) >= WINDOW_CHARS)
            self._cache[key] = frozenset(flat), "\n".join(long)
        return self._cache[key]


def _proofs(found: Study, needs: tuple[Need, ...]) -> tuple[tuple[Proof, ...], ...]:
    return tuple(tuple(_proof(found, need.sources, atom) for atom in need.atoms) for need in needs)


def _proof(found: Study, sources: tuple[int, ...], atom: str) -> Proof:
    lines = {line for source in sources for line in found.lines[source][atom]}
    short = frozenset(line for line in lines if len(line) < WINDOW_CHARS)
    long = sorted({window(line, atom) for line in lines if len(line) >= WINDOW_CHARS})
    return Proof(short, tuple(long))
