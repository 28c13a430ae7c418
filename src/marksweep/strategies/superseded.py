"""Superseded: results that something later has made worthless become one line each.

    the same call was made again          a command run again, a file read again, an error fixed
    the file was read whole, or written   earlier reads of it are out of date
    the same text came again              identical output of any call

All of it is equally worthless, so the newest goes first: a cut near the end keeps the prompt cache.
Nothing else is touched: what is not superseded stays, whatever the budget asks.
"""

from __future__ import annotations

from collections.abc import Iterator

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.messages import Outcome, TextPath
from marksweep.model import Action
from marksweep.sections import Sections, left_out
from marksweep.strategies.mask import Outcomes, Trimmed

WRITE_WORDS = ("write", "edit", "replace", "create", "patch", "update", "insert", "delete", "move")
"""Words in a tool's name that mean it changes its file."""

MIN_RESULT_CHARS = 200
"""Characters from which a result is worth a line in its place. Lower frees almost nothing more."""

SAME_TEXT = 200
"""Characters from which identical output counts as the same thing, and not as a coincidence."""


class Superseded:
    """Rank superseded results, the newest first."""

    name = "superseded"

    def __init__(self, outcomes: Outcomes, trimmed: Trimmed) -> None:
        self._outcomes = outcomes
        self._trimmed = trimmed

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Propose to mask what is superseded."""
        found = self._superseded(context)
        for i in sorted(found, reverse=True):
            segment = context.segments[i]
            if not context.may_go((i,)):
                continue
            masked: dict[TextPath, Sections] = {
                (outcome.part, ()): left_out(outcome.text, found[i][outcome.part])
                for outcome in self._outcomes(segment)
                if outcome.part in found[i] and len(outcome.text) >= MIN_RESULT_CHARS
            }
            shorter = self._trimmed(segment, masked) if masked else None
            if shorter is not None:
                why = "; ".join(dict.fromkeys(found[i].values()))
                yield Proposal((i,), Action.MASK, why, shorter)

    def _superseded(self, context: PlanningContext) -> dict[int, dict[int, str]]:
        """Map messages to their superseded results, each with the reason; the newest are examined
        first.

        A later failure supersedes nothing: the older result is the better one.
        """
        calls: set[bytes] = set()
        files: dict[str, str] = {}
        texts: set[str] = set()
        found: dict[int, dict[int, str]] = {}
        for i in range(len(context.segments) - 1, -1, -1):
            for outcome in reversed(self._outcomes(context.segments[i])):
                why = _why(outcome, calls, files, texts)
                if why is not None:
                    found.setdefault(i, {})[outcome.part] = why
                if not outcome.is_error:
                    _remember(outcome, calls, files, texts)
        return found


def _why(outcome: Outcome, calls: set[bytes], files: dict[str, str], texts: set[str]) -> str | None:
    if outcome.call in calls:
        return (
            "superseded: the call succeeded later"
            if outcome.is_error
            else ("superseded: the same call was made again")
        )
    path = outcome.path
    if path is not None and path in files and not _writes(outcome):
        return f"superseded: {path} was {files[path]} later"
    if len(outcome.text) >= SAME_TEXT and outcome.text in texts:
        return "superseded: the same output came again"
    return None


def _remember(outcome: Outcome, calls: set[bytes], files: dict[str, str], texts: set[str]) -> None:
    calls.add(outcome.call)
    texts.add(outcome.text)
    path = outcome.path
    if path is None:
        return
    if _writes(outcome):
        files[path] = "written"
    elif isinstance(outcome.args, dict) and len(outcome.args) == 1:
        files.setdefault(path, "read whole")


def _writes(outcome: Outcome) -> bool:
    name = outcome.name.lower()
    return any(word in name for word in WRITE_WORDS)
