"""Memory of an endless conversation: it depends on the window, not on what has passed."""

from __future__ import annotations

import gc
import random
import tempfile
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.rows import Row
from marksweep.conversation import Conversation

LIMIT = 32_000
EARLY, LATE = 2_000_000, 20_000_000
"""Characters of results after which memory is compared."""
MOST_GROWTH = 1.5
RESULT_CHARACTERS = 10_000


def source(seed: int) -> str:
    """Make a page of code: half of its names are new, half recur on every page."""
    chance = random.Random(seed)

    def name() -> str:
        is_known = chance.random() < 0.5
        number = chance.randrange(400) if is_known else 1_000 * seed + chance.randrange(1_000)
        return f"{chance.choice(('load', 'find', 'make', 'check'))}_{number}"

    lines: list[str] = []
    while sum(map(len, lines)) < RESULT_CHARACTERS:
        lines.append(f"    {name()} = self.{name()}({name()}, {chance.randrange(10_000)})")
    return "\n".join(lines)


def steps() -> Iterator[list[dict[str, Any]]]:
    """Read one file after the other, forever."""
    number = 0
    while True:
        function = {"name": "read", "arguments": f'{{"path": "src/file_{number}.py"}}'}
        call = {"id": f"c{number}", "type": "function", "function": function}
        yield [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": source(number)},
        ]
        number += 1


def held_after(characters: Sequence[int], strategy: str) -> list[int]:
    """Return the bytes that a conversation holds after so many characters; its stash is on disk."""
    found: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        tracemalloc.start()
        talk = Conversation(limit=LIMIT, strategy=strategy, store=Path(folder) / "talk.db")
        talk.extend([{"role": "user", "content": "Mend the parser."}])
        passed = 0
        for messages in steps():
            talk.extend(messages)
            passed += len(messages[-1]["content"])
            assert talk.messages
            if passed >= characters[len(found)]:
                gc.collect()
                found.append(tracemalloc.get_traced_memory()[0])
                if len(found) == len(characters):
                    break
        tracemalloc.stop()
        talk.close()
    return found


def rows() -> Iterator[Row]:
    """Measure."""
    early, late = held_after((EARLY, LATE), "coverage")
    yield Row(
        f"memory at {LIMIT:,} tokens: after {LATE:,} characters against {EARLY:,}",
        f"≤ {MOST_GROWTH}×",
        f"{late / early:.2f}× ({late / 1e6:.0f} MB)",
        late <= MOST_GROWTH * early,
    )
