"""Falls back to extractive when a model or a function fails, and says so."""

from __future__ import annotations

import msgspec

from marksweep.errors import Refused
from marksweep.summarizers.base import Summarizer, Summary
from marksweep.summarizers.extractive import Extractive


class Guarded:
    """Asks one summarizer, and a second one if the first fails or does not shrink."""

    def __init__(self, first: Summarizer, second: Summarizer | None = None) -> None:
        self._first = first
        self._second = second or Extractive()

    @property
    def name(self) -> str:
        """What results call it."""
        return self._first.name

    def summarize(self, conversation: str, previous: str = "") -> Summary:
        """Ask the first, then the second; Refused if neither makes it shorter."""
        try:
            return self._first.summarize(conversation, previous)
        except Exception as error:  # noqa: BLE001  a summary is never worth the conversation
            try:
                summary = self._second.summarize(conversation, previous)
            except Refused as refused:
                raise Refused(
                    f"{error} Nor would the {self._second.name} one: {refused}"
                ) from error
            return msgspec.structs.replace(summary, note=f"instead of {self.name}: {error}")
