"""A model provider on loopback that speaks two protocols and is as strict as the real ones.

It answers `/chat/completions` and `/messages`, rejects histories with unpaired tool calls with a
400, and refuses what is longer than its limit with the provider's message.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]


class Model:
    """The next answers of the server, and its requests."""

    def __init__(self) -> None:
        self.url = ""
        self.limit: int | None = None
        self.bodies: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.is_over = threading.Event()
        self._script: list[tuple[str, Any]] = []

    def says(self, *texts: str) -> None:
        """Answer with these, one after the other."""
        self._script += [("says", text) for text in texts]

    def calls(self, *calls: tuple[str, str, Body]) -> None:
        """Answer with calls: id, name, arguments."""
        self._script.append(("calls", calls))

    def fails(self, *statuses: int) -> None:
        """Answer with errors."""
        self._script += [("fails", status) for status in statuses]

    def refuses(self, words: str) -> None:
        """Answer with a 400 and this message."""
        self._script.append(("refuses", words))

    def hangs(self) -> None:
        """Do not answer until the test is over, or for a minute."""
        self._script.append(("hangs", self.is_over))

    def raw(self, text: str) -> None:
        """Answer with this, whatever it is."""
        self._script.append(("raw", text))

    def answer(self, path: str, body: Body) -> tuple[int, str]:
        """Answer one request."""
        kind: str
        value: Any
        kind, value = "says", f"reply {len(self.bodies)}"
        scripted = bool(self._script)
        if scripted:
            kind, value = self._script.pop(0)
        if kind == "fails":
            return value, json.dumps({"error": {"message": f"status {value}"}})
        if kind == "refuses":
            return 400, json.dumps({"error": {"message": value}})
        if kind == "hangs":
            value.wait(60)
        if kind == "raw":
            return 200, value
        dialect = Anthropic if path.endswith("/messages") else OpenAI
        fault = dialect.fault(body)
        if fault:
            return 400, dialect.error(fault)
        size = len(json.dumps(body["messages"])) // 4
        if self.limit is not None and size > self.limit:
            self._script[:0] = [(kind, value)] if scripted else []
            return 400, dialect.overflow(size, self.limit)
        return 200, json.dumps(dialect.reply(kind, value, size))


class OpenAI:
    """Chat completions."""

    @staticmethod
    def fault(body: Body) -> str | None:
        """Return what breaks the protocol."""
        waiting: list[str] = []
        for at, message in enumerate(body["messages"]):
            if message["role"] == "tool":
                if message.get("tool_call_id") not in waiting:
                    return f"messages[{at}]: 'tool' must follow a preceding 'tool_calls'"
                waiting.remove(message["tool_call_id"])
                continue
            if waiting:
                return f"messages[{at}]: tool_call_ids without response messages: {waiting}"
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
        return f"tool_call_ids without response messages: {waiting}" if waiting else None

    @staticmethod
    def error(message: str) -> str:
        """Format an error."""
        return json.dumps({"error": {"message": message, "type": "invalid_request_error"}})

    @staticmethod
    def overflow(size: int, limit: int) -> str:
        """Format an overflow."""
        message = f"maximum context length is {limit} tokens; your messages have {size} tokens"
        return json.dumps({"error": {"message": message, "code": "context_length_exceeded"}})

    @staticmethod
    def reply(kind: str, value: Any, size: int) -> Body:
        """Format an answer."""
        said: Body = {"role": "assistant", "content": None}
        if kind == "calls":
            said["tool_calls"] = [
                {
                    "id": id_,
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for id_, name, arguments in value
            ]
        else:
            said["content"] = str(value)
        usage = {"prompt_tokens": size, "completion_tokens": 5}
        return {"choices": [{"message": said, "finish_reason": "stop"}], "usage": usage}


class Anthropic:
    """Messages."""

    @staticmethod
    def fault(body: Body) -> str | None:
        """Return what breaks the protocol."""
        if "max_tokens" not in body:
            return "max_tokens: field required"
        if not body["messages"] or body["messages"][0]["role"] != "user":
            return "messages: first message must use the user role"
        waiting: set[str] = set()
        for at, message in enumerate(body["messages"]):
            if message["role"] not in {"user", "assistant"}:
                return f"messages.{at}: unexpected role {message['role']!r}"
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            if not blocks:
                return f"messages.{at}: content must not be empty"
            answered = {b["tool_use_id"] for b in blocks if b["type"] == "tool_result"}
            if answered - waiting:
                return f"messages.{at}: unexpected tool_use_id in tool_result blocks"
            if waiting - answered:
                return f"messages.{at}: tool_use ids without tool_result blocks immediately after"
            waiting = {b["id"] for b in blocks if b["type"] == "tool_use"}
        return "tool_use ids without tool_result blocks" if waiting else None

    @staticmethod
    def error(message: str) -> str:
        """Format an error."""
        error = {"type": "invalid_request_error", "message": message}
        return json.dumps({"type": "error", "error": error})

    @staticmethod
    def overflow(size: int, limit: int) -> str:
        """Format an overflow."""
        return Anthropic.error(f"prompt is too long: {size} tokens > {limit} maximum")

    @staticmethod
    def reply(kind: str, value: Any, size: int) -> Body:
        """Format an answer."""
        if kind == "calls":
            content = [
                {"type": "tool_use", "id": id_, "name": name, "input": arguments}
                for id_, name, arguments in value
            ]
        else:
            content = [{"type": "text", "text": str(value)}]
        return {
            "role": "assistant",
            "content": content,
            "usage": {
                "input_tokens": size - 2 * (size // 3),
                "cache_read_input_tokens": size // 3,
                "cache_creation_input_tokens": size // 3,
                "output_tokens": 5,
            },
        }


@contextmanager
def serve() -> Iterator[Model]:
    """Run the server for a test."""
    model = Model()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            model.bodies.append(body)
            model.headers.append(dict(self.headers))
            status, text = model.answer(self.path, body)
            payload = text.encode()
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)
            except BrokenPipeError:
                pass

        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield model
    finally:
        model.is_over.set()
        server.shutdown()
        server.server_close()
        thread.join()
