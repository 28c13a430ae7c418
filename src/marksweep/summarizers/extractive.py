"""Extractive: picks what is worth keeping from a conversation. Offline and deterministic.

Sentences are sorted into what was asked, decided, what went wrong, what is open, which figures
were found and what else was said; beside them are the files and symbols that were named, most
named first. Each kind has a share of the room, and what one does not use the next may. A
sentence is never rewritten, only cut; nothing that the previous summary says is said again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

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

NAME = "extractive"


class Kind(msgspec.Struct, frozen=True):
    """A kind of sentence: its heading, how it is recognised, and its share of the room."""

    heading: str
    pattern: re.Pattern[str]
    share: float
    words: tuple[str, ...] = ()
    """Where given, one of them is in every sentence in small letters that `pattern` finds."""
    in_output: bool = False
    """Whether it is looked for in what tools returned; code is full of words like "must"."""


def _of_words(heading: str, words: str, share: float) -> Kind:
    """A kind that is recognised by words; they may go on, as "decid" does in "decided"."""
    each = tuple(words.split(", "))
    pattern = re.compile(r"(?<![a-z])(?:" + "|".join(map(re.escape, each)) + ")", re.IGNORECASE)
    return Kind(heading, pattern, share, each)


KINDS = (
    Kind("Asked", re.compile(r"^User: \S"), 0.2, ("user: ",)),
    _of_words(
        "Decided",
        "decid, decision, agreed, chose, choose, instead of, rather than, we will, we'll, i will, "
        "i'll, let's, must, never, always, because, the fix, fixed by, root cause, conclusion, "
        "approved, rejected, switched to, going with, settled",
        0.3,
    ),
    Kind(
        "Went wrong",
        re.compile(
            r"error\b|exception\b|\btraceback\b|\bfail|\bpanic|\bdenied\b|\bnot found\b|"
            r"\bno such\b|\btimed? ?out\b|exit (?:code|status) [1-9]|\bcannot\b|\bcould not\b",
            re.IGNORECASE,
        ),
        0.35,
        (
            *("error", "exception", "traceback", "fail", "panic", "denied", "not found"),
            *("no such", "timed", "timeout", "time out", "exit ", "cannot", "could not"),
        ),
        in_output=True,
    ),
    Kind("Asked back", re.compile(r"[?？]\s*$"), 0.3, ("?", "？")),
    _of_words(
        "Open",
        "todo, fixme, remaining, still need, next step, pending, unclear, open question, blocked, "
        "not yet",
        0.4,
    ),
    Kind("Figures", re.compile(r"(?<![\w.])\d"), 0.5, in_output=True),
    Kind("Said", re.compile(r"^\w+: \S"), 1.0),
)
"""In the order in which they are tried and written. A share is of the room still left."""

OUTPUT_KINDS = tuple(kind for kind in KINDS if kind.in_output)

TRIALS = (
    tuple(kind for kind in OUTPUT_KINDS if not kind.words),
    OUTPUT_KINDS,
    tuple(kind for kind in KINDS if not kind.words),
    KINDS,
)
"""Which kinds are tried: on output and on talk, each without a signal word and with one."""

_IS_TELLING, _IS_TALK = 1, 2

_FILE = re.compile(r"(?:~?/|\.{1,2}/)?(?:[\w.-]+/)+[\w.-]*\w|\b[\w-]+\.[A-Za-z][A-Za-z0-9]{0,4}\b")
_SYMBOL = re.compile(
    r"\b(?:[A-Za-z]\w*\.)*(?:[A-Za-z]+_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|\w+(?=\(\)))"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
CHUNK_CHARS = 1 << 17
"""Characters that are read at a time.

Few enough to stay in the processor's cache: a very long conversation would be fetched again for
every pass.
"""
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
        sentences = _Sentences(conversation)
        known = _naming(dict.fromkeys(previous.splitlines()))
        lines: list[str] = []
        for heading, pattern in (("Files", _FILE), ("Symbols", _SYMBOL)):
            names = _names(sentences.words, known, pattern)
            line = _fill(f"{heading}: ", names, int(room * NAMES_SHARE))
            lines += [line] if line else []
        room -= sum(len(line) + 1 for line in lines)
        newest = sentences.sort(previous, room)
        picked = []
        for kind in KINDS:
            section = _section(kind.heading, newest[kind.heading], int(room * kind.share))
            if section:
                picked.append(section)
                room -= len(section) + 1
        return shrunk(Summary("\n".join([*picked, *lines]), NAME), conversation)


class _Sentences:
    """What a conversation says: its sentences in order, and the words that may hold names.

    It is read a chunk at a time, and little is looked up by its text in all of it: of very many
    strings, that is what takes long.
    """

    def __init__(self, conversation: str) -> None:
        self.words: Counter[str] = Counter()
        self._sentences: list[str] = []
        self._trials = bytearray()
        """Which kinds are tried on each sentence."""
        for lines in _lines(conversation):
            self.words.update(_naming(lines))
            sentences, trials = _sentences(lines)
            self._sentences += sentences
            self._trials += trials

    def sort(self, previous: str, room: int) -> dict[str, list[str]]:
        """Assign each sentence to the first kind that matches, once, the newest first.

        Those that the summary before has are left out. Once every kind that is tried has more than
        its room, none is looked for any further.
        """
        found: dict[str, list[str]] = {kind.heading: [] for kind in KINDS}
        left = {kind.heading: int(room * kind.share) for kind in KINDS}
        seen = {line.removeprefix(BULLET) for line in previous.splitlines()}
        trials = [list(kinds) for kinds in TRIALS]
        for sentence, trial in zip(reversed(self._sentences), reversed(self._trials), strict=True):
            for kind in trials[trial]:
                if sentence not in seen and kind.pattern.search(sentence):
                    seen.add(sentence)
                    found[kind.heading].append(sentence)
                    left[kind.heading] -= _room(sentence)
                    if all(left[each.heading] < 0 for each in trials[trial]):
                        trials[trial].clear()
                    break
        return found


def _lines(conversation: str) -> Iterator[dict[str, bool]]:
    """Yield the lines of each chunk, and whether they are conversation.

    Each line is yielded once, because logs repeat lines by the thousand.
    """
    begins: dict[str, bool | None] = {}
    """For every line that begins a paragraph: True for conversation, False for output."""
    is_talk = True
    last = None
    for chunk in _chunks(conversation):
        found: dict[str, bool] = {}
        for line in map(_without_bullet, chunk.splitlines()):
            if line == last:
                continue
            last = line
            is_new = line not in begins
            if is_new:
                is_output = line.startswith(OUTPUT)
                begins[line] = not is_output if is_output or line.startswith(TALK) else None
            begun = begins[line]
            is_talk = is_talk if begun is None else begun
            if is_new:
                found[line] = is_talk
        yield found


def _without_bullet(line: str) -> str:
    """Read what a summary lists as it was said: so a summary can be summarised again."""
    return line.removeprefix(BULLET)


def _sentences(lines: Mapping[str, bool]) -> tuple[list[str], bytearray]:
    """Yield the sentences and the lines of output, and which kinds to try on each."""
    sentences: list[str] = []
    trials = bytearray()
    for line, is_talk in lines.items():
        squeezed = " ".join(line.split())
        for sentence in _split(squeezed) if is_talk else (squeezed,):
            if len(sentence) > 2:
                sentences.append(_cut(sentence, LONGEST_SENTENCE))
                trials.append(_IS_TALK if is_talk else 0)
    for trial, kinds in ((_IS_TALK, KINDS), (0, OUTPUT_KINDS)):
        asked = [number for number, each in enumerate(trials) if each == trial]
        for at in _telling([sentences[number] for number in asked], kinds):
            trials[asked[at]] |= _IS_TELLING
    return sentences, trials


def _chunks(text: str) -> Iterator[str]:
    """Yield a text in chunks of whole lines."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + CHUNK_CHARS) + 1 or len(text)
        yield text[start:end]
        start = end


def _split(line: str) -> Sequence[str]:
    """Split a line without runs of blanks into sentences."""
    if line.isascii() and ". " not in line and "! " not in line and "? " not in line:
        return (line,)
    return [sentence.strip() for sentence in _SENTENCE.split(line)]


def _telling(sentences: Sequence[str], kinds: tuple[Kind, ...]) -> Iterator[int]:
    """Return the numbers of the sentences that have a word of these kinds.

    Each word is looked for in many sentences at once, which is several times as fast as looking
    for all words in each: most words are in few sentences.
    """
    lowered = "\n".join(sentences).lower()
    lengths = [len(sentence) + 1 for sentence in sentences]
    if not lowered.isascii():  # A few letters of other scripts grow longer.
        lengths = [len(sentence.lower()) + 1 for sentence in sentences]
    ends = list(accumulate(lengths))
    for word in dict.fromkeys(word for kind in kinds for word in kind.words):
        at = lowered.find(word)
        while at >= 0:
            number = bisect_right(ends, at)
            yield number
            at = lowered.find(word, ends[number])


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
