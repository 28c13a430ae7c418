"""Fixed references: simple collectors to compare every figure with."""

from __future__ import annotations

import random
from collections import Counter
from typing import ClassVar

from marksweep.replay.atoms import atoms_of, names
from marksweep.replay.records import Count, Wire, price, text_of

COMMON_AT = 8
"""Units that hold an atom before it is too common to be a reference."""
STUB = "[output dropped]"
"""What replaces an output that was dropped alone."""


class Unit:
    """A message, or a call with all its results: dropped whole or not at all."""

    def __init__(self, messages: list[Wire], born: int, tokens: int) -> None:
        self.messages = messages
        self.born = born
        self.tokens = tokens
        self.references = 0
        self.priority = 0.0


class Dropping:
    """Drop whole units, the one with the least worth first, until the context fits."""

    def __init__(self, count: Count) -> None:
        self._count = count

    def start(self, pinned: list[Wire], limit: int) -> None:
        """Begin a run."""
        self.pinned = pinned
        self.limit = limit
        self.units: list[Unit] = []
        self.tail: list[Unit] = []
        self.size = sum(price(message, self._count) for message in pinned)
        self.clock = 0

    def add(self, messages: list[Wire]) -> None:
        """Take new messages; they are the tail until the next call."""
        self.units.extend(self.tail)
        self.tail = []
        for message in messages:
            tokens = price(message, self._count)
            self.size += tokens
            if message["role"] == "tool" and self.tail:
                self.tail[-1].messages.append(message)
                self.tail[-1].tokens += tokens
            else:
                self.tail.append(Unit([message], self.clock, tokens))
                self.clock += 1
        for unit in self.tail:
            self.arrived(unit)

    def context(self) -> list[Wire]:
        """Drop until it fits, and give what is left."""
        while self.size > self.limit and self.units:
            least = min(range(len(self.units)), key=self.worth)
            gone = self.units.pop(least)
            self.size -= gone.tokens
            self.dropped(gone)
        return [*self.pinned, *(m for unit in (*self.units, *self.tail) for m in unit.messages)]

    def worth(self, index: int) -> float:
        """Worth of the unit at an index; low goes first. Here: the oldest first."""
        return float(index)

    def arrived(self, unit: Unit) -> None:
        """Take note of a new unit."""

    def dropped(self, unit: Unit) -> None:
        """Take note of a unit that was dropped."""


Truncate = Dropping


class TruncateTo(Dropping):
    """The oldest units first, down to a share of the room behind the pinned messages."""

    def __init__(self, count: Count, percent: int = 60) -> None:
        super().__init__(count)
        self._percent = percent

    def start(self, pinned: list[Wire], limit: int) -> None:
        """Begin a run, and draw the line to land at."""
        super().start(pinned, limit)
        self._target = self.size + (limit - self.size) * self._percent // 100

    def context(self) -> list[Wire]:
        """Drop until it is down to the line, if it is over the limit."""
        if self.size <= self.limit:
            return super().context()
        limit, self.limit = self.limit, self._target
        try:
            return super().context()
        finally:
            self.limit = limit


class Random(Dropping):
    """Any unit, with a fixed seed."""

    def start(self, pinned: list[Wire], limit: int) -> None:
        """Begin a run, from the same seed."""
        super().start(pinned, limit)
        self._random = random.Random(0)  # noqa: S311 - repeatable on purpose

    def arrived(self, unit: Unit) -> None:
        """Draw the worth of a unit."""
        unit.priority = self._random.random()

    def worth(self, index: int) -> float:
        """The number drawn."""
        return self.units[index].priority


class Referring(Dropping):
    """Counts references: a new unit refers to the newest earlier one with a rare atom of it."""

    def start(self, pinned: list[Wire], limit: int) -> None:
        """Begin a run without references."""
        super().start(pinned, limit)
        self._newest: dict[str, Unit] = {}
        self._seen: Counter[str] = Counter()

    def arrived(self, unit: Unit) -> None:
        """Count the references of a new unit, each earlier unit once."""
        atoms = sorted({a for message in unit.messages for a in atoms_of(text_of(message), names)})
        referred: dict[int, Unit] = {}
        for atom in atoms:
            if atom in self._newest and self._seen[atom] <= COMMON_AT:
                old = self._newest[atom]
                referred[id(old)] = old
            self._newest[atom] = unit
            self._seen[atom] += 1
        for old in referred.values():
            old.references += 1
            self.referred(old)

    def referred(self, unit: Unit) -> None:
        """Take note that a unit was referred to."""


class Gdsf(Referring):
    """Greedy dual size frequency: `(1 + references) / size`, plus the inflation when last used."""

    def start(self, pinned: list[Wire], limit: int) -> None:
        """Begin a run without inflation."""
        super().start(pinned, limit)
        self._inflation = 0.0

    def arrived(self, unit: Unit) -> None:
        """Count references and set the priority."""
        super().arrived(unit)
        self.referred(unit)

    def referred(self, unit: Unit) -> None:
        """Raise the priority of a unit that was used."""
        unit.priority = self._inflation + (1 + unit.references) / unit.tokens

    def dropped(self, unit: Unit) -> None:
        """Raise the inflation: what stays must be worth more than what was dropped."""
        self._inflation = max(self._inflation, unit.priority)

    def worth(self, index: int) -> float:
        """The priority."""
        return self.units[index].priority


class OriginalScore(Referring):
    """The score of the original design: recency, type, references and generation, size ignored."""

    TYPES: ClassVar = {"user": 0.7, "assistant": 0.5, "system": 0.7}
    OUTPUT = 0.2

    def worth(self, index: int) -> float:
        """0.4 recency + 0.3 type + 0.2 references + 0.1 generation."""
        unit = self.units[index]
        age = self.clock - unit.born
        recency = 1 / (1 + age / 10)
        kind = self._type(unit)
        return 0.4 * recency + 0.3 * kind + 0.2 * min(1.0, unit.references / 5) + 0.1 * (age > 20)

    def _type(self, unit: Unit) -> float:
        if len(unit.messages) > 1:
            return self.OUTPUT
        return self.TYPES.get(unit.messages[0]["role"], self.OUTPUT)


class Mask(Dropping):
    """Replace all but the last outputs by a stub, then drop the oldest units."""

    def __init__(self, count: Count, last: int = 10) -> None:
        super().__init__(count)
        self._last = last

    def start(self, pinned: list[Wire], limit: int) -> None:
        """Begin a run without outputs."""
        super().start(pinned, limit)
        self._outputs: list[tuple[Unit, int]] = []
        self._by_calls = False

    def arrived(self, unit: Unit) -> None:
        """Mask the outputs that are no longer among the last."""
        self._by_calls = self._by_calls or len(unit.messages) > 1
        for index, message in enumerate(unit.messages):
            if message["role"] == "tool" or (message["role"] == "user" and not self._by_calls):
                self._outputs.append((unit, index))
        while len(self._outputs) > self._last and self._outputs[0][0] not in self.tail:
            old, index = self._outputs.pop(0)
            message = old.messages[index]
            stub = {**message, "content": STUB}
            saved = price(message, self._count) - price(stub, self._count)
            if saved > 0:
                old.messages[index] = stub
                old.tokens -= saved
                if old in self.units:
                    self.size -= saved
