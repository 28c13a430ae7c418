"""Coverage, through a conversation: valid, the same every time, and right in small cases."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import warnings
from itertools import pairwise
from typing import cast

import pytest

from marksweep.replay.atoms import names
from marksweep.replay.catalog import ECONOMY, QUALITY, maker
from marksweep.replay.drive import Collector, Pricer, drive
from marksweep.replay.evidence import Recalling
from marksweep.replay.hits import Reader, proofs
from marksweep.replay.needs import study
from marksweep.replay.records import Trajectory, Wire, price, text_of
from tests.replay.stories import answers, by_words, calls, history, says, user

SETTINGS = [ECONOMY, QUALITY]


def long_history(seed: int) -> Trajectory:
    """Make a random run with bulky results, long JSON lines, long arguments and parallel calls."""
    draw = random.Random(seed)
    messages: list[Wire] = [user("the task")]
    for turn in range(draw.randrange(8, 16)):
        count = draw.randrange(1, 4)
        body = "\n".join(
            f"line {draw.randrange(60)} of file_{draw.randrange(9)}.py" for _ in range(40)
        )
        asked = [{"q": body if draw.random() < 0.3 else "x"} for _ in range(count)]
        made = calls(*asked, first=9 * turn)
        if draw.random() < 0.3:
            made["content"] = body
        messages.append(made)
        for i in range(count):
            rows = [{"id": f"id_{draw.randrange(99)}", "text": "word " * 9} for _ in range(30)]
            result = draw.choice([body, json.dumps(rows), "ok", ""])
            messages.append(answers(result, 9 * turn + i))
        if draw.random() < 0.3:
            messages += [says("what next?"), user("go on with file_3.py")]
    return Trajectory(id=str(seed), messages=tuple(messages), pinned=1)


def run(story: Trajectory, collector: Collector, limit: int) -> list[str]:
    """Drive a collector; return the violations, and a digest of all contexts."""
    found = study(story, names)
    seen = hashlib.sha256()

    class Watched:
        def start(self, pinned: list[Wire], limit: int) -> None:
            collector.start(pinned, limit)

        def add(self, messages: list[Wire]) -> None:
            collector.add(messages)

        def context(self) -> list[Wire]:
            context = collector.context()
            seen.update(json.dumps(context).encode())
            return context

    steps = drive(found, proofs(found), Watched(), limit, tokens=Pricer(by_words), reader=Reader())
    return [step.violation for step in steps if step.violation] + [seen.hexdigest()]


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("setting", SETTINGS)
def test_no_rule_is_broken_on_random_histories(setting: str, seed: int) -> None:
    for story in (history(seed), long_history(seed)):
        for limit in (15, 80, 400, 2000):
            assert len(run(story, maker(setting)(by_words), limit)) == 1


def test_the_same_stream_gives_the_same_contexts_whatever_the_hash_seed() -> None:
    code = (
        "from tests.replay.test_conversation_collector import *\n"
        "print([run(long_history(s), maker(k)(by_words), 500)[-1] "
        "for s in range(3) for k in SETTINGS])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(said) == 1


def context_after(collector: Collector, *batches: list[Wire], limit: int = 10_000) -> list[Wire]:
    collector.start([user("the task")], limit)
    context: list[Wire] = []
    for batch in batches:
        collector.add(batch)
        context = collector.context()
    return context


def lines(prefix: str, count: int = 60) -> str:
    return "\n".join(f"{prefix}_{i} = make_it({i}) and some more words" for i in range(count))


def test_what_fits_is_left_alone() -> None:
    batches = [[calls({"q": "x"}), answers(lines("a"))], [says("done"), user("more")]]
    assert context_after(maker(QUALITY)(by_words), *batches)[1:] == [
        m for batch in batches for m in batch
    ]


def test_what_waits_and_does_not_fit_is_measured_without_a_warning() -> None:
    batch = [calls({"q": "x"}), answers(lines("a"))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(context_after(maker(ECONOMY)(by_words), batch, limit=50)) == 3


def test_an_older_read_goes_once_its_lines_are_in_a_newer_one() -> None:
    first = [calls({"q": "read"}, first=0), answers(lines("same"), 0)]
    other = [calls({"q": "read"}, first=1), answers(lines("other"), 1)]
    again = [calls({"q": "read"}, first=2), answers(lines("same"), 2)]
    end = [says("ok"), user("ok")]
    context = context_after(maker(QUALITY)(by_words), first, other, again, end, limit=1150)
    shown = {m.get("tool_call_id"): m["content"] for m in context if m["role"] == "tool"}
    assert lines("other") in shown["c1"]
    assert lines("same") in shown["c2"]
    assert shown.get("c0", "").count("same_") < 60


def test_a_dropped_run_becomes_one_marker() -> None:
    batches = [[calls({"q": "x"}), answers(lines("a"))], [says("ok"), user("ok")]]
    context = context_after(maker(QUALITY)(by_words), *batches, limit=300)
    result = next(m for m in context if m["role"] == "tool")["content"]
    gaps = [line.startswith("[") for line in result.split("\n")]
    assert any(gaps)
    assert not any(one and other for one, other in pairwise(gaps))
    kept = [line for line in result.split("\n") if not line.startswith("[")]
    assert set(kept) <= set(lines("a").split("\n"))


def test_what_the_agent_acted_on_outlives_what_it_only_saw() -> None:
    seen = "\n".join(f"entry {n} name_{n} is here with words to fill the line" for n in range(60))
    batches = [
        [calls({"q": "x"}, first=0), answers(seen, 0)],
        [calls({"q": "name_33"}, first=1), answers("nothing", 1)],
        [says("hm"), user("go")],
    ]
    context = context_after(maker(QUALITY)(by_words), *batches, limit=200)
    assert any("entry 33 name_33 is here" in text_of(m) for m in context)


def test_what_the_agent_speaks_of_again_comes_back() -> None:
    first = [calls({"q": "x"}, first=0), answers(lines("old"), 0)]
    flood = [[calls({"q": str(n)}, first=n), answers(lines(f"new{n}"), n)] for n in range(1, 6)]
    collector = maker(QUALITY)(by_words)
    before = context_after(collector, first, *flood, limit=1000)
    assert not any("old_17 = make_it(17)" in text_of(m) for m in before)
    collector.add([calls({"q": "show old_17"}, first=9), answers("no such thing", 9)])
    after = collector.context()
    assert any("old_17 = make_it(17)" in text_of(m) for m in after)
    assert sum(price(m, by_words) for m in after) <= 1000


def test_economy_reads_less_again_than_quality() -> None:
    story = Trajectory(
        id="long",
        pinned=1,
        messages=(
            user("the task"),
            *(
                message
                for n in range(40)
                for message in (calls({"q": str(n)}, first=n), answers(lines(f"f{n}", 12), n))
            ),
        ),
    )
    found = study(story, names)

    def churn(collector: Collector) -> int:
        steps = drive(
            found, proofs(found), collector, 900, tokens=Pricer(by_words), reader=Reader()
        )
        return sum(step.churn for step in steps)

    assert churn(maker(ECONOMY)(by_words)) < 0.6 * churn(maker(QUALITY)(by_words))


def test_recall_gives_whole_messages_that_are_not_in_context_within_its_limit() -> None:
    collector = cast("Recalling", maker(QUALITY)(by_words))
    animals = ("cat", "dog", "cow", "hen", "owl")
    turns = [f"A: the {word} has colour {n}" for n, word in enumerate(animals)]
    collector.start([], 30)
    for turn in turns:
        collector.add([user(turn)])
        context = collector.context()
    found = collector.recall("what colour has the dog?", 14)
    assert found == [turns[1]]
    assert not any(m["content"] in found for m in context)
