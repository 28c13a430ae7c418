"""Evidence recall on a conversation small enough to count."""

from __future__ import annotations

from marksweep.replay.evidence import blind, recalled, wire
from marksweep.replay.records import Conversation, Question, Turn, Wire
from marksweep.replay.runner import Answers
from marksweep.replay.table import evidence_row
from tests.replay.stories import by_words

SPOKEN = [Turn("A" if n % 2 else "assistant", f"word{n} is said in turn {n}") for n in range(9)]
TALK = Conversation(
    id="t",
    turns=(*SPOKEN, Turn("A", "A: Yes."), Turn("A", "A: Yes.")),
    questions=(Question("word8?", (8,)), Question("word0 and word8?", (0, 8)), Question("?", (9,))),
)


class Last:
    """Keeps the last messages that fit, and recalls fixed messages."""

    def __init__(self, back: list[str]) -> None:
        self._back = back
        self.asked: list[int] = []
        """How many messages it had, each time its context was requested."""

    def start(self, pinned: list[Wire], limit: int) -> None:
        self._limit, self._told = limit, [*pinned]

    def add(self, messages: list[Wire]) -> None:
        self._told += messages

    def context(self) -> list[Wire]:
        self.asked.append(len(self._told))
        return self._told[-(self._limit // 10) :]

    def recall(self, query: str, limit: int) -> list[str]:
        return self._back


def test_blind_counts_the_gold_turns_in_context_and_skips_repeated_ones() -> None:
    collector = Last([])
    found = blind(TALK, collector, 50, by_words)  # 102 tokens in all; 51 allowed: five messages
    assert found.shares == (1.0, 0.5)
    assert evidence_row("last", "50%", [Answers(found, None)]).blind == 75.0


def test_the_context_is_asked_for_after_every_eighth_turn_and_the_last() -> None:
    collector = Last([])
    seventeen = Conversation("t", tuple(SPOKEN[n % 9] for n in range(17)), ())
    blind(seventeen, collector, 50, by_words)
    assert collector.asked == [8, 16, 17]


def test_recall_has_half_the_budget() -> None:
    gold = TALK.turns[0].text
    assert recalled(TALK, Last([gold]), 50, by_words).shares == (0.0, 0.5)
    over = recalled(TALK, Last([gold] * 3), 50, by_words)
    assert over.shares == (0.0, 0.0)
    assert over.over_limit == 3


def test_the_assistant_speaks_as_such() -> None:
    assert [m["role"] for m in wire(TALK)[:3]] == ["assistant", "user", "assistant"]
