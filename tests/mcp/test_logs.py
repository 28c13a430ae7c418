"""Logs are JSON, and hold no secrets."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from marksweep.mcp.logs import JsonLines, masked

CHOSEN = "a-token-somebody-chose"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abcdef123456", "abcdef123456"),
        ('{"api_key": "abcdef123456"}', "abcdef123456"),
        ("password=hunter22 and more", "hunter22"),
        ("MARKSWEEP_TOKEN=abcdef123456", "abcdef123456"),
        ("key sk-abcdefghijklmnop1234", "abcdefghijklmnop1234"),
        ("ghp_abcdefghijklmnop1234", "abcdefghijklmnop1234"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "c2lnbmF0dXJl"),
        ("redis://user:secret@host:6379/0", "secret"),
        (f"somebody sent {CHOSEN}", CHOSEN),
    ],
)
def test_a_secret_is_masked(text: str, secret: str) -> None:
    shown = masked(text, [CHOSEN])
    assert secret not in shown
    assert "***" in shown


def test_plain_words_are_left_as_they_are() -> None:
    text = "planned 3 segments, 450 tokens freed, plan-0a1b2c at http://127.0.0.1:8722/mcp"
    assert masked(text) == text


def test_a_record_is_one_line_of_json_with_its_error_masked() -> None:
    try:
        int("password=hunter22")
    except ValueError:
        record = logging.LogRecord(
            "x", logging.ERROR, __file__, 1, "failed\nfor %s", ("you",), sys.exc_info()
        )
    record.tool = "context_add"
    line = JsonLines().format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert found["message"] == "failed\nfor you"
    assert found["level"] == "error"
    assert found["tool"] == "context_add"
    assert "hunter22" not in line
    assert "ValueError" in found["error"]
