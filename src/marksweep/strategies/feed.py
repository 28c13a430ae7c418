"""What a learning strategy observes: each segment once when it comes and once when it leaves."""

from __future__ import annotations

from collections.abc import Sequence

from marksweep.core.strategy import Learning
from marksweep.model import Segment


class LearningFeed:
    """Keeps a learning strategy in step with one heap."""

    def __init__(self, strategy: Learning) -> None:
        self._strategy = strategy
        self._live: dict[str, None] = {}

    def observe(self, segments: Sequence[Segment]) -> None:
        """Pass segments on as they arrive; those it knows already are left out."""
        new = [segment for segment in segments if segment.segment_id not in self._live]
        if new:
            self._live.update(dict.fromkeys(segment.segment_id for segment in new))
            self._strategy.observe(new)

    def follow(self, segments: Sequence[Segment]) -> None:
        """Pass on what came and went until the heap was as it is now."""
        self.observe(segments)
        present = {segment.segment_id for segment in segments}
        gone = [segment_id for segment_id in self._live if segment_id not in present]
        if gone:
            for segment_id in gone:
                del self._live[segment_id]
            self._strategy.forget(gone)
