"""OpenAI Agents: `ToolOutputTrimmer`. It shortens what is old and long; it has no target."""

from __future__ import annotations

from typing import Any

from agents.extensions.tool_output_trimmer import (
    ToolOutputTrimmer,
)
from agents.run_config import CallModelData, ModelInputData
from stopwatch import Messages, Work, main  # type: ignore[import-not-found]


def trim(messages: Messages, budget: int) -> Work:  # noqa: ARG001
    """Outputs over 500 characters, before the last two requests, become previews."""
    items = [item for message in messages for item in _items(message)]
    data = CallModelData(ModelInputData(items, None), None, None)
    trimmer = ToolOutputTrimmer()
    return lambda: trimmer(data).input


def _items(message: dict[str, Any]) -> list[dict[str, Any]]:
    if message["role"] == "tool":
        call_id = message["tool_call_id"]
        output = message["content"]
        return [{"type": "function_call_output", "call_id": call_id, "output": output}]
    calls = [
        {
            "type": "function_call",
            "call_id": c["id"],
            "name": c["function"]["name"],
            "arguments": c["function"]["arguments"],
        }
        for c in message.get("tool_calls") or ()
    ]
    return [{"type": "message", "role": message["role"], "content": message["content"]}, *calls]


if __name__ == "__main__":
    main("openai-agents", {"trim": trim})
