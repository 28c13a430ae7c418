"""Summarizers that call a function, or a model behind a URL."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec
import pytest

from marksweep.errors import BadInput, ModelError, Refused
from marksweep.summarizers import (
    CallableSummarizer,
    EndpointSummarizer,
    Extractive,
    Guarded,
    Summarizer,
    make_summarizer,
)
from marksweep.wire import FIRST_PAUSE, LONGEST_PAUSE, Endpoint
from tests.session.server import Model, serve

TALK = "\n".join(f"User: fix bug {n} in part_{n}.py, it failed" for n in range(100))


@pytest.fixture
def model() -> Iterator[Model]:
    with serve() as running:
        yield running


def test_a_function_from_text_to_text_is_a_summarizer() -> None:
    def brief(conversation: str) -> str:
        return conversation[:10]

    summary = make_summarizer(brief).summarize(TALK)
    assert (summary.text, summary.made_by, summary.note) == (TALK[:10].strip(), "brief", "")


def test_a_function_that_asks_for_the_previous_summary_gets_it() -> None:
    def brief(conversation: str, previous: str) -> str:
        return f"after {previous}"

    assert make_summarizer(brief).summarize(TALK, "one").text == "after one"


def test_a_function_that_raises_is_replaced_by_extractive_and_the_note_says_why() -> None:
    def broken(conversation: str) -> str:
        raise RuntimeError("no quota")

    summary = make_summarizer(broken).summarize(TALK)
    assert summary.made_by == "extractive"
    assert "broken raised RuntimeError: no quota" in summary.note


def test_a_function_that_hangs_times_out() -> None:
    given_up, returned = threading.Event(), threading.Event()

    def slow(conversation: str) -> str:
        given_up.wait(60)
        returned.set()
        return "late"

    summary = Guarded(CallableSummarizer(slow, timeout=0.05)).summarize(TALK)
    assert not returned.is_set()
    given_up.set()
    assert summary.made_by == "extractive"
    assert "0.05 seconds" in summary.note


def test_a_function_that_returns_no_text_is_an_error_that_says_so() -> None:
    with pytest.raises(ModelError, match="returned a int"):
        CallableSummarizer(lambda _: 3).summarize(TALK)  # type: ignore[arg-type,return-value]


def test_a_summary_that_does_not_shrink_is_refused() -> None:
    with pytest.raises(Refused, match="would not shrink"):
        CallableSummarizer(lambda text: text + "!").summarize(TALK)


def test_a_model_is_asked_over_http(model: Model) -> None:
    model.says("short")
    summary = EndpointSummarizer(model.url + "/v1", "tiny").summarize(TALK, "before")
    assert (summary.text, summary.made_by) == ("short", "tiny")
    (body,) = model.bodies
    assert body["model"] == "tiny"
    assert "before" in body["messages"][0]["content"]
    assert body["messages"][1]["content"] == TALK


def test_a_key_comes_from_the_environment(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "abc")
    model.says("short")
    EndpointSummarizer(model.url, "tiny", api_key_env="SOME_KEY").summarize(TALK)
    assert model.headers[0]["Authorization"] == "Bearer abc"
    monkeypatch.delenv("SOME_KEY")
    with pytest.raises(BadInput, match="SOME_KEY is not set"):
        EndpointSummarizer(model.url, "tiny", api_key_env="SOME_KEY")


def test_a_passing_failure_is_tried_again(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marksweep.wire.FIRST_PAUSE", 0.001)
    model.fails(503, 429)
    model.says("short")
    assert EndpointSummarizer(model.url, "tiny").summarize(TALK).text == "short"
    assert len(model.bodies) == 3


def test_each_further_try_is_waited_for_longer(model: Model) -> None:
    model.fails(503, 429, 500)
    pauses: list[float] = []
    Endpoint(f"{model.url}/chat/completions", tries=4).post({"messages": []}, pauses.append)
    assert pauses == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]


def test_a_lasting_failure_falls_back_to_extractive(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marksweep.wire.FIRST_PAUSE", 0.001)
    model.fails(503, 503)
    settings = {"endpoint": model.url, "model": "tiny", "tries": 2}
    summary = make_summarizer(settings).summarize(TALK)
    assert summary.made_by == "extractive"
    assert "503" in summary.note


def test_a_refusal_is_not_tried_again(model: Model) -> None:
    model.fails(401)
    with pytest.raises(ModelError, match="401"):
        EndpointSummarizer(model.url, "tiny").summarize(TALK)
    assert len(model.bodies) == 1


def test_an_endpoint_that_is_silent_times_out(model: Model) -> None:
    model.hangs()
    with pytest.raises(ModelError, match="did not answer"):
        EndpointSummarizer(model.url, "tiny", timeout=0.1, tries=1).summarize(TALK)


def test_an_endpoint_that_talks_nonsense_is_an_error(model: Model) -> None:
    model.raw("<html>")
    with pytest.raises(ModelError, match="no JSON"):
        EndpointSummarizer(model.url, "tiny").summarize(TALK)
    model.raw('{"choices": []}')
    with pytest.raises(ModelError, match="no known form"):
        EndpointSummarizer(model.url, "tiny").summarize(TALK)


def test_an_unreachable_endpoint_is_an_error_that_names_the_address() -> None:
    with pytest.raises(ModelError, match=r"127\.0\.0\.1:9"):
        EndpointSummarizer("http://127.0.0.1:9/v1", "tiny", tries=1).summarize(TALK)


def test_invalid_settings_are_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match="known keys are endpoint, model"):
        make_summarizer({"endpoint": "http://x", "modle": "y"})
    with pytest.raises(BadInput, match="http://"):
        make_summarizer({"endpoint": "ftp://x", "model": "y"})
    with pytest.raises(BadInput, match="summarizer is 5"):
        make_summarizer(5)


def test_every_summarizer_is_one() -> None:
    for made in (Extractive(), Guarded(Extractive()), make_summarizer(str.upper)):
        assert isinstance(made, Summarizer)
    assert isinstance(make_summarizer("extractive"), Extractive)
    assert isinstance(make_summarizer(), Extractive)


@contextmanager
def speaking(*pieces: bytes, again: bytes = b"", every: float = 0.0) -> Iterator[str]:
    """Run a server that sends these pieces to every client, and then one piece forever."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        stop = threading.Event()

        def speak(client: socket.socket) -> None:
            with client, suppress(OSError):
                client.recv(65_536)
                for piece in pieces:
                    client.sendall(piece)
                while again and not stop.wait(every):
                    client.sendall(again)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=speak, args=(listening.accept()[0],)).start()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            stop.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"


@pytest.mark.parametrize(
    "pieces", [(b"HTTP/1.1 200 OK\r\n",), (HEAD,)], ids=["in its headers", "in its answer"]
)
def test_an_endpoint_that_drips_times_out_after_the_total_time(pieces: tuple[bytes]) -> None:
    drop = b" " if pieces[0] == HEAD else b"X-Drop: 1\r\n"
    with speaking(*pieces, again=drop, every=0.02) as url:
        endpoint = Endpoint(url, timeout=30, tries=3, total_seconds=0.5)
        pauses: list[float] = []
        with pytest.raises(ModelError, match=r"within 0\.5 seconds in all"):
            endpoint.post({}, pauses.append)
        assert pauses == []


def test_an_endless_answer_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marksweep.wire.MAX_ANSWER_BYTES", 1_000_000)
    with (
        speaking(HEAD, again=b" " * 65_536) as url,
        pytest.raises(ModelError, match="more than 1,000,000 bytes"),
    ):
        Endpoint(url).post({})


@pytest.mark.parametrize(
    ("asked", "waited"), [("3", 3.0), ("86400", LONGEST_PAUSE), ("soon", 0.5), ("", 0.5)]
)
def test_an_endpoint_is_left_alone_for_as_long_as_it_asks_within_bounds(
    asked: str, waited: float
) -> None:
    busy = f"HTTP/1.1 429 Busy\r\nRetry-After: {asked}\r\nContent-Length: 0\r\n\r\n"
    pauses: list[float] = []
    with speaking(busy.encode()) as url, pytest.raises(ModelError, match="429"):
        Endpoint(url, tries=2).post({}, pauses.append)
    assert pauses == [waited]


def test_a_redirect_is_not_followed(model: Model) -> None:
    there = f"HTTP/1.1 307 Go\r\nLocation: {model.url}\r\nContent-Length: 0\r\n\r\n"
    with speaking(there.encode()) as url, pytest.raises(ModelError, match="307"):
        Endpoint(url).post({})
    assert model.bodies == []


def test_the_proxy_of_the_environment_is_used_and_its_password_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    answer = b'HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{"by":"proxy"}'
    with speaking(answer) as proxy:
        monkeypatch.setenv("http_proxy", proxy.replace("://", "://me:hunter2@"))
        assert Endpoint("http://models.example/v1").post({}) == {"by": "proxy"}
    with pytest.raises(ModelError) as caught:
        Endpoint("http://models.example/v1", tries=1).post({})
    assert "hunter2" not in str(caught.value)


def test_a_model_can_be_asked_from_within_an_event_loop(model: Model) -> None:
    async def inside() -> object:
        return Endpoint(f"{model.url}/chat/completions").post({"messages": []})

    assert asyncio.run(inside())


def test_no_message_about_an_endpoint_shows_its_credentials() -> None:
    endpoint = Endpoint("http://me:hunter2@127.0.0.1:9/?key=hunter2", {"Authorization": "hunter2"})
    assert "hunter2" not in repr(endpoint)
    with pytest.raises(ModelError) as caught:
        msgspec.structs.replace(endpoint, tries=1).post({})
    assert "hunter2" not in str(caught.value)
    for wrong in ("ftp://me:hunter2@host", "http://me:hunter2@host:port", "http://:hunter2@"):
        with pytest.raises(BadInput) as refused:
            Endpoint(wrong)
        assert "hunter2" not in str(refused.value)
