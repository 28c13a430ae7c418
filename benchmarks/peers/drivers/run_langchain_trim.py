"""LangChain `trim_messages` before every step of recorded runs.

Reads jobs as JSON lines on stdin: messages, a limit, and before which messages a context is wanted.
Prints the contexts of each job on one line.
"""

from __future__ import annotations

import json
import sys

from langchain_core.messages import (
    convert_to_messages,
    trim_messages,
)
from langchain_core.messages.utils import (
    count_tokens_approximately,
)


def main() -> None:
    """Trim each history up to each step, and print the messages that are left."""
    for line in sys.stdin:
        job = json.loads(line)
        built = convert_to_messages(job["messages"])
        for number, message in enumerate(built):
            message.id = str(number)
        contexts = [
            [
                job["messages"][int(left.id)]
                for left in trim_messages(
                    built[:at],
                    max_tokens=job["limit"],
                    token_counter=count_tokens_approximately,
                    strategy="last",
                    include_system=True,
                    start_on=["human", "ai"],
                )
            ]
            for at in job["steps"]
        ]
        print(json.dumps(contexts))


if __name__ == "__main__":
    main()
