"""Google's Agent Development Kit: a plugin that makes what every agent of an app sends fit.

    plugin = MarksweepPlugin(limit=100_000)
    App(name="…", root_agent=agent, plugins=[plugin])

Contents are the framework's own `types.Content`. The events of the session stay as they are: ADK
lets a plugin change a request only. An agent that has tools gets `recall` as one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import msgspec

from marksweep.adapters.core import DESCRIPTION, Adapter, Options, missing
from marksweep.dialects.base import Json
from marksweep.errors import BadInput
from marksweep.following import Kept

try:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.function_tool import FunctionTool
    from google.adk.tools.tool_context import ToolContext
    from google.genai import types
except ImportError as error:
    raise missing("google-adk", error) from error

__all__ = ["MarksweepPlugin"]


class MarksweepPlugin(BasePlugin):
    """Collects the contents of requests, for all agents and sessions of an app."""

    def __init__(
        self, limit: int | str, *, name: str = "marksweep", **options: Unpack[Options]
    ) -> None:
        """Take `limit` in tokens, or in percent of `window`; see `adapters.core.Options`."""
        if options.get("rewrite_history"):
            raise BadInput(
                "rewrite_history=True: ADK lets no plugin change the events of a session. Leave "
                "it out: every request is collected, and the session keeps everything."
            )
        super().__init__(name=name)
        self.adapter = Adapter(limit, dialect="gemini", **options)
        self._recall = FunctionTool(self.recall)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Put contents that fit into a request; those that are unchanged are the same objects."""
        contents = list(llm_request.contents)

        def fitted() -> list[types.Content]:
            values = [_value(content) for content in contents]
            key = _key(callback_context)
            config = llm_request.config.model_dump(
                mode="json", exclude_none=True, include={"system_instruction", "tools"}
            )
            kept = self.adapter.fit(values, key, fixed=config or None).kept
            return [_content(each, contents) for each in kept]

        if contents:
            llm_request.contents = await self.adapter.guarded_async(fitted, contents)
        self.adapter.guarded(lambda: self._offer(llm_request), None)

    def _offer(self, llm_request: LlmRequest) -> None:
        """Add `recall` to the tools of an agent that has some."""
        if llm_request.tools_dict and self._recall.name not in llm_request.tools_dict:
            llm_request.append_tools([self._recall])

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> None:
        """Take in the usage that the model reported."""
        usage = llm_response.usage_metadata
        if usage is not None and not llm_response.partial:
            key = self.adapter.guarded(lambda: _key(callback_context), "")
            cached = usage.cached_content_token_count
            self.adapter.observe(key, usage.prompt_token_count, cached)

    def recall(self, what: str, tool_context: ToolContext, start: int = 0) -> str:  # noqa: D102
        return self.adapter.recall(what, _key(tool_context), start)

    recall.__doc__ = DESCRIPTION

    async def close(self) -> None:
        """Close the store."""
        self.adapter.close()


def _key(context: CallbackContext) -> str:
    """Name the history of one agent in one session: each agent of a session has its own view."""
    session = context.session
    return msgspec.json.encode(
        [session.app_name, session.user_id, session.id, context.agent_name]
    ).decode()


def _value(content: types.Content) -> Json:
    return content.model_dump(mode="json", by_alias=True, exclude_none=True)


def _content(kept: Kept, contents: Sequence[types.Content]) -> types.Content:
    """Give the framework's own object if it is unchanged; else one with the parts that are left."""
    if kept.key is None:
        return types.Content.model_validate_json(msgspec.json.encode(kept.message))
    content = contents[kept.key]
    if not kept.is_changed:
        return content
    old = [(_value(part), part) for part in content.parts or ()]
    parts = [_part(value, old) for value in kept.message["parts"]]
    return content.model_copy(update={"parts": parts})


def _part(value: Json, old: Sequence[tuple[Json, Any]]) -> types.Part:
    """Give the part that says this, or a new one."""
    same = next((part for said, part in old if said == value), None)
    return same or types.Part.model_validate_json(msgspec.json.encode(value))
