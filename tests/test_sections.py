"""Sections: a text is cut where a reader would cut it, and one line says what was left out."""

from __future__ import annotations

import json
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep.sections import (
    MAX_CHARACTERS,
    MAX_LINES,
    MIN_CHARACTERS,
    Gap,
    Measure,
    Piece,
    Section,
    Sections,
    _Outline,
    has_gap,
    left_out,
    missing_tokens,
    paragraphs,
    sections,
    sections_within,
    shown,
)

texts = st.text(alphabet='ab1_ \n\n,{}"`#', max_size=3000) | st.lists(
    st.sampled_from(
        [
            "def f():",
            "    return 1",
            "",
            "```",
            "text",
            "@@ -1 +1 @@",
            "| a | b |",
            "}",
            "x" * 1_500,
        ]
    ),
    max_size=80,
).map("\n".join)


def cut(text: str) -> list[str]:
    return [piece.text for piece in sections(text).pieces if isinstance(piece, Section)]


def keeping(text: str, *numbers: int) -> str:
    """Show only these sections of a text."""
    whole = sections(text)
    pieces = [_kept(piece, whole.measure, n in numbers) for n, piece in enumerate(whole.pieces)]
    return shown(Sections(tuple(pieces), whole.measure), "src/app.py", "m6")


def _kept(piece: Piece, measure: Measure, is_kept: bool) -> Piece:
    return piece if is_kept or isinstance(piece, Gap) else Gap(piece.size(measure), 10)


@given(texts)
def test_all_sections_together_are_the_text(text: str) -> None:
    assert shown(sections(text), "it", "m1") == text
    assert shown(paragraphs(text), "it", "m1") == text


@given(texts)
def test_a_section_is_never_larger_than_a_reader_takes_in(text: str) -> None:
    for section in cut(text):
        assert section.count("\n") < MAX_LINES
        assert len(section) <= MAX_CHARACTERS


@given(texts, st.integers(MIN_CHARACTERS, MAX_CHARACTERS))
def test_sections_are_smaller_where_the_window_is_small(text: str, most: int) -> None:
    smaller = sections(text, most)
    assert shown(smaller, "it", "m1") == text
    for piece in smaller.pieces:
        assert isinstance(piece, Section)
        assert piece.text.count("\n") < max(1, MAX_LINES * most / MAX_CHARACTERS)
        assert len(piece.text) <= most
        assert not piece.glued or smaller.measure is Measure.CHARACTERS


def test_a_line_is_not_cut_where_a_gap_before_it_was_counted_in_lines() -> None:
    text = '[marksweep: 3 of 5 lines left out, 9 tokens; recall("m1")]\n' + "word " * 90 + "\nend"
    again = sections(text, MIN_CHARACTERS)
    assert again.measure is Measure.LINES
    assert not any(isinstance(piece, Section) and piece.glued for piece in again.pieces)
    assert again.size == 5


@given(texts)
def test_cutting_takes_time_that_grows_with_the_text(text: str) -> None:
    stairs = "\n".join(" " * n + "x" for n in range(400))
    assert len(cut(f"{text}\n{stairs}")) >= 20


def function(name: str, lines: int = 8) -> str:
    return "\n".join([f"def {name}():", *(f"    step_{name}_{n}()" for n in range(lines))])


def test_a_function_stays_whole() -> None:
    functions = [function(name) + "\n\n" for name in "abcdefgh"]
    for section in cut("\n".join(functions)):
        assert section.startswith("def ")
        assert section.rstrip().endswith("_7()")


def test_a_long_class_is_cut_between_its_methods() -> None:
    methods = ["    " + function(name).replace("\n", "\n    ") for name in "abcdef"]
    found = cut("class Thing:\n\n" + "\n\n".join(methods))
    assert [section.strip().split("(")[0] for section in found[1:]] == [
        f"def {name}" for name in "abcdef"
    ]


def test_line_numbers_do_not_hide_the_indentation() -> None:
    text = "\n\n".join(function(name) for name in "abcdefgh")
    numbered = "\n".join(f"{n:6}\t{line}" for n, line in enumerate(text.split("\n"), 1))
    assert [s.count("\n") for s in cut(numbered)] == [s.count("\n") for s in cut(text)]


def test_a_traceback_stays_with_the_error_it_ends_with() -> None:
    frames = [f'  File "a.py", line {n}, in f\n    call({n})' for n in range(5)]
    trace = "\n".join(["Traceback (most recent call last):", *frames, "ValueError: no"])
    log = "\n".join(f"2026-11-16 INFO working on part {n} of it" for n in range(40))
    (holding,) = [s for s in cut(f"{log}\n{trace}\n{log}") if "Traceback" in s]
    assert trace in holding


def test_a_traceback_with_line_numbers_ends_with_its_error() -> None:
    frames = [f'  File "a.py", line {n}, in f\n    call({n})' for n in range(5)]
    log = "\n".join(f"2026-11-16 INFO working on part {n} of it" for n in range(40))
    text = "\n".join([log, "Traceback (most recent call last):", *frames, "ValueError: no", log])
    numbered = [f"{n:6}\t{line}" for n, line in enumerate(text.split("\n"), 1)]
    assert [piece.count("\n") for piece in cut("\n".join(numbered))] == [
        piece.count("\n") for piece in cut(text)
    ]


@pytest.mark.parametrize(
    "line", ["|--|--|", "+--+--+\n| a | b |", "  1\tTraceback (most recent call last):\n  2\t  x"]
)
def test_many_tables_and_tracebacks_are_each_read_once(line: str) -> None:
    class Line(str):
        """A line that counts how often a table or a traceback was looked for in it."""

        seen = 0

        def __contains__(self, sign: object) -> bool:
            Line.seen += 1
            return str.__contains__(self, str(sign))

        def lstrip(self, *signs: str) -> str:  # type: ignore[override]
            Line.seen += 1
            return str.lstrip(self, *signs)

    outline = _Outline(
        [Line(each) for each in "\n".join([line] * 1_000).split("\n")], MAX_CHARACTERS
    )
    assert "".join(piece.text for piece in outline.cut())
    assert Line.seen < 20_000


def test_a_table_keeps_its_head_and_rule_together() -> None:
    rows = "\n".join(f"| row_{n} | {n} | some words to fill the row |" for n in range(60))
    words = "\n".join(f"A line of words before the table, number {n}." for n in range(13))
    text = f"{words}\n| name | size | note |\n|------|------|------|\n{rows}"
    assert any("| name | size | note |\n|------" in section for section in cut(text))


def test_fences_and_hunks_are_borders() -> None:
    code = "\n".join(f"line_{n} = {n}" for n in range(14))
    prose = "\n".join(f"Sentence {n} of what somebody explains here." for n in range(9))
    found = cut(f"{prose}\n```python\n{code}\n```\n{prose}")
    assert f"```python\n{code}\n```" in found
    hunks = [f"@@ -{n},9 +{n},9 @@\n" + f"+ added {n}\n" * 11 for n in range(4)]
    assert all(s.startswith("@@ -") for s in cut("".join(hunks).strip("\n")))


def test_records_of_indented_json_stay_whole() -> None:
    text = json.dumps(
        [{"id": n, "name": f"row_{n}", "tags": ["a", "b"]} for n in range(30)], indent=2
    )
    for section in cut(text)[1:-1]:
        assert section.startswith("  {\n")
        assert section.endswith("  },")


def test_a_long_line_is_cut_where_a_record_ends() -> None:
    line = json.dumps([{"id": f"row_{n}", "note": "some words here"} for n in range(80)])
    found = sections(line)
    assert found.measure is Measure.CHARACTERS
    assert len(found.pieces) > 3
    assert all(
        piece.text.endswith("}, ") for piece in found.pieces[:-1] if isinstance(piece, Section)
    )


@pytest.mark.parametrize(
    "sign", ["e\u0301", "👩\u200d👩\u200d👧\u200d👦", "👍🏽", "❤\ufe0f", "கி"], ids=ascii
)
def test_a_long_line_is_not_cut_inside_a_character(sign: str) -> None:
    for before in range(len(sign) + 1):
        text = "x" * before + sign * 1_000
        assert "".join(cut(text)) == text
        assert all(part.startswith(sign) for part in cut(text)[1:])


def test_a_long_line_without_blanks_is_cut_after_a_sentence() -> None:
    parts = cut("東京は日本の首都です。人口は約千四百万人です。" * 100)
    assert len(parts) > 2
    assert all(part.endswith("。") for part in parts)


def test_what_somebody_wrote_is_cut_at_blank_lines_and_fences_only() -> None:
    command = "\n\n".join(f"step --number {n}" for n in range(8))
    text = f"First I look.\n\nThen:\n```bash\n{command}\n```\nDone."
    assert [piece.text for piece in paragraphs(text).pieces if isinstance(piece, Section)] == [
        "First I look.\n",
        "Then:",
        f"```bash\n{command}\n```",
        "Done.",
    ]


def test_a_heading_stays_with_what_it_heads() -> None:
    text = "# Plan\n\n## First\n\nRead it.\n\n**Then:**\n\n```bash\nmake\n```\nThat is all."
    assert [piece.text for piece in paragraphs(text).pieces if isinstance(piece, Section)] == [
        "# Plan\n\n## First\n\nRead it.\n",
        "**Then:**\n\n```bash\nmake\n```",
        "That is all.",
    ]


def test_a_script_stays_whole_unless_it_is_larger_than_it_may_be() -> None:
    parts = ["\n".join(f"step --number {n}{k}" for k in range(12)) + "\n" for n in range(4)]
    script = "\n".join(["```bash", *parts, "```"])
    assert paragraphs(script).pieces == (Section(script),)
    assert paragraphs(script, len(script)).pieces == (Section(script),)
    cut_up = paragraphs(script, len(script) - 1)
    found = [piece.text for piece in cut_up.pieces if isinstance(piece, Section)]
    assert found == [f"```bash\n{parts[0]}", *parts[1:], "```"]
    assert shown(cut_up, "it", "m1") == script
    unbroken = "\n".join(f"step --number {n}" for n in range(60))
    assert len(paragraphs(f"```bash\n{unbroken}\n```", 10).pieces) == 1


TABLES = {
    "markdown": ("| name | size |\n|------|-----:|", "| row_{n} | {n} |"),
    "psql": (" name   | size\n--------+------", " row_{n} | {n}"),
    "columns": ("Package    Version\n---------- -------", "package_{n} 1.{n}"),
    "numbered": ("  1\t| name | size |\n  2\t|------|------|", "  {n}\t| row_{n} | {n} |"),
    "crlf": ("| name | size |\r\n|------|-----:|\r", "| row_{n} | {n} |\r"),
    "grid": ("| name | size |\n+------+------+", "| row_{n} | {n} |\n+------+------+"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_rows_that_are_kept_have_the_head_of_their_table_in_front(kind: str) -> None:
    head, row = TABLES[kind]
    text = "\n".join(["Found:", "", head, *(row.format(n=n) for n in range(90)), "", "The end."])
    number = next(n for n, piece in enumerate(cut(text)) if row.format(n=50) in piece)
    left = keeping(text, number)
    assert left.count(head) == 1
    assert left.index(head) + len(head) + 1 == left.index(cut(text)[number])
    assert sections(left).size == sections(text).size, "every line is counted once"
    assert keeping(left, 0, 1) == left
    first = next(n for n, piece in enumerate(cut(text)) if head in piece)
    assert keeping(text, first, number).count(head) == 1


def test_a_line_under_a_heading_is_not_a_table() -> None:
    text = "Heading\n-------\n" + "\n".join(f"Line {n} of what it says." for n in range(60))
    assert not any(piece.head for piece in sections(text).pieces if isinstance(piece, Section))


LONG = "\n\n".join(function(name) for name in "abcdefgh")


def test_the_first_gap_says_what_is_missing_and_how_to_get_it_back() -> None:
    said = keeping(LONG, 1, 3).split("\n")
    assert said[0] == (
        '[marksweep: 59 of 79 lines of src/app.py left out, 60 tokens; recall("m6")]'
    )
    assert said[1] == "def b():"
    assert said.count("[…]") == 2
    assert said[-1] == "[…]"


def test_every_gap_of_a_trimmed_text_is_counted_once() -> None:
    once = sections(keeping(LONG, 1, 3))
    assert once.size == 79
    assert [piece.size for piece in once.pieces if isinstance(piece, Gap)] == [59, 0, 0]


def test_gaps_that_an_earlier_version_wrote_are_read() -> None:
    said = keeping(LONG, 1, 3).replace("[…]", "[… 10 lines …]")
    again = sections(said)
    assert again.size == 79
    assert shown(again, "src/app.py", "m6") == keeping(LONG, 1, 3)


def test_a_text_of_which_nothing_is_shown_is_one_line() -> None:
    assert keeping("one line") == (
        '[marksweep: all 1 line of src/app.py left out, 10 tokens; recall("m6")]'
    )
    why = left_out(LONG, "superseded: it was read again")
    assert shown(why, "src/app.py", "m6").endswith(', superseded: it was read again; recall("m6")]')


@given(text=texts, data=st.data())
def test_trimming_again_updates_the_numbers_and_never_nests(text: str, data: st.DataObject) -> None:
    whole = sections(text)
    numbers = st.sets(st.integers(0, len(whole.pieces)))
    once = keeping(text, *data.draw(numbers))
    again = sections(once)
    if once != text:
        assert again.size == whole.size
        assert again.measure is whole.measure
    twice = keeping(once, *data.draw(numbers))
    assert twice.count("[marksweep: ") <= 1
    if twice != text:
        assert sections(twice).size == whole.size
    assert shown(sections(once), "src/app.py", "m6") == once


ENDLESS = "9" * 5_000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "[marksweep: is a tool",
        "[…]",
        f"[marksweep: {ENDLESS} of {ENDLESS} lines of a left out, {ENDLESS} tokens]",
    ],
)
def test_what_only_looks_like_our_line_is_text(text: str) -> None:
    assert not any(isinstance(piece, Gap) for piece in sections(text).pieces)


QUOTED = (
    '[marksweep: 12 of 30 lines of a.py left out, 300 tokens; recall("m6")]',
    '[marksweep: all 30 lines of a.py left out, 300 tokens; recall("m6")]',
    '[marksweep: 2,000 of 9,000 characters of a.py left out, 300 tokens; recall("m6")]',
)


@pytest.mark.parametrize("line", QUOTED)
def test_a_line_that_a_text_quotes_is_part_of_the_text(line: str) -> None:
    text = f"So it looks:\n\n{line}\n[…]\n\n{LONG}"
    whole = sections(text)
    assert shown(whole, "docs.md", "m9") == text
    assert whole.size == len(text.split("\n"))
    assert missing_tokens(text) == 0
    assert not has_gap(text)
    assert "all 84 lines of docs.md" in shown(left_out(text), "docs.md", "m9")


@pytest.mark.parametrize("line", QUOTED)
def test_a_text_that_quotes_a_line_and_is_cut_has_the_gap_that_was_cut(line: str) -> None:
    whole = sections(f"{line}\n{LONG}")
    cut = shown(Sections((*whole.pieces[:2], Gap(whole.size - 20, 50)), whole.measure), "", "m9")
    assert missing_tokens(cut) == 50
    assert cut.startswith(line)
    assert shown(sections(cut), "", "m9") == cut


def test_what_is_pasted_with_a_cut_text_in_it_keeps_its_line() -> None:
    pasted = "\n".join(f"row {n} of what a tool has said before" for n in range(40))
    cut = shown(Sections((Section(pasted), Gap(60, 300))), "a.py", "m6")
    quoted = sections_within(Section(cut))
    assert "\n".join(piece.text for piece in quoted if isinstance(piece, Section)) == cut


def test_a_line_without_an_end_is_read_in_linear_time() -> None:
    begins = "[marksweep: 1 of 2 lines " + "left out, 1 token " * 100_000
    started = process_time()
    assert not has_gap(begins)
    assert process_time() - started < 5
