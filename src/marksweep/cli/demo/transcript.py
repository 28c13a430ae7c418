"""A made-up transcript: an agent fixes a bug with tools, as chat-completions messages.

It reads files more than once, runs tests that fail and then pass, and edits: what real transcripts
are full of. The same every time.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

Wire = dict[str, Any]
"""A message as the provider's format has it."""

MODULES = ("login", "session", "tokens", "views", "forms")


def sample_transcript(rounds: int = 14) -> list[Wire]:
    """Make the transcript."""
    return _Agent(rounds).messages()


class _Agent:
    def __init__(self, rounds: int) -> None:
        self._random = Random(11)  # noqa: S311
        self._rounds = rounds
        self._calls = 0
        self._said: list[Wire] = [
            {"role": "system", "content": "You are a coding agent. Use the tools."},
            {
                "role": "user",
                "content": "Logging in fails after the redirect: the session is lost. Find out why "
                "and fix it. Do not change the public API of shop/auth.",
            },
        ]

    def messages(self) -> list[Wire]:
        for n in range(self._rounds):
            module = MODULES[n % len(MODULES)]
            self._call(
                "I look at the file.",
                "read_file",
                {"path": f"shop/auth/{module}.py"},
                self._source(module),
            )
            if n % 3 == 1:
                self._call(
                    "I change it.",
                    "edit_file",
                    {"path": f"shop/auth/{module}.py", "old": "open(", "new": "reopen("},
                    "1 replacement made",
                )
            if n % 2:
                self._call(
                    "Now the tests.",
                    "bash",
                    {"command": "pytest -q tests/auth"},
                    self._tests(failing=n < self._rounds - 2),
                )
        self._said.append(
            {
                "role": "assistant",
                "content": "Fixed: Session.reopen kept the cookie of the old domain. "
                "MAX_AGE is 3600 again, and tests/auth passes.",
            }
        )
        return self._said

    def _call(self, words: str, tool: str, arguments: dict[str, str], result: str) -> None:
        self._calls += 1
        call_id = f"call_{self._calls:03d}"
        function = {"name": tool, "arguments": json.dumps(arguments)}
        self._said += [
            {
                "role": "assistant",
                "content": words,
                "tool_calls": [{"id": call_id, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": call_id, "content": result},
        ]

    def _source(self, module: str) -> str:
        names = (f"{module}_{word}" for word in ("open", "check", "renew", "close", "expire"))
        functions = (
            f"def {name}(request, *, retries={self._random.randrange(1, 9)}):\n"
            f'    """{name.replace("_", " ")} of the shop."""\n'
            + "".join(
                f"    step_{i} = request.cookies.get('{module}_{i}', MAX_AGE // {i + 1})\n"
                for i in range(self._random.randint(4, 12))
            )
            for name in names
        )
        return f"# shop/auth/{module}.py\nMAX_AGE = 3600\n\n\n" + "\n\n".join(functions)

    def _tests(self, *, failing: bool) -> str:
        lines = [f"tests/auth/test_{module}.py .............." for module in MODULES]
        if failing:
            lines.append("E   KeyError: 'session_id' in shop/auth/session.py:42")
            lines.append("FAILED tests/auth/test_login.py::test_redirect_keeps_the_session")
        return "\n".join([*lines, "1 failed, 69 passed" if failing else "70 passed"])
