"""Generations of turns: the ancient ones go, those in the middle become a summary."""

from __future__ import annotations

from collections.abc import Iterator

from marksweep.core.plan import Proposal
from marksweep.core.scene import Scene
from marksweep.strategies.summarize import Digest, summarized
from marksweep.strategies.turns import collectable_turns, drop, drop_preservable

MIDDLE_TURNS = 10
"""Turns before the recent ones that are summarised; what is older goes.

More keeps the gist of more history and takes longer; 0 makes it a plain truncation.
"""


class Hybrid:
    """Rank ancient turns first, then the newest `middle` of those that may go, as a summary."""

    def __init__(self, digest: Digest, middle: int = MIDDLE_TURNS) -> None:
        self._digest = digest
        self._middle = middle

    @property
    def name(self) -> str:
        """The name that plans and reports carry."""
        return "hybrid"

    def rank(self, scene: Scene) -> Iterator[Proposal]:
        """Propose the ancient turns one by one, then the middle ones as a range."""
        groups = collectable_turns(scene)
        cut = max(0, len(groups) - self._middle)
        ancient, middle = groups[:cut], groups[cut:]
        yield from drop(scene, ancient, "ancient_truncated")
        freed = sum(group.weight(scene) for group in ancient)
        needed = max(1, scene.tokens - scene.target_tokens - freed)
        yield from summarized(scene, middle, self._digest, needed, "middle_summarized")
        yield from drop_preservable(scene, "preservable_under_pressure")
