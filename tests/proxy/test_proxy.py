"""The proxy as a process, between a client of raw HTTP and a strict provider on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from marksweep.dialects import validate
from marksweep.errors import BadInput
from marksweep.following import unmarked
from marksweep.proxy.endpoints import Upstreams
from marksweep.proxy.projection import Incoming, Options, Outgoing, Projection
from marksweep.proxy.usage import Usage, UsageReader
from marksweep.testing.histories import Answered, Call, Said, Script, render_script
from tests.clients.upstream import ENDPOINTS, Request, Upstream, serving

PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/m:streamGenerateContent",
}
FIELDS = dict(ENDPOINTS.values())


class Running:
    """A running proxy."""

    def __init__(self, url: str, folder: Path, process: subprocess.Popen[str]) -> None:
        self.url = url
        self.folder = folder
        self.process = process
        self.client = httpx.Client(timeout=60)

    def send(self, dialect: str, messages: list[Any], **headers: str) -> httpx.Response:
        body = json.dumps({"model": "m", FIELDS[dialect]: messages}, indent=1)
        return self.post(dialect, body.encode(), **headers)

    def post(self, dialect: str, body: bytes, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named.setdefault("content-type", "application/json")
        return self.client.post(self.url + PATHS[dialect], content=body, headers=named)

    @property
    def totals(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"{self.url}/healthz").json()
        return found

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()


@contextmanager
def proxy(folder: Path, upstream: str, *options: str) -> Iterator[Running]:
    store = ["--store", str(folder / "proxy.db"), "--upstream", upstream]
    command = [sys.executable, "-m", "marksweep", "proxy", "--port", "0", *store, *options]
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder, env=os.environ
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("listening on "), (folder / "log").read_text()
        running = Running(line.split()[-1], folder, process)
        with running.client:
            yield running
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with serving(Upstream(0, lambda _: "")) as running:
        yield running


@pytest.fixture(scope="module")
def running(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with proxy(tmp_path_factory.mktemp("proxy"), upstream.url, "--limit", "3k") as started:
        yield started


def work(task: str, steps: int, dialect: str = "anthropic", lines: int = 60) -> list[Any]:
    beats: list[Said | Answered] = [Said(task)]
    for n in range(steps):
        text = f"{task}: content of file {n}\n" * lines
        beats.append(Answered(f"step {n}", calls=(Call("read", {"path": f"{n}.py"}, text),)))
    return [unmarked(message) for message in render_script(Script(tuple(beats)), dialect)]


def grown(running: Running, upstream: Upstream, dialect: str, history: list[Any]) -> list[Request]:
    """Send a history as it grows; return what arrived."""
    start = len(upstream.requests)
    for end in range(1, len(history) + 1):
        if not validate(history[:end], dialect):
            running.send(dialect, history[:end]).raise_for_status()
    return upstream.requests[start:]


@pytest.mark.parametrize("dialect", PATHS)
def test_requests_fit_and_are_valid_and_the_prefix_is_rarely_rewritten(
    running: Running, upstream: Upstream, dialect: str
) -> None:
    history = work(f"a task in {dialect}", 45, dialect, lines=12)
    arrived = grown(running, upstream, dialect, history)
    assert not any(request.fault for request in arrived)
    assert max(request.size for request in arrived) < len(json.dumps(history)) * 0.6
    assert arrived[-1].messages[-1] == history[-1]
    rewrites = sum(
        after.messages[: len(before.messages)] != before.messages
        for before, after in pairwise(arrived)
    )
    assert 3 <= rewrites <= len(arrived) / 5


def thinking(steps: int) -> list[Any]:
    """Make a task whose model thinks, with signatures, before each of its calls."""
    history = work("a task to think about", steps, lines=20)
    for n, message in enumerate(history):
        if message["role"] == "assistant":
            thought = {"type": "thinking", "thinking": f"thought {n} " * 20, "signature": f"s{n}"}
            message["content"] = [thought, *message["content"]]
    return history


def marks(value: Any) -> int:
    return json.dumps(value).count('"cache_control"')


def test_everything_except_old_messages_is_as_the_client_sent_it(
    running: Running, upstream: Upstream
) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    rest = {
        "model": "m",
        "system": [{"type": "text", "text": "be brief", **mark}],
        "tools": [{"name": "read", "input_schema": {"type": "object"}, **mark}],
        "thinking": {"type": "enabled", "budget_tokens": 1_024},
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
    }
    history = thinking(30)
    thoughts = [message["content"][0] for message in history if message["role"] == "assistant"]
    upstream.calls, first = 0, len(upstream.requests)
    for end in range(1, len(history) + 1, 2):
        messages = json.loads(json.dumps(history[:end]))
        last = messages[-1]
        if isinstance(last["content"], str):
            last["content"] = [{"type": "text", "text": last["content"]}]
        last["content"][-1] |= mark
        sent = {**rest, "messages": messages}
        running.post("anthropic", json.dumps(sent).encode()).raise_for_status()
        arrived = upstream.requests[-1]
        assert {k: v for k, v in arrived.body.items() if k != "messages"} == rest
        assert marks(arrived.body) <= marks(sent)
        assert marks(arrived.messages[-1]) == 1
        said = [
            block for m in arrived.messages for block in m["content"] if isinstance(block, dict)
        ]
        assert all(block in thoughts for block in said if block["type"] == "thinking")
        assert arrived.messages[-1] == messages[-1]
    assert not any(request.fault for request in upstream.requests[first:])
    assert len(upstream.requests[-1].raw) < len(json.dumps(history)) / 2


def test_another_model_has_a_cold_cache(upstream: Upstream, tmp_path: Path) -> None:
    history = work("a task for two models", 12, lines=12)
    bodies = [{"model": model, "messages": history} for model in ("one", "other")]
    gemini = work("a task for two models", 12, "gemini", lines=12)
    limit = str(int(len(json.dumps(history)) / 4 / 0.85))
    with proxy(tmp_path, upstream.url, "--limit", limit) as running:
        grown(running, upstream, "anthropic", history)
        running.post("anthropic", json.dumps({"model": "m", "messages": history}).encode())
        assert running.totals["collections"] == 0
        running.post("anthropic", json.dumps(bodies[0]).encode())
        assert running.totals["collections"] == 1
        grown(running, upstream, "gemini", gemini)
        assert running.totals["collections"] == 1
        path = PATHS["gemini"].replace("/m:", "/other:")
        running.client.post(running.url + path, json={"contents": gemini})
        assert running.totals["collections"] == 2


def test_conversations_without_recent_messages_are_deleted(
    upstream: Upstream, tmp_path: Path
) -> None:
    store = tmp_path / "proxy.db"
    old, new = work("an old task", 20), work("a new task", 20)
    with proxy(tmp_path, upstream.url, "--limit", "3k") as running:
        grown(running, upstream, "anthropic", old)
        kept = [sys.executable, "-m", "marksweep", "swept", "--store", str(store), "old"]
        assert subprocess.run(kept, check=False, capture_output=True).returncode == 0
    with proxy(tmp_path, upstream.url, "--limit", "3k", "--keep-days", "0.0000001") as running:
        running.send("anthropic", new).raise_for_status()
        deadline = time.monotonic() + 20
        while "deleted 1 conversations" not in running.log and time.monotonic() < deadline:
            running.send("anthropic", new).raise_for_status()
        assert "deleted 1 conversations" in running.log
    assert subprocess.run(kept, check=False, capture_output=True).returncode == 2
    assert b"an old task: content of file" not in store.read_bytes()


def test_the_clients_own_bytes_go_out_until_something_is_swept(
    running: Running, upstream: Upstream
) -> None:
    body = b'{ "model":"m",\n "messages": [ {"role":"user", "content":"\\u00e9 own bytes"} ] }'
    assert running.post("anthropic", body).status_code == 200
    assert upstream.requests[-1].raw == body


def test_a_retry_gets_the_same_bytes(running: Running, upstream: Upstream) -> None:
    history = work("a task to retry", 8)
    first = grown(running, upstream, "anthropic", history)[-1]
    assert len(first.raw) < len(json.dumps(history)) * 0.7
    running.send("anthropic", history)
    assert upstream.requests[-1].raw == first.raw


@pytest.mark.parametrize(("ratio", "cached"), [(0.7, 0.9), (1.0, 0.0), (1.3, 0.0)])
def test_a_retry_gets_the_same_bytes_after_usage_and_after_a_restart(
    ratio: float, cached: float, tmp_path: Path
) -> None:
    history = work("a task that is counted", 12, lines=30)

    def sent(projection: Projection, end: int) -> bytes:
        body = json.dumps({"messages": history[:end]}).encode()
        outgoing = projection.outgoing(Incoming("anthropic", {}, body))
        tokens = int(outgoing.tokens * ratio)
        projection.observed(outgoing, Usage(tokens, int(tokens * cached)))
        return outgoing.body

    for end in range(1, len(history) + 1, 2):
        with closing(Projection(Options(limit=3_000), tmp_path / "proxy.db")) as before:
            first = sent(before, end)
            assert sent(before, end) == first
        with closing(Projection(Options(limit=3_000), tmp_path / "proxy.db")) as after:
            assert sent(after, end) == first
    assert len(first) < len(json.dumps(history)) * 0.7


def test_a_retry_after_a_kill_in_mid_stream_gets_the_same_bytes(
    upstream: Upstream, tmp_path: Path
) -> None:
    history = work("a task before a restart", 7)
    with proxy(tmp_path, upstream.url, "--limit", "3k") as first:
        grown(first, upstream, "anthropic", history[:-2])
        upstream.calls, upstream.holds_at = 0, 1
        body = {"model": "m", "messages": history}
        with first.client.stream("POST", first.url + PATHS["anthropic"], json=body):
            assert upstream.is_holding.wait(10)
            first.process.kill()
            upstream.go_on.set()
    before = upstream.requests[-1]
    assert before.messages[-1] == history[-1]
    assert len(before.raw) < len(json.dumps(history)) * 0.7
    with proxy(tmp_path, upstream.url, "--limit", "3k") as second:
        for _ in range(2):
            second.send("anthropic", history).raise_for_status()
            assert upstream.requests[-1].raw == before.raw
        assert second.totals["collections"] == 0


def test_a_stored_call_that_is_only_referred_to_goes_with_its_output() -> None:
    """As SDKs send calls that the provider stores. It refuses a call without its output."""
    items: list[Any] = [{"role": "user", "content": "a task with stored calls"}]
    projection = Projection(Options(limit=3_000), None)
    for n in range(30):
        items += [{"type": "item_reference", "id": f"{kind}_{n}"} for kind in ("rs", "fc")]
        output = f"content of file {n}\n" * 60
        items.append({"type": "function_call_output", "call_id": f"{n}", "output": output})
        body = json.dumps({"input": items}).encode()
        sent = json.loads(projection.outgoing(Incoming("openai_responses", {}, body)).body)["input"]
        referred = [item["id"] for item in sent if item.get("type") == "item_reference"]
        answered = [item["call_id"] for item in sent if "call_id" in item]
        assert referred == [f"{kind}_{each}" for each in answered for kind in ("rs", "fc")]
    assert 2 < len(answered) < 30


def test_usage_that_comes_late_is_compared_with_the_request_it_answers() -> None:
    """Compared with the larger request after it, the limit would seem to be larger."""
    history = work("a task with late usage", 12, lines=12)
    bodies = [json.dumps({"messages": history[:end]}).encode() for end in (9, 19, 21)]
    incoming = [Incoming("anthropic", {}, body) for body in bodies]
    limit = Projection(Options(limit=10**6), None).outgoing(incoming[1]).tokens * 100 // 89
    projection = Projection(Options(limit=limit), None)
    early, _ = [projection.outgoing(each) for each in incoming[:2]]
    projection.observed(early, Usage(early.tokens, early.tokens))
    assert not projection.totals.collections
    assert projection.outgoing(incoming[2]).is_changed


ZEROS = (
    b'{"type": "message_start", "message": {"usage": {"input_tokens": 0, '
    b'"cache_read_input_tokens": 0, "output_tokens": 0}}}\n'
)
"""How the answer of a server begins that knows the usage only at the end."""


@pytest.mark.parametrize(
    ("dialect", "answer", "usage"),
    [
        ("anthropic", b'{"input_tokens": 900}', Usage(900, None)),
        ("openai_chat", b'{"usage": {"prompt_tokens": 900}}', Usage(900, None)),
        (
            "anthropic",
            b'{"usage": {"input_tokens": 2, "cache_read_input_tokens": 0, '
            b'"cache_creation_input_tokens": 7}}',
            Usage(9, 0),
        ),
        (
            "openai_responses",
            b'{"usage": {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 8}}}',
            Usage(9, 8),
        ),
        ("gemini", b'{"totalTokens": 31}', None),
        ("anthropic", ZEROS + b'{"type": "message_delta", "usage": {"output_tokens": 5}}', None),
        (
            "anthropic",
            ZEROS + b'{"type": "message_delta", "usage": '
            b'{"input_tokens": 30, "cache_read_input_tokens": 900, "output_tokens": 5}}',
            Usage(930, 900),
        ),
    ],
)
def test_what_an_answer_does_not_report_is_not_zero(
    dialect: str, answer: bytes, usage: Usage | None
) -> None:
    reader = UsageReader(dialect)
    reader.feed(answer)
    assert reader.usage() == usage


def test_no_metric_falls_if_more_tokens_are_reported_as_cached_than_as_read() -> None:
    projection = Projection(Options(limit=1_000), None)
    projection.observed(Outgoing(b""), Usage(100, 40))
    before = projection.readings()
    projection.observed(Outgoing(b""), Usage(10, 90))
    for old, new in zip(before, projection.readings(), strict=True):
        assert new.value >= old.value, new


def test_counting_tokens_does_not_make_the_cache_cold() -> None:
    """The answer to it says nothing about the cache, which is still warm at 80 % of the limit."""
    history = work("a task that is counted", 12, lines=12)
    bodies = [json.dumps({"messages": history[:end]}).encode() for end in (21, 23, 23, 25)]
    incoming = [Incoming("anthropic", {}, body) for body in bodies]
    whole = Projection(Options(limit=10**6), None).outgoing(incoming[-1]).tokens
    projection = Projection(Options(limit=whole * 100 // 82), None)
    for each in incoming[:2]:
        outgoing = projection.outgoing(each)
        projection.observed(outgoing, Usage(outgoing.tokens, outgoing.tokens - 1))
    counted = projection.outgoing(incoming[2])
    reader = UsageReader("anthropic")
    reader.feed(b'{"input_tokens": %d}' % counted.tokens)
    usage = reader.usage()
    assert usage is not None
    projection.observed(counted, usage)
    assert not projection.outgoing(incoming[-1]).is_changed


@pytest.mark.parametrize(
    "body",
    [
        b"not json",
        b"[]",
        b'{"messages": "hello"}',
        b'{"messages": [17, null]}',
        b'{"messages": []}',
        b'{"model": "m"}',
        b"\xff\xfe",
    ],
)
def test_what_cannot_be_read_passes_through(running: Running, body: bytes) -> None:
    echoed = httpx.post(f"{running.url}/v1/messages", content=body, timeout=30)
    assert echoed.status_code in (200, 400, 502)
    assert running.totals["status"] == "ok"


def test_errors_and_their_headers_pass_through(running: Running, upstream: Upstream) -> None:
    upstream.overloaded = 1
    answer = running.send("anthropic", work("an overloaded task", 1)[:1])
    assert (answer.status_code, answer.headers["retry-after"]) == (529, "7")
    assert answer.json()["error"]["message"] == "overloaded"


def test_an_answer_streams_as_it_comes(running: Running, upstream: Upstream) -> None:
    upstream.calls, upstream.holds_at = 0, 1
    body = {"model": "m", "messages": work("a task that streams", 1)[:1]}
    with httpx.stream("POST", f"{running.url}/v1/messages", json=body, timeout=30) as answer:
        chunks = answer.iter_raw()
        first = next(chunks)
        assert upstream.is_holding.wait(10)
        assert b"message_start" in first
        assert b"message_stop" not in first
        upstream.go_on.set()
        rest = first + b"".join(chunks)
    assert rest.rstrip().endswith(b'{"type": "message_stop"}')


def test_if_the_provider_refuses_our_body_the_clients_own_is_sent(
    running: Running, upstream: Upstream
) -> None:
    history = work("a task that is refused", 40)
    failures = running.totals["failures"]
    upstream.refuses = lambda r: "no" if r.messages != history else ""
    try:
        assert running.send("anthropic", history).status_code == 200
    finally:
        upstream.refuses = lambda _: ""
    assert upstream.requests[-1].messages == history
    assert running.totals["failures"] == failures + 1


def test_what_the_provider_refused_is_not_tried_again_until_the_next_sweep(
    upstream: Upstream, tmp_path: Path
) -> None:
    history = work("a task with a rule we break", 60, lines=12)
    start = len(upstream.requests)
    with proxy(tmp_path, upstream.url, "--limit", "3k") as running:
        upstream.refuses = lambda r: "no" if r.messages != history[: len(r.messages)] else ""
        try:
            for end in range(41, len(history) + 1, 2):
                running.send("anthropic", history[:end]).raise_for_status()
        finally:
            upstream.refuses = lambda _: ""
        sweeps = running.totals["collections"]
        asked = running.totals["requests"]
    sent = upstream.requests[start:]
    assert sum(bool(request.fault) for request in sent) == sweeps < asked / 4
    assert sum(not request.fault for request in sent) == asked


def test_a_store_that_breaks_lets_requests_through(upstream: Upstream, tmp_path: Path) -> None:
    with proxy(tmp_path, upstream.url, "--limit", "3k") as broken:
        history = work("a task on a broken disk", 30)
        broken.send("anthropic", history[:3]).raise_for_status()
        for file in tmp_path.glob("proxy.db*"):
            file.write_bytes(b"this is not a database" * 1_000)
        for end in range(5, len(history), 10):
            broken.send("anthropic", history[:end]).raise_for_status()
        assert upstream.requests[-1].messages == history[:end]
        assert broken.totals["failures"] >= 1
        assert "passed through unchanged" in broken.log


def test_keys_are_neither_stored_nor_logged(upstream: Upstream, tmp_path: Path) -> None:
    key = "sk-ant-secret-0123456789"
    with proxy(tmp_path, upstream.url, "--limit", "3k") as careful:
        for end in range(1, 40, 2):
            history = work("a secret task", 20)[:end]
            careful.send("anthropic", history, x_api_key=key, authorization=f"Bearer {key}")
        careful.post("anthropic", b"not json", x_api_key=key)
    assert upstream.requests[-1].headers["x-api-key"] == key
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or key.encode() not in file.read_bytes(), file


def test_a_result_that_gemini_cli_sends_twice_goes_out_once(
    running: Running, upstream: Upstream
) -> None:
    history = work("a resumed task", 2, "gemini")
    for number, content in enumerate(history[2::2]):
        response = content["parts"][0]["functionResponse"]
        response["id"] = f"call_{number}"
        content["parts"] *= 2
    assert validate(history, "gemini")
    running.send("gemini", history).raise_for_status()
    sent = upstream.requests[-1].messages
    assert not validate(sent, "gemini")
    assert [len(content["parts"]) for content in sent[2::2]] == [1, 1]


def test_requests_paid_by_a_subscription_are_not_rewritten(
    running: Running, upstream: Upstream
) -> None:
    history = work("a task by subscription", 40)
    running.send("anthropic", history, authorization="Bearer sk-ant-oat01-x")
    assert upstream.requests[-1].messages == history


def test_a_dry_run_sends_requests_unchanged_and_logs_what_would_be_swept(
    upstream: Upstream, tmp_path: Path
) -> None:
    history = work("a task to look at", 40)
    with proxy(tmp_path, upstream.url, "--limit", "3k", "--dry-run") as dry:
        dry.send("anthropic", history)
        assert upstream.requests[-1].messages == history
        assert "dry run: " in dry.log
    assert not (tmp_path / "proxy.db").exists()


def test_other_requests_pass_through(running: Running, upstream: Upstream) -> None:
    answer = httpx.get(f"{running.url}/v1/models?limit=3")
    assert answer.json() == {"data": [], "object": "list"}
    assert httpx.head(f"{running.url}/").status_code == 200
    assert upstream.others[-2:] == ["GET /v1/models?limit=3", "HEAD /"]


def test_an_unreachable_provider_is_an_error_the_client_understands(tmp_path: Path) -> None:
    with proxy(tmp_path, "http://127.0.0.1:9") as alone:
        answer = alone.send("anthropic", work("a task", 1)[:1])
        assert answer.status_code == 502
        assert "cannot be reached" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "headers", "host"),
    [
        ("/v1/messages", {}, "api.anthropic.com"),
        ("/v1/models", {"anthropic-version": "2023-06-01"}, "api.anthropic.com"),
        ("/api/claude_code/settings", {"x-api-key": "sk-ant-x"}, "api.anthropic.com"),
        ("/api/oauth/usage", {"authorization": "Bearer sk-ant-oat01-x"}, "api.anthropic.com"),
        ("/v1/threads/t/messages", {"authorization": "Bearer sk-x"}, "api.openai.com"),
        ("/v1/chat/completions/c/messages", {"authorization": "Bearer sk-x"}, "api.openai.com"),
        ("/v1/models", {"x-goog-api-key": "x"}, "generativelanguage.googleapis.com"),
        ("/v1beta/models/m:generateContent", {}, "generativelanguage.googleapis.com"),
    ],
)
def test_a_key_goes_only_to_its_own_provider(path: str, headers: dict[str, str], host: str) -> None:
    assert Upstreams().url(path, "", headers) == f"https://{host}{path}"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "--allow-remote"),  # noqa: S104
        (["--limit", "many"], "not a size"),
        (["--limit", "50%"], "not a number of tokens"),
        (["--upstream", "api.example.com"], "expected http"),
        (["--strategy", "unheard"], "unheard"),
    ],
)
def test_bad_options_are_reported_at_once(options: list[str], said: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "marksweep", "proxy", "--port", "0", *options]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert done.returncode in (2, 3)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "url", ["ftp://u:secret@host", "http://[::1", "http://host:99999", "https://", "host:8080"]
)
def test_an_upstream_that_is_not_an_http_url_is_refused(url: str) -> None:
    for upstreams in ((url, {}), ("", {"named": url})):
        with pytest.raises(BadInput, match="expected http") as caught:
            Upstreams(*upstreams)
        assert "secret" not in str(caught.value)
