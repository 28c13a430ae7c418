"""The proxy's HTTP: what raw clients send and what raw providers answer, byte for byte."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from marksweep.proxy.app import Proxy
from marksweep.proxy.endpoints import Upstreams
from marksweep.proxy.projection import Options, Projection
from tests.proxy.test_proxy import Running, proxy, work

USAGE = {"prompt_tokens": 777, "prompt_tokens_details": {"cached_tokens": 5}}


class Provider(ThreadingHTTPServer):
    """A provider that records what it is sent; its answer depends on the path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.headers: list[tuple[str, str]] = []
        self.body = b""
        self.has_request = threading.Event()
        self.was_left = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Provider

    def log_message(self, *_: Any) -> None: ...

    def answer(self) -> None:
        self.server.body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.headers = self.headers.items()
        self.server.has_request.set()
        path = self.path.removesuffix("/v1/messages").removesuffix("/v1/chat/completions")
        if path == "/waits":
            self._wait_until_left()
            return
        self.send_response(200)
        data = b'{"ok": true}'
        if "gzip" in (self.headers.get("accept-encoding") or ""):
            data = gzip.compress(data)
            self.send_header("content-encoding", "gzip")
        self.send_header("set-cookie", "affinity=1; Path=/")
        if path in ("/breaks", "/stays", "/counts"):
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            said = f"data: {json.dumps({'usage': USAGE})}\n\ndata: [DONE]\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(said), said))
            if path == "/stays":
                self._wait_until_left()
            if path == "/counts":
                self.wfile.write(b"0\r\n\r\n")
            self.close_connection = True
            return
        self.send_header("content-length", str(len(data)))
        self.flush_headers()
        if path == "/named":
            self.wfile.write("x-organization: 公司\r\n".encode())
        self.end_headers()
        self.wfile.write(data)

    def _wait_until_left(self) -> None:
        self.connection.settimeout(20)
        if self.connection.recv(1) == b"":
            self.server.was_left.set()
        self.close_connection = True

    do_GET = do_POST = answer  # noqa: N815


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def running(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with proxy(tmp_path_factory.mktemp("http"), provider.url, "--limit", "3k") as started:
        yield started


@contextmanager
def connected(running: Running, head: str, body: bytes = b"") -> Iterator[socket.socket]:
    """Send a request over a bare socket."""
    port = int(running.url.rpartition(":")[2])
    lines = [head, "Host: 127.0.0.1", f"Content-Length: {len(body)}", "", ""]
    with socket.create_connection(("127.0.0.1", port), timeout=30) as opened:
        opened.sendall("\r\n".join(lines).encode("latin-1") + body)
        yield opened


def answered(running: Running, head: str) -> bytes:
    """Return a whole answer."""
    with connected(running, f"{head}\r\nConnection: close") as opened:
        return b"".join(iter(lambda: opened.recv(65_536), b""))


def test_an_answer_is_compressed_only_if_the_client_asked(running: Running) -> None:
    assert b'{"ok": true}' in answered(running, "GET /v1/models HTTP/1.1")
    asked = answered(running, "GET /v1/models HTTP/1.1\r\nAccept-Encoding: gzip")
    assert b"content-encoding: gzip" in asked


def test_headers_pass_byte_for_byte_in_both_directions(
    running: Running, provider: Provider
) -> None:
    betas = "anthropic-beta: one\r\nanthropic-beta: two\r\nX-Title: caf\xe9"
    hops = "Connection: x-hop\r\nX-Hop: 1\r\nExpect: 100-continue"
    answer = answered(running, f"GET /named HTTP/1.1\r\n{betas}\r\n{hops}")
    sent = [(name.lower(), value) for name, value in provider.headers if name.lower() != "host"]
    assert sent == [("anthropic-beta", "one"), ("anthropic-beta", "two"), ("x-title", "caf\xe9")]
    assert b"200 OK" in answer
    assert "x-organization: 公司".encode() in answer


def test_a_request_that_asks_for_http_2_keeps_its_body(
    running: Running, provider: Provider
) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "a\r\nupgrade: it"}]}).encode()
    asked = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk"
    with connected(running, f"POST /v1/messages HTTP/1.1\r\n{asked}", body) as opened:
        assert opened.recv(12) == b"HTTP/1.1 200"
    assert provider.body == body
    assert not {"upgrade", "http2-settings"} & {name.lower() for name, _ in provider.headers}


def test_cookies_of_one_client_are_not_sent_for_another(
    running: Running, provider: Provider
) -> None:
    assert b"set-cookie: affinity=1" in answered(running, "GET /v1/models HTTP/1.1")
    answered(running, "GET /v1/models HTTP/1.1")
    assert "cookie" not in [name.lower() for name, _ in provider.headers]


def test_a_request_that_the_client_cancels_is_cancelled_at_the_provider(
    running: Running, provider: Provider
) -> None:
    """Otherwise the model goes on, and its answer is paid for."""
    provider.has_request.clear()
    provider.was_left.clear()
    with connected(running, "POST /waits/v1/messages HTTP/1.1", b"{}"):
        assert provider.has_request.wait(10)
    assert provider.was_left.wait(10)


def test_an_answer_that_breaks_off_is_broken_off_with_a_line_in_the_log(running: Running) -> None:
    answer = answered(running, "POST /breaks/v1/messages HTTP/1.1")
    assert b"[DONE]" in answer
    assert not answer.endswith(b"0\r\n\r\n")
    assert "the provider broke off its answer" in running.log
    assert "Traceback" not in running.log


def test_usage_counts_if_the_client_leaves_at_the_last_event(
    running: Running, provider: Provider
) -> None:
    provider.was_left.clear()
    before = running.totals["reported_tokens"]
    body = json.dumps({"model": "m", "messages": work("a task", 1, "openai_chat")[:1]}).encode()
    with connected(running, "POST /stays/v1/chat/completions HTTP/1.1", body) as opened:
        received = b""
        while b"[DONE]" not in received:
            received += opened.recv(65_536)
    assert provider.was_left.wait(10)
    deadline = time.monotonic() + 10
    while running.totals["reported_tokens"] == before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running.totals["reported_tokens"] == before + 777


def test_usage_is_recorded_before_the_client_sees_the_end(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a quick client's next request is sometimes made without it."""
    happened: list[str] = []
    projection = Projection(Options(limit=3_000), None)
    monkeypatch.setattr(projection, "observed", lambda *_: happened.append("recorded"))
    body = json.dumps({"model": "m", "messages": work("a task", 1, "openai_chat")[:1]}).encode()

    async def receive() -> dict[str, Any]:
        if happened:
            await asyncio.Event().wait()
        happened.append("asked")
        return {"type": "http.request", "body": body}

    async def send(message: MutableMapping[str, Any]) -> None:
        if not message.get("more_body", True):
            happened.append("ended")

    async def ask() -> None:
        proxy = Proxy(projection, Upstreams(provider.url))
        path = "/counts/v1/chat/completions"
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
        await proxy.app()(scope, receive, send)
        await proxy.close()

    asyncio.run(ask())
    assert happened == ["asked", "recorded", "ended"]


@pytest.mark.parametrize("origin", ["http://[", "null", "http://127.0.0.1.evil.example", "x"])
def test_the_page_refuses_every_other_origin(running: Running, origin: str) -> None:
    host = running.url.removeprefix("http://")
    asked = running.client.get(
        f"{running.url}/marksweep/api/heaps", headers={"host": host, "origin": origin}
    )
    assert asked.status_code == 403


def test_the_page_of_a_container_is_found_under_the_names_it_was_given(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "x" * 20
    monkeypatch.setenv("MARKSWEEP_TOKEN", token)
    anywhere = ("--host", "0.0.0.0", "--allow-remote", "--allow-host", "box.example:8723")  # noqa: S104
    with proxy(tmp_path, provider.url, *anywhere) as running:
        port = running.url.rpartition(":")[2]
        asked = {
            host: running.client.get(
                f"http://127.0.0.1:{port}/marksweep/api/heaps",
                headers={"host": host, "authorization": f"Bearer {token}"},
            )
            for host in ("box.example:8723", "localhost:8723", "evil.example:8723")
        }
    assert [answer.status_code for answer in asked.values()] == [200, 200, 421]
    assert "--allow-host evil.example:8723" in asked["evil.example:8723"].json()["error"]
