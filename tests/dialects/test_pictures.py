"""Results with pictures: never text, kept with a shortened text, gone with a masked one."""

from __future__ import annotations

from typing import Any

import pytest

from marksweep import Conversation
from marksweep.dialects import dialect_named, validate, written
from marksweep.dialects.base import message_of
from marksweep.heaps.forms import with_texts
from marksweep.messages import count_message, outcomes_of, said_in
from marksweep.sections import left_out, shown
from marksweep.tokens import IMAGE_TOKENS

BYTES = "iVBORw0KGgo" * 5_000
URL = f"data:image/png;base64,{BYTES}"
SOURCE = {"type": "base64", "media_type": "image/png", "data": BYTES}
RESULTS: dict[str, Any] = {
    "anthropic": lambda text: {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "c",
                "content": [
                    *([{"type": "text", "text": text}] if text else []),
                    {"type": "image", "source": SOURCE},
                ],
            }
        ],
    },
    "openai_chat": lambda text: {
        "role": "tool",
        "tool_call_id": "c",
        "content": [
            *([{"type": "text", "text": text}] if text else []),
            {"type": "image_url", "image_url": {"url": URL}},
        ],
    },
    "openai_responses": lambda text: {
        "type": "function_call_output",
        "call_id": "c",
        "output": [
            *([{"type": "input_text", "text": text}] if text else []),
            {"type": "input_image", "image_url": URL},
        ],
    },
    "gemini": lambda text: {
        "role": "user",
        "parts": [
            {
                "functionResponse": {
                    "name": "look",
                    "response": {"result": text},
                    "parts": [{"inlineData": {"mimeType": "image/png", "data": BYTES}}],
                }
            }
        ],
    },
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_picture_stays_beside_a_text_that_is_shortened(name: str) -> None:
    message = message_of(dialect_named(name), RESULTS[name]("a long text"), "m3")
    shorter = with_texts(message, {0: "a text"})
    assert shorter is not None
    assert said_in(shorter) == "a text"
    assert BYTES in str(shorter.raw)
    assert BYTES in str(message_of(dialect_named(name), shorter.raw, "m3").parts[0].raw)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "audio", "data": BYTES, "mimeType": "audio/wav"},
        {"type": "input_audio", "input_audio": {"data": BYTES, "format": "wav"}},
        {"type": "video", "base64": BYTES, "mime_type": "video/mp4"},
    ],
)
def test_sound_and_film_are_not_counted_as_text_and_stay_beside_a_shortened_one(block: Any) -> None:
    said = {"type": "text", "text": "a long text"}
    given = {"role": "tool", "tool_call_id": "c", "content": [said, block]}
    message = message_of(dialect_named("openai_chat"), given, "m3")
    assert said_in(message) == "a long text"
    assert count_message(message) < len(BYTES) / 20
    shorter = with_texts(message, {0: "a text"})
    assert shorter is not None
    assert shorter.raw["content"] == [{"type": "text", "text": "a text"}, block]


@pytest.mark.parametrize("name", RESULTS)
def test_a_picture_goes_with_a_text_that_is_left_out_and_is_counted(name: str) -> None:
    message = message_of(dialect_named(name), RESULTS[name]("a long text"), "m3")
    (outcome,) = outcomes_of(message, ())
    line = shown(left_out(outcome.text, media=outcome.media), "", "m3")
    masked = with_texts(message, {0: line})
    assert f"left out, {IMAGE_TOKENS + 3:,} tokens, with pictures and files" in line
    assert masked is not None
    assert said_in(masked) == line
    assert BYTES not in str(masked.raw)


@pytest.mark.parametrize("strategy", ["coverage", "coverage_quality", "mask", "dead", "truncate"])
@pytest.mark.parametrize("text", ["", "The page as text.\n" * 100])
def test_bytes_of_a_picture_are_never_shown_as_text(strategy: str, text: str) -> None:
    given: list[Any] = [{"role": "user", "content": "What does the page look like?"}]
    for n in range(12):
        use = {"type": "tool_use", "id": f"c{n}", "name": "look", "input": {"page": n}}
        result = RESULTS["anthropic"](text)
        result["content"][0]["tool_use_id"] = f"c{n}"
        given += [{"role": "assistant", "content": [use]}, result]
    given.append({"role": "user", "content": "And now?"})
    talk = Conversation(limit=12_000, strategy=strategy, dialect="anthropic")
    talk.extend(given)
    left = talk.messages
    assert len(str(left)) < len(str(given))
    assert validate(left, "anthropic") == []
    for message in left:
        for block in message["content"] if isinstance(message["content"], list) else ():
            held = block.get("content", "")
            for each in held if isinstance(held, list) else [{"type": "text", "text": held}]:
                assert each["type"] == "image" or "iVBOR" not in each["text"]


def test_an_error_of_gemini_that_is_shortened_is_still_an_error() -> None:
    part = {"functionResponse": {"name": "f", "response": {"error": "a long text"}}}
    message = message_of(dialect_named("gemini"), {"role": "user", "parts": [part]}, "m3")
    shorter = with_texts(message, {0: "a text"})
    assert shorter is not None
    assert shorter.function_responses[0].is_error
    assert said_in(shorter) == "a text"


@pytest.mark.parametrize("source", ["anthropic", "openai_chat", "openai_responses"])
@pytest.mark.parametrize("target", RESULTS)
def test_a_picture_in_the_format_of_another_provider_is_named_not_spelled(
    source: str, target: str
) -> None:
    message = message_of(dialect_named(source), RESULTS[source]("It is red."), "m3")
    if source != target:
        (sent,) = written([message], target)
        assert said_in(message_of(dialect_named(target), sent, "m3")) == "It is red.\n[image]"
        assert BYTES not in str(sent)


@pytest.mark.parametrize("target", RESULTS)
def test_arguments_that_are_text_reach_every_provider(target: str) -> None:
    patch = "*** Begin Patch\n+a line\n*** End Patch"
    item = {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": patch}
    message = message_of(dialect_named("openai_responses"), item, "m2")
    (sent,) = written([message], target)
    (call,) = message_of(dialect_named(target), sent, "m2").function_calls
    assert call.args in (patch, {"input": patch})
