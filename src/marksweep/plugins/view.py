"""A history as the collector sees it: segments with policies, roots, and what stands beside it.

The ledger says what each message is; here that becomes a context. Entries of the ledger outside the
conversation (tool schemas, enrichment) are segments too, so that one plan weighs them all.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from marksweep.core.context import PlanningContext
from marksweep.dialects import Dialect, dialect_named
from marksweep.dialects.pairing import tied
from marksweep.ledger import InstructionBudget, InstructionSource, SourceEntry
from marksweep.ledger.conversation import Reading
from marksweep.ledger.entries import ChildKind
from marksweep.messages import Counter, Message, Role
from marksweep.messages.turns import NOTICE, PREAMBLE, Turn, user_messages
from marksweep.model import (
    GCPolicy,
    Hold,
    Link,
    Pressure,
    Reference,
    Segment,
    Snapshot,
)

_IN_HISTORY = frozenset({InstructionSource.CONVERSATION, InstructionSource.THINKING})


class Outside(msgspec.Struct, frozen=True):
    """An entry of the ledger that is no part of the history."""

    source: InstructionSource
    key: str | None
    entry: SourceEntry


class Protection(msgspec.Struct, frozen=True):
    """Turns that no strategy may touch."""

    recent_turns: int = 0
    pinned: tuple[int, ...] = ()


class View(msgspec.Struct, frozen=True):
    """A history without its notices, its place in the ledger, and the context made of both.

    Segment i is message i; behind the messages come the entries outside the history.
    """

    history: tuple[Message, ...]
    messages: tuple[Message, ...]
    reading: Reading
    outside: tuple[Outside, ...]
    context: PlanningContext
    total: int
    """Tokens of the whole context and of the notices left out of it."""
    notices: int
    """The number of the latest notice."""
    dialect: Dialect | None


def look(
    history: Sequence[Message],
    counter: Counter,
    *,
    ledger: InstructionBudget,
    outside: Sequence[Outside],
    protection: Protection,
    pressure: Pressure,
    yielding: frozenset[str],
    now: datetime,
    form: Callable[[Message], str] | None,
) -> View:
    """Set the context. `yielding` names the CONDITIONAL children whose owner lets go.

    `form` tells messages of one name apart, for strategies that remember them; others need none.
    """
    history = messages = tuple(history)
    voices = user_messages(history)
    notices = {at: number for at, (name, number) in voices.made.items() if name == NOTICE}
    if notices:
        messages = tuple(m for at, m in enumerate(history) if at not in notices)
        voices = user_messages(messages)
    reading = ledger.read_off(messages, counter, voices)
    said = ledger.declared(InstructionSource.CONVERSATION)
    types = {kind: kind.value.replace("_", " ") for kind in ChildKind}
    dialect = dialect_of(messages)
    names = _names(messages)
    ties = _ties(names, dialect.ties(messages) if dialect else tied(reading.matches.answers))
    turn_of = _turn_of(messages, reading)
    seconds = now.timestamp()
    moments = {seconds: now}
    segments = []
    last, kind, policy, moment = None, "", GCPolicy.PARTIAL, now
    for at, entry in enumerate(reading.entries):
        if entry is not last:  # A call and its results are one.
            last, kind, declared = entry, types[entry.kind], said.get(entry.key)
            policy = _policy(entry.key, entry.policy, yielding)
            arrived = ledger.arrived(messages[at].message_id, seconds)
            moment = _moment(declared.created_at if declared else arrived, moments)
        segments.append(
            Segment(
                segment_id=names[at],
                type=kind,
                created_at=moment,
                last_touched_at=moment,
                raw=form(messages[at]) if form else "",
                tokens=reading.sizes[at],
                topic_id=turn_of[at],
                references=ties[at],
                policy=policy,
                position=at,
            )
        )
    for at, item in enumerate(outside, len(messages)):
        segments.append(
            Segment(
                segment_id=f"{item.source}/{item.key or ''}",
                type=item.source.value,
                created_at=_moment(item.entry.created_at, moments),
                tokens=item.entry.tokens,
                policy=_policy(item.key or item.source, item.entry.gc_policy, yielding),
                position=at,
            )
        )
    roots = dict(_roots(messages, reading, protection))
    context = PlanningContext(
        Snapshot(tuple(segments), "", heap="conversation"), roots, now, pressure=pressure
    )
    return View(
        history,
        messages,
        reading,
        tuple(outside),
        context,
        context.size + sum(counter(history[at]) for at in notices),
        max(notices.values(), default=0),
        dialect,
    )


def outside_of(entries: Mapping[InstructionSource, SourceEntry]) -> Iterator[Outside]:
    """Every counted entry that is no part of the history."""
    for source, entry in entries.items():
        if source in _IN_HISTORY:
            continue
        if not entry.children and entry.tokens:
            yield Outside(source, None, entry)
        for key, child in entry.children.items():
            yield Outside(source, key, msgspec.structs.replace(child, tokens=child.total_tokens()))


def _policy(key: str, policy: GCPolicy, yielding: frozenset[str]) -> GCPolicy:
    """The policy, but for what its owner lets go of."""
    return GCPolicy.EPHEMERAL if key in yielding else policy


def _names(messages: Sequence[Message]) -> list[str]:
    """Name segments after their messages; those that share an id are told apart by their place.

    One walk: of very many messages, each is fetched from memory but once.
    """
    names: list[str] = []
    taken: set[str] = set()
    for at, message in enumerate(messages):
        name = message.message_id
        while name in taken:
            name = f"{name} at {at}"
        taken.add(name)
        names.append(name)
    return names


def _ties(names: Sequence[str], pairs: Iterable[tuple[int, int]]) -> list[tuple[Reference, ...]]:
    """Pair what is valid only together: calls with results, and what else a provider ties.

    The later one refers to the earlier, which is quickly found: most results follow their call.
    """
    ties: list[tuple[Reference, ...]] = [()] * len(names)
    for one, other in pairs:
        ties[other] += (Reference(names[one], Link.ANSWERS, Hold.PAIRED),)
    return ties


def dialect_of(messages: Sequence[Message]) -> Dialect | None:
    """The dialect most messages were read in; None if they came from nowhere."""
    named = Tally(message.dialect for message in messages if message.dialect)
    return dialect_named(named.most_common(1)[0][0]) if named else None


def _turn_of(messages: Sequence[Message], reading: Reading) -> list[str]:
    names = [PREAMBLE] * len(messages)
    for turn in reading.turns:
        names[turn.start : turn.stop] = [f"turn_{turn.number}"] * (turn.stop - turn.start)
    return names


def _roots(
    messages: Sequence[Message], reading: Reading, protection: Protection
) -> Iterator[tuple[int, str]]:
    """What must stay beyond what its policy locks; for one message, the last reason counts."""
    turns = reading.turns
    recent = turns[max(0, len(turns) - protection.recent_turns) :]
    for turn in turns:
        if turn.number in protection.pinned:
            yield from ((at, f"in the pinned turn {turn.number}") for at in _span(turn))
    for turn in recent if protection.recent_turns else ():
        yield from ((at, f"in one of the last {len(recent)} turns") for at in _span(turn))
    opening = next((at for at, m in enumerate(messages) if m.role is not Role.SYSTEM), None)
    if opening is not None and messages[opening].role is not Role.MODEL:
        yield opening, "it stands first, and a history begins with the user"
    for at in range(_first_unanswered(messages), len(messages)):
        yield at, "the model has not answered it yet"


def _span(turn: Turn) -> range:
    return range(turn.start, turn.stop)


def _first_unanswered(messages: Sequence[Message]) -> int:
    """The last thing the model said: it and what follows belong to the next request.

    Where the model never spoke, that is the last message alone.
    """
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role is Role.MODEL:
            return at
    return max(0, len(messages) - 1)


def _moment(seconds: float, known: dict[float, datetime]) -> datetime:
    moment = known.get(seconds)
    if moment is None:
        moment = known[seconds] = datetime.fromtimestamp(seconds, UTC)
    return moment
