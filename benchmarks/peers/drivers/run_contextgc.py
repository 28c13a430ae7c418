"""contextgc: `compile_messages` with its schema for coding. It has no target."""

from __future__ import annotations

from contextgc import compile_messages, load_schema  # type: ignore[import-not-found]
from stopwatch import Messages, Work, main  # type: ignore[import-not-found]


def compiled(messages: Messages, budget: int) -> Work:  # noqa: ARG001
    """The transcript with superseded facts retired and outputs compacted."""
    schema = load_schema("coding")
    return lambda: compile_messages(messages, schema=schema)[0]


if __name__ == "__main__":
    main("contextgc", {"compile": compiled})
