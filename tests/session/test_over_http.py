"""Sessions against a provider on loopback that speaks both protocols and is strict about them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from marksweep.errors import BadInput, ContextOverflow, ModelError
from marksweep.messages import FunctionCall, Message, Part, Role
from marksweep.plugins import GCConfig, GCTriggerReason, load_gc_plugin
from marksweep.session import AnthropicProvider, OpenAIProvider, Provider, Session, Tool
from tests.plugins.histories import text, unpaired
from tests.session.server import Model, serve

PLUGINS = ["gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget"]
PROTOCOLS = ["openai", "anthropic"]


@pytest.fixture
def model() -> Iterator[Model]:
    with serve() as running:
        yield running


def provider(protocol: str, model: Model) -> Provider:
    if protocol == "openai":
        return OpenAIProvider(model.url + "/v1", "tiny", tries=1)
    return AnthropicProvider(model.url + "/v1", "tiny", tries=1)


def look(path: str) -> str:
    return f"{path}: " + text(60, "line")


LOOK = Tool("look", "reads a file", look, {"type": "object", "properties": {"path": {}}})


def make(protocol: str, model: Model, plugin: str, limit: int, recent: int = 1) -> Session:
    chat = Session(
        provider(protocol, model),
        context_limit=limit,
        system_instructions="You look at files.",
        tools=[LOOK],
    )
    config = GCConfig(preserve_recent_turns=recent)
    chat.set_gc_plugin(load_gc_plugin(plugin), config)
    return chat


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_comes_back_and_system_and_tools_are_sent(protocol: str, model: Model) -> None:
    model.says("hello")
    chat = make(protocol, model, "gc_truncate", 10_000)
    assert chat.send_message("hi").text == "hello"
    (body,) = model.bodies
    assert "You look at files." in str(body["system" if protocol == "anthropic" else "messages"])
    assert "reads a file" in str(body["tools"])


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_long_working_session_is_never_rejected(protocol: str, plugin: str, model: Model) -> None:
    chat = make(protocol, model, plugin, limit=1500)
    for n in range(25):
        model.calls((f"a{n}", "look", {"path": f"a{n}.py"}), (f"b{n}", "look", {"path": "b.py"}))
        model.says(f"looked at {n}")
        assert chat.send_message(f"look at {n}").text == f"looked at {n}"
    assert sum(result.tokens_freed > 0 for result in chat.get_gc_history()) >= 2
    assert unpaired(chat.history) == set()
    assert chat.history[0].role is Role.SYSTEM
    assert chat.history[1].text == "look at 0"
    assert chat.get_context_usage()["percent_used"] < 100


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_overflow_leads_to_a_collection_and_the_message_gets_through(
    protocol: str, model: Model
) -> None:
    model.limit = 800
    chat = make(protocol, model, "gc_truncate", limit=100_000)
    for n in range(12):
        assert chat.send_message(f"{n} " + text(120)).text
    reasons = {result.trigger_reason for result in chat.get_gc_history()}
    assert reasons == {GCTriggerReason.OVERFLOW}
    assert chat.history[1].text.startswith("0 "), "the first request is still there"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_overflow_that_no_collection_resolves_is_distinguished_from_other_errors(
    protocol: str, model: Model
) -> None:
    model.limit = 50
    chat = make(protocol, model, "gc_truncate", limit=100_000)
    with pytest.raises(ContextOverflow, match="freed nothing"):
        chat.send_message(text(400))
    model.fails(401)
    with pytest.raises(ModelError, match="401") as caught:
        chat.send_message("hi")
    assert not isinstance(caught.value, ContextOverflow)


OVERFLOWS = (
    "This model's maximum context length is 8192 tokens; your messages resulted in 9000 tokens.",
    '{"error": {"code": "context_length_exceeded"}}',
    "Your input exceeds the context window of this model.",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 190000 + 64000 > 200000",
    '{"type": "request_too_large"}',
    "Input is too long for requested model.",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "the request exceeds the available context size (4096 tokens)",
    '{"type": "exceed_context_size_error"}',
    "The prompt (length 5000) is longer than the maximum model length of 4096.",
    "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
    "Invalid request: Your request exceeded model token limit: 8192",
    "tokens to keep from the initial prompt is greater than the context length",
    "Please reduce the length of the messages or completion.",
    "too many tokens: 9000",
)
"""The wording of providers and servers."""


@pytest.mark.parametrize("said", OVERFLOWS)
def test_an_overflow_is_recognized_in_the_wording_of_every_provider(
    said: str, model: Model
) -> None:
    chat = make("openai", model, "gc_truncate", limit=100_000)
    model.refuses(said)
    with pytest.raises(ContextOverflow):
        chat.send_message("hi")


@pytest.mark.parametrize(
    "said",
    [
        "max_tokens is too large: 9999. This model supports at most 4096 completion tokens.",
        "Rate limit reached for tokens per min",
        "messages: at least one message is required",
    ],
)
def test_another_error_is_not_taken_for_an_overflow(said: str, model: Model) -> None:
    chat = make("openai", model, "gc_truncate", limit=100_000)
    model.refuses(said)
    with pytest.raises(ModelError) as caught:
        chat.send_message("hi")
    assert not isinstance(caught.value, ContextOverflow)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_server_does_reject_a_broken_history(protocol: str, model: Model) -> None:
    broken = [
        Message.from_text(Role.USER, "look"),
        Message(Role.MODEL, (Part(function_call=FunctionCall("x", "look", {})),)),
        Message.from_text(Role.USER, "well?"),
    ]
    with pytest.raises(ModelError, match="400"):
        provider(protocol, model).complete(broken)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_our_figures_follow_what_the_provider_reports(protocol: str, model: Model) -> None:
    chat = make(protocol, model, "gc_truncate", limit=100_000)
    for _ in range(4):
        chat.send_message(text(600, "supercalifragilistic"))
    reported = len(str(model.bodies[-1]["messages"])) // 4
    ours = chat.get_context_usage()["total_tokens"]
    assert ours == pytest.approx(reported, rel=0.35)


@pytest.mark.parametrize(
    ("protocol", "usage", "expected"),
    [
        ("openai", {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}, (9, 4)),
        ("openai", {"prompt_tokens": 9, "prompt_tokens_details": None}, (9, None)),
        ("anthropic", {"input_tokens": 5, "cache_read_input_tokens": 4}, (9, 4)),
        ("anthropic", {"input_tokens": 5, "cache_creation_input_tokens": 4}, (9, None)),
        ("openai", None, (0, None)),
    ],
)
def test_what_came_from_the_cache_is_read_from_the_answer(
    protocol: str, usage: object, expected: tuple[int, int | None], model: Model
) -> None:
    content = "fine" if protocol == "openai" else [{"type": "text", "text": "fine"}]
    said = {"role": "assistant", "content": content}
    model.raw(json.dumps({"choices": [{"message": said}], "content": content, "usage": usage}))
    found = provider(protocol, model).complete([Message.from_text(Role.USER, "hi")]).usage
    assert (found.input_tokens, found.cached_tokens) == expected


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_key_comes_from_the_environment(
    protocol: str, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = OpenAIProvider if protocol == "openai" else AnthropicProvider
    with pytest.raises(BadInput, match="NO_SUCH_KEY is not set"):
        kind(model.url, "tiny", api_key_env="NO_SUCH_KEY")
    monkeypatch.setenv("SOME_KEY", "secret")
    kind(model.url, "tiny", api_key_env="SOME_KEY").complete([Message.from_text(Role.USER, "hi")])
    assert "secret" in str(model.headers[0])


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("raw", ["[]", "{}", '{"choices": [{"message": 5}], "content": 5}'])
def test_an_answer_of_unknown_format_is_an_error(protocol: str, raw: str, model: Model) -> None:
    model.raw(raw)
    with pytest.raises(ModelError):
        provider(protocol, model).complete([Message.from_text(Role.USER, "hi")])
