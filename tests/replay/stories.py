"""Small trajectories, written by hand so that their needs can be counted by hand."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping

from marksweep.cli.demo import recorded
from marksweep.replay import catalog
from marksweep.replay.inputs import Inputs
from marksweep.replay.records import Trajectory, Wire
from marksweep.replay.report import Replayed, Request, replay


def system(text: str) -> Wire:
    return {"role": "system", "content": text}


def user(text: str) -> Wire:
    return {"role": "user", "content": text}


def says(text: str) -> Wire:
    return {"role": "assistant", "content": text}


def calls(*arguments: Mapping[str, object] | str, name: str = "run", first: int = 0) -> Wire:
    """Make an assistant message with one call per set of arguments; ids c0, c1, …"""
    made = [
        {
            "id": f"c{first + i}",
            "type": "function",
            "function": {"name": name, "arguments": a if isinstance(a, str) else json.dumps(a)},
        }
        for i, a in enumerate(arguments)
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def answers(text: str, number: int = 0) -> Wire:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": text}


def by_words(text: str) -> int:
    """Count one token per word, so that counts are easy to check."""
    return len(text.split())


BASH = Trajectory(
    id="bash",
    pinned=2,
    messages=(
        system("You fix bugs."),
        user("Mend the parser in src/parse_it.py please."),
        says("Look.\n```bash\nls lib/tools\n```"),
        user("lib/tools/lexer_one.py\nlib/tools/lexer_two.py"),
        says("Read.\n```bash\ncat lib/tools/lexer_one.py\n```"),
        user("12: def next_token(stream, offset):\nreturn stream.read_one(offset)"),
        says("Hm, lexer_two.\n```bash\ngrep -n next_token lib/tools/lexer_two.py\n```"),
        user("nothing found"),
        says("Edit.\n```bash\nsed -i s/read_one/read_two/ lib/tools/lexer_one.py\n```"),
    ),
)
"""Steps at 2, 4, 6 and 8.

At 4: `lib/tools/lexer_one.py` is in the tail, so nothing is needed.
At 6: `lib/tools/lexer_two.py` was seen in message 3 alone: one need, any and src. `next_token` is
in the tail.
At 8: `lib/tools/lexer_one.py` was seen in 3 and acted on in 4: sources 3 and 4 (any), 3 (src).
`s/read_one/read_two` is a separate atom, and new.
"""

CALLS = Trajectory(
    id="calls",
    pinned=1,
    messages=(
        user("Book flight HAT001 for me."),
        calls({"user": "mia_li_3668", "flag": True, "n": 3}, first=0),
        answers('{"card": "credit_card_77", "seat": "12A45"}', 0),
        says("Your card is credit_card_77 and your seat 12A45."),
        user("Yes, book it."),
        calls({"pay": {"with": "credit_card_77"}, "flight": "HAT001"}, first=1),
        answers("done", 1),
        says("Booked HAT001 with credit_card_77."),
    ),
)
"""Steps at 1, 3, 5 and 7. HAT001 is pinned, so it is never needed.

At 3 a plain answer: no action, unless answers count; then all it says is in the tail.
At 5: `credit_card_77` is in message 2, and in the tail (message 3): not needed.
At 7, if answers count: `credit_card_77` is in the tail again (the call of message 5).
"""


def history(seed: int) -> Trajectory:
    """Make a random run: names are shown, used and shown again, with calls and without."""
    draw = random.Random(seed)
    by_calls = draw.random() < 0.5
    pool = [f"name_{i}" for i in range(12)]
    messages: list[Wire] = [user("the task")]
    for turn in range(draw.randrange(6, 14)):
        used = " ".join(draw.sample(pool, 2))
        shown = "\n".join(
            f"{draw.choice(pool)} {'pad ' * draw.randrange(12)}"
            for _ in range(draw.randrange(1, 6))
        )
        if by_calls:
            count = draw.randrange(1, 3)
            messages.append(calls(*({"q": used} for _ in range(count)), first=10 * turn))
            messages += [answers(shown, 10 * turn + i) for i in range(count)]
        else:
            messages += [says(f"I do\n```bash\n{used}\n```"), user(shown)]
    return Trajectory(id=str(seed), messages=tuple(messages), pinned=1)


def sample_trajectory() -> Trajectory:
    """Return the recorded session of the demo."""
    return Trajectory("harbor-refunds", tuple(recorded()), 2)


def replay_sample() -> Replayed:
    """Replay it at a few budgets."""
    strategies = ("coverage", "coverage_quality", catalog.TRUNCATE, "mask last 10", "GDSF")
    # So little that the recommended setting misses something, which the report shows.
    request = Request(strategies=strategies, budgets=("15%", "30%", "50%"), enough=70.0)
    return replay(Inputs((sample_trajectory(),), (), ()), request)
