"""A stand-in for a model: a local server that speaks three providers' formats.

The loops in this folder use it, so that they run without a key. It calls a tool that reads a file,
several times, then answers. In your program, omit it and give the SDK your key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

CALLS = 12
"""Number of files that are read before the answer."""

ANSWER = "Retries are limited to three, in module_7.py."


def read_file(path: str) -> str:
    """Return a large file."""
    lines = [
        "    # the order in which requests arrive is the order in which they are answered"
    ] * 120
    return "\n".join([f"# {path}", *lines, "MAX_RETRIES = 3", *lines])


@contextmanager
def serving() -> Iterator[str]:
    """Run the server; yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "generateContent" in self.path:
            answer = _gemini(body)
        elif self.path.endswith("/messages"):
            answer = _anthropic(body)
        else:
            answer = _openai(body)
        sent = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


_asked: dict[str, int] = {}
"""Calls made so far, by provider."""


def _next(provider: str) -> dict[str, str] | None:
    number = _asked[provider] = _asked.get(provider, 0) + 1
    return {"path": f"module_{number}.py"} if number <= CALLS else None


def _openai(body: Any) -> Any:
    arguments = _next("openai")
    message: dict[str, Any] = {"role": "assistant", "content": None if arguments else ANSWER}
    if arguments:
        function = {"name": "read_file", "arguments": json.dumps(arguments)}
        call = {"id": f"call_{arguments['path']}", "type": "function", "function": function}
        message["tool_calls"] = [call]
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if arguments else "stop",
    }
    usage = {"prompt_tokens": len(json.dumps(body)) // 4, "completion_tokens": 9, "total_tokens": 9}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [choice],
        "usage": usage,
    }


def _anthropic(body: Any) -> Any:
    arguments = _next("anthropic")
    block: dict[str, Any] = {"type": "text", "text": ANSWER}
    if arguments:
        name = f"toolu_{arguments['path'].removesuffix('.py')}"
        block = {"type": "tool_use", "id": name, "name": "read_file", "input": arguments}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [block],
        "stop_reason": "tool_use" if arguments else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": len(json.dumps(body)) // 4, "output_tokens": 9},
    }


def _gemini(body: Any) -> Any:
    arguments = _next("gemini")
    part: dict[str, Any] = {"text": ANSWER}
    if arguments:
        part = {"functionCall": {"name": "read_file", "args": arguments}}
    usage = {"promptTokenCount": len(json.dumps(body)) // 4, "candidatesTokenCount": 9}
    content = {"role": "model", "parts": [part]}
    return {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}
