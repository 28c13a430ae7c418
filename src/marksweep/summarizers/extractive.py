"""Extractive: picks what is worth keeping from a conversation. Offline and deterministic.

Sentences are sorted into what was asked, decided, what went wrong, what is open, which figures
were found and what else was said; beside them stand the files and symbols that were named, most
named first. Each kind has a share of the room, and what one does not use the next may. A
sentence is never rewritten, only cut; nothing that the previous summary says is said again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain

import msgspec

from marksweep.summarizers.base import Summary, shrunk
from marksweep.summarizers.transcript import OUTPUT, TALK

MOST_CHARACTERS = 6_000
"""The longest summary, about 1,500 tokens. Longer keeps more and frees less."""

RATIO = 0.2
"""The longest summary as a share of the conversation. Higher keeps more of short conversations."""

LONGEST_SENTENCE = 240
"""Characters after which a sentence is cut."""

LONGEST_WORD = 300
"""Characters above which a word is data, such as a picture in base64, and holds no names."""

SHORTEST_SENTENCE = 40
"""Characters that are worth having of a sentence that does not fit whole."""

NAME = "extractive"


class Kind(msgspec.Struct, frozen=True):
    """A kind of sentence: its heading, how it is told, and its share of the room."""

    heading: str
    tell: re.Pattern[str]
    share: float
    words: tuple[str, ...] = ()
    """Where given, one of them is in every sentence in small letters that `tell` finds."""
    in_output: bool = False
    """Whether it is looked for in what tools returned; code is full of words like "must"."""


def _of_words(heading: str, words: str, share: float, in_output: bool = False) -> Kind:
    """A kind that is told by words; they may go on, as "decid" does in "decided"."""
    each = tuple(words.split(", "))
    tell = re.compile(r"(?<![a-z])(?:" + "|".join(map(re.escape, each)) + ")", re.IGNORECASE)
    return Kind(heading, tell, share, each, in_output)


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

_FILE = re.compile(r"(?:~?/|\.{1,2}/)?(?:[\w.-]+/)+[\w.-]*\w|\b[\w-]+\.[A-Za-z][A-Za-z0-9]{0,4}\b")
_SYMBOL = re.compile(
    r"\b(?:[A-Za-z]\w*\.)*(?:[A-Za-z]+_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|\w+(?=\(\)))"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])")
CHUNK, AT_ONCE = 1 << 16, 1 << 10
"""Characters that are split into lines at a time, and lines that are looked through at a time.

Few enough to stay in the processor's cache: all of a very long conversation would be fetched again
for every look.
"""
NAMES_SHARE = 0.25
"""Share of the room for the names of files, and again for those of symbols."""


class Extractive:
    """Summarises by picking sentences and names."""

    def __init__(self, *, most_characters: int = MOST_CHARACTERS, ratio: float = RATIO) -> None:
        self._most = most_characters
        self._ratio = ratio

    @property
    def name(self) -> str:
        """What results call it."""
        return NAME

    def summarize(self, conversation: str, previous: str = "") -> Summary:
        """Pick what is worth keeping; Refused if that is not shorter."""
        room = min(self._most, int(len(conversation) * self._ratio))
        lines: list[str] = []
        told = _lines(conversation)
        words, known = _words(told), _words(dict.fromkeys(previous.splitlines()))
        for heading, pattern in (("Files", _FILE), ("Symbols", _SYMBOL)):
            names = _names(words, known, pattern)
            line = _fill(f"{heading}: ", names, int(room * NAMES_SHARE))
            lines += [line] if line else []
        room -= sum(len(line) + 1 for line in lines)
        sorted_ = _sort(told, previous)
        picked = []
        for kind in KINDS:
            section = _section(kind.heading, sorted_[kind.heading], int(room * kind.share))
            if section:
                picked.append(section)
                room -= len(section) + 1
        return shrunk(Summary("\n".join([*picked, *lines]), NAME), conversation)


def _lines(conversation: str) -> dict[str, tuple[Kind, ...]]:
    """Give each line once, as logs have them by the thousand, with the kinds it may be of."""
    found: dict[str, tuple[Kind, ...]] = {}
    begins: dict[str, tuple[Kind, ...]] = {}
    kinds: tuple[Kind, ...] = KINDS
    last = None
    for line in chain.from_iterable(map(str.splitlines, _chunks(conversation))):
        if line == last:
            continue
        last = line
        if line in found:
            if line in begins:
                kinds = begins[line]
            continue
        if line.startswith(TALK):
            kinds = begins[line] = KINDS
        elif line.startswith(OUTPUT):
            kinds = begins[line] = OUTPUT_KINDS
        found[line] = kinds
    return found


def _chunks(text: str) -> Iterator[str]:
    """Give a text in chunks of whole lines."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + CHUNK) + 1 or len(text)
        yield text[start:end]
        start = end


def _sort(lines: dict[str, tuple[Kind, ...]], previous: str) -> dict[str, list[str]]:
    """Give each sentence to the first kind that wants it, once."""
    found: dict[str, list[str]] = {kind.heading: [] for kind in KINDS}
    tests = {
        (kinds is KINDS, is_telling): [
            (kind.tell.search, found[kind.heading])
            for kind in kinds
            if is_telling or not kind.words
        ]
        for kinds in (KINDS, OUTPUT_KINDS)
        for is_telling in (True, False)
    }
    sentences = _sentences(lines)
    for line in previous.splitlines():
        sentences.pop(line.removeprefix("- "), None)
    telling = _telling(sentences, KINDS) | _telling(sentences, OUTPUT_KINDS)
    for sentence, kinds in sentences.items():
        for tells, taken in tests[kinds is KINDS, sentence in telling]:
            if tells(sentence):
                taken.append(sentence)
                break
    return found


def _sentences(lines: dict[str, tuple[Kind, ...]]) -> dict[str, tuple[Kind, ...]]:
    """Give the sentences of talk and the lines of output, each once, with its kinds."""
    found: dict[str, tuple[Kind, ...]] = {}
    for line, kinds in lines.items():
        squeezed = " ".join(line.split())
        for sentence in _split(squeezed) if kinds is KINDS else (squeezed,):
            if len(sentence) > 2:
                found.setdefault(_cut(sentence, LONGEST_SENTENCE), kinds)
    return found


def _split(line: str) -> Sequence[str]:
    """Split a line without runs of blanks into sentences."""
    if line.isascii() and ". " not in line and "! " not in line and "? " not in line:
        return (line,)
    return [sentence.strip() for sentence in _SENTENCE.split(line)]


def _telling(sentences: dict[str, tuple[Kind, ...]], kinds: tuple[Kind, ...]) -> set[str]:
    """Give the sentences that may be of these kinds and have one of their words.

    Each word is looked for in many sentences at once, which is several times as fast as looking
    for all words in each: most words are in few sentences.
    """
    asked = [sentence for sentence, each in sentences.items() if each is kinds]
    words = dict.fromkeys(word for kind in kinds for word in kind.words)
    found: set[str] = set()
    for tried in _batches(asked):
        lowered = "\n".join(tried).lower()
        lengths = [len(sentence) + 1 for sentence in tried]
        if not lowered.isascii():  # A few letters of other scripts grow longer.
            lengths = [len(sentence.lower()) + 1 for sentence in tried]
        ends = list(accumulate(lengths))
        for word in words:
            at = lowered.find(word)
            while at >= 0:
                number = bisect_right(ends, at)
                found.add(tried[number])
                at = lowered.find(word, ends[number])
    return found


def _batches(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """Give lines so many at a time as stay in the processor's cache."""
    return (lines[start : start + AT_ONCE] for start in range(0, len(lines), AT_ONCE))


def _cut(sentence: str, length: int) -> str:
    return sentence if len(sentence) <= length else sentence[: max(0, length - 1)] + "…"


def _section(heading: str, sentences: list[str], room: int) -> str:
    """Take the newest sentences that fit, and write them in their order."""
    taken: list[str] = []
    left = room - len(heading) - 1
    for sentence in reversed(sentences):
        fitting = _cut(sentence, left - 3)
        if fitting != sentence and (taken or left < SHORTEST_SENTENCE):
            break
        taken.append(f"- {fitting}")
        left -= len(fitting) + 3
    return "\n".join([f"{heading}:", *reversed(taken)]) if taken else ""


def _words(lines: Iterable[str]) -> Counter[str]:
    """Count words that may hold names. Lines come once: what a log repeats counts no more."""
    words: Counter[str] = Counter()
    for batch in _batches(list(lines)):
        words.update("\n".join(batch).split())
    return Counter({word: times for word, times in words.items() if _may_name(word)})


def _may_name(word: str) -> bool:
    return len(word) <= LONGEST_WORD and not (
        word.isdigit() or (word.isalpha() and word[1:].islower())
    )


def _names(words: Counter[str], known: Counter[str], pattern: re.Pattern[str]) -> list[str]:
    """Names among words, most often named first, then in order of appearance."""
    named = _named(words, pattern)
    before = _named(known, pattern)
    return [name for name, _ in named.most_common() if len(name) > 2 and name not in before]


def _named(words: Counter[str], pattern: re.Pattern[str]) -> Counter[str]:
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
