"""An agent loop on LiteLLM whose requests stay within a limit: one callback.

Run it: python examples/adapters/litellm_loop.py. The provider is fake.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no network access

import litellm

from marksweep.adapters.litellm import RECALL, MarksweepHook
from marksweep.tokens import count


class FakeProvider(litellm.CustomLLM):
    """Reads thirty files, and prints how much it was sent."""

    step = 0

    async def acompletion(self, messages: list[Any], **_: Any) -> Any:
        size = sum(count(json.dumps(message, default=str)) for message in messages)
        print(f"{len(messages):3} messages, {size:6,} tokens")
        self.step += 1
        function = {"name": "read", "arguments": json.dumps({"path": f"{self.step}.py"})}
        calls = [{"id": f"c{self.step}", "type": "function", "function": function}]
        message: dict[str, Any] = {"role": "assistant", "content": "All read."}
        if self.step <= 30:
            message |= {"content": "", "tool_calls": calls}
        return litellm.ModelResponse(choices=[{"message": message}])


def read(path: str) -> str:
    return "\n".join(f"{path}, line {n}: {n * 7919 % 1000}" for n in range(60))


READ = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}


async def main() -> None:
    hook = MarksweepHook(limit=10_000)
    litellm.callbacks = [hook]
    litellm.custom_provider_map = [{"provider": "fake", "custom_handler": FakeProvider()}]
    messages: list[Any] = [{"role": "user", "content": "Read all files."}]
    while True:
        answer = await litellm.acompletion(
            model="fake/model", messages=messages, tools=[READ, RECALL], litellm_session_id="1"
        )
        message = answer.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            given = json.loads(call.function.arguments)
            is_read = call.function.name == "read"
            said = read(**given) if is_read else hook.recall(session="1", **given)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": said})
    print(f"All {len(messages)} messages are here; marksweep kept the requests within the limit.")


if __name__ == "__main__":
    asyncio.run(main())
