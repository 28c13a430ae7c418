"""An agent on OpenAI's chat completions whose context never overflows."""

from __future__ import annotations

import json
from typing import Any

from openai import OpenAI
from stand_in import read_file, serving

from marksweep import Conversation

TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Read a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
]

with serving() as address:  # yours: client = OpenAI()
    client = OpenAI(base_url=f"{address}/v1", api_key="none")
    talk = Conversation(limit=8_000)
    talk.extend([{"role": "user", "content": "Where are retries limited?"}])
    while True:
        answer = client.chat.completions.create(model="gpt-5", messages=talk.messages, tools=TOOLS)
        if answer.usage:
            talk.observe(input_tokens=answer.usage.prompt_tokens)
        message = answer.choices[0].message
        talk.extend([message])
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            if call.type == "function":
                text = read_file(**json.loads(call.function.arguments))
                talk.extend([{"role": "tool", "tool_call_id": call.id, "content": text}])

print(message.content)
print(f"{talk.tokens:,} tokens in the window, {len(talk.journal())} entries in the journal")
