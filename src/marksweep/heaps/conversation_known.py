"""What a conversation knows of a live message beside its segment: read or made once, then kept."""

from __future__ import annotations

import msgspec

from marksweep.messages import Message, Outcome
from marksweep.model import Segment


class Trimmed(msgspec.Struct, frozen=True, gc=False):
    """A shorter form of a message: as a segment with its digest, and as it would be read."""

    segment: Segment
    digest: int
    message: Message


class Known(msgspec.Struct, gc=False):
    """A live message as it was read, and what was made of it once somebody asked."""

    message: Message
    outcomes: tuple[Outcome, ...] | None = None
    """What its calls came to."""
    trimmed: Trimmed | None = None
    """The shorter form that was made last."""
