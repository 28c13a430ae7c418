"""Histories that a provider would refuse after a collection, over recorded trajectories.

Every strategy that has a name, and the usual tiers, at budgets from 5 to 95 percent of each
trajectory in `MARKSWEEP_DATA`. A history is judged twice: by our `validate`, and by
a check of calls and answers that shares no code with us. LangChain's `trim_messages` gets the same
trajectories and budgets, in its own environment. And whether `gc_budget` with its default settings
reaches its target, on each trajectory when it has filled 90 percent of a window; if not, whether
what must stay is larger than the target.
"""

from __future__ import annotations

import json
import lzma
import subprocess
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.datasets import folder
from benchmarks.peers.drivers.pairing import has_task, is_paired
from benchmarks.peers.environments import CannotInstall, interpreter, last_line
from benchmarks.peers.transcripts import approximate_tokens
from benchmarks.rows import Row
from marksweep.conversation import Conversation
from marksweep.dialects import read, validate
from marksweep.messages import Message, Role, count_message, starts_turn
from marksweep.plugins import GCConfig, GCTriggerReason, load_gc_plugin
from marksweep.strategies.registry import STRATEGIES, Choice

PERCENTS = range(5, 100, 10)
MOST_RECORDS = 400
"""Trajectories taken of one file, evenly spread. All of the usual corpus takes a few minutes."""

FULL_PERCENT = 90.0
"""Percentage of the window that a trajectory fills when a plugin collects it."""

TIERS = ("superseded", "mask", "truncate")
MINUTES = 10
"""How long the peer may take."""

DRIVER = Path(__file__).parent / "peers" / "drivers" / "run_langchain_validity.py"


class Record(msgspec.Struct, frozen=True):
    """A trajectory and the budgets it is collected to."""

    messages: list[dict[str, Any]]
    budgets: list[int]


class Corpus(msgspec.Struct, frozen=True):
    """The chosen trajectories, and how many there are in total."""

    records: list[Record]
    available: int


def corpus() -> Corpus:
    """Read the trajectories; skip files with conversations that are not lists of messages."""
    taken: list[Record] = []
    available = 0
    for file in sorted(folder().glob("*.jsonl.xz")):
        with lzma.open(file, "rt", encoding="utf-8") as lines:
            found = [each["messages"] for each in map(json.loads, lines) if "messages" in each]
        available += len(found)
        for messages in found[:: -(-len(found) // MOST_RECORDS) or 1]:
            total = approximate_tokens(messages)
            taken.append(Record(messages, [total * percent // 100 for percent in PERCENTS]))
    return Corpus(taken, available)


def counter(message: Message) -> int:
    """Count tokens as for all peers."""
    return approximate_tokens([message.raw])


def judge(record: Record, strategy: Choice, counts: Counter[str]) -> None:
    """Collect one trajectory to each of its budgets; each sweep is undone before the next."""
    talk = Conversation(limit=10**9, strategy=strategy, counter=counter, dialect="openai_chat")
    talk.extend(record.messages)
    for budget in record.budgets:
        plan = talk.plan(budget)
        talk.collect(plan)
        left = talk.messages
        counts["histories"] += 1
        counts["findings"] += bool(validate(left, "openai_chat"))
        counts["unpaired"] += not is_paired(left)
        counts["taskless"] += not has_task(left, record.messages)
        if plan.steps:
            talk.undo(plan.plan_id)


def rows() -> Iterator[Row]:
    """Collect and check everything."""
    found = corpus()
    sound = [r for r in found.records if not validate(r.messages, "openai_chat")]
    which = f"{len(sound)} of {found.available} trajectories, budgets 5–95 % in steps of 10"
    choices: list[Choice] = [*sorted(STRATEGIES), TIERS]
    for strategy in choices:
        counts: Counter[str] = Counter()
        for record in sound:
            judge(record, strategy, counts)
        name = strategy if isinstance(strategy, str) else " → ".join(TIERS)
        wrong = counts["findings"], counts["unpaired"], counts["taskless"]
        yield Row(
            f"invalid histories, {name}; {which}",
            "0",
            f"{max(wrong[:2])} of {counts['histories']:,}; {wrong[2]} without the task",
            not any(wrong),
        )
    outcomes = Counter(map(outcome_at_full, sound))
    yield Row(
        f"gc_budget reaches its target from {FULL_PERCENT:.0f} %; {len(sound)} trajectories",
        "all that can be",
        f"{outcomes[Outcome.REACHED]} of {len(sound)}; larger than the target is the system prompt "
        f"in {outcomes[Outcome.SYSTEM]}, with the user's words in {outcomes[Outcome.WORDS]}, with "
        f"what is unanswered in {outcomes[Outcome.UNANSWERED]}",
        not outcomes[Outcome.MISSED],
    )
    yield Row(
        f"for comparison: LangChain trim_messages; {which}",
        "none",
        trim_messages_result(sound),
        ok=True,
    )


class Outcome(Enum):
    """Whether a plugin reached its target; if not, what alone is larger than the target."""

    REACHED = "reached"
    SYSTEM = "the system prompt"
    WORDS = "the system prompt and the user's words"
    UNANSWERED = "these, and what the model said last with what follows"
    MISSED = "nothing that must stay"


def outcome_at_full(record: Record) -> Outcome:
    """Collect one trajectory with gc_budget, as a host that knows its window would."""
    history = list(read(record.messages, "openai_chat").messages)
    total = sum(map(count_message, history))
    window, config = int(total * 100 / FULL_PERCENT), GCConfig()
    left, _ = load_gc_plugin("gc_budget").collect(
        history,
        {"context_limit": window, "total_tokens": total, "percent_used": FULL_PERCENT},
        config,
        GCTriggerReason.THRESHOLD,
    )
    target = window * config.target_percent / 100
    if sum(map(count_message, left)) <= target:
        return Outcome.REACHED
    size = 0
    unanswered = {m.message_id for m in history[_last_said(history) :]}
    for outcome, must_stay in (
        (Outcome.SYSTEM, [m for m in left if m.role is Role.SYSTEM]),
        (Outcome.WORDS, [m for m in left if starts_turn(m)]),
        (
            Outcome.UNANSWERED,
            [m for m in left if m.message_id in unanswered and not starts_turn(m)],
        ),
    ):
        size += sum(map(count_message, must_stay))
        if size > target:
            return outcome
    return Outcome.MISSED


def _last_said(history: list[Message]) -> int:
    return max(at for at, message in enumerate(history) if message.role is Role.MODEL)


def trim_messages_result(records: list[Record]) -> str:
    """Run LangChain on the same trajectories; return the result as text."""
    lines = "\n".join(msgspec.json.encode(record).decode() for record in records)
    try:
        ran = subprocess.run(
            [str(interpreter("langchain")), str(DRIVER)],
            input=lines,
            capture_output=True,
            text=True,
            timeout=MINUTES * 60,
            check=False,
        )
    except CannotInstall as cannot:
        return f"not installed: {cannot}"
    except subprocess.TimeoutExpired:
        return f"not done in {MINUTES} minutes"
    if ran.returncode:
        return f"did not run: {last_line(ran.stderr)}"
    said = json.loads(ran.stdout)
    return (
        f"{said['unpaired']:,} of {said['histories']:,} invalid; {said['taskless']:,} without the "
        f"task (langchain-core {said['version']})"
    )
