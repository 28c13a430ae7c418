"""Google ADK's `ContextFilterPlugin` on recorded runs: the user's last requests and their work.

Its other means, the compaction of events, is a summary that a model writes between two turns.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
from google.genai import types
from recorded import Collect, Messages, main  # type: ignore[import-not-found]


def keep_last(limit: int) -> Collect:  # noqa: ARG001
    """Keep the last three requests of the user. It knows no budget."""
    plugin = ContextFilterPlugin(num_invocations_to_keep=3)

    def collect(history: Messages) -> Messages:
        system = [message for message in history if message["role"] == "system"]
        others = [message for message in history if message["role"] != "system"]
        contents = [_built(message) for message in others]
        request = LlmRequest(contents=contents)
        asyncio.run(plugin.before_model_callback(callback_context=None, llm_request=request))
        left = {id(content) for content in request.contents}
        return system + [m for m, c in zip(others, contents, strict=True) if id(c) in left]

    return collect


def _built(message: dict[str, Any]) -> types.Content:
    if message["role"] == "tool":
        answer = types.FunctionResponse(
            id=message["tool_call_id"], name="tool", response={"result": message["content"]}
        )
        return types.Content(role="user", parts=[types.Part(function_response=answer)])
    parts = [types.Part(text=message.get("content") or "")]
    for call in message.get("tool_calls") or ():
        given = call["function"]
        made = types.FunctionCall(id=call["id"], name=given["name"], args=_arguments(given))
        parts.append(types.Part(function_call=made))
    return types.Content(role="user" if message["role"] == "user" else "model", parts=parts)


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    try:
        found = json.loads(given["arguments"])
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


if __name__ == "__main__":
    main({"keep_last": keep_last})
