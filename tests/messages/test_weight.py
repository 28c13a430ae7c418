from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from marksweep import Conversation
from marksweep.dialects import read
from marksweep.errors import BadInput
from marksweep.messages import (
    FRAME_TOKENS,
    FunctionCall,
    InlineData,
    Message,
    Part,
    Role,
    ToolResult,
    count_message,
    said_in,
)
from marksweep.tokens import IMAGE_TOKENS, count


def test_each_part_is_counted_by_itself_and_the_frame_once() -> None:
    message = Message(
        Role.MODEL,
        (
            Part(text="some text"),
            Part(thought="a thought"),
            Part(function_call=FunctionCall("c", "read", {"path": "a.py"})),
        ),
    )
    parts = count("some text") + count("a thought") + count("read") + count('{"path": "a.py"}')
    assert count_message(message) == FRAME_TOKENS + parts


def test_a_picture_weighs_what_it_costs_and_not_what_its_bytes_spell() -> None:
    picture = {"type": "base64", "media_type": "image/png", "data": "A" * 100_000}
    image = {"type": "image", "source": picture}
    result = {
        "type": "tool_result",
        "tool_use_id": "a",
        "content": [image, {"type": "text", "text": "ok"}],
    }
    asked, answered = read(
        [{"role": "user", "content": [image]}, {"role": "user", "content": [result]}]
    ).messages
    assert count_message(asked) == FRAME_TOKENS + IMAGE_TOKENS
    assert count_message(answered) == FRAME_TOKENS + IMAGE_TOKENS + count("ok")
    inline = Message(Role.USER, (Part(inline_data=InlineData("image/png", "A" * 100_000)),))
    assert count_message(inline) == FRAME_TOKENS + IMAGE_TOKENS


@pytest.mark.parametrize("kind", [["string", "null"], {"const": 1}, None, 7])
def test_a_result_with_a_type_of_its_own_is_counted_as_what_it_is(kind: object) -> None:
    schema = {"type": kind, "description": "any JSON schema says such things"}
    for result in (schema, [schema]):
        answered = Message(Role.TOOL, (Part(function_response=ToolResult("a", "f", result)),))
        assert count_message(answered) > FRAME_TOKENS + count("any JSON schema says such things")


def test_hidden_thoughts_and_unknown_parts_are_not_free() -> None:
    hidden, unknown = read(
        [
            {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x" * 600},
            {"type": "from_the_future", "words": "many words in here"},
        ],
        "openai_responses",
    ).messages
    assert count_message(hidden) == FRAME_TOKENS + 100
    assert count_message(unknown) > FRAME_TOKENS + count("many words in here")


@pytest.mark.parametrize("place", ["talk.db", "talk.json"])
def test_a_counter_that_gives_fractions_is_rounded_up_and_leaves_a_sound_store(
    tmp_path: Path, place: str
) -> None:
    for at in range(8):
        talk = Conversation(limit=100, counter=lambda m: len(str(m)) / 4, store=tmp_path / place)
        talk.extend([{"role": "user", "content": f"{at}, and some more words"}])
        talk.extend([{"role": "assistant", "content": "yes"}])
        assert talk.messages
        assert type(talk.tokens) is int
        talk.store.close()


@pytest.mark.parametrize("figure", [-1, None, "12", float("nan"), float("inf")])
def test_a_counter_that_gives_no_count_is_refused_and_nothing_is_added(figure: Any) -> None:
    talk = Conversation(limit=100, counter=lambda _: figure)
    with pytest.raises(BadInput, match=f"the token counter gave {figure!r}; expected a number"):
        talk.extend([{"role": "user", "content": "hi"}])
    assert talk.history == []


def test_nothing_weighs_only_its_frame() -> None:
    for empty in ("", None):
        (message,) = read([{"role": "assistant", "content": empty}]).messages
        assert count_message(message) == FRAME_TOKENS


def answer(result: object) -> Message:
    return Message(Role.TOOL, (Part(function_response=ToolResult("a", "f", result)),))


@pytest.mark.parametrize("key", ["content", "text"])
@pytest.mark.parametrize("more", ["word " * 500, ["word"] * 500, {"a": "word " * 500}])
def test_all_fields_of_a_result_that_is_data_are_counted_and_can_be_found(
    key: str, more: object
) -> None:
    result = {key: "ok", "stdout": more}
    assert count_message(answer(result)) > 500
    assert said_in(answer(result)).count("word") == 500
    assert said_in(answer([{"type": "text", "text": "ok"}, {"n": more}])).count("word") == 500


def test_a_flag_beside_the_text_of_a_result_is_not_part_of_its_text() -> None:
    assert said_in(answer({"content": "line 1\nline 2", "isError": False})) == "line 1\nline 2"


def test_text_in_a_document_is_counted_as_text() -> None:
    words = "word " * 20_000
    whole = {"type": "text", "media_type": "text/plain", "data": words}
    cut = {"type": "content", "content": [{"type": "text", "text": words}]}
    for source in (whole, cut):
        document = {"type": "document", "source": source}
        result = {"type": "tool_result", "tool_use_id": "a", "content": [document]}
        given = [{"role": "user", "content": [document]}, {"role": "user", "content": [result]}]
        for message in read(given, "anthropic").messages:
            assert count_message(message) == FRAME_TOKENS + count(words)
            assert said_in(message) == words
    encoded = InlineData("text/plain", b64encode(words.encode()).decode())
    found = count_message(Message(Role.USER, (Part(inline_data=encoded),)))
    assert 0.7 * count(words) < found < 1.5 * count(words)


def test_a_file_that_a_server_tool_fetched_is_counted_as_a_file() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "QUJD" * 12_000}
    fetched = {"type": "web_fetch_result", "url": "https://example.com/a.pdf"}
    fetched["content"] = {"type": "document", "source": source}  # type: ignore[assignment]
    block = {"type": "web_fetch_tool_result", "tool_use_id": "a", "content": fetched}
    (message,) = read([{"role": "assistant", "content": [block]}], "anthropic").messages
    assert IMAGE_TOKENS <= count_message(message) < IMAGE_TOKENS + 100


@pytest.mark.parametrize(
    "keys",
    [
        ("functionResponse", "inlineData", "mimeType"),
        ("function_response", "inline_data", "mime_type"),
    ],
)
def test_a_picture_beside_a_result_of_gemini_is_counted(keys: tuple[str, str, str]) -> None:
    held, inline, mime = keys
    picture = {inline: {mime: "image/png", "data": "A" * 100_000}}
    part = {held: {"name": "f", "response": {"ok": True}, "parts": [picture]}}
    (message,) = read([{"role": "user", "parts": [part]}], "gemini").messages
    assert count_message(message) == FRAME_TOKENS + IMAGE_TOKENS + count('{"ok": true}')
