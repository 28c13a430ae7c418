"""What a summarizer is, and the rule that a summary must shrink."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec

from marksweep.errors import Refused


class Summary(msgspec.Struct, frozen=True):
    """A shorter text, who made it, and what went wrong on the way."""

    text: str
    made_by: str
    note: str = ""


@runtime_checkable
class Summarizer(Protocol):
    """Text in, shorter text out."""

    @property
    def name(self) -> str:
        """Its name in results."""
        ...

    def summarize(self, conversation: str, previous: str = "") -> Summary:
        """Summarise a conversation; Refused if that would not make it shorter.

        `previous` is the summary of what came before. It stays in place: the new one continues
        from there and does not repeat it.
        """
        ...


def shrunk(summary: Summary, conversation: str) -> Summary:
    """Return a summary if it is shorter than what it replaces; else raise Refused.

    Lone surrogates, which a cut text may hold, become question marks.
    """
    text = summary.text.encode(errors="replace").decode().strip()
    if not text:
        raise Refused(f"the summary by {summary.made_by} is empty. The text stays as it is.")
    if len(text) >= len(conversation):
        raise Refused(
            f"the summary by {summary.made_by} has {len(text)} characters, the text "
            f"{len(conversation)}: it would not shrink. The text stays as it is."
        )
    return msgspec.structs.replace(summary, text=text)
