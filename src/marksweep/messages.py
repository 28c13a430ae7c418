"""Messages in neutral form, and the one definition of what follows from them.

1. `Message`, `Part`, `Role`: the form that plugins work on. Dialects convert provider formats to it
   and back. A message that was read keeps the provider's own value in `raw`, so that writing it
   preserves every field, including unknown ones.
2. The text of a message, to search and to shorten, and the outcomes of its calls.
3. Turns, for conversations, the ledger and GC plugins. A turn goes from one message typed by the
   user to the next; an image counts. What comes before the first is the preamble. Tool results, and
   the summaries and notices that a collection put into the history, have the role of the user in
   some formats, but start no turn. The first turn is `turn_0`; a turn keeps its number when others
   go.
4. Tokens of a message: the sum of its parts, and a frame around them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any
from uuid import uuid4

import msgspec

from marksweep.sections import LeftOut, missing_tokens
from marksweep.tokens import (
    attached_tokens,
    count,
    data_tokens,
    in_whole,
    media_tokens,
    plain,
    result_text,
    result_tokens,
)


class Role(StrEnum):
    """Who speaks."""

    USER = "user"
    MODEL = "model"
    TOOL = "tool"
    SYSTEM = "system"


class FunctionCall(msgspec.Struct, frozen=True, gc=False):
    """A call the model asks for. `args` is the decoded JSON, or the raw text if it is not JSON."""

    id: str
    name: str
    args: Any = None


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """What a call returned."""

    call_id: str
    name: str = ""
    result: Any = None
    is_error: bool = False


class InlineData(msgspec.Struct, frozen=True, gc=False):
    """An image, a file or sound: its kind, and its bytes or address as the provider gave it."""

    mime_type: str
    data: str


class Part(msgspec.Struct, frozen=True, gc=False):
    """One piece of a message; at most one of its fields is set, beside `raw`.

    A piece whose kind we do not know has only `raw`.
    """

    text: str | None = None
    function_call: FunctionCall | None = None
    function_response: ToolResult | None = None
    thought: str | None = None
    inline_data: InlineData | None = None
    raw: Any = None
    """The provider's own value for this piece, if it was read from one."""

    @classmethod
    def from_text(cls, text: str) -> Part:
        """A part that is plain text."""
        return cls(text=text)


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message of a conversation. Without an id it gets a new one."""

    role: Role
    parts: tuple[Part, ...] = ()
    message_id: str = ""
    raw: Any = None
    """The provider's own message, if it was read from one: what is written back."""
    dialect: str = ""
    """The format of `raw`."""

    def __post_init__(self) -> None:
        """Assign an id if there is none, and freeze the parts."""
        if type(self.parts) is not tuple:
            msgspec.structs.force_setattr(self, "parts", tuple(self.parts))
        if not self.message_id:
            msgspec.structs.force_setattr(self, "message_id", str(uuid4()))

    @classmethod
    def from_text(cls, role: Role, text: str) -> Message:
        """A message that is plain text."""
        return cls(Role(role), (Part(text=text),))

    @property
    def text(self) -> str:
        """The plain text of the message, its parts joined by line breaks."""
        if len(self.parts) == 1:
            return self.parts[0].text or ""
        return "\n".join(part.text for part in self.parts if part.text)

    @property
    def is_work(self) -> bool:
        """Whether the message asks for calls or carries their results, and is not only words."""
        for part in self.parts:
            if part.function_call is not None or part.function_response is not None:
                return True
        return False

    @property
    def function_calls(self) -> tuple[FunctionCall, ...]:
        """The calls this message asks for."""
        return tuple([part.function_call for part in self.parts if part.function_call])

    @property
    def function_responses(self) -> tuple[ToolResult, ...]:
        """The results this message carries."""
        return tuple([part.function_response for part in self.parts if part.function_response])


LONGEST_ARGUMENT = 60
"""Characters of an argument that are repeated where a call is described in a few words."""


PATH_ARGUMENTS = (
    "path",
    "file_path",
    "filepath",
    "filename",
    "file",
    "target_file",
    "notebook_path",
)
"""Arguments by which tools name a file."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a call: one result of a message, with the call it answers."""

    part: int
    """Index of the result among the parts of its message."""
    name: str
    args: Any
    text: str
    """What the result says; pictures are only named."""
    is_error: bool = False
    media: int = 0
    """Tokens of its pictures and files."""

    def is_bulky(self, characters: int) -> bool:
        """Whether it has a picture or a file, or so many characters."""
        return self.media > 0 or len(self.text) >= characters

    @property
    def call(self) -> bytes:
        """The call as one value: equal for equal calls, in any order of arguments."""
        try:
            return _sorted((self.name, self.args))
        except (TypeError, ValueError):
            return repr((self.name, self.args)).encode(errors="replace")

    @property
    def path(self) -> str | None:
        """The file that the call names, if it names one."""
        args = self.args
        if not isinstance(args, dict):
            return None
        return next((args[k] for k in PATH_ARGUMENTS if isinstance(args.get(k), str)), None)

    @property
    def subject(self) -> str:
        """What the result is of, in a line below the call: the file, or the tool."""
        return _in_few_words(self.path or self.name)

    @property
    def said(self) -> str:
        """The call in a few words, for people to read: its name and its first argument."""
        args = self.args
        first = next(iter(args.values()), "") if isinstance(args, dict) and args else args
        said = _in_few_words(str(first)) if first not in (None, "", {}) else ""
        return f"{self.name or 'a tool'} {said}".rstrip()


def _in_few_words(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= LONGEST_ARGUMENT else words[: LONGEST_ARGUMENT - 1] + "…"


class Text(msgspec.Struct, frozen=True, gc=False):
    """A text of a message: words, a result, a call, or a long string in a call's arguments."""

    part: int
    """Index of the part of the message that it is in."""
    words: str
    is_call: bool = False
    """What the agent asks for. The call itself is never cut, and goes only with its results."""
    is_argument: bool = False
    """Whether it is one long string of a call, and not the call itself."""
    is_observed: bool = True
    """Whether it comes from outside, not from the agent itself."""
    is_said: bool = False
    """Whether the user said it, not a tool."""
    media: int = 0
    """Tokens of the pictures and files of a result, which go with it."""


Counter = Callable[[Message], int]
"""Tokens of a message."""


MIN_TEXT_CHARS = 100
"""Characters from which a string in a call's arguments is a separate text."""

_encode = msgspec.json.Encoder().encode
_sorted = msgspec.json.Encoder(order="sorted").encode


def as_json(value: object) -> str:
    """Write a value so that `json.loads` gives it back exactly.

    The fast encoder writes NaN as null, and refuses lone surrogates and very large numbers; those
    few go through the slow one.
    """
    try:
        written = _encode(value)
    except (TypeError, ValueError, OverflowError):
        return json.dumps(value)
    return json.dumps(value) if b"null" in written else written.decode()


def said_in(message: Message) -> str:
    """Return what a message says: text, calls with their arguments, results. No thoughts.

    It is for searching and reading: lone surrogates, which no store takes, become question marks.
    """
    parts = message.parts
    said = _said(parts[0]) if len(parts) == 1 else "\n".join(filter(None, map(_said, parts)))
    if said.isascii():
        return said
    try:
        said.encode()
    except UnicodeEncodeError:
        return said.encode(errors="replace").decode()
    return said


def _said(part: Part) -> str:
    if part.text is not None:
        return part.text
    if part.function_call is not None:
        call = part.function_call
        return f"{call.name} {plain(call.args)}".strip()
    if part.function_response is not None:
        return result_text(part.function_response.result)
    return ""


def texts_of(message: Message) -> Iterator[Text]:
    """Return the texts of a message. Thoughts and pictures have none."""
    is_observed = message.role is not Role.MODEL
    for at, part in enumerate(message.parts):
        if part.function_call is not None:
            yield from _texts_of_call(at, part.function_call)
        elif words := _said(part):
            is_said = message.role is Role.USER and part.function_response is None
            media = _media_tokens(part)
            yield Text(at, words, is_observed=is_observed, is_said=is_said, media=media)


def _texts_of_call(at: int, call: FunctionCall) -> Iterator[Text]:
    """Return a call as one text, and each long string in its arguments as another."""
    short = [call.name]
    for leaf in _leaves(call.args):
        if len(leaf) >= MIN_TEXT_CHARS and leaf is not call.args:
            yield Text(at, leaf, is_call=True, is_argument=True, is_observed=False)
        else:
            short.append(leaf)
    words = "\n".join(short)
    yield Text(at, words, is_call=True, is_observed=False)


def _leaves(value: object) -> Iterator[str]:
    """Return the strings and numbers in a call's arguments."""
    if isinstance(value, dict):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def outcomes_of(message: Message, calls: Sequence[FunctionCall]) -> Iterator[Outcome]:
    """Return the results of a message, each with its call among these."""
    left = list(calls)
    for at, part in enumerate(message.parts):
        result = part.function_response
        if result is not None:
            call = _answered(result, left)
            name, args = (call.name, call.args) if call else (result.name, None)
            text = result_text(result.result)
            yield Outcome(at, name, args, text, result.is_error, _media_tokens(part))


def with_outcomes(messages: Iterable[Message]) -> Iterator[tuple[Message, tuple[Outcome, ...]]]:
    """Return the messages of a history, each with its results and the calls they answer."""
    calls: dict[str, FunctionCall] = {}
    for message in messages:
        calls |= {call.id: call for call in message.function_calls}
        asked = [calls[r.call_id] for r in message.function_responses if r.call_id in calls]
        yield message, tuple(outcomes_of(message, asked))


def _answered(result: ToolResult, calls: list[FunctionCall]) -> FunctionCall | None:
    """Take the call that a result answers: by its id, else by its name."""
    for at, call in enumerate(calls):
        if call.id == result.call_id:
            return calls.pop(at)
    for at, call in enumerate(calls):
        if result.name and call.name == result.name:
            return calls.pop(at)
    return None


PREAMBLE = "preamble"
"""The name of what comes before the first turn."""

SUMMARY = "gc_summary_"
"""Prefix of the message ids, ledger keys and first lines of summaries; a number follows."""

NOTICE = "gc_notice_"
"""The same for notices of a collection."""

MAX_DIGITS = 18
"""Digits of a number as written here. One with more is not ours: a user may type anything."""

_NUMBERED = rf"({SUMMARY}|{NOTICE})(\d{{1,{MAX_DIGITS}}})"
_ID = re.compile(rf"{_NUMBERED}$")
_FIRST_LINE = re.compile(rf"\[{_NUMBERED}\b")
_TAGGED = re.compile(r"\s*+<([a-z][\w-]*+)[^>]*+>.*</\1>\s*", re.DOTALL)
"""A text in one pair of tags, as clients write for the model."""
_SUMMARY_LINE = re.compile(r"\[Summary of \d+ earlier messages\]")


def starts_turn(message: Message) -> bool:
    """Whether a turn begins here: the user typed it."""
    return (
        message.role is Role.USER
        and not message.function_responses
        and made_by_collection(message) is None
        and not is_summary(message)
        and left_out_in(message) is None
    )


def has_words_beside_results(message: Message) -> bool:
    """Whether the user says something in a message of results.

    After an interrupt, clients send what the user types next together with the results. They also
    put their own reminders there; these are in tags.
    """
    return (
        message.role is Role.USER
        and bool(message.function_responses)
        and any(p.text and p.text.strip() and not _TAGGED.fullmatch(p.text) for p in message.parts)
    )


def is_summary(message: Message) -> bool:
    """Recognise a collection's summary, also after a round trip through a provider."""
    made = made_by_collection(message)
    if made is not None:
        return made[0] == SUMMARY
    if message.role is not Role.USER or not message.parts:
        return False
    return _SUMMARY_LINE.match(message.parts[0].text or "") is not None


def left_out_in(message: Message) -> LeftOut | None:
    """Recognise the line that replaces dropped messages; a message that says more is not one."""
    if message.role is not Role.USER or len(message.parts) != 1:
        return None
    return LeftOut.read(message.parts[0].text or "")


def missing_in(message: Message) -> int:
    """Give the tokens that were left out of a message before. Calls are never cut."""
    said = [_said(part) for part in message.parts if part.function_call is None]
    return sum(map(missing_tokens, said))


def made_by_collection(message: Message) -> tuple[str, int] | None:
    """Recognise a summary or a notice by its id, or by its first line if a provider lost the id."""
    if message.role is not Role.USER:
        return None
    found = _ID.match(message.message_id)
    if found is None and message.parts:
        found = _FIRST_LINE.match(message.parts[0].text or "")
    return (found[1], int(found[2])) if found else None


def turn_name(number: int) -> str:
    """Name a turn by its number; below 0 is the preamble."""
    return f"turn_{number}" if number >= 0 else PREAMBLE


def turn_number(name: str | None) -> int:
    """Return the number of a turn by its name; -1 for anything else."""
    digits = (name or "").removeprefix("turn_")
    return int(digits) if digits.isdecimal() and len(digits) <= MAX_DIGITS else -1


class TurnNumbers:
    """Turn numbers that stay the same when other turns are collected.

    A turn is identified by its first message. A pin on turn 3 means the same turn before and after
    turn 1 is swept.
    """

    def __init__(self, known: Mapping[str, int] | None = None, upcoming: int = 0) -> None:
        self._known = dict(known or {})
        self._upcoming = max([upcoming, *(number + 1 for number in self._known.values())])

    def number(self, started_by: str, number: int | None = None) -> int:
        """Number a turn by the id of its first message; a new one gets the next, or this one."""
        if started_by not in self._known:
            self._known[started_by] = self._upcoming if number is None else number
            self.reserve(self._known[started_by])
        return self._known[started_by]

    def take_back(self, messages: Iterable[str]) -> None:
        """Forget the newest turns, which these messages started: the next one gets their number."""
        taken = [self._known.pop(name) for name in messages if name in self._known]
        self._upcoming = min([self._upcoming, *taken])

    def reserve(self, number: int) -> None:
        """Use no number up to this one for a new turn."""
        self._upcoming = max(self._upcoming, number + 1)

    @property
    def known(self) -> Mapping[str, int]:
        """Every turn ever numbered, by the id of its first message."""
        return self._known

    @property
    def upcoming(self) -> int:
        """The number the next new turn gets."""
        return self._upcoming


HIDDEN_CHARACTERS_PER_TOKEN = 6
"""Of encrypted thoughts: an estimate, from the base64 of the words."""

FRAME_TOKENS = 4
"""Tokens that providers add around each message: its role and its borders."""


def count_message(message: Message) -> int:
    """Count a message; unknown parts are counted as JSON."""
    return FRAME_TOKENS + sum(map(_weigh, message.parts))


def as_passed(counter: Callable[..., float]) -> Counter:
    """Pass messages to a counter in the caller's form, or in neutral form if it expects that.

    The first message that it can count in only one of the two forms decides.
    """
    counter = in_whole(counter)
    wants_neutral = False

    def weigh(message: Message) -> int:
        nonlocal wants_neutral
        if wants_neutral or message.raw is None:
            return counter(message)
        try:
            return counter(message.raw)
        except (AttributeError, TypeError, KeyError):
            tokens = counter(message)
            wants_neutral = True
            return tokens

    return weigh


def _weigh(part: Part) -> int:
    if part.text is not None:
        return count(part.text)
    if part.function_call is not None:
        return count(part.function_call.name) + count(_arguments(part))
    if part.function_response is not None:
        return result_tokens(part.function_response.result) + attached_tokens(part.raw)
    if part.thought is not None:
        return count(part.thought) or _hidden(part.raw)
    if part.inline_data is not None:
        return data_tokens(part.inline_data.mime_type, part.inline_data.data)
    return count(json.dumps(part.raw, ensure_ascii=False, default=str)) if part.raw else 0


def _media_tokens(part: Part) -> int:
    """Count the pictures and files of a result."""
    result = part.function_response
    return media_tokens(result.result, part.raw) if result is not None else 0


def _arguments(part: Part) -> str:
    """Return the arguments of a call as they are sent: the provider's own string, if it has one."""
    raw = part.raw if isinstance(part.raw, dict) else {}
    function = raw.get("function")
    sent = (function if isinstance(function, dict) else raw).get("arguments")
    args = part.function_call.args if part.function_call is not None else None
    if isinstance(sent, str):
        return sent
    if args is None:
        return ""
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)


def _hidden(raw: object) -> int:
    """Estimate thoughts that are encrypted."""
    kept = (raw.get("encrypted_content") or raw.get("data")) if isinstance(raw, dict) else None
    return len(kept) // HIDDEN_CHARACTERS_PER_TOKEN if isinstance(kept, str) else 0
