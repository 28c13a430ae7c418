"""What a dialect is, what dialects have in common, and the types in which validity is reported.

A dialect reads one provider message into a role and parts, and builds provider messages from parts.
It never sees the whole conversation, except in its rules and its ties.

Every part that was read carries the provider's own block in `raw`, every message its whole value.
Writing uses `raw`; the other fields are what we understood of it. So an edit goes through the
dialect, which changes both.

Calls and results are matched by id, each result with the nearest earlier call that still waits for
one; what was matched is valid only together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter, is_
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from marksweep.errors import BadInput
from marksweep.messages import FunctionCall, Message, Part, Role, ToolResult
from marksweep.sections import is_left_out
from marksweep.tokens import is_block, media_in, result_text

Json: TypeAlias = Any
"""A value as JSON has it. Providers add fields as they please, so none is typed more closely."""


class Unreadable(BadInput):
    """One message that cannot be read; the rest of the history can."""


class Skipped(msgspec.Struct, frozen=True):
    """Something that was not read: where it was, and why."""

    position: int
    """Index in the input: a message in its list, a line in its file."""
    reason: str


class Fault(NamedTuple):
    """Where a rule is broken, or was repaired, and how."""

    position: int
    what: str


class Finding(msgspec.Struct, frozen=True):
    """A place where a history breaks a provider's rule."""

    rule: str
    provider: str
    position: int
    """Index of the message in the input."""
    what: str
    mend: str


class Change(msgspec.Struct, frozen=True):
    """What a repair did, for which rule."""

    rule: str
    position: int
    """Index of the message in the history at the time the rule was applied."""
    what: str


Messages = Sequence[Message]
Repaired = tuple[list[Message], list[Fault]]
Check = Callable[[Messages], Iterator[Fault]]


class Rule(msgspec.Struct, frozen=True):
    """One thing a provider demands of a history, how to detect a breach and how to repair it."""

    name: str
    source: str
    """Where the provider says so: a page of its documentation, or its error message."""
    advice: str
    """How to repair it, for people to read."""
    check: Check
    repair: Repair
    """Makes the check pass with the least change, where it does not pass."""


class Dialect(Protocol):
    """A provider's message format."""

    @property
    def name(self) -> str:
        """The name that callers use."""
        ...

    @property
    def rules(self) -> tuple[Rule, ...]:
        """What the provider demands, in the order a repair applies them."""
        ...

    def read(self, raw: Json) -> tuple[Role, tuple[Part, ...]]:
        """Parse one provider message; Unreadable if that cannot be done."""
        ...

    def rebuild(self, raw: Json, parts: Sequence[Part]) -> Json:
        """Return a copy of a provider message that holds these parts and keeps its other fields."""
        ...

    def compose(self, role: Role, parts: Sequence[Part]) -> list[Json]:
        """Compose provider messages from parts; a part's `raw`, if any, is in this dialect."""
        ...

    def answer(self, asked: Part, text: str) -> Part:
        """Make a result for the call that a part asks for."""
        ...

    def with_call_id(self, part: Part, call_id: str) -> Part:
        """Return the same call or result under another id."""
        ...

    def with_result(self, part: Part, text: str) -> Part:
        """Return the same result with its words replaced by a text.

        Pictures and files stay beside a text that is shortened, and go with one that is left out.
        What cannot hold a text, such as a screenshot, is returned unchanged.
        """
        ...

    def tying(self) -> Tying:
        """Return a new `Tying`, which finds messages that are valid only together."""
        ...

    def joins(self, before: Message, after: Message) -> bool:
        """Whether two adjacent messages must be written as one."""
        ...


Repair = Callable[[Dialect, Messages], Repaired]


def message_of(dialect: Dialect, raw: Json, message_id: str) -> Message:
    """Read one provider message."""
    value = plain(raw)
    role, parts = dialect.read(value)
    return Message(role, parts, message_id, value, dialect.name)


def with_parts(dialect: Dialect, message: Message, parts: Sequence[Part]) -> Message:
    """Return the message with other parts, its other fields kept."""
    raw = dialect.rebuild(message.raw, parts)
    role, read = dialect.read(raw)
    return Message(role, read, message.message_id, raw, dialect.name)


def composed(dialect: Dialect, role: Role, parts: Sequence[Part], message_id: str) -> list[Message]:
    """Make messages of this dialect; where it takes several, their ids are numbered."""
    raws = dialect.compose(role, parts)
    ids = [message_id] if len(raws) == 1 else [f"{message_id}.{n}" for n in range(len(raws))]
    return [message_of(dialect, raw, name) for raw, name in zip(raws, ids, strict=True)]


MAX_DEPTH = 200
"""Levels of a message beyond which it is not read. No provider nests that deep, and every level
takes one of the interpreter's, of which a thousand are all."""

_ATOMS = frozenset({str, int, float, bool, type(None)})


def plain(value: Json, depth: int = 0) -> Json:
    """Return JSON data for what an SDK or a program has, such as models or bytes inside dicts.

    JSON data is returned unchanged. Unreadable if it has no form in JSON.
    """
    if type(value) in _ATOMS:
        return value
    if depth > MAX_DEPTH:
        raise Unreadable(f"it is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, dict):
        changed = {
            key: new
            for key, item in value.items()
            if type(item) not in _ATOMS and (new := plain(item, depth + 1)) is not item
        }
        return {**value, **changed} if changed else value
    if isinstance(value, list | tuple):
        items = [item if type(item) in _ATOMS else plain(item, depth + 1) for item in value]
        return value if isinstance(value, list) and all(map(is_, items, value)) else items
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_unset=True)
    try:
        return msgspec.to_builtins(value)
    except (TypeError, RecursionError):
        raise Unreadable(f"a {type(value).__name__} in it has no form in JSON") from None


NO_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What `parsed` raises."""

HALVES = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")
"""Lone surrogates, as JSON may escape them."""


def parsed(text: bytes | str) -> Json:
    """Read JSON, also with lone surrogates, which programs leave that cut a text anywhere."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
        if not HALVES.search(data):
            raise
        try:
            return json.loads(data, parse_constant=_refuse)
        except ValueError:
            raise error from None


def _refuse(constant: str) -> Json:
    raise ValueError(f"{constant} is not JSON")


def spelled(value: Json, indent: int | None = None, *, is_sorted: bool = False) -> bytes:
    """Write JSON, with sorted keys if wanted; a lone surrogate is written as its escape."""
    try:
        written = msgspec.json.encode(value, order="sorted" if is_sorted else None)
    except (UnicodeEncodeError, OverflowError):
        builtins, separators = msgspec.to_builtins(value), None if indent else (",", ":")
        return json.dumps(
            builtins, indent=indent, separators=separators, sort_keys=is_sorted
        ).encode()
    return msgspec.json.format(written, indent=indent) if indent else written


def decoded(arguments: Json) -> Json:
    """Decode a call's arguments; text that is not JSON stays text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return parsed(arguments)
    except NO_JSON:
        return arguments


def encoded(arguments: Json) -> str:
    """Write a call's arguments as JSON text; text stays unchanged."""
    return arguments if isinstance(arguments, str) else spelled(arguments).decode()


def no_messages(value: Json) -> BadInput:
    """Make the error for something that is not a list of messages."""
    return BadInput(
        f"{type(value).__name__} where messages were expected. Pass a list of provider "
        "messages, or a request that holds one."
    )


def word(value: Json) -> str:
    """Return a field that should be text; empty for anything else."""
    return value if isinstance(value, str) else ""


def role_in(raw: Json, roles: Mapping[str, Role], default: str = "") -> Role:
    """Return the role of a message; Unreadable if it is not an object with one of these."""
    if not isinstance(raw, dict):
        raise Unreadable(f"{type(raw).__name__} where a message object was expected")
    role = roles.get(word(raw.get("role", default)))
    if role is None:
        raise Unreadable(f"role {raw.get('role')!r}; expected one of {', '.join(roles)}")
    return role


class Slot(msgspec.Struct, frozen=True, order=True, gc=False):
    """The place of a part: its message and its index there."""

    message: int
    part: int


class Matches(NamedTuple):
    """The calls and results of a history, matched."""

    answers: dict[Slot, Slot]
    """From each answered call to its result."""
    unanswered: list[Slot]
    orphans: list[Slot]
    """Results without a call, and second results of one."""


Calls = Callable[[Part], FunctionCall | None]
Results = Callable[[Part], ToolResult | None]


call_of: Calls = attrgetter("function_call")
"""Return the call that a part asks for."""

result_of: Results = attrgetter("function_response")
"""Return the result that a part carries."""


class Matcher:
    """Matches message by message; only pending calls are stored."""

    def __init__(self, calls: Calls = call_of, results: Results = result_of) -> None:
        self._calls = calls
        self._results = results
        self._waiting: dict[str, list[Slot]] = {}

    def feed(self, i: int, message: Message) -> list[tuple[Slot | None, Slot]]:
        """Read the next message; return each of its results with the call it answers."""
        found: list[tuple[Slot | None, Slot]] = []
        for k, part in enumerate(message.parts):
            call = self._calls(part)
            if call is not None:
                self._waiting.setdefault(call.id, []).append(Slot(i, k))
                continue
            result = self._results(part)
            if result is not None:
                found.append((self._answered(result.call_id), Slot(i, k)))
        return found

    def _answered(self, call_id: str) -> Slot | None:
        """Take the first call with this id in the last message that has one."""
        slots = self._waiting.pop(call_id, None)
        if slots is None:
            return None
        if len(slots) == 1:
            return slots[0]
        last = slots[-1].message
        at = next(at for at, slot in enumerate(slots) if slot.message == last)
        self._waiting[call_id] = slots
        return slots.pop(at)

    def waiting(self) -> list[Slot]:
        """Return the calls that have no result, in order."""
        return sorted(slot for slots in self._waiting.values() for slot in slots)


def match(messages: Messages, calls: Calls = call_of, results: Results = result_of) -> Matches:
    """Match the results of a history with its calls."""
    matcher = Matcher(calls, results)
    answers: dict[Slot, Slot] = {}
    orphans: list[Slot] = []
    for i, message in enumerate(messages):
        for call, result in matcher.feed(i, message):
            if call is None:
                orphans.append(result)
            else:
                answers[call] = result
    return Matches(answers, matcher.waiting(), orphans)


class Tying:
    """Says, message by message, which earlier ones the next is valid only together with.

    A result is tied to its call; the messages of a model's run in which it thought are tied to
    each other, since thoughts stay with the calls they led to.
    """

    def __init__(self, calls: Calls = call_of, results: Results = result_of) -> None:
        self._matcher = Matcher(calls, results)
        self._run: list[int] = []
        self._thought = False

    def held(self) -> set[int]:
        """Return the numbers of messages that must stay: their calls wait for a result."""
        return {slot.message for slot in self._matcher.waiting()}

    def thinks(self, message: Message) -> bool:
        """Whether a message of the model has a thought."""
        return any(part.thought is not None for part in message.parts)

    def feed(self, i: int, message: Message) -> list[int]:
        """Read the next message; return the numbers of those it is tied to."""
        answered = self._matcher.feed(i, message)
        tied = {call.message for call, _ in answered if call is not None and call.message != i}
        if message.role is not Role.MODEL:
            self._run = []
            self._thought = False
            return sorted(tied) if len(tied) > 1 else list(tied)
        had_thought = self._thought
        self._thought = had_thought or self.thinks(message)
        if self._thought and self._run:
            tied.update(self._run[-1:] if had_thought else self._run)
        self._run.append(i)
        return sorted(tied)


class TiedByCalls:
    """A dialect in which results are tied to their calls, and any two messages may be adjacent."""

    def tying(self) -> Tying:
        """Tie results to their calls, and thoughts to what the model did next."""
        return Tying()

    def joins(self, before: Message, after: Message) -> bool:  # noqa: ARG002
        """Never: any two messages may follow each other."""
        return False


def parts_of(content: Json, part: Callable[[dict[str, Json]], Part]) -> Iterator[Part]:
    """Read content that is a text or a list of texts and blocks; `part` understands a block."""
    if content is None:
        return
    if isinstance(content, str):
        yield Part(text=content, raw=content)
        return
    if not isinstance(content, list):
        raise Unreadable(f"content is {type(content).__name__}; expected text or a list of blocks")
    for block in content:
        if isinstance(block, str):
            yield Part(text=block, raw=block)
        elif isinstance(block, dict):
            yield part(block)
        else:
            raise Unreadable(f"a content block is {type(block).__name__}; expected an object")


def shortened(content: Json, text: str, kind: str) -> Json:
    """Return the content of a result with another text, in a block of this kind if need be."""
    media = [] if is_left_out(text) else list(media_in(content))
    return [{"type": kind, "text": text}, *media] if media else text


def as_url(mime: str, data: str) -> str:
    """Return an address for data: its own if it has one, else a data URL."""
    if "://" in data[:16] or data.startswith("data:"):
        return data
    return f"data:{mime.replace('*', 'octet-stream')};base64,{data}"


def as_text(result: Json) -> str:
    """Write a result as text."""
    return "" if result is None else encoded(without_blocks(result))


def without_blocks(result: Json) -> Json:
    """Write the blocks of another provider as text, in which pictures and files are only named."""
    if isinstance(result, list) and result and all(map(is_block, result)):
        return "\n".join([result_text([block]) for block in result])
    return result


def as_object(args: Json) -> dict[str, Json]:
    """Write a call's arguments as an object, which some providers require."""
    if isinstance(args, dict):
        return args
    return {} if args is None else {"input": args}
