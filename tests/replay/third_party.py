"""Third-party strategies, good and bad, that tests run in separate processes."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from marksweep.core.context import PlanningContext
from marksweep.core.strategy import Proposal
from marksweep.model import Action
from marksweep.replay.records import Wire


class Recent:
    """Keeps the prefix and the newest messages; its subclasses break a rule at one step."""

    def __init__(self, at: int = 0) -> None:
        self.at = at
        """The step at which something happens, from 1; 0 is never."""

    def start(self, pinned: list[Wire], limit: int) -> None:
        self.pinned, self.limit, self.step = pinned, limit, 0

    def add(self, messages: list[Wire]) -> None:
        self.tail = messages
        self.step += 1

    def context(self) -> list[Wire]:
        return self.bad() if self.step == self.at else [*self.pinned, *self.tail]

    def bad(self) -> list[Wire]:
        raise NotImplementedError


class Peeks(Recent):
    """Reads the transcript from the file it came from, and shows what comes next."""

    def __init__(self, path: str, at: int) -> None:
        super().__init__(at)
        self.path = path

    def bad(self) -> list[Wire]:
        coming = json.loads(Path(self.path).read_text())[-1]
        note = {"role": "user", "content": "I think that\n" + str(coming["content"])}
        return [*self.pinned, note, *self.tail]


class EditsPrefix(Recent):
    def bad(self) -> list[Wire]:
        return [{**self.pinned[0], "content": "You fix bugs!"}, *self.pinned[1:], *self.tail]


class SplitsPair(Recent):
    def bad(self) -> list[Wire]:
        return [*self.pinned, {"role": "tool", "tool_call_id": "c9", "content": ""}, *self.tail]


class Hangs(Recent):
    def bad(self) -> list[Wire]:
        time.sleep(600)
        return []


class Dies(Recent):
    def bad(self) -> list[Wire]:
        os._exit(7)


class DiesAtOnce(Recent):
    def __init__(self) -> None:
        os._exit(4)


class Raises(Recent):
    def bad(self) -> list[Wire]:
        raise RuntimeError("no idea what to keep")


class FailsAtStart(Recent):
    def start(self, pinned: list[Wire], limit: int) -> None:
        raise RuntimeError("not today")


class Chatters(Recent):
    """Prints, reads standard input, and still answers."""

    def context(self) -> list[Wire]:
        print("thinking aloud")
        sys.stdin.read()
        return super().context()


class GivesNonsense(Recent):
    def bad(self) -> list[Wire]:
        return [object()]  # type: ignore[list-item]


class GivesBrokenCalls(Recent):
    def bad(self) -> list[Wire]:
        return [*self.pinned, {"role": "assistant", "tool_calls": [{"id": 3}]}, *self.tail]


class Remembers(Recent):
    def recall(self, query: str, limit: int) -> list[str]:
        return [f"about {query}"]


class Oldest:
    """A strategy of the shared core."""

    name = "oldest"

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        for i in context.units.firsts():
            members = context.units.members(i)
            if context.may_go(members):
                yield Proposal(members, Action.STASH, "the oldest left")


NUMBER = 3
