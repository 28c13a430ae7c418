"""The timeline of one transcript: what was in context at each step, what went, what was missed.

A message of a context is traced to the original it came from: the same text, the same call, or
most of its lines. What came from nowhere is a note that the collector wrote or brought back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from marksweep.preview import MAX_CHANGES, MAX_MISSED
from marksweep.preview import excerpt as excerpt_lines
from marksweep.replay.cases import Case
from marksweep.replay.drive import Collector, Pricer, drive
from marksweep.replay.guards import is_message
from marksweep.replay.hits import Proof, Reader, Shown, proofs
from marksweep.replay.needs import Need, action_of, uses_calls
from marksweep.replay.records import Wire, calls_of, content_of, text_of

MAX_EXCERPT_CHARS = 160
"""Characters of a message or an action that are shown."""
MAX_NAMES = 4
"""Atoms of a missed need that are named; the rest is counted."""
MAX_ATOM_CHARS = 80
"""Characters of an atom that are shown."""
MIN_SHARED_LINES = 0.5
"""Share of its lines that must be in an original for a message to be a part of it."""


class State(StrEnum):
    """How much of a message is in context."""

    WHOLE = "whole"
    PART = "part"


class Span(msgspec.Struct, frozen=True, gc=False):
    """Steps, first and last, at which a message was in context."""

    first: int
    last: int
    state: State


class Life(msgspec.Struct, frozen=True):
    """A message, and when it was in context."""

    at: int
    role: str
    tokens: int
    text: str
    spans: tuple[Span, ...]


class Missed(msgspec.Struct, frozen=True):
    """Something a step needed that was not there."""

    atoms: tuple[str, ...]
    more: int
    """Atoms beyond those named."""
    source: int
    """The newest message that held it."""
    last_seen: int | None
    """The step at whose context it was last there; None: at none."""


class Moment(msgspec.Struct, frozen=True):
    """One step: what the agent did, and what its context was."""

    at: int
    action: str
    tokens: int
    recall: float | None
    """Share of its needs that were there, in percent; None if it has none."""
    notes: int
    """Tokens that the collector wrote or brought back."""
    dropped: tuple[int, ...]
    """Messages that were there, or more of them was, one step before."""
    missed: tuple[Missed, ...]
    violation: str | None = None


class Cut(msgspec.Struct, frozen=True):
    """A message that was shortened or dropped: its text before and after."""

    step: int
    """The step at whose context it was cut."""
    at: int
    role: str
    tokens: int
    """Tokens that went."""
    before: str
    after: str
    """Empty if nothing of it was left."""


class Timeline(msgspec.Struct, frozen=True):
    """One transcript under one strategy and budget."""

    transcript: str
    strategy: str
    budget: str
    limit: int
    pinned: int
    lives: tuple[Life, ...]
    moments: tuple[Moment, ...]
    cuts: tuple[Cut, ...] = ()
    """The largest cuts, the largest first."""


def most_missed(timeline: Timeline) -> list[tuple[str, int]]:
    """What the most steps missed, and how many did; the names that were listed only."""
    counts = Counter(
        atom for moment in timeline.moments for atom in {a for m in moment.missed for a in m.atoms}
    )
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:MAX_MISSED]


class Recording:
    """A collector that remembers every context it gave."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self.contexts: list[list[Wire]] = []

    def start(self, pinned: list[Wire], limit: int) -> None:
        """Begin a run."""
        self._collector.start(pinned, limit)

    def add(self, messages: list[Wire]) -> None:
        """Take new messages."""
        self.contexts.append([])
        self._collector.add(messages)

    def context(self) -> list[Wire]:
        """Ask for the context, and keep it."""
        given = self._collector.context()
        if isinstance(given, list) and all(map(is_message, given)):
            self.contexts[-1] = list(given)
        return given


def trace(
    case: Case,
    collector: Collector,
    tokens: Pricer,
    *,
    strategy: str,
    budget: str,
    limit: int,
) -> Timeline:
    """Run a collector over a transcript and write down what happened."""
    found = case.study
    run, pinned = found.trajectory, found.trajectory.pinned
    recording, reader = Recording(collector), Reader()
    needed = proofs(found)
    results = drive(found, needed, recording, limit, tokens=tokens, reader=reader)
    behind = [context[pinned:] for context in recording.contexts]
    shown = [reader.read(context) for context in behind]
    origins = Origins(run.messages, pinned, tokens)
    by_calls = uses_calls(run.messages)
    moments: list[Moment] = []
    present: list[dict[int, float]] = []
    cuts: list[Cut] = []
    last: dict[int, Wire] = {}
    for k, (step, result) in enumerate(zip(found.steps, results, strict=True)):
        shares, notes, held = origins.of(behind[k])
        before = present[-1] if present else {}
        gone = tuple(m for m, share in sorted(before.items()) if shares.get(m, 0.0) < share)
        cuts += [_cut(k, m, last[m], held.get(m), tokens) for m in gone]
        cuts = sorted(cuts, key=lambda cut: -cut.tokens)[:MAX_CHANGES]
        last = held
        missed = _missed(step.any, needed[k].any, shown, k) if result.any is not None else ()
        action = action_of(run.messages[step.at], by_calls=by_calls, answers=True)
        moments.append(
            Moment(
                at=step.at,
                action=excerpt(action or content_of(run.messages[step.at])),
                tokens=sum(map(tokens, recording.contexts[k])),
                recall=None if result.any is None else round(100 * result.any, 2),
                notes=notes,
                dropped=gone,
                missed=missed,
                violation=result.violation.value if result.violation else None,
            )
        )
        present.append(shares)
    lives = [
        Life(m, message["role"], case.prices[m], excerpt(text_of(message)), _spans(m, present))
        for m, message in enumerate(run.messages)
        if m >= pinned
    ]
    return Timeline(
        run.id,
        strategy,
        budget,
        limit,
        sum(case.prices[:pinned]),
        tuple(lives),
        tuple(moments),
        tuple(cuts),
    )


def _cut(k: int, m: int, was: Wire, now: Wire | None, tokens: Pricer) -> Cut:
    left, after = (tokens(now), excerpt_lines(text_of(now))) if now else (0, "")
    return Cut(k, m, was["role"], tokens(was) - left, excerpt_lines(text_of(was)), after)


class Origins:
    """Finds the original that a message of a context came from."""

    def __init__(self, messages: Sequence[Wire], pinned: int, tokens: Pricer) -> None:
        self._tokens = tokens
        self._messages = messages
        self._pinned = pinned
        self._same: dict[object, list[int]] = {}
        self._calls: dict[str, int] = {}
        for m in range(pinned, len(messages)):
            self._same.setdefault(_content(messages[m]), []).append(m)
            for name in _names(messages[m]):
                self._calls.setdefault(name, m)
        self._lines: list[set[str]] = [set(text_of(message).split("\n")) for message in messages]
        self._parts: dict[object, int | None] = {}

    def of(self, context: Sequence[Wire]) -> tuple[dict[int, float], int, dict[int, Wire]]:
        """Share that is there of each original, the tokens of notes, and what there is of each."""
        shares: dict[int, float] = {}
        held: dict[int, Wire] = {}
        notes = 0
        for message in context:
            size = self._tokens(message)
            m = self._origin(message, shares)
            if m is None:
                notes += size
            else:
                held[m] = message
                shares[m] = min(1.0, size / max(1, self._tokens(self._messages[m])))
        return shares, notes, held

    def _origin(self, message: Wire, taken: dict[int, float]) -> int | None:
        for m in self._same.get(_content(message), ()):
            if m not in taken:
                return m
        for name in _names(message):
            if name in self._calls:
                return self._calls[name]
        key = _content(message)
        if key not in self._parts:
            self._parts[key] = self._best(message)
        part = self._parts[key]
        return None if part in taken else part

    def _best(self, message: Wire) -> int | None:
        lines = {line for line in text_of(message).split("\n") if line.strip()}
        best, most = None, MIN_SHARED_LINES * len(lines)
        for m in range(self._pinned, len(self._messages)):
            if self._messages[m]["role"] == message["role"]:
                shared = len(lines & self._lines[m])
                if shared and shared >= most:
                    best, most = m, shared
        return best


def _content(message: Wire) -> object:
    return message["role"], content_of(message), tuple(_names(message)), tuple(calls_of(message))


def _names(message: Wire) -> list[str]:
    """The names that tie a call and its result: of the calls made, or of the call answered."""
    if message["role"] == "tool":
        return [f"result {message.get('tool_call_id')}"]
    return [f"call {call.get('id')}" for call in message.get("tool_calls") or ()]


def _missed(
    needs: tuple[Need, ...], proven: tuple[tuple[Proof, ...], ...], shown: list[Shown], k: int
) -> tuple[Missed, ...]:
    out = []
    for need, proof in zip(needs, proven, strict=True):
        lost = [(atom, p) for atom, p in zip(need.atoms, proof, strict=True) if not shown[k].has(p)]
        if lost:
            seen = max((_last_seen(p, shown, k) for _, p in lost), default=-1)
            out.append(
                Missed(
                    tuple(excerpt(atom, MAX_ATOM_CHARS) for atom, _ in lost[:MAX_NAMES]),
                    max(0, len(lost) - MAX_NAMES),
                    need.sources[-1],
                    None if seen < 0 else seen,
                )
            )
    return tuple(out)


def _last_seen(proof: Proof, shown: list[Shown], k: int) -> int:
    return next((j for j in range(k - 1, -1, -1) if shown[j].has(proof)), -1)


def _spans(m: int, present: list[dict[int, float]]) -> tuple[Span, ...]:
    spans: list[Span] = []
    for k, shares in enumerate(present):
        if m not in shares:
            continue
        state = State.WHOLE if shares[m] >= 1 else State.PART
        last = spans[-1] if spans else None
        if last is not None and last.last == k - 1 and last.state is state:
            spans[-1] = Span(last.first, k, state)
        else:
            spans.append(Span(k, k, state))
    return tuple(spans)


def excerpt(text: str, most: int = MAX_EXCERPT_CHARS) -> str:
    """The beginning of a text on one line."""
    flat = " ".join(text[: 8 * most].split())
    return flat if len(flat) <= most else flat[: most - 1].rstrip() + "…"
