"""Checks chat histories without marksweep: calls, answers, and the task.

It follows the provider's rule, not our validator: an assistant message with calls is followed at
once by one answer to each of them, and there is no other answer.
"""

from __future__ import annotations

from typing import Any

Messages = list[dict[str, Any]]


def is_paired(messages: Messages) -> bool:
    """Whether every call is answered in its place, once, and nothing else is answered."""
    awaited: set[str] = set()
    seen: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in awaited:
                return False
            awaited.remove(message["tool_call_id"])
            continue
        if awaited:
            return False
        ids = [call["id"] for call in message.get("tool_calls") or ()]
        if len(set(ids)) < len(ids) or seen.intersection(ids):
            return False
        awaited.update(ids)
        seen.update(ids)
    return bool(messages) and not awaited


def has_task(messages: Messages, original: Messages) -> bool:
    """Whether the first request of the user is still there, word for word."""
    task = next((m["content"] for m in original if m["role"] == "user"), None)
    return task is None or any(m["role"] == "user" and m["content"] == task for m in messages)
