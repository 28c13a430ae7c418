"""The last resort: what a trimmed text shows, and what its line says, is true."""

from __future__ import annotations

import re

import pytest

from marksweep import Conversation, tidy
from marksweep.tokens import result_text

STAND_IN = re.compile(r"\[marksweep: ([\d,]+) of ([\d,]+) (lines?|characters?) of .*\]")


def trimmed(result: str, limit: int) -> str:
    """Return what is left of a result that the model has not answered yet."""
    call = {"id": "a", "function": {"name": "read", "arguments": '{"path": "ports.txt"}'}}
    given = [
        {"role": "user", "content": "Which ports are used?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": result},
    ]
    return result_text(tidy(given, limit=limit)[2]["content"])


def ports(first: int, last: int) -> str:
    return ", ".join(f"port {number}" for number in range(first, last))


@pytest.mark.parametrize("lines", [1, 2, 10])
def test_a_long_line_that_is_trimmed_keeps_whole_words(lines: int) -> None:
    text = "\n".join(ports(8000 + n * 60, 8060 + n * 60) for n in range(lines))
    left = trimmed(text, 300)
    shown = [line for line in left.split("\n") if not STAND_IN.fullmatch(line)]
    assert left != text
    assert set("\n".join(shown).replace(",", "").split()) <= set(text.replace(",", "").split())


@pytest.mark.parametrize("lines", [1, 2, 10])
def test_a_line_that_is_trimmed_is_counted_in_characters(lines: int) -> None:
    text = "\n".join(ports(8000 + n * 60, 8060 + n * 60) for n in range(lines))
    found = STAND_IN.search(left := trimmed(text, 300))
    assert found is not None
    missing, size = (int(number.replace(",", "")) for number in found.groups()[:2])
    assert found[3] == "characters"
    assert size - missing == len(left.replace(f"\n{found[0]}\n", "").replace("\n", ""))


def test_whole_lines_are_counted_in_lines() -> None:
    text = "\n".join(f"port {number}" for number in range(8000, 8500))
    found = STAND_IN.search(left := trimmed(text, 300))
    assert found is not None
    assert (found[2], found[3]) == ("500", "lines")
    assert int(found[1]) == 500 - left.count("\n")


def test_lines_stay_whole_once_others_were_left_out() -> None:
    text = "\n".join(ports(8000 + n * 10, 8010 + n * 10) for n in range(40))
    once = trimmed(text, 700)
    twice = trimmed(once, 300)
    first, second = STAND_IN.search(once), STAND_IN.search(twice)
    assert first is not None
    assert second is not None
    assert (first[2], first[3]) == (second[2], second[3]) == ("40", "lines")
    assert int(second[1]) == 40 - twice.count("\n") > int(first[1])


FACT = "The order number is 4711-0815 and the parcel waits in locker 23."


def asked(number: int, path: str) -> dict[str, object]:
    call = {"id": f"c{number}", "function": {"name": "read", "arguments": f'{{"path": "{path}"}}'}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def answered(number: int, text: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": text}


@pytest.mark.parametrize("strategy", ["coverage", "coverage_quality", "truncate"])
def test_a_result_larger_than_the_window_does_not_drive_out_everything_else(strategy: str) -> None:
    talk = Conversation(limit=1_000, strategy=strategy)
    talk.extend([{"role": "user", "content": "Where is my parcel?"}])
    talk.extend([asked(1, "order.txt"), answered(1, FACT)])
    assert talk.messages
    large = "\n".join(f"{number}: parcel {number * 7919} left the hub" for number in range(900))
    talk.extend([asked(2, "parcels.txt"), answered(2, large)])
    texts = [str(message["content"]) for message in talk.messages]
    assert FACT in texts
    assert talk.tokens <= 1_000
    assert "0: parcel 0 left" in texts[-1]
    assert "lines of parcels.txt left out" in texts[-1]


def test_a_result_that_fits_alone_is_shown_whole() -> None:
    talk = Conversation(limit=1_000, strategy="coverage")
    talk.extend([{"role": "user", "content": "Where is my parcel?"}])
    talk.extend([asked(1, "old.txt"), answered(1, FACT * 30)])
    assert talk.messages
    large = "\n".join(f"{number}: parcel {number * 7919}" for number in range(70))
    talk.extend([asked(2, "parcels.txt"), answered(2, large)])
    assert talk.messages[-1]["content"] == large
    assert talk.tokens <= 1_000


@pytest.mark.parametrize("lines", [100, 120, 150, 400])
def test_of_a_result_too_large_no_more_is_trimmed_than_is_needed(lines: int) -> None:
    talk = Conversation(limit=1_000, strategy="coverage")
    talk.extend([{"role": "user", "content": "Where is my parcel?"}])
    large = "\n".join(f"{number}: parcel {number * 7919} left the hub" for number in range(lines))
    talk.extend([asked(1, "parcels.txt"), answered(1, large)])
    assert talk.tokens > 1_000
    assert talk.messages
    assert 950 < talk.tokens <= 1_000
