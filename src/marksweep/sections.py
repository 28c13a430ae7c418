"""Sections: a text cut where a reader would cut it, and how it looks with some left out.

    sections    a function, a paragraph, a fenced block, a record, a traceback, a hunk, a log entry
    paragraphs  the same for what somebody wrote: at blank lines and fences only
    shown       the sections that are kept, and one short line in place of others
    LeftOut     the line that replaces whole messages

A text too large for one section is cut at the strongest border it has: fences and hunks, blank
lines before its outermost lines, those lines themselves, any blank line, and finally any line. A
section that is too small is joined with its neighbours. A very long line is cut where a record
ends.

The line in place of what was left out says what it was, how much, and how to get it back. It is
recognised when a text is read again: a text that is cut twice has one such line, with new numbers.
A text that only quotes such a line is not as long as the line says, and the line is part of it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import accumulate, pairwise
from unicodedata import category

import msgspec

from marksweep.tokens import count

MAX_LINES, MAX_CHARACTERS = 20, 1_000
"""The size of a section at most: what a reader takes in at a glance.

Larger keeps functions whole and takes more room for each thing that is kept.
"""
FEW_LINES, FEW_CHARACTERS = 10, 500
"""Smaller neighbours are joined: a section of two lines says little, and its gap costs a line.

Larger leaves fewer gaps, and keeps more that nobody asked for.
"""
MIN_CHARACTERS = 200
"""The size of a section at most where the window is small: some four lines."""
MAX_DEPTH = 8
"""Levels of ever weaker borders to try before a text is cut at any line."""

RECORD_ENDS = (
    "}, ",
    "},",
    "], ",
    "],",
    '", ',
    '",',
    "; ",
    ". ",
    "。",
    ", ",
    ",",
    "，",
    "、",
    " ",
)
"""Where a long line may be cut, best first: the ends of records, of values, of words."""

_MARGIN = re.compile(r"[ ]*\d+(?:\t|→|:[ ]?|[ ]?\|[ ]?)")
_HUNK = re.compile(r"diff --git |@@ -")
_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"#{1,6} |\*\*[^*]+\*\*:?$")
_CLOSER = re.compile(r"[)\]}]|(?:else|elif|except|finally|catch|end)\b")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)")
_TABLE_RULE = re.compile(r"\|?[ :|+-]*-{2,}[ :|+-]*$")
_COLUMNS = re.compile(r"[|+]|-- +--")


class Measure(StrEnum):
    """The unit of a gap's size."""

    LINES = "lines"
    CHARACTERS = "characters"
    """For a text whose lines are so long that they are cut."""


class Section(msgspec.Struct, frozen=True, gc=False):
    """A part of a text that is kept or left out as one."""

    text: str
    glued: bool = False
    """Whether it continues the line of the section before it."""
    head: str = ""
    """The header of the table that it continues: shown before it if nothing else shows it."""

    def size(self, measure: Measure) -> int:
        """Return its lines or characters."""
        if measure is Measure.CHARACTERS:
            return len(self.text)
        return self.text.count("\n") + (not self.glued)


class Gap(msgspec.Struct, frozen=True, gc=False):
    """Where something was left out: how much, in the measure of its text, and its tokens."""

    size: int
    tokens: int


Piece = Section | Gap


class Sections(msgspec.Struct, frozen=True, gc=False):
    """A text in pieces; joined, they are the text."""

    pieces: tuple[Piece, ...]
    measure: Measure = Measure.LINES
    why: str = ""
    """Why something is left out, if a reader should know."""

    @property
    def size(self) -> int:
        """Its size before anything was left out."""
        return sum([p.size if isinstance(p, Gap) else p.size(self.measure) for p in self.pieces])


def sections(text: str, most: int = MAX_CHARACTERS) -> Sections:
    """Cut a text into sections; where something was left out before, there is a gap.

    `most` is how many characters a section may have, and in proportion its lines.
    """
    return _cut(text, most, is_prose=False)


def sections_within(
    section: Section, most: int = MAX_CHARACTERS, *, cuts_lines: bool = True
) -> tuple[Piece, ...]:
    """Cut a part of a text further, into sections. Nothing was left out of it before."""
    lines = section.text.split("\n")
    return tuple(_runs(lines, most) if cuts_lines else _sections_of(lines, most))


def paragraphs(text: str, largest: int | None = None, most: int = MAX_CHARACTERS) -> Sections:
    """Cut what somebody wrote, at blank lines and fences alone. A fenced command is not cut.

    `largest` is how many characters a script may have; a larger one is cut at its blank lines, into
    parts as small as sections of `most` characters are.
    """
    whole = _cut(text, MAX_CHARACTERS, is_prose=True)
    if largest is None or len(text) <= largest:
        return whole
    few = FEW_LINES * most // MAX_CHARACTERS
    parts = [
        _parts(p, few) if isinstance(p, Section) and len(p.text) > largest else (p,)
        for p in whole.pieces
    ]
    return Sections(tuple([part for each in parts for part in each]), whole.measure)


def _parts(script: Section, few: int) -> Iterator[Section]:
    """Cut a script at its blank lines, into parts of at least so many lines."""
    lines = script.text.split("\n")
    start = 0
    for at in range(few, len(lines)):
        if at - start >= few and lines[at].strip() and not lines[at - 1].strip():
            yield Section("\n".join(lines[start:at]))
            start = at
    yield Section("\n".join(lines[start:]))


def _cut(text: str, most: int, *, is_prose: bool) -> Sections:
    lines = text.split("\n")
    gaps, measure = _gaps(text, lines, most)

    def cut(run: list[str]) -> Iterator[Section]:
        if is_prose:
            return _paragraphs_of(run)
        # Where lines are counted, a part of one has no size.
        return _runs(run, most) if measure is Measure.CHARACTERS else _sections_of(run, most)

    pieces: list[Piece] = []
    start = 0
    for at, gap in gaps.items():
        pieces += [*cut(lines[start:at]), gap]
        start = at + 1
    pieces += cut(lines[start:])
    return Sections(tuple(pieces), measure)


def _runs(lines: list[str], most: int) -> Iterator[Section]:
    """Cut lines without a gap between them; very long ones separately."""
    start = 0
    for at, line in enumerate(lines):
        if len(line) > most:
            yield from _sections_of(lines[start:at], most)
            yield from _sections_of_line(line, most)
            start = at + 1
    yield from _sections_of(lines[start:], most)


def _sections_of(lines: list[str], most: int) -> Iterator[Section]:
    if lines:
        yield from _Outline(lines, most).cut()


def _sections_of_line(line: str, most: int) -> Iterator[Section]:
    for at, part in enumerate(parts_of_line(line, most)):
        yield Section(part, glued=at > 0)


def parts_of_line(line: str, most: int) -> Iterator[str]:
    """Cut a long line into parts of half to all of `most` characters, where records end.

    A line without such a place is cut anywhere, but for the middle of one visible character.
    """
    start = 0
    while len(line) - start > most:
        low = start + most // 2
        room = line[low : start + most]
        end = next((low + at + len(e) for e in RECORD_ENDS if (at := room.rfind(e)) >= 0), 0)
        end = end or _between_characters(line, low, start + most)
        yield line[start:end]
        start = end
    yield line[start:]


def _between_characters(line: str, low: int, high: int) -> int:
    """Return the last place up to `high` that is not inside an emoji or before an accent."""
    for at in range(high, low, -1):
        if line[at - 1] != _JOINER and not _continues(line[at]):
            return at
    return high


_JOINER = "\u200d"
"""Joins emoji to one."""


def _continues(sign: str) -> bool:
    """Whether a sign is shown as part of the one before it."""
    return sign == _JOINER or "🏻" <= sign <= "🏿" or category(sign).startswith("M")


def _paragraphs_of(lines: list[str]) -> Iterator[Section]:
    """Return each paragraph with its heading and the blank lines after it, each fenced block."""
    if not lines:
        return
    borders, fenced = _fences(lines)
    start = 0
    says_something = False
    for at in range(1, len(lines)):
        before = lines[at - 1].strip()
        says_something |= bool(before) and not _HEADING.match(before)
        is_new = not before and lines[at].strip()
        if says_something and (at in borders or (is_new and at not in fenced)):
            yield Section("\n".join(lines[start:at]))
            start = at
            says_something = False
    yield Section("\n".join(lines[start:]))


class _Outline:
    """Lines with their indentation, and the borders between them."""

    def __init__(self, lines: list[str], most: int) -> None:
        self._lines = lines
        self._share = most / MAX_CHARACTERS
        """The size of a section, as a share of the usual one."""
        self._strong, _ = _fences(lines)
        self._inside: set[int] = set()
        """Lines that belong to the one before them."""
        self._closers: set[int] = set()
        """Lines that close what was opened before them."""
        self._rules: list[int] = []
        """Lines between the header of a table and its rows."""
        self._traced = 0
        """Where the last traceback so far ends."""
        self._indents = [self._indent(at, line) for at, line in enumerate(lines)]
        self._held = self._inside | self._closers
        self._sizes = [len(line) + 1 for line in lines]

    def _indent(self, at: int, line: str) -> int:
        """Return the indentation of a line; -1 for a blank one. Note the borders at it."""
        bare = _without_margin(line)
        words = bare.lstrip()
        if not words:
            return -1
        if _CLOSER.match(words):
            self._closers.add(at)
        if words[0] in "d@" and _HUNK.match(words):
            self._strong.add(at)
        if words[0] == "T" and at >= self._traced and _TRACEBACK.match(words):
            self._note_traceback(at, len(bare) - len(words))
        if words[0] in "|-: +" and at and _TABLE_RULE.match(words.rstrip()):
            self._inside.add(at)
            if _COLUMNS.search(words):
                self._rules.append(at)
        return len(bare) - len(words)

    def _note_traceback(self, start: int, indent: int) -> None:
        """Keep a traceback together, up to the error that it ends with."""
        for at in range(start + 1, len(self._lines)):
            line = _without_margin(self._lines[at])
            self._inside.add(at)
            self._traced = at + 1
            if len(line) - len(line.lstrip()) <= indent and line.strip():
                return

    def cut(self) -> Iterator[Section]:
        """Return the sections."""
        heads = self._heads() if self._rules else {}
        for start, end in self._split(0, len(self._lines), 0):
            yield Section("\n".join(self._lines[start:end]), head=heads.get(start, ""))

    def _heads(self) -> dict[int, str]:
        """Return the table header of each row."""
        heads: dict[int, str] = {}
        end = 0
        for rule in self._rules:
            head = "\n".join(self._lines[rule - 1 : rule + 1])
            if rule < end or len(head) > FEW_CHARACTERS or not self._is_row(rule - 1, rule):
                continue
            end = rule + 1
            while end < len(self._lines) and self._is_row(end, rule):
                heads[end] = head
                end += 1
        return heads

    def _is_row(self, at: int, rule: int) -> bool:
        """Whether a line belongs to the table with this rule, as a row or another rule."""
        is_divided = any(sign in self._lines[rule] for sign in "|+")
        return self._indents[at] >= 0 and (
            not is_divided or "|" in self._lines[at] or at in self._inside
        )

    def _split(self, start: int, end: int, depth: int) -> Iterator[tuple[int, int]]:
        if self._fits(start, end, MAX_LINES, MAX_CHARACTERS):
            yield start, end
            return
        starts = self._starts(start, end) if depth < MAX_DEPTH else []
        borders = [start, *(starts or range(start + 1, end)), end]
        low = start
        for at, high in pairwise(borders[1:]):
            # Close the section if one more part makes it more than a few lines.
            if not self._fits(low, high, FEW_LINES, FEW_CHARACTERS):
                yield from self._split(low, at, depth + 1)
                low = at
        yield from self._split(low, end, depth + 1) if low > start or starts else ((low, end),)

    def _fits(self, start: int, end: int, lines: int, characters: int) -> bool:
        is_short = end - start <= lines * self._share
        return is_short and sum(self._sizes[start:end]) <= characters * self._share

    def _starts(self, start: int, end: int) -> list[int]:
        """Return the strongest borders inside a range."""
        inner = range(start + 1, end)
        strong = [at for at in inner if at in self._strong]
        if strong:
            return strong
        indents, held = self._indents, self._held
        opening = [at for at in inner if indents[at] >= 0 and at not in held]
        outermost = min([indents[at] for at in opening], default=0)
        outer = [at for at in opening if indents[at] == outermost]
        return (
            [at for at in outer if indents[at - 1] < 0]
            or outer
            or [at for at in inner if indents[at] >= 0 > indents[at - 1]]
        )


def _without_margin(line: str) -> str:
    """Return a line without the line number in front of it."""
    margin = _MARGIN.match(line)
    return line[margin.end() :] if margin else line


def _fences(lines: Sequence[str]) -> tuple[set[int], set[int]]:
    """Find where fenced blocks begin and what follows them begins, and all that is inside."""
    borders: set[int] = set()
    inside: set[int] = set()
    opened: int | None = None
    for at, line in enumerate(lines):
        if not _FENCE.match(line):
            continue
        if opened is None:
            opened = at
            borders.add(at)
        else:
            borders.add(at + 1)
            inside.update(range(opened + 1, at + 1))
            opened = None
    return borders, inside


_COUNT = r"(\d[\d,]{0,17})"
"""A number as written here. One with more digits is not ours: a tool may print anything."""
_FIRST_GAP = re.compile(
    rf"\[marksweep: (?:all|{_COUNT} of) {_COUNT} (line|character)s? "
    rf".*left out, {_COUNT} tokens?\b.*\]"
)
NEXT_GAP = "[…]"
"""What stands for each further gap of a text: the line of the first one has the total."""
_NEXT_GAP = re.compile(r"\[…(?: [\d,]+ \w+ …)?\]")
"""Such a line; version 0.2.0 wrote the size of each gap too."""


_MARK = "[marksweep: "
"""How a line begins that says that something was left out."""


def _gaps(
    text: str, lines: Sequence[str], most: int = MAX_CHARACTERS
) -> tuple[dict[int, Gap], Measure]:
    """Find the lines of a text that replace something; the first has the missing total.

    A text that was cut is as long as its line says: the total, less what is left out. Any other
    such line is part of the text, as in a page about this program. A text with very long lines is
    measured in characters, unless that line says otherwise.
    """
    is_long = max(map(len, lines)) > most
    measure = Measure.CHARACTERS if is_long else Measure.LINES
    if _MARK not in text:
        return {}, measure
    further = [at for at, line in enumerate(lines) if _NEXT_GAP.fullmatch(line)]
    widths = [*accumulate([len(lines[at]) for at in reversed(further)], initial=0)]
    """Characters of the last of these lines: none, one, two, …"""
    for at, line in enumerate(lines):
        first = _first_gap(line)
        if first is None:
            continue
        missing = Gap(_number(first[1] or first[2]), _number(first[4]))
        said, kept = Measure(f"{first[3]}s"), _number(first[2]) - missing.size
        begin = bisect_right(further, at)
        others = len(further) - begin
        if said is Measure.LINES:
            most = len(lines) - 1
            least = most - others
        else:  # Line breaks are not counted where a text was cut.
            most = len(text) - len(line)
            least = most - (len(lines) - 1) - widths[others]
        if least <= kept <= most:
            return {at: missing, **dict.fromkeys(further[begin:], Gap(0, 0))}, said
    return {}, measure


def _first_gap(line: str) -> re.Match[str] | None:
    """Match the line of a first gap. Without its end, the expression would search for long."""
    is_whole = line.startswith(_MARK) and line.endswith("]")
    return _FIRST_GAP.fullmatch(line) if is_whole else None


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def is_left_out(text: str) -> bool:
    """Whether nothing of a text is shown, or it was empty to begin with."""
    return not text or (text.startswith(f"{_MARK}all ") and _first_gap(text) is not None)


def missing_tokens(text: str) -> int:
    """Return the tokens that were left out of a text earlier."""
    if _MARK not in text:
        return 0
    gaps, _ = _gaps(text, text.split("\n"))
    return sum([gap.tokens for gap in gaps.values()])


def has_gap(text: str) -> bool:
    """Whether something was left out of a text earlier."""
    return _MARK in text and bool(_gaps(text, text.split("\n"))[0])


def left_out(text: str, why: str = "", media: int = 0) -> Sections:
    """Return a text of which nothing is shown, nor pictures or files of so many tokens."""
    lines = text.split("\n")
    gaps, measure = _gaps(text, lines)
    shown = text
    if gaps:
        lines = [line for at, line in enumerate(lines) if at not in gaps]
        shown = "\n".join(lines)
    size = len(lines) if measure is Measure.LINES else sum(map(len, lines))
    missing = Gap(size, count(shown) + media)
    reason = ", ".join(filter(None, (why, "with pictures and files" if media else "")))
    return Sections(tuple(_merged([*gaps.values(), missing])), measure, reason)


def shown(kept: Sections, what: str, message_id: str) -> str:
    """Write a text in pieces, with one line per gap; the first has the total and how to undo it.

    `what` names the text for a reader, such as a file; empty if it has no name.
    """
    pieces = _with_heads(_merged(kept.pieces), kept.measure)
    gaps = [piece for piece in pieces if isinstance(piece, Gap)]
    out: list[str] = []
    before: Piece | None = None
    for piece in pieces:
        if isinstance(piece, Section):
            goes_on = piece.glued and isinstance(before, Section)
            out.append(piece.text if before is None or goes_on else f"\n{piece.text}")
            before = piece
            continue
        if before is not None:
            out.append("\n")
        if piece is gaps[0]:
            left, size = sum([gap.size for gap in gaps]), kept.size
            total = _counted(size, kept.measure)
            much = f"all {total}" if left >= size else f"{left:,} of {total}"
            tokens = sum([gap.tokens for gap in gaps])
            out.append(stand_in(much, what, tokens, message_id, kept.why))
        else:
            out.append(NEXT_GAP)
        before = piece
    return "".join(out)


def stand_in(much: str, what: str, tokens: int, message_id: str, why: str = "") -> str:
    """Say in one line what is missing, how much of it, and how to get it back."""
    subject = f" of {what}" if what else ""
    reason = f", {why}" if why else ""
    return (
        f"[marksweep: {much}{subject} left out, {_counted(tokens, 'tokens')}{reason}; "
        f'recall("{message_id}")]'
    )


MAX_NAMES = 3
"""Tools that a line names. More say better what is missing, and cost more."""
_NAME = re.compile(r"[\w.:/-]{1,40}")
_RUN = re.compile(
    rf"\[marksweep: {_COUNT} messages? left out(?: \(calls of ([^()]+)\))?, {_COUNT} tokens?; "
    r'recall\("(.+)"\)\]'
)


class LeftOut(msgspec.Struct, frozen=True, gc=False):
    """Whole messages that were swept: how many, whose calls, the id of the first."""

    messages: int
    tokens: int
    first: str
    """The id of the first, which brings them back."""
    calls: tuple[str, ...] = ()
    """Names of tools, in the order they were first called."""

    @classmethod
    def read(cls, line: str) -> LeftOut | None:
        """Parse such a line; None if a text is not one."""
        found = _RUN.fullmatch(line) if line.startswith(_MARK) else None
        if found is None:
            return None
        calls = tuple(found[2].split(", ")) if found[2] else ()
        return cls(_number(found[1]), _number(found[3]), found[4], calls)

    @classmethod
    def joined(cls, runs: Sequence[LeftOut]) -> LeftOut:
        """Merge runs that follow each other."""
        calls = dict.fromkeys([name for run in runs for name in run.calls])
        messages, tokens = sum([r.messages for r in runs]), sum([r.tokens for r in runs])
        return cls(messages, tokens, runs[0].first, tuple(calls))

    @property
    def line(self) -> str:
        """Say in one line what is missing, how much of it, and how to get it back."""
        named = [name for name in self.calls if _NAME.fullmatch(name)]
        more = ["…"] if self.calls and named[:MAX_NAMES] != list(self.calls) else []
        listed = ", ".join([*named[:MAX_NAMES], *more])
        return (
            f"[marksweep: {_counted(self.messages, 'messages')} left out"
            f"{f' (calls of {listed})' if listed else ''}, {_counted(self.tokens, 'tokens')}; "
            f'recall("{self.first}")]'
        )


def _counted(number: int, plural: str) -> str:
    return f"{number:,} {plural if number != 1 else plural.removesuffix('s')}"


def _with_heads(pieces: Iterable[Piece], measure: Measure) -> list[Piece]:
    """Take a table's header out of the gap before its rows, if nothing earlier shows it."""
    out: list[Piece] = []
    for piece in pieces:
        gap = out[-1] if out else None
        if isinstance(piece, Section) and piece.head and isinstance(gap, Gap):
            head = Section(piece.head)
            left = gap.size - head.size(measure)
            if left >= 0 and not any(isinstance(p, Section) and piece.head in p.text for p in out):
                out[-1:] = [Gap(left, max(0, gap.tokens - count(piece.head))), head]
                if not left:
                    out.pop(-2)
        out.append(piece)
    return out


def _merged(pieces: Sequence[Piece]) -> list[Piece]:
    """Merge adjacent gaps."""
    out: list[Piece] = []
    for piece in pieces:
        last = out[-1] if out else None
        if isinstance(piece, Gap) and isinstance(last, Gap):
            out[-1] = Gap(last.size + piece.size, last.tokens + piece.tokens)
        else:
            out.append(piece)
    return out
