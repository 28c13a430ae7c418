"""An agent on Anthropic's Messages API whose context never overflows."""

from __future__ import annotations

from typing import Any

from anthropic import Anthropic
from stand_in import read_file, serving

from marksweep import Conversation

TOOLS: Any = [
    {
        "name": "read_file",
        "description": "Read a file.",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
    }
]

with serving() as address:  # yours: client = Anthropic()
    client = Anthropic(base_url=address, api_key="none")
    talk = Conversation(limit=8_000, dialect="anthropic")
    talk.extend([{"role": "user", "content": "Where are retries limited?"}])
    while True:
        answer = client.messages.create(
            model="claude-sonnet-5", max_tokens=1_000, messages=talk.messages, tools=TOOLS
        )
        usage = answer.usage
        cached = usage.cache_read_input_tokens
        talk.observe(input_tokens=usage.input_tokens + (cached or 0), cached_tokens=cached)
        talk.extend([{"role": "assistant", "content": answer.content}])
        calls = [block for block in answer.content if block.type == "tool_use"]
        texts = [(call.id, read_file(str(call.input["path"]))) for call in calls]
        results = [
            {"type": "tool_result", "tool_use_id": name, "content": text} for name, text in texts
        ]
        if not results:
            break
        talk.extend([{"role": "user", "content": results}])

print(*(block.text for block in answer.content if block.type == "text"))
print(f"{talk.tokens:,} tokens in the window, {len(talk.journal())} entries in the journal")
