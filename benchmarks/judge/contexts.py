"""What each collector would show a model at chosen steps of recorded runs, and what came next.

A step is taken if its whole past fits a small model's window, so that keeping everything can be
scored too. The limit is the pinned prefix and WINDOW tokens. Besides the strategies there are four
bounds: `full` keeps everything, `nothing` only what no collector may change, `truncate` the newest
units, and the `oracle` has read the next message.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from benchmarks.datasets import folder
from benchmarks.judge.kinds import KINDS
from marksweep.replay.catalog import canonical, maker
from marksweep.replay.collectors import ConversationCollector
from marksweep.replay.counting import exact
from marksweep.replay.needs import uses_calls
from marksweep.replay.records import (
    Count,
    Trajectory,
    Wire,
    calls_of,
    content_of,
    price,
    read_records,
)

WINDOW = 1000
"""Tokens that a collector may keep in addition to the pinned prefix."""
WIDER = 2000
"""The same for other kinds of runs: their messages are longer."""
LARGEST_PREFIX = 2600
FENCE = "```"
GAP = "(...)"
PIECE = 120
"""Minimum characters of a piece of the oracle; it ends at the next line break."""
LONG_PIECE = 400
MARK_TOKENS = 6
"""Tokens that each message costs the oracle."""


class Sample(msgspec.Struct, frozen=True):
    """Which steps of a set are judged."""

    records: slice
    """Which of the records that have such steps, in the order of the digests of their ids."""
    steps: int = 2
    """Steps of a record at most."""
    past: range = range(3500, 5401)
    """Tokens of the whole past of a step."""
    answer: range = range(8, 501)
    """Tokens of what the agent did next."""
    acts: bool = True
    """Whether only messages with a call, a code block or a number are taken."""


SHARED = {"tau_airline": Sample(slice(60)), "mini_swe": Sample(slice(60))}
OTHERS = {
    "tau_airline": Sample(slice(None), steps=4, past=range(2500, 6501)),
    "mini_swe": Sample(slice(60, None)),
}
"""More steps, so that a difference can be seen; those of `mini_swe` are not shared ones."""
EVERY = dict.fromkeys(SHARED, Sample(slice(None), steps=8, past=range(2500, 6501)))
"""Up to eight steps of every record: enough to see a difference of a few points."""
OTHER_KINDS = {
    "coding_sessions": Sample(slice(None), steps=3, past=range(3500, 6501)),
    "mini_swe_calls": Sample(slice(90), steps=4, past=range(3500, 6501)),
    "beam100k": Sample(slice(None), past=range(3500, 6501), answer=range(8, 901), acts=False),
}
"""Steps of kinds of runs that nothing was tuned on."""

_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"\w[\w./:\-]{2,}")

Shown = list[tuple[str, str]]
"""A context: roles and texts."""


class Step(msgspec.Struct, frozen=True):
    """An assistant message of a run, and where the batch before it begins."""

    at: int
    tail: int


def shown(message: Wire) -> tuple[str, str]:
    """A message as its role and a text: what it says, then each call as a line of JSON."""
    lines = [content_of(message), *_calls(message)]
    return message["role"], "\n".join(line for line in lines if line)


def _calls(message: Wire) -> list[str]:
    return [
        json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
        for name, arguments in calls_of(message)
    ]


def chosen(run: Trajectory, sample: Sample, count: Count) -> list[Step]:
    """The steps of a run that are judged, spread over it."""
    sizes = [price(message, count) for message in run.messages]
    if sum(sizes[: run.pinned]) > LARGEST_PREFIX:
        return []
    found, tail = [], run.pinned
    by_calls = uses_calls(run.messages)
    for at in range(run.pinned, len(run.messages)):
        message = run.messages[at]
        if message["role"] != "assistant":
            continue
        fits = (
            sum(sizes[tail:at]) <= WINDOW
            and sizes[at] in sample.answer
            and sum(sizes[:at]) in sample.past
        )
        if fits and (not sample.acts or _acts(message, by_calls=by_calls)):
            found.append(Step(at, tail))
        tail = at
    return found[:: max(1, len(found) // sample.steps)][: sample.steps]


def _acts(message: Wire, *, by_calls: bool) -> bool:
    """Whether a message does something: a call, a code block, or an answer with a number."""
    text = content_of(message)
    if by_calls:
        return bool(message.get("tool_calls")) or _DIGIT.search(text) is not None
    return FENCE in text


def collected(
    run: Trajectory, steps: Sequence[Step], name: str, window: int, count: Count
) -> Iterator[tuple[Step, Shown]]:
    """Drive a collector through a run and return what it shows at each of these steps.

    Ours run as in a program: unanswered results are trimmed too, if they do not fit.
    """
    collector = maker(name)(count)
    prefix = list(run.messages[: run.pinned])
    collector.start(prefix, window + sum(price(message, count) for message in prefix))
    if isinstance(collector, ConversationCollector):
        collector.trim_what_waits()
    wanted = {step.at: step for step in steps}
    tail = run.pinned
    for at in range(run.pinned, max(wanted) + 1):
        if run.messages[at]["role"] != "assistant":
            continue
        collector.add(list(run.messages[tail:at]))
        context = collector.context()
        if at in wanted:
            yield wanted[at], [shown(message) for message in context]
        tail = at


def pieces(text: str) -> Iterator[str]:
    """Split a text into short pieces that end at a line break, or at a word of a long line."""
    lines: list[str] = []
    for line in text.split("\n"):
        rest = line
        while len(rest) > LONG_PIECE:
            at = rest.rfind(" ", LONG_PIECE // 2, LONG_PIECE)
            at = at if at > 0 else LONG_PIECE
            yield "\n".join([*lines, rest[:at]])
            lines, rest = [], rest[at:]
        lines.append(rest)
        if sum(map(len, lines)) >= PIECE:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


def oracle(run: Trajectory, step: Step, window: int, count: Count) -> Shown:
    """Return what a collector would keep if it had read the next message: pieces with its words.

    Rare words count more, and each once; the newest pieces fill the remaining room.
    """
    messages = [shown(message) for message in run.messages[: step.at + 1]]
    needed = set(_WORD.findall(messages[step.at][1]))
    old = [
        (home, place, piece)
        for home in range(run.pinned, step.tail)
        for place, piece in enumerate(pieces(messages[home][1]))
    ]
    held = [set(_WORD.findall(piece)) for _, _, piece in old]
    spread = Counter(word for words in held for word in words)
    sizes = [count(piece) + 2 for _, _, piece in old]
    room = window - sum(price(message, count) for message in run.messages[step.tail : step.at])
    kept: set[int] = set()

    def take(number: int) -> None:
        nonlocal room
        is_open = any(old[each][0] == old[number][0] for each in kept)
        room -= sizes[number] + (0 if is_open else MARK_TOKENS)
        kept.add(number)

    left = set(needed)
    while True:
        gains = {
            number: sum(math.log(1 + len(old) / spread[word]) for word in words & left)
            / sizes[number]
            for number, words in enumerate(held)
            if number not in kept and sizes[number] + MARK_TOKENS <= room
        }
        best = max(gains, key=lambda number: gains[number], default=None)
        if best is None or not gains[best]:
            break
        take(best)
        left -= held[best]
    for number in reversed(range(len(old))):
        if number not in kept and sizes[number] + MARK_TOKENS <= room:
            take(number)
    context = messages[: run.pinned]
    for home in range(run.pinned, step.tail):
        parts, after = [], 0
        for number in sorted(kept):
            where, place, piece = old[number]
            if where == home:
                parts += [piece] if place == after else [GAP, piece]
                after = place + 1
        if parts:
            context.append((messages[home][0], "\n".join(parts)))
    return context + messages[step.tail : step.at]


def write(
    file: Path, names: Sequence[str], window: int, samples: Mapping[str, Sample] = SHARED
) -> int:
    """Write the contexts of collectors and bounds, one per line, after a line with all texts."""
    count = exact()
    names = [canonical(name) for name in names]
    texts: dict[str, str] = {}
    rows: list[dict[str, object]] = []

    def key(text: str) -> str:
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        texts.setdefault(digest, text)
        return digest

    def note(where: tuple[str, str], run: Trajectory, step: Step, kind: str, seen: Shown) -> None:
        message = run.messages[step.at]
        rows.append(
            {
                "set": where[0],
                "id": where[1],
                "step": step.at,
                "kind": kind,
                "tokens": sum(4 + count(text) for _, text in seen),
                "context": [[role, key(text)] for role, text in seen],
                "said": key(content_of(message)),
                "calls": _calls(message),
            }
        )

    for name, sample in samples.items():
        for run, steps in _runs(name, sample, count):
            where = name, run.id
            for step in steps:
                past = [shown(message) for message in run.messages[: step.at]]
                note(where, run, step, "full", past)
                least = past[: run.pinned] + past[step.tail :]
                note(where, run, step, "nothing", least)
                note(where, run, step, "oracle", oracle(run, step, window, count))
            for kind in names:
                for step, seen in collected(run, steps, kind, window, count):
                    note(where, run, step, kind, seen)
    with lzma.open(file, "wt", encoding="utf-8") as out:
        out.write(json.dumps(texts) + "\n")
        out.writelines(json.dumps(row) + "\n" for row in rows)
    return len(rows)


def _runs(name: str, sample: Sample, count: Count) -> Sequence[tuple[Trajectory, list[Step]]]:
    """The runs of a set that a sample takes, in the order of their ids' digests."""
    made = KINDS.get(name)
    file = folder() / f"{name}.jsonl.xz"
    runs = made(folder(), count) if made else read_records(file, Trajectory)
    ordered = sorted(runs, key=lambda run: hashlib.md5(run.id.encode()).hexdigest())  # noqa: S324
    found = [(run, steps) for run in ordered if (steps := chosen(run, sample, count))]
    return found[sample.records]
