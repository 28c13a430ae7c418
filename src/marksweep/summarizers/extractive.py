"""Extractive: picks what is worth keeping from a conversation. Offline and deterministic.

Sentences are sorted into what was asked, decided, what went wrong, what is open, which figures
were found and what else was said; beside them are the files and symbols that were named, most
named first. Each kind has a share of the room, and what one does not use the next may. A
sentence is never rewritten, only cut; nothing that the previous summary says is said again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from marksweep.summarizers.base import Summary, shrunk
from marksweep.summarizers.transcript import OUTPUT, TALK

MOST_CHARACTERS = 6_000
"""The longest summary, about 1,500 tokens. Longer keeps more and frees less."""

MAX_SHARE = 0.2
"""The longest summary as a share of the conversation. Higher keeps more of short conversations."""

LONGEST_SENTENCE = 240
"""Characters after which a sentence is cut."""

LONGEST_WORD = 300
"""Characters above which a word is data, such as a picture in base64, and holds no names."""

SHORTEST_SENTENCE = 40
"""Characters that are worth having of a sentence that does not fit whole."""

BULLET = "- "

MARKS = (*TALK, *OUTPUT)
"""How a paragraph starts."""

NAME = "extractive"


class Kind(msgspec.Struct, frozen=True):
    """A kind of sentence: its heading, how it is recognised, and its share of the room."""

    heading: str
    pattern: re.Pattern[str]
    """Finds it in small letters."""
    share: float
    in_output: bool = False
    """Whether it is looked for in what tools returned; code is full of words like "must"."""


def _words(words: str) -> re.Pattern[str]:
    """Find one of these words, which may go on, as "decid" does in "decided"."""
    return re.compile(rf"(?<![a-z])(?:{words.replace(', ', '|')})")


KINDS = (
    Kind("Asked", re.compile(r"^user: \S"), 0.2),
    Kind(
        "Decided",
        _words(
            "decid, decision, agreed, chose, choose, instead of, rather than, we will, we'll, "
            "i will, i'll, let's, must, never, always, because, the fix, fixed by, root cause, "
            "conclusion, approved, rejected, switched to, going with, settled"
        ),
        0.3,
    ),
    Kind(
        "Went wrong",
        re.compile(
            r"(?:error|exception)\b|exit (?:code|status) [1-9]|"
            r"\b(?:traceback\b|fail|panic|denied\b|not found\b|no such\b|timed? ?out\b|cannot\b|"
            r"could not\b)"
        ),
        0.35,
        in_output=True,
    ),
    Kind("Asked back", re.compile(r"[?？]\s*$"), 0.3),
    Kind(
        "Open",
        _words(
            "todo, fixme, remaining, still need, next step, pending, unclear, open question, "
            "blocked, not yet"
        ),
        0.4,
    ),
    Kind("Figures", re.compile(r"(?<![\w.])\d"), 0.5, in_output=True),
    Kind("Said", re.compile(r"^\w+: \S"), 1.0),
)
"""In the order in which they are tried and written. A share is of the room still left."""

_FILE = re.compile(r"(?:~?/|\.{1,2}/)?(?:[\w.-]+/)+[\w.-]*\w|\b[\w-]+\.[A-Za-z][A-Za-z0-9]{0,4}\b")
_SYMBOL = re.compile(
    r"\b(?:[A-Za-z]\w*\.)*(?:[A-Za-z]+_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|\w+(?=\(\)))"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
NAMES_SHARE = 0.25
"""Share of the room for the names of files, and again for those of symbols."""


class Extractive:
    """Summarises by picking sentences and names."""

    @property
    def name(self) -> str:
        """Its name in results."""
        return NAME

    def summarize(self, conversation: str, previous: str = "") -> Summary:
        """Pick what is worth keeping; Refused if that is not shorter."""
        room = min(MOST_CHARACTERS, int(len(conversation) * MAX_SHARE))
        said = _lines(conversation)
        words, known = _naming(said), _naming(dict.fromkeys(previous.splitlines()))
        lines: list[str] = []
        for heading, pattern in (("Files", _FILE), ("Symbols", _SYMBOL)):
            names = _names(words, known, pattern)
            line = _fill(f"{heading}: ", names, int(room * NAMES_SHARE))
            lines += [line] if line else []
        room -= sum(len(line) + 1 for line in lines)
        newest = _sorted(said, previous, room)
        picked = []
        for kind in KINDS:
            section = _section(kind.heading, newest[kind.heading], int(room * kind.share))
            if section:
                picked.append(section)
                room -= len(section) + 1
        return shrunk(Summary("\n".join([*picked, *lines]), NAME), conversation)


def _lines(conversation: str) -> dict[str, bool]:
    """Return each line once, because logs repeat lines, and whether it is conversation.

    What a summary lists is read as it was said: so a summary can be summarised again.
    """
    found: dict[str, bool] = {}
    is_talk = True
    last = None
    for line in conversation.splitlines():
        if line != last:
            last = line
            said = line.removeprefix(BULLET)
            if said.startswith(MARKS):
                is_talk = said.startswith(TALK)
            found.setdefault(said, is_talk)
    return found


def _sorted(lines: dict[str, bool], previous: str, room: int) -> dict[str, list[str]]:
    """Assign each sentence to the first kind that matches, once, the newest first.

    Those that the summary before has are left out. A kind with more than its room is looked for
    only on behalf of those after it.
    """
    found: dict[str, list[str]] = {kind.heading: [] for kind in KINDS}
    left = {kind.heading: int(room * kind.share) for kind in KINDS}
    seen = {line.removeprefix(BULLET) for line in previous.splitlines()}
    in_talk = list(KINDS)
    in_output = [kind for kind in KINDS if kind.in_output]
    for line, is_talk in reversed(lines.items()):
        kinds = in_talk if is_talk else in_output
        for sentence in _sentences(line, is_talk) if kinds else ():
            if len(sentence) <= 2 or sentence in seen:
                continue
            lowered = sentence.lower()
            kind = next((kind for kind in kinds if kind.pattern.search(lowered)), None)
            if kind is not None:
                seen.add(sentence)
                found[kind.heading].append(sentence)
                left[kind.heading] -= _room(sentence)
                while kinds and left[kinds[-1].heading] < 0:
                    kinds.pop()
    return found


def _sentences(line: str, is_talk: bool) -> Iterator[str]:
    """Split a line into sentences, the last first; output is not split."""
    squeezed = " ".join(line.split())
    for sentence in reversed(_SENTENCE.split(squeezed)) if is_talk else (squeezed,):
        yield _cut(sentence.strip(), LONGEST_SENTENCE)


def _cut(sentence: str, length: int) -> str:
    return sentence if len(sentence) <= length else sentence[: max(0, length - 1)] + "…"


def _section(heading: str, newest: list[str], room: int) -> str:
    """Take the newest sentences that fit, and write them in their order."""
    taken: list[str] = []
    left = room - len(heading) - 1
    for sentence in newest:
        fitting = _cut(sentence, left - len(BULLET) - 1)
        if fitting != sentence and (taken or left < SHORTEST_SENTENCE):
            break
        taken.append(f"{BULLET}{fitting}")
        left -= _room(fitting)
    return "\n".join([f"{heading}:", *reversed(taken)]) if taken else ""


def _room(sentence: str) -> int:
    """Characters that a sentence takes in a summary."""
    return len(BULLET) + len(sentence) + 1


def _naming(lines: Iterable[str]) -> dict[str, int]:
    """Count the words of lines that may hold names."""
    words = Counter("\n".join(lines).split())
    return {word: times for word, times in words.items() if _may_name(word)}


def _may_name(word: str) -> bool:
    return len(word) <= LONGEST_WORD and not (
        word.isdigit() or (word.isalpha() and word[1:].islower())
    )


def _names(words: dict[str, int], known: dict[str, int], pattern: re.Pattern[str]) -> list[str]:
    """Names among words, most often named first, then in order of appearance."""
    named = _named(words, pattern)
    before = _named(known, pattern)
    return [name for name, _ in named.most_common() if len(name) > 2 and name not in before]


def _named(words: dict[str, int], pattern: re.Pattern[str]) -> Counter[str]:
    named: dict[str, int] = {}
    is_file = pattern is _FILE
    for word, times in words.items():
        if is_file and "/" not in word and "." not in word:
            continue
        for found in pattern.finditer(word):
            name = found.group().rstrip(".")
            named[name] = named.get(name, 0) + times
    return Counter(named)


def _fill(heading: str, names: list[str], room: int) -> str:
    line = heading
    for name in names:
        if len(line) + len(name) + 2 > room:
            continue
        line += name if line == heading else f", {name}"
    return line if line != heading else ""
