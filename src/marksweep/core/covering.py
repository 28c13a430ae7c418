"""Covering: a scorer that looks at what a segment alone still holds.

A segment is worth the names and lines that no other live segment holds: an older read of a file is
worth nothing once its lines stand in a newer one, and the last copy of an id is precious. What the
agent itself wrote about again is likely to be needed again. What the agent repeats only half stands
in for what it was shown. All of that counts per token, and fades with age.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from marksweep.core.atoms import LINE, NAME, Kind, atoms_of
from marksweep.core.score import HALF_LIFE_HOURS, age_hours
from marksweep.model import Segment

WRITTEN = frozenset({"decision", "message", "note", "summary"})
"""Types that the agent writes itself; the others hold what it was shown."""

CHANCE = {NAME: 0.02, LINE: 0.008}
"""How likely a name, and a whole line, is needed again if the agent never wrote about it."""
LIKELIEST = 0.9
"""The highest chance that is given to any one of them."""
USED = 12.0
"""How many times likelier what the agent wrote about is; higher trusts past use more."""
OFTEN = 0.8
"""Power of how often it did."""
ECHO = 0.6
"""Share of its worth that a shown fact keeps if only the agent's own words hold it, too."""
PRIOR = 0.02
"""Worth of a segment by itself, and of each reference to it."""
SCALE = 100.0
"""Worth per token is 1 / SCALE at a score of a half. Moves scores, not their order."""


class Covering(msgspec.Struct, frozen=True):
    """Prune score from 0 to 1; high goes first. Little that it alone holds, per token, and age.

    Called by itself it takes a segment for the only one; `over` gives a scorer that knows others.
    """

    half_life_hours: float = HALF_LIFE_HOURS

    def __call__(self, segment: Segment, now: datetime) -> float:
        """Score one segment as if there were no other."""
        return self.over((segment,))(segment, now)

    def over(self, segments: Iterable[Segment]) -> Covered:
        """Give a scorer that knows these segments."""
        known = Covered(self.half_life_hours)
        for segment in segments:
            known.tell(segment)
        return known


class Covered:
    """What each segment holds and which of it others hold too, kept up as they come and go."""

    def __init__(self, half_life_hours: float = HALF_LIFE_HOURS) -> None:
        self._half_life = half_life_hours
        self._held: dict[str, tuple[bool, dict[str, Kind]]] = {}
        self._shown: Counter[str] = Counter()
        self._written: Counter[str] = Counter()
        self._uses: Counter[str] = Counter()

    def tell(self, segment: Segment) -> None:
        """Take a segment in; a known one anew."""
        self.forget(segment.segment_id)
        is_written = segment.type in WRITTEN
        atoms = {a: k for a, k in atoms_of(segment.text).items() if k in CHANCE}
        self._held[segment.segment_id] = is_written, atoms
        (self._written if is_written else self._shown).update(atoms.keys())
        if is_written:
            self._uses.update(atoms.keys())

    def forget(self, *segment_ids: str) -> None:
        """Let segments go. That the agent wrote about something is not forgotten."""
        for segment_id in segment_ids:
            is_written, atoms = self._held.pop(segment_id, (False, {}))
            (self._written if is_written else self._shown).subtract(atoms.keys())

    def keep_only(self, live: Mapping[str, Segment]) -> None:
        """Know what is live, and nothing else."""
        self.forget(*(name for name in self._held if name not in live))
        for name, segment in live.items():
            if name not in self._held:
                self.tell(segment)

    def __call__(self, segment: Segment, now: datetime) -> float:
        """Score one segment; one that is not known is taken in."""
        if segment.segment_id not in self._held:
            self.tell(segment)
        is_written, atoms = self._held[segment.segment_id]
        worth = PRIOR * (1 + segment.refcount)
        for atom, kind in atoms.items():
            worth += self._share(atom, is_written) * self._chance(atom, kind)
        fading = self._half_life / (age_hours(segment, now) + self._half_life)
        return 1.0 / (1.0 + SCALE * fading * worth / max(1, segment.tokens))

    def alone(self, segment: Segment) -> int:
        """Count the names and lines that only this segment holds."""
        is_written, atoms = self._held[segment.segment_id]
        return sum(self._share(atom, is_written) == 1.0 for atom in atoms)

    def _share(self, atom: str, is_written: bool) -> float:
        """How much of an atom's worth would go with its holder."""
        shown, written = self._shown[atom], self._written[atom]
        if shown + written <= 1:
            return 1.0
        return ECHO if not is_written and shown == 1 else 0.0

    def _chance(self, atom: str, kind: Kind) -> float:
        uses = self._uses[atom]
        return min(LIKELIEST, CHANCE[kind] * (USED * uses**OFTEN if uses else 1.0))
