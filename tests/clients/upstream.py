"""A strict, scripted model provider on loopback that speaks four protocols.

The script is a task with a number of calls of the client's shell tool, one after the other, and a
final answer. The next step is read from the newest result in the request, so a retry gets the same
answer and a collected history does not confuse it. A request that breaks a rule of its provider
gets a 400 with that provider's message, as does one that does not fit the window.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from marksweep.dialects import validate
from marksweep.following import unmarked

Body = dict[str, Any]

ENDPOINTS = {
    "/messages": ("anthropic", "messages"),
    "/responses": ("openai_responses", "input"),
    "/chat/completions": ("openai_chat", "messages"),
    ":streamGenerateContent": ("gemini", "contents"),
    ":generateContent": ("gemini", "contents"),
}

CALL = re.compile(r"call_(\d{3})")
DONE = "The task is done."


class Request:
    """One request for an answer: its dialect, body and headers."""

    def __init__(self, dialect: str, field: str, raw: bytes, headers: dict[str, str]) -> None:
        self.dialect = dialect
        self.raw = raw
        body: Body = json.loads(raw)
        self.body = body
        self.headers = headers
        self.messages: list[Body] = body[field] if isinstance(body[field], list) else []
        self.size = len(json.dumps(body))
        self.fault = ""

    @property
    def has_tools(self) -> bool:
        return bool(self.body.get("tools"))

    @property
    def offers_recall(self) -> bool:
        """Whether the model is offered the tool: with its definition, or by its name alone."""
        return re.search("mcp__marksweep|marksweep_recall", json.dumps(self.body)) is not None

    def last_call(self) -> int:
        """The number of the call that the newest result answers; 0 if none was made yet."""
        for message in reversed(self.messages):
            found = CALL.findall(json.dumps(message))
            if found:
                return int(found[-1])
        return 0


class Upstream:
    """The requests of the server, and its answers."""

    def __init__(self, calls: int, command: Callable[[int], str], window: int = 10**9) -> None:
        self.url = ""
        self.calls = calls
        self.command = command
        self.window = window
        """Bytes that a request may have."""
        self.requests: list[Request] = []
        self.others: list[str] = []
        """Requests that were not for an answer."""
        self.holds_at = 0
        """The call before which the stream pauses in the middle, until `go_on` is set; 0: never."""
        self.refuses: Callable[[Request], str] = lambda _: ""
        """Returns why a request is refused with a 400, in addition to the provider's rules."""
        self.overloaded = 0
        """Number of requests that are answered with a 529 first."""
        self.tolerates_repeats = False
        """Whether Gemini accepts a result twice, as Gemini CLI sends it in a session it resumes."""
        self.is_holding = threading.Event()
        self.go_on = threading.Event()

    @property
    def work(self) -> list[Request]:
        """Requests that belong to the task, and not to a title or the like."""
        with_tools = [each for each in self.requests if each.has_tools]
        return with_tools or [each for each in self.requests if each.messages]

    def answer(self, request: Request) -> tuple[int, str, Iterator[bytes]]:
        self.requests.append(request)
        if self.overloaded:
            self.overloaded -= 1
            return 529, "application/json", iter([_error(request, "overloaded")])
        request.fault = self.refuses(request)
        if request.fault:
            return 400, "application/json", iter([_error(request, request.fault)])
        if request.messages:
            is_lenient = self.tolerates_repeats and request.dialect == "gemini"
            judged = _once(request.messages) if is_lenient else request.messages
            findings = validate(judged, request.dialect)
            if findings:
                request.fault = f"messages.{findings[0].position}: {findings[0].what}"
                return 400, "application/json", iter([_error(request, request.fault)])
        if request.size > self.window:
            request.fault = f"prompt is too long: {request.size} > {self.window} maximum"
            return 400, "application/json", iter([_error(request, request.fault)])
        if "responseJsonSchema" in request.body.get("generationConfig", {}):
            return 200, "application/json", iter([_not_a_loop()])
        step = request.last_call() + 1
        call = None
        if request.has_tools and step <= self.calls:
            call = (f"call_{step:03}", *_shell(request, self.command(step)))
        speak = SPEAKERS[request.dialect]
        usage = Usage(request.size // 4, self._cached(request) // 4)
        chunks = speak(DONE if call is None else f"Step {step}.", call, usage, f"{step:03}")
        if step == self.holds_at:
            chunks = self._held(chunks)
        return 200, "text/event-stream", chunks

    def _cached(self, request: Request) -> int:
        """Return the bytes of the longest common prefix with an earlier request."""
        longest = 0
        for before in self.requests[-4:-1]:
            pairs = zip(map(_bare, before.messages), map(_bare, request.messages), strict=False)
            same = [len(one) for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
            longest = max(longest, sum(same))
        return longest

    def _held(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for number, chunk in enumerate(chunks):
            if number == 1:
                self.holds_at = 0
                self.is_holding.set()
                self.go_on.wait(60)
            yield chunk


def _once(contents: list[Body]) -> list[Body]:
    """Return contents without repeated results."""
    seen: set[str] = set()
    out = []
    for content in contents:
        parts = []
        for part in content.get("parts", ()):
            name = part.get("functionResponse", {}).get("id")
            parts += [] if name in seen else [part]
            seen |= {name} if name else set()
        out.append({**content, "parts": parts})
    return out


def _bare(message: Body) -> str:
    return json.dumps(unmarked(message))


def _shell(request: Request, command: str) -> tuple[str, Body]:
    """Return the arguments of a command for the shell tool that the client offers."""
    given = request.body["tools"]
    functions = [each.get("function", each) for each in given]
    if request.dialect == "gemini":
        functions = [each for tool in given for each in tool.get("functionDeclarations", ())]
    names = {each.get("name", "") for each in functions}
    if "exec_command" in names:
        return "exec_command", {"cmd": command}
    if "shell" in names:
        return "shell", {"command": ["bash", "-lc", command]}
    for name in ("Bash", "bash", "shell_command", "run_shell_command"):
        if name in names:
            return name, {"command": command, "description": "look"}
    raise AssertionError(f"no shell among {sorted(names)}")


def _error(request: Request, message: str) -> bytes:
    error: Body = {"type": "invalid_request_error", "message": message}
    if request.dialect == "anthropic":
        return json.dumps({"type": "error", "error": error}).encode()
    return json.dumps({"error": error}).encode()


Called = tuple[str, str, Body] | None


class Usage(NamedTuple):
    """Tokens of a request: all, and those in common with the request before."""

    whole: int
    cached: int


def _event(data: Body, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()


def _anthropic(text: str, call: Called, usage: Usage, name: str) -> Iterator[bytes]:
    def event(kind: str, **more: object) -> bytes:
        return _event({"type": kind, **more}, kind)

    counted = {"input_tokens": usage.whole - usage.cached, "output_tokens": 1}
    counted["cache_read_input_tokens"] = usage.cached
    message = {"id": f"msg_{name}", "type": "message", "role": "assistant", "model": "scripted"}
    yield event(
        "message_start",
        message={**message, "content": [], "stop_reason": None, "usage": counted},
    )
    yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
    yield event("content_block_stop", index=0)
    if call is not None:
        block = {"type": "tool_use", "id": call[0], "name": call[1], "input": {}}
        yield event("content_block_start", index=1, content_block=block)
        delta = {"type": "input_json_delta", "partial_json": json.dumps(call[2])}
        yield event("content_block_delta", index=1, delta=delta)
        yield event("content_block_stop", index=1)
    reason = "end_turn" if call is None else "tool_use"
    yield event(
        "message_delta",
        delta={"stop_reason": reason, "stop_sequence": None},
        usage={"output_tokens": 9},
    )
    yield event("message_stop")


def _responses(text: str, call: Called, usage: Usage, name: str) -> Iterator[bytes]:
    def event(kind: str, **more: object) -> bytes:
        return _event({"type": kind, **more}, kind)

    yield event("response.created", response={"id": f"resp_{name}"})
    said: Body = {"type": "message", "role": "assistant", "id": f"msg_{name}"}
    said["content"] = [{"type": "output_text", "text": text}]
    items = [said]
    if call is not None:
        asked: Body = {
            "type": "function_call",
            "id": f"fc_{name}",
            "call_id": call[0],
            "name": call[1],
        }
        items.append({**asked, "arguments": json.dumps(call[2])})
    for at, item in enumerate(items):
        yield event("response.output_item.added", output_index=at, item=item)
        yield event("response.output_item.done", output_index=at, item=item)
    counted: Body = {"input_tokens": usage.whole, "output_tokens": 9}
    counted |= {"input_tokens_details": {"cached_tokens": usage.cached}}
    counted["total_tokens"] = usage.whole + 9
    done = {"id": f"resp_{name}", "status": "completed", "output": items, "usage": counted}
    yield event("response.completed", response=done)


def _chat(text: str, call: Called, usage: Usage, name: str) -> Iterator[bytes]:
    def chunk(delta: Body, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        base = {
            "id": f"c{name}",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "scripted",
        }
        return _event({**base, "choices": [choice]})

    yield chunk({"role": "assistant", "content": text})
    if call is not None:
        function = {"name": call[1], "arguments": json.dumps(call[2])}
        asked = {"index": 0, "id": call[0], "type": "function", "function": function}
        yield chunk({"tool_calls": [asked]})
    yield chunk({}, "stop" if call is None else "tool_calls")
    counted: Body = {"prompt_tokens": usage.whole, "completion_tokens": 9}
    counted |= {"prompt_tokens_details": {"cached_tokens": usage.cached}}
    counted["total_tokens"] = usage.whole + 9
    yield _event(
        {"id": f"c{name}", "object": "chat.completion.chunk", "choices": [], "usage": counted}
    )
    yield b"data: [DONE]\n\n"


def _gemini(text: str, call: Called, usage: Usage, name: str) -> Iterator[bytes]:
    def event(*parts: Body, **more: object) -> bytes:
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **more}
        return _event({"candidates": [candidate], "usageMetadata": counted, "responseId": name})

    counted = {"promptTokenCount": usage.whole, "cachedContentTokenCount": usage.cached}
    counted |= {"candidatesTokenCount": 9, "totalTokenCount": usage.whole + 9}
    # With text before a call, Gemini CLI's loop check would start at the model's text.
    if call is None:
        yield event({"text": text})
    else:
        yield event({"functionCall": {"id": call[0], "name": call[1], "args": call[2]}})
    yield event(finishReason="STOP")


def _not_a_loop() -> bytes:
    """Answer Gemini CLI, which asks after thirty calls whether the model is in a loop."""
    said = {"unproductive_state_analysis": "Each call differs.", "unproductive_state_confidence": 0}
    content = {"role": "model", "parts": [{"text": json.dumps(said)}]}
    candidate = {"content": content, "index": 0, "finishReason": "STOP"}
    return json.dumps({"candidates": [candidate]}).encode()


SPEAKERS: dict[str, Callable[[str, Called, Usage, str], Iterator[bytes]]] = {
    "anthropic": _anthropic,
    "openai_responses": _responses,
    "openai_chat": _chat,
    "gemini": _gemini,
}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Ignore clients that hang up: this is part of the tests."""


@contextmanager
def serving(upstream: Upstream) -> Iterator[Upstream]:
    """Serve on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            raw = self.rfile.read(length)
            path = urlsplit(self.path).path
            for ending, (dialect, field) in ENDPOINTS.items():
                if path.endswith(ending):
                    request = Request(dialect, field, raw, dict(self.headers.items()))
                    self._stream(*upstream.answer(request))
                    return
            upstream.others.append(f"POST {self.path}")
            self._say(200, {"input_tokens": len(raw) // 4})

        def do_GET(self) -> None:
            upstream.others.append(f"{self.command} {self.path}")
            self._say(200, {"data": [], "object": "list"})

        def do_HEAD(self) -> None:
            self.do_GET()

        def _say(self, status: int, body: Body) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def _stream(self, status: int, kind: str, chunks: Iterator[bytes]) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("transfer-encoding", "chunked")
            if status == 529:
                self.send_header("retry-after", "7")
            self.end_headers()
            for chunk in chunks:
                self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: object) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    upstream.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield upstream
    finally:
        upstream.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
