"""Coverage on the shared core, through a conversation."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from marksweep import Conversation, tidy, validate
from marksweep.model import Action

Message = dict[str, object]


def call(number: int, **arguments: object) -> Message:
    function = {"name": "run", "arguments": json.dumps(arguments)}
    made = {"id": f"c{number}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


def result(number: int, text: str) -> Message:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": text}


def lines(prefix: str, count: int = 80) -> str:
    return "\n".join(f"{prefix}_{i} = make_it({i}) with some more words" for i in range(count))


def history() -> list[Message]:
    return [
        {"role": "user", "content": "Mend the parser."},
        call(0, path="same.py"),
        result(0, lines("same")),
        call(1, path="other.py"),
        result(1, lines("other")),
        call(2, path="same.py"),
        result(2, lines("same")),
        {"role": "assistant", "content": "I have read both."},
        {"role": "user", "content": "Go on."},
    ]


def sent(messages: list[Message], limit: int = 10**6) -> tuple[Conversation, list[str]]:
    """Make a conversation whose prompt is in the provider's cache, and its ids."""
    talk = Conversation(limit=limit, strategy="coverage")
    ids = []
    for message in messages:
        ids += talk.extend([message])
        if message["role"] != "assistant":
            assert talk.messages
    return talk, ids


def test_of_two_equal_reads_economy_keeps_the_one_that_is_cached() -> None:
    talk, ids = sent(history())
    plan = talk.plan(talk.tokens - 600)
    assert [step.segments for step in plan.steps] == [(ids[6],)]
    assert "lines of it are in other messages" in plan.steps[0].reason


def test_of_two_equal_reads_the_older_goes_while_the_cache_is_cold() -> None:
    talk, ids = sent(history())
    talk.note_cold_cache()
    plan = talk.plan(talk.tokens - 600)
    assert [step.segments for step in plan.steps] == [(ids[2],)]


def test_of_two_equal_reads_the_older_goes_in_a_window_with_room_for_few_steps() -> None:
    more = [*history(), call(3, path="last.py"), result(3, lines("last"))]
    whole = sent(more)[0].tokens
    talk, ids = sent(more, whole - 600)
    assert whole - 700 < talk.tokens <= whole - 600, "a small window is used up to its limit"
    kept = [m["content"] for m in talk.messages if m["role"] == "tool"]
    assert f'recall("{ids[2]}")' in kept[0]
    assert kept[1:] == [lines("other"), lines("same"), lines("last")]


def test_in_a_small_window_sections_are_small_enough_for_several() -> None:
    listing = "\n".join(f"value_{number} = compute_{number}()" for number in range(60))

    def longest_run(limit: int) -> int:
        talk = Conversation(limit=limit, strategy="coverage_quality")
        talk.extend([{"role": "user", "content": "Go."}, call(0), result(0, listing)])
        talk.extend([call(1), result(1, "done"), call(2), result(2, "done")])
        plan = talk.plan(talk.tokens - 100)
        (shorter,) = [step.replacement for step in plan.steps if step.replacement is not None]
        whole = set(listing.split("\n"))
        return len(whole - set(shorter.text.split("\n")))

    assert 0 < longest_run(2_000) < longest_run(10**6)


def test_an_older_read_goes_first_and_says_why() -> None:
    talk = Conversation(limit=10**6, strategy="coverage_quality")
    ids = talk.extend(history())
    plan = talk.plan(talk.tokens - 1_050)
    assert [step.segments for step in plan.steps] == [(ids[2],)]
    assert plan.steps[0].action is Action.TRIM
    assert "lines of it are in newer messages" in plan.steps[0].reason
    talk.collect(plan)
    kept = [m["content"] for m in talk.messages if m["role"] == "tool"]
    assert kept[0].count("same_") < 10
    assert "[marksweep: " in kept[0]
    assert "lines of same.py left out" in kept[0]
    assert f'recall("{ids[2]}")' in kept[0]
    assert kept[1] == lines("other")
    assert kept[2] == lines("same")


@pytest.mark.parametrize("share", [0.9, 0.6, 0.3, 0.1])
def test_what_is_left_is_valid_and_fits(share: float) -> None:
    talk = Conversation(limit=10**6, strategy="coverage")
    talk.extend(history())
    target = int(share * talk.tokens)
    report = talk.collect(talk.plan(target))
    assert report.tokens_after <= target
    assert validate(talk.messages) == []


def test_a_sweep_can_be_undone() -> None:
    talk = Conversation(limit=10**6, strategy="coverage")
    talk.extend(history())
    talk.collect(talk.plan(talk.tokens // 4))
    assert talk.messages != history()
    talk.undo()
    assert talk.messages == history()


def test_the_request_is_never_touched() -> None:
    tidied = tidy(history(), limit=60, strategy="coverage")
    assert tidied[0] == history()[0]


def test_the_same_history_gives_the_same_plan() -> None:
    def steps() -> list[tuple[tuple[str, ...], str]]:
        talk = Conversation(limit=10**6, strategy="coverage")
        talk.extend(history())
        return [(step.segments, step.reason) for step in talk.plan(700).steps]

    assert steps() == steps()


def test_plain_talk_goes_whole() -> None:
    talk = Conversation(limit=10**6, strategy="coverage")
    talk.extend([{"role": "user", "content": "Hello."}])
    for n in range(20):
        talk.extend([{"role": "assistant", "content": f"Fact {n}: the value_{n} is set."}])
        talk.extend([{"role": "user", "content": f"Next, what about value_{n}?"}])
    plan = talk.plan(talk.tokens // 2)
    assert plan.short_by == 0
    assert {step.action for step in plan.steps} == {Action.STASH}


def test_what_the_user_said_outlasts_what_tools_said_of_the_same_kind() -> None:
    talk = Conversation(limit=10**9, strategy="coverage")
    talk.extend([{"role": "user", "content": "Plan a week in the mountains."}])
    for n in range(40):
        name = str(n).translate(str.maketrans("0123456789", "abcdefghij"))
        call = {"id": f"c{n}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        talk.extend(
            [
                {"role": "user", "content": f"Guest{name} prefers hut{name} and trail{name}."},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{n}", "content": f"Cabin{name} or path{name}."},
            ]
        )
    talk.collect(talk.plan(talk.tokens // 2))
    left = Counter(message["role"] for message in talk.messages)
    assert left["user"] > 2 * left["tool"]


@pytest.mark.parametrize("strategy", ["coverage", "coverage_quality"])
@pytest.mark.parametrize("share", [0.8, 0.5, 0.3, 0.1])
def test_a_call_stays_whole_or_goes_with_its_results(strategy: str, share: float) -> None:
    messages: list[Message] = [{"role": "user", "content": "Write the modules."}]
    for n in range(12):
        messages += [call(n, path=f"file_{n}.py", content=lines(f"file{n}")), result(n, "ok")]
    messages += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "Go on."}]
    talk = Conversation(limit=10**6, strategy=strategy)
    talk.extend(messages)
    target = int(share * talk.tokens)
    talk.collect(talk.plan(target))
    assert talk.tokens <= target
    left = talk.messages
    assert [m for m in left if m.get("tool_calls")] == [
        m for m in messages if m.get("tool_calls") and m in left
    ]
    assert validate(left) == []


def test_output_that_is_said_in_the_users_name_is_trimmed_and_does_not_go_whole() -> None:
    output = "\n".join(f"{n:4} value_{n} = compute({n})" for n in range(150))
    talk = Conversation(limit=10**6, strategy="coverage")
    said = ["fix it", "I run it.", output, "ok", "go on", "done"]
    roles = ["user", "assistant"] * 3
    talk.extend([{"role": r, "content": c} for r, c in zip(roles, said, strict=True)])
    (step,) = [step for step in talk.plan(talk.tokens - 200).steps if step.segments == ("m3",)]
    assert step.action is Action.TRIM


def test_room_that_a_sweep_freed_beyond_need_is_filled_in_the_same_request() -> None:
    talk = Conversation(limit=1_500, strategy="coverage")
    talk.extend([{"role": "user", "content": "fix the parser"}])
    for n in range(11):
        is_big = n == 9
        path = {"path": f"f{n}.py"}
        large = {"content": "\n".join(f"x_{k} = {k}" for k in range(230))} if is_big else {}
        function = {"name": "edit", "arguments": json.dumps(path | large)}
        result = "\n".join(f"def handle_{n}_{k}(): return {n * k}" for k in range(8))
        talk.extend(
            [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": f"c{n}", "type": "function", "function": function}],
                },
                {"role": "tool", "tool_call_id": f"c{n}", "content": "ok" if is_big else result},
            ]
        )
        sent = json.dumps(talk.messages)
    assert "x_100" not in sent, "the large call went, and more than had to"
    assert "[recalled]" in sent


def assert_no_step_could_be_left_out(talk: Conversation, needs: range) -> None:
    """Check plans that free so many tokens: each frees less beyond need than any of its steps."""
    for needed in needs:
        plan = talk.plan(talk.tokens - needed)
        spare = plan.target_size - plan.size_after
        assert plan.steps
        assert all(step.size > spare for step in plan.steps), needed


def test_what_went_before_a_larger_part_stays_if_it_fits_after_all() -> None:
    talk = Conversation(limit=10**6, strategy="coverage_quality")
    talk.extend([{"role": "user", "content": "fix the parser"}])
    for n in range(8):
        talk.extend([{"role": "assistant", "content": f"step {n}: " + "the same words again " * 4}])
    large = " ".join(f"part_{n}" for n in range(25))
    talk.extend([{"role": "assistant", "content": large}, {"role": "user", "content": "go on"}])
    talk.extend([{"role": "assistant", "content": "done"}])
    assert_no_step_could_be_left_out(talk, range(30, 300, 10))


def test_an_exchange_that_went_before_a_large_call_stays_whole_if_it_fits_after_all() -> None:
    talk = Conversation(limit=10**6, strategy="coverage_quality")
    talk.extend([{"role": "user", "content": "fix the parser"}])
    for n in range(12):
        talk.extend([call(n, path=f"f{n}.py"), result(n, "the same words again " * 12)])
    large = "\n".join(f"name_{k} = {k}" for k in range(150))
    talk.extend([call(20, path="new.py", content=large), result(20, "The file is written.")])
    talk.extend([{"role": "assistant", "content": "done"}, {"role": "user", "content": "go on"}])
    assert_no_step_could_be_left_out(talk, range(700, 1500, 50))


def test_no_text_is_cut_for_little_more_than_the_line_that_stands_for_it() -> None:
    """What goes first is worth least per token that is free afterwards."""
    talk = Conversation(limit=10**6, strategy="coverage_quality")
    plain = "It is all the same to me and to you and to them, and to all of us here as it was."
    telling = "\n\n".join(f"Then parse_{n} calls check_{n} with flag_{n} set." for n in range(12))
    talk.extend([{"role": "user", "content": f"fix the parser. {plain}"}])
    talk.extend([{"role": "assistant", "content": f"{telling}\n\n{plain}"}])
    for n in range(4):
        talk.extend([call(n, path=f"f{n}.py"), result(n, lines(f"name{n}", 20))])
    used = " ".join(f"name{n}_{k}" for n in range(4) for k in range(20))
    talk.extend([call(9, names=used), result(9, "none"), {"role": "user", "content": "go on"}])
    for needed in range(240, 300):
        assert all(step.size > 22 for step in talk.plan(talk.tokens - needed).steps), needed


def test_the_last_list_of_things_to_do_outlives_those_before_it_and_short_calls() -> None:
    talk = Conversation(limit=10**6, strategy="coverage_quality")
    talk.extend([{"role": "user", "content": "fix the parser"}])

    def plan_call(number: int) -> None:
        todos = [f"task {n} of list {number}: make part_{n} faster and test it" for n in range(12)]
        talk.extend([call(number, todos=todos), result(number, "ok")])

    plan_call(0)
    plan_call(1)
    for n in range(2, 20):
        function = {"name": "read", "arguments": json.dumps({"path": f"src/file_{n}.py"})}
        made = {"id": f"c{n}", "type": "function", "function": function}
        talk.extend([{"role": "assistant", "content": None, "tool_calls": [made]}])
        talk.extend([result(n, lines(f"f{n}", 6))])
    talk.extend([{"role": "assistant", "content": "done"}, {"role": "user", "content": "go on"}])
    talk.collect(talk.plan(talk.tokens * 3 // 20))
    left = json.dumps(talk.messages)
    assert "of list 1" in left
    assert "of list 0" not in left
    assert "src/file_2.py" not in left


def test_in_a_chat_the_newest_answers_stay_whole() -> None:
    """What is said in few words elsewhere is rarer, but the chat goes on from its last answers."""
    talk = Conversation(limit=1_600, strategy="coverage")
    for n in range(6):
        talk.extend([{"role": "user", "content": f"What about point {n}?"}])
        words = "\n\n".join(
            f"Idea {n}.{k} is {'the usual one' if n > 2 else f'rare_{n}_{k}'}, "
            + "and so on with some more words. " * 3
            for k in range(12)
        )
        talk.extend([{"role": "assistant", "content": words}])
    talk.extend([{"role": "user", "content": "And now?"}])
    texts = [message["content"] for message in talk.messages if message["role"] == "assistant"]
    assert "Idea 5.11" in texts[-1]
    assert "left out" not in texts[-1]
    assert "left out" not in texts[-2]
