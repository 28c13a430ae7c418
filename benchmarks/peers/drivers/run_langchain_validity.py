"""LangChain `trim_messages` on recorded histories: how many come out broken.

Reads histories as JSON lines on stdin, each with its budgets; prints the counts.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from importlib.metadata import version

from langchain_core.messages import (
    convert_to_messages,
    convert_to_openai_messages,
    trim_messages,
)
from langchain_core.messages.utils import (
    count_tokens_approximately,
)
from pairing import has_task, is_paired  # type: ignore[import-not-found]


def main() -> None:
    """Trim every history to each of its budgets, and check what is left."""
    counts: Counter[str] = Counter()
    for line in sys.stdin:
        record = json.loads(line)
        built = convert_to_messages(record["messages"])
        for budget in record["budgets"]:
            left = trim_messages(
                built,
                max_tokens=budget,
                token_counter=count_tokens_approximately,
                strategy="last",
                include_system=True,
            )
            kept = convert_to_openai_messages(left)
            counts["histories"] += 1
            counts["unpaired"] += not is_paired(kept)
            counts["taskless"] += not has_task(kept, record["messages"])
    print(json.dumps({**counts, "version": version("langchain-core")}))


if __name__ == "__main__":
    main()
