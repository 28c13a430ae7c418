"""OpenAI Agents' `ToolOutputTrimmer` on recorded runs."""

from __future__ import annotations

from agents.extensions.tool_output_trimmer import ToolOutputTrimmer
from agents.run_config import CallModelData, ModelInputData
from recorded import Collect, Messages, main  # type: ignore[import-not-found]
from run_openai_agents import _items  # type: ignore[import-not-found]


def trim(limit: int) -> Collect:  # noqa: ARG001
    """Long outputs before the last two requests of the user become previews. No target."""
    trimmer = ToolOutputTrimmer()

    def collect(history: Messages) -> Messages:
        items = [item for message in history for item in _items(message)]
        left = trimmer(CallModelData(ModelInputData(items, None), None, None)).input
        outputs = {item["call_id"]: item["output"] for item in left if "output" in item}
        return [
            {**m, "content": outputs[m["tool_call_id"]]} if m["role"] == "tool" else m
            for m in history
        ]

    return collect


if __name__ == "__main__":
    main({"trim": trim})
