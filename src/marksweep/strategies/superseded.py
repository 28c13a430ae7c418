"""Superseded: results that something later has made worthless become one line each.

    the same call was made again          a command run again, a file read again, an error fixed
    the file was read whole, or written   earlier reads of it are out of date
    the same text came again              identical output of any call

All of it is equally worthless, so the newest goes first: a cut near the end keeps the prompt cache.
Nothing else is touched: what is not superseded stays, whatever the budget asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.messages import Outcome
from marksweep.model import Action
from marksweep.sections import Sections, left_out
from marksweep.strategies.mask import Outcomes, Trimmed

WRITE_WORDS = ("write", "edit", "replace", "create", "patch", "update", "insert", "delete", "move")
"""Words in a tool's name that mean it changes its file."""

MIN_RESULT_CHARS = 200
"""Characters from which a result is worth a line in its place. Lower frees almost nothing more."""

SAME_TEXT = 200
"""Characters from which identical output counts as the same thing, and not as a coincidence."""


@dataclass(frozen=True)
class Superseded:
    """Rank superseded results, the newest first."""

    name = "superseded"

    outcomes: Outcomes
    trimmed: Trimmed

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose to mask what is superseded. Later results decide, so one pass is enough."""
        seen = _Seen()
        for i in range(len(context.segments) - 1, -1, -1):
            segment = context.segments[i]
            may_go = context.may_go((i,))
            reasons: list[str] = []
            masked: dict[int, Sections] = {}
            for outcome in reversed(self.outcomes(segment)):
                why = seen.note(outcome)
                if why is not None and may_go:
                    reasons.append(why)
                    if outcome.is_bulky(MIN_RESULT_CHARS):
                        masked[outcome.part] = left_out(outcome.text, why, outcome.media)
            shorter = self.trimmed(segment, masked) if masked else None
            if shorter is not None:
                yield Proposal((i,), Action.MASK, "; ".join(dict.fromkeys(reasons)), shorter)


class _Seen:
    """The results seen so far, from the newest back."""

    def __init__(self) -> None:
        self._calls: set[bytes] = set()
        self._written: set[str] = set()
        """Files that were written."""
        self._whole: set[tuple[str, str]] = set()
        """Files that were read whole, each with the tool: another one says other things of it."""
        self._texts: set[str] = set()

    def note(self, outcome: Outcome) -> str | None:
        """Note a result; return why one noted before supersedes it, or None.

        A later failure supersedes nothing: the older result is the better one.
        """
        call, path, writes = outcome.call, outcome.path, _writes(outcome)
        why = None
        if call in self._calls:
            is_error = outcome.is_error
            why = "the call succeeded later" if is_error else "the same call was made again"
        elif path is not None and path in self._written and not writes:
            why = f"{path} was written later"
        elif path is not None and (outcome.name, path) in self._whole:
            why = f"{path} was read whole later"
        elif len(outcome.text) >= SAME_TEXT and outcome.text in self._texts:
            why = "the same output came again"
        if not outcome.is_error:
            self._calls.add(call)
            self._texts.add(outcome.text)
            if path is not None and writes:
                self._written.add(path)
            elif path is not None and isinstance(outcome.args, dict) and len(outcome.args) == 1:
                self._whole.add((outcome.name, path))
        return None if why is None else f"superseded: {why}"


def _writes(outcome: Outcome) -> bool:
    name = outcome.name.lower()
    return any(word in name for word in WRITE_WORDS)
