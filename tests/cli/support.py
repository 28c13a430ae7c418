"""What the tests of the command line share: running it, a chat, a filled store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from marksweep import Segments
from marksweep.cli.app import app
from marksweep.testing.builders import segment


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=stdin)


def history(turns: int = 12) -> list[dict[str, Any]]:
    """A tool-heavy chat in which one file is read again and again."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You fix bugs."},
        {"role": "user", "content": "Fix the login of the shop."},
    ]
    for n in range(turns):
        call = {"name": "read_file", "arguments": json.dumps({"path": f"shop/{n % 3}.py"})}
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"call-{n}", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": f"call-{n}", "content": f"line {n}\n" * 150},
        ]
    return [*messages, {"role": "assistant", "content": "Done."}]


def fill(path: Path, *, keep: bool = False) -> Segments:
    context = Segments(path, limit=10_000)
    context.add(*(segment(f"s{n}", text=f"the parser says {n}") for n in range(10)))
    if not keep:
        context.close()
    return context
