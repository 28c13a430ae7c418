"""The parts of the judge, without its model: steps, the oracle, and the shares of the report."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.judge.contexts import (
    OTHER_KINDS,
    OTHERS,
    SHARED,
    WINDOW,
    Step,
    chosen,
    collected,
    oracle,
    pieces,
    shown,
)
from benchmarks.judge.kinds import MOST, coding_sessions, mini_swe_calls
from benchmarks.judge.report import gains, tables
from marksweep import validate
from marksweep.replay.records import Trajectory, Wire, price


def words(text: str) -> int:
    return len(text.split())


def said(role: str, text: str) -> Wire:
    return {"role": role, "content": text}


def run_of(exchanges: int) -> Trajectory:
    filler = " ".join(f"w{n}" for n in range(300))
    messages = [said("system", "fix it")]
    for number in range(exchanges):
        messages += [
            said("assistant", f"now look\n```bash\ncat file{number} and a few more words\n```"),
            said("user", f"content of file{number}\nvalue{number} = {number}\n{filler}"),
        ]
    return Trajectory("a run", tuple(messages), 1)


def test_a_step_has_a_past_that_is_long_enough_and_still_fits_the_model() -> None:
    run = run_of(30)
    steps = chosen(run, SHARED["mini_swe"], words)
    assert len(steps) == 2
    for step in steps:
        past = sum(price(message, words) for message in run.messages[: step.at])
        assert 3500 <= past <= 5400
        assert run.messages[step.at]["role"] == "assistant"
        assert run.messages[step.tail]["role"] == "assistant"
    assert chosen(run_of(5), SHARED["mini_swe"], words) == []
    more = chosen(run, OTHERS["tau_airline"], words)
    assert len(more) == 4
    assert sum(price(message, words) for message in run.messages[: more[0].at]) < 3500


def test_where_agents_only_talk_every_answer_is_a_step() -> None:
    talk = [
        said(role, " ".join(["word"] * 200)) for _ in range(20) for role in ("user", "assistant")
    ]
    run = Trajectory("a chat", tuple(talk), 1)
    assert chosen(run, SHARED["mini_swe"], words) == []
    assert len(chosen(run, OTHER_KINDS["beam100k"], words)) == 2


def test_commands_become_calls_that_are_answered(tmp_path: Path) -> None:
    run = run_of(3)
    (tmp_path / "mini_swe.jsonl.xz").write_bytes(lzma.compress(msgspec.json.encode(run)))
    (made,) = mini_swe_calls(tmp_path, words)
    assert [message["role"] for message in made.messages[1:3]] == ["assistant", "tool"]
    call = made.messages[1]["tool_calls"][0]
    assert json.loads(call["function"]["arguments"]) == {
        "command": "cat file0 and a few more words"
    }
    assert made.messages[2]["tool_call_id"] == call["id"]
    assert made.messages[1]["content"] == "now look"
    assert validate(list(made.messages), dialect="openai_chat") == []


def test_parts_of_a_long_run_fit_the_model_and_do_not_begin_with_a_result(tmp_path: Path) -> None:
    run = next(iter(_made_with_calls(run_of(60), tmp_path)))
    (tmp_path / "coding_sessions.jsonl.xz").write_bytes(lzma.compress(msgspec.json.encode(run)))
    parts = list(coding_sessions(tmp_path, words))
    assert len(parts) > 3
    for part in parts:
        assert sum(price(message, words) for message in part.messages) <= MOST
        assert part.messages[0] == run.messages[0]
        assert part.messages[1]["role"] != "tool"
        assert validate(list(part.messages), dialect="openai_chat") == []


def _made_with_calls(run: Trajectory, folder: Path) -> Iterator[Trajectory]:
    (folder / "mini_swe.jsonl.xz").write_bytes(lzma.compress(msgspec.json.encode(run)))
    return mini_swe_calls(folder, words)


def test_the_oracle_keeps_what_the_next_message_takes_up_within_the_budget() -> None:
    run = run_of(12)
    asked = said("assistant", "```bash\nuse value3 again\n```")
    run = Trajectory(run.id, (*run.messages, asked), run.pinned)
    step = Step(len(run.messages) - 1, len(run.messages) - 3)
    seen = oracle(run, step, WINDOW, words)
    assert "value3 = 3" in "\n".join(text for _, text in seen)
    prefix = price(run.messages[0], words)
    assert sum(words(text) for _, text in seen) <= prefix + WINDOW
    assert seen[-2:] == [shown(message) for message in run.messages[step.tail : step.at]]


def test_a_collector_is_sent_past_messages_only() -> None:
    run = run_of(30)
    steps = chosen(run, SHARED["mini_swe"], words)
    for step, seen in collected(run, steps, "truncate", WINDOW, words):
        last = run.messages[step.at - 1]
        assert seen[-1] == shown(last)
        assert len(seen) < step.at


def test_pieces_joined_by_lines_hold_the_whole_text() -> None:
    text = "\n".join([*(f"line {n}" for n in range(50)), "x " * 900, "end"])
    assert "".join("".join(pieces(text)).split()) == "".join(text.split())


def test_a_share_counts_from_truncation_to_everything_kept(tmp_path: Path) -> None:
    rows = [
        {
            "set": "one", "id": f"r{number}", "step": 4, "kind": kind, "tokens": 9,
            "said": [nats, 2], "done": [2 * nats, 2],
        }
        for number in range(3)
        for kind, nats in (("truncate", 4.0), ("full", 2.0), ("ours", 2.5))
    ]  # fmt: skip
    file = tmp_path / "scores.json"
    file.write_text(json.dumps([*rows, {**rows[0], "id": "only truncated"}]))
    found = tables(file)
    assert "1 steps left out" in found
    assert "| ours | 9 | 1.875, +75 [75, 75] | 2.500, +75 [75, 75] |" in found
    assert "| truncate | 9 | 3.000, +0 [0, 0] |" in found


def test_a_gain_is_counted_on_the_steps_of_both_files(tmp_path: Path) -> None:
    def scores(name: str, nats: float, records: int) -> Path:
        rows = [
            {
                "set": "one", "id": f"r{number}", "step": 4, "kind": "ours", "tokens": 9,
                "said": [nats, 2], "done": [nats, 2],
            }
            for number in range(records)
        ]  # fmt: skip
        file = tmp_path / name
        file.write_text(json.dumps(rows))
        return file

    found = gains(scores("before", 2.0, 3), scores("after", 1.5, 2), "ours")
    gain = "+0.2500 [+0.2500, +0.2500]"
    assert f"| one | 2 | {gain} | {gain} |" in found
    assert "No step" in gains(tmp_path / "before", tmp_path / "after", "theirs")
