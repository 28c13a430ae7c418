"""What a conversation writes down of its messages."""

from __future__ import annotations

import json

import pytest

from marksweep.heaps.conversation_text import as_json


@pytest.mark.parametrize("said", ["plain", "one → among plain text", "漢字" * 20, "\ud83d half"])
def test_what_is_written_is_read_back_exactly(said: str) -> None:
    value = {"role": "tool", "content": said, "n": 1.5, "none": None}
    assert json.loads(as_json(value, said)) == value


def test_a_few_characters_beyond_ascii_do_not_double_the_memory() -> None:
    said = "→ " + "plain text " * 50
    assert as_json({"content": said}, said).isascii()
    foreign = "漢字仮名" * 50
    assert not as_json({"content": foreign}, foreign).isascii()
