"""What a conversation writes down of its messages."""

from __future__ import annotations

import json

import pytest

from marksweep.heaps.conversation_text import as_json

FEW = "one {} among plain text, which is a good deal longer than what stands beyond it"


@pytest.mark.parametrize(
    "said",
    [
        *("plain", "漢字" * 20, "\ud83d half", "\\x \\U \\u2026 …"),
        *map(FEW.format, ("→", "é", "д", "😀", "→é", "é😀д→", "\x85", "\u2028", "\x7f")),
    ],
)
def test_what_is_written_is_read_back_exactly(said: str) -> None:
    value = {"role": "tool", "content": said, "n": 1.5, "none": None}
    assert json.loads(as_json(value)) == value


def test_a_few_characters_beyond_ascii_do_not_double_the_memory() -> None:
    said = "→ " + "plain text " * 50
    assert as_json({"content": said}).isascii()
    foreign = "漢字仮名" * 50
    assert not as_json({"content": foreign}).isascii()
