"""How a conversation stores its messages."""

from __future__ import annotations

import json

import pytest

from marksweep.messages import as_json

FEW = "one {} among plain text, which is much longer than the characters beyond ASCII"


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
