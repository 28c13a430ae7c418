"""A session with a model that stays within its window, and shows what fills it."""

from __future__ import annotations

from collections.abc import Sequence

from marksweep import GCConfig, Session, load_gc_plugin
from marksweep.ledger import render
from marksweep.messages import FunctionCall, Message, Part, Role
from marksweep.session import Tool


def model(messages: Sequence[Message]) -> Message | str:
    """Stand in for a model: look first, then answer."""
    if messages[-1].role is Role.USER:
        call = FunctionCall(f"call-{len(messages)}", "read", {"path": "src/app.py"})
        return Message(Role.MODEL, (Part(function_call=call),))
    return "I have read it; the parser drops empty lines."


session = Session(model, context_limit=4_000, system_instructions="You fix parsers.")
session.add_tool(
    Tool("read", "reads a file", lambda path: f"# {path}\n" + "x = parse(line)\n" * 60)
)
session.set_gc_plugin(load_gc_plugin("gc_budget"), GCConfig(preserve_recent_turns=2))
session.listen(lambda event: print(f"{event.happened}: {event.text}"))
for number in range(10):
    session.send_message(f"Question {number}: what does the parser do with empty lines?")
print(render(session.ledger()))
