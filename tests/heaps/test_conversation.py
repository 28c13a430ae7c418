from __future__ import annotations

import copy
import json
import threading
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest

from marksweep.conversation import Conversation
from marksweep.core.budget import Budget
from marksweep.dialects import dialect_named, validate
from marksweep.errors import BadInput, NotFound, PlanOutdated, UnknownName, UnreadableWarning
from marksweep.heaps.forms import Line
from marksweep.messages import FunctionCall, Message, Part, Role
from marksweep.model import Action
from marksweep.reading import tidy
from marksweep.sections import Section, Sections
from marksweep.stores.memory import MemoryStore
from marksweep.stores.sqlite import SqliteStore
from marksweep.strategies.chosen import Chosen
from marksweep.testing.histories import Answered, Call, Said, Script, render_script

PROVIDERS = ["openai_chat", "openai_responses", "anthropic", "gemini"]


def reading(path: str, text: str, **more: Any) -> Answered:
    return Answered(calls=(Call("read", {"path": path}, text, **more),))


LONG = Script(
    (
        Said("fix the parser"),
        *(reading(f"{n}.py", f"content of file {n}\n" * 40) for n in range(12)),
        Answered("it is fixed"),
        Said("and the lexer?"),
        reading("lexer.py", "def lex(): ...\n" * 40),
    )
)


def conversation(
    script: Script = LONG, dialect: str = "openai_chat", **options: Any
) -> Conversation:
    options.setdefault("limit", 100_000)
    talk = Conversation(**options)
    talk.extend(render_script(script, dialect))
    return talk


def raws(talk: Conversation) -> list[Any]:
    return [message.raw for message in talk.history]


def test_messages_are_named_by_position_also_after_unreadable_ones() -> None:
    talk = Conversation(limit=100_000)
    assert talk.extend([{"role": "user", "content": "one"}]) == ["m1"]
    with pytest.warns(UnreadableWarning):
        assert talk.extend([17, {"role": "user", "content": "two"}]) == ["m2"]
    assert talk.extend([{"role": "user", "content": "three"}]) == ["m3"]
    assert [m.message_id for m in talk.history] == ["m1", "m2", "m3"]


def test_a_message_that_is_unpinned_is_masked_without_the_pin() -> None:
    talk = conversation(strategy="mask")
    (name,) = talk.plan(0).steps[0].segments
    talk.pin(name, "somebody")
    assert talk.plan(0).steps[0].segments != (name,)
    talk.unpin(name)
    step = talk.plan(0).steps[0]
    assert step.segments == (name,)
    assert step.replacement is not None
    assert not step.replacement.pinned_by
    talk.collect(talk.plan(0))
    assert validate(talk.messages, "openai_chat") == []
    talk.undo()
    assert talk.messages == render_script(LONG, "openai_chat")
    assert talk.plan(0).steps[0] == step


def test_a_report_names_what_went_in_the_order_of_the_plan_also_newest_first() -> None:
    talk = conversation()
    plan = talk.plan(0, strategy="garbage")
    assert [step.segments for step in plan.steps[:2]] == [("m26",), ("m24", "m25")]
    swept = talk.collect(plan).swept
    assert swept == tuple(name for step in plan.steps for name in step.segments)
    assert not set(swept) & {message.message_id for message in talk.history}


def test_a_message_is_kept_as_it_was_read_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies fragment memory, and later objects are then spread over it."""
    monkeypatch.setattr("marksweep.heaps.conversation.replace", None)
    talk = conversation()
    assert len(talk.extend([{"role": "user", "content": "more"}])) == 1


@pytest.mark.parametrize("dialect", PROVIDERS)
def test_under_the_threshold_messages_come_back_as_they_were(dialect: str) -> None:
    talk = conversation(dialect=dialect)
    assert talk.messages == render_script(LONG, dialect)
    assert talk.dialect == dialect
    assert talk.journal() == ()


@pytest.mark.parametrize("dialect", PROVIDERS)
def test_over_the_threshold_messages_are_collected_and_stay_valid(dialect: str) -> None:
    talk = conversation(dialect=dialect, limit=1_500)
    before = talk.tokens
    messages = talk.messages
    assert talk.tokens <= talk.budget.cold_limit < before
    assert validate(messages, dialect) == []
    assert messages[0] == render_script(LONG, dialect)[0]
    assert messages[-2:] == render_script(LONG, dialect)[-2:]


@pytest.mark.parametrize("dialect", PROVIDERS)
def test_undo_brings_everything_back_in_place_to_the_last_field(dialect: str) -> None:
    script = Script(LONG.beats, extras=True)
    for strategy in ("truncate", ("superseded", "mask", "truncate")):
        talk = conversation(script, dialect, limit=1_200, strategy=strategy)
        plan = talk.plan()
        talk.collect(plan)
        assert raws(talk) != render_script(script, dialect)
        talk.undo(plan.plan_id)
        assert raws(talk) == render_script(script, dialect)


def test_a_plan_is_applied_as_shown_and_refused_when_the_conversation_has_continued() -> None:
    talk = conversation(limit=1_500)
    plan = talk.plan()
    report = talk.collect(plan)
    assert report.swept == tuple(name for step in plan.steps for name in step.segments)
    assert (report.tokens_before, report.tokens_after) == (plan.tokens_before, plan.tokens_after)
    assert talk.tokens == plan.tokens_after
    outdated = talk.plan(100)
    talk.extend([{"role": "user", "content": "wait"}])
    with pytest.raises(PlanOutdated):
        talk.collect(outdated)
    with pytest.raises(BadInput, match="is not a plan"):
        talk.collect("the last one")  # type: ignore[arg-type]


def test_the_first_request_the_system_prompt_and_what_is_not_answered_stay() -> None:
    script = Script(LONG.beats, system=("be brief",))
    talk = conversation(script, limit=100_000)
    plan = talk.plan(0)
    swept = {name for step in plan.steps for name in step.segments}
    kept = [m.raw for m in talk.history if m.message_id not in swept]
    messages = render_script(script, "openai_chat")
    typed = [m for m in messages[2:-2] if m["role"] == "user"]
    assert kept == [messages[0], messages[1], *typed, *messages[-2:]]
    assert plan.short_by > 0
    assert {k.reason for k in plan.blockers} == {
        "locked by its policy",
        "the user's words",
        "the model has not answered it yet",
        "stands for what went",
    }


def test_what_the_user_typed_stays_until_it_takes_a_tenth_of_the_limit() -> None:
    talk = Conversation(limit=3_000)
    talk.extend([{"role": "user", "content": f"turn {n}"} for n in range(70)])
    talk.collect(talk.plan(0))
    kept = [m.text for m in talk.history]
    assert 30 < len(kept) < 60
    assert kept == ["turn 0", *(f"turn {n}" for n in range(71 - len(kept), 70))]
    assert talk.why("m60") == "m60 must stay: the user's words"


def interrupted(words: str, result: str = "declined", at: int = 0) -> list[Any]:
    """Make a call that the user interrupts, with what the user says beside its result."""
    call = {"type": "tool_use", "id": f"t{at}", "name": "edit", "input": {"path": f"{at}.py"}}
    answer = {"type": "tool_result", "tool_use_id": f"t{at}", "content": result}
    said = {"type": "text", "text": words}
    return [
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [answer, said]},
    ]


REMINDER = "<system-reminder>\nuse the list of tasks\n</system-reminder>"
DONE: list[Any] = [{"role": "assistant", "content": "done"}, {"role": "user", "content": "and?"}]


@pytest.mark.parametrize("strategy", ["truncate", "budget", "hybrid", "summarize", "coverage"])
def test_what_the_user_says_beside_a_result_stays_with_its_call(strategy: str) -> None:
    said = [{"role": "user", "content": "go"}, *interrupted("use tabs"), *DONE]
    reminded = [m for n in range(1, 9) for m in interrupted(REMINDER, at=n)]
    talk = Conversation(limit=2_000, strategy=strategy, dialect="anthropic")
    talk.extend([*said[:3], *reminded, *said[3:]])
    plan = talk.plan(0)
    talk.collect(plan)
    assert [m for m in raws(talk) if m in said] == said
    assert not [m for m in raws(talk) if m in reminded]
    assert talk.why("m3") == "m3 must stay: the user's words"


def test_words_beside_results_stay_only_in_the_room_that_the_users_messages_leave() -> None:
    typed = [{"role": "user", "content": f"turn {n}"} for n in range(20)]
    beside = [m for n in range(9) for m in interrupted(f"no {n}", "x y " * 40, at=n)]
    talk = Conversation(limit=3_000, dialect="anthropic")
    talk.extend([*typed, *beside, *DONE])
    talk.collect(talk.plan(0, strategy="truncate"))
    kept = raws(talk)
    assert [m for m in kept if m in typed] == typed
    assert [n for n in range(9) if f"no {n}" in str(kept)] in ([8], [7, 8])
    assert validate(kept, "anthropic") == []


def test_pinned_messages_stay_and_unpinned_ones_may_go_again() -> None:
    talk = Conversation(limit=1_000)
    talk.extend([{"role": "user", "content": "start"}])
    (pinned,) = talk.extend([{"role": "user", "content": "remember the port: 8080"}], pin=True)
    talk.extend([{"role": "assistant", "content": f"turn {n}"} for n in range(5)])
    talk.extend([{"role": "user", "content": "and now?"}, {"role": "assistant", "content": "so"}])
    (noted,) = talk.extend([{"role": "assistant", "content": "noted"}], pin=True)
    talk.extend([{"role": "user", "content": "ok"}, {"role": "assistant", "content": "turn 4"}])
    talk.collect(talk.plan(0))
    said = ["start", "remember the port: 8080", "and now?", "noted", "ok", "turn 4"]
    assert [m.text for m in talk.history] == said
    assert talk.why(pinned) == f"{pinned} must stay: pinned by the caller"
    talk.unpin(noted)
    talk.collect(talk.plan(0))
    assert [m.text for m in talk.history] == [text for text in said if text != "noted"]


def test_recent_turns_are_preserved() -> None:
    beats = [beat for n in range(6) for beat in (Said(f"question {n}"), Answered(f"answer {n}"))]
    talk = conversation(Script(tuple(beats)), preserve_recent_turns=2)
    talk.collect(talk.plan(0))
    assert [m.text for m in talk.history] == [
        *(f"question {n}" for n in range(5)),
        "answer 4",
        "question 5",
        "answer 5",
    ]
    with pytest.raises(BadInput, match="preserve_recent_turns is -1"):
        Conversation(limit=1, preserve_recent_turns=-1)


def test_of_a_long_recent_turn_the_words_and_the_newest_exchanges_stay() -> None:
    read = [reading(f"{n}.py", f"file {n} " * 80) for n in range(9)]
    script = Script((Said("go"), *read, Answered("ok")))
    calm = conversation(script, preserve_recent_turns=2)
    calm.collect(calm.plan(0))
    assert [m.message_id for m in calm.history] == [
        "m1",
        "gap-m2-12",
        *(f"m{n}" for n in range(14, 21)),
    ]
    tight = conversation(script, preserve_recent_turns=2, limit=100)
    tight.collect(tight.plan(0))
    left = [m.message_id for m in tight.history]
    assert left == ["m1", "gap-m2-18", "m20"], "above the hard limit"


def test_masked_results_say_what_they_were_and_come_back() -> None:
    talk = conversation(strategy="mask", limit=100_000)
    plan = talk.plan(0)
    assert {step.action for step in plan.steps} == {Action.MASK}
    talk.collect(plan)
    assert len(talk.history) == len(render_script(LONG, "openai_chat"))
    masked = talk.history[2].function_responses[0]
    assert masked.result == '[marksweep: all 41 lines of 0.py left out, 240 tokens; recall("m3")]'
    assert talk.restore("m3") == ("m3",)
    assert raws(talk)[2] == render_script(LONG, "openai_chat")[2]


SUPERSEDED = Script(
    (
        Said("go"),
        reading("a.py", "old " * 100),
        reading("b.py", "same " * 100),
        Answered(calls=(Call("bash", {"command": "make"}, "error " * 100, is_error=True),)),
        reading("c.py", "part " * 100),
        Answered(calls=(Call("write", {"path": "a.py", "text": "new"}, "written"),)),
        reading("b.py", "same " * 100),
        Answered(calls=(Call("bash", {"command": "make"}, "all is fine " * 40),)),
        reading("d.py", "part " * 100),
        Answered("done"),
    )
)


@pytest.mark.parametrize("dialect", PROVIDERS)
def test_what_something_later_has_made_worthless_is_masked(dialect: str) -> None:
    talk = conversation(SUPERSEDED, dialect, strategy="superseded")
    plan = talk.plan(0)
    errors_are_told = dialect == "anthropic"
    assert [step.reason for step in reversed(plan.steps)] == [
        "superseded: a.py was written later",
        "superseded: the same call was made again",
        "superseded: the call succeeded later"
        if errors_are_told
        else "superseded: the same call was made again",
        "superseded: the same output came again",
    ]
    talk.collect(plan)
    assert validate(talk.messages, dialect) == []
    assert talk.plan(0).steps == ()


def test_a_later_failure_supersedes_nothing() -> None:
    talk = conversation(
        Script(
            (
                Said("go"),
                reading("a.py", "good " * 100),
                reading("a.py", "no such file " * 50, is_error=True),
                Answered("hm"),
            )
        ),
        "anthropic",
        strategy="superseded",
    )
    assert talk.plan(0).steps == ()


def test_each_tier_runs_only_if_the_one_before_fell_short() -> None:
    tiers = ("superseded", "mask", "truncate")
    talk = conversation(SUPERSEDED, strategy=tiers)
    little = talk.plan(talk.tokens - 50)
    assert [step.action for step in little.steps] == [Action.MASK]
    much = talk.plan(0)
    assert {step.action for step in much.steps} == {Action.STASH}


def test_swept_messages_are_recalled_by_words_within_a_budget() -> None:
    talk = Conversation(limit=1_000)
    talk.extend([{"role": "user", "content": f"note {n}"} for n in range(3)])
    talk.extend([{"role": "assistant", "content": "the proxy listens on port 3128"}])
    for n in range(9):
        talk.extend([{"role": "user", "content": "go on"}])
        talk.extend([{"role": "assistant", "content": f"chatter {n} about nothing"}])
    talk.collect(talk.plan(0))
    found = talk.recall("which port has the proxy?", limit=40)
    assert "the proxy listens on port 3128" in "\n".join(found).split("\n")
    places = [int(each.message_id.removeprefix("m")) for each in found]
    assert places == sorted(places)
    assert all(isinstance(each.text, str) and each.message_id for each in found)
    assert sum(each.tokens for each in found) <= 40
    assert talk.recall("port", limit=3) == []


def test_why_explains_live_and_swept_messages() -> None:
    talk = conversation(limit=1_500, strategy="truncate")
    plan = talk.plan()
    talk.collect(plan)
    assert talk.why("m1") == "m1 must stay: locked by its policy"
    assert plan.plan_id in talk.why(plan.steps[0].segments[0])
    with pytest.raises(NotFound):
        talk.why("m999")


def test_the_ledger_counts_per_role_and_what_is_fixed() -> None:
    talk = conversation(tools=[{"name": "read", "input_schema": {}}], system="be brief")
    lines = {line.name: line for line in talk.ledger()}
    assert set(lines) == {"user", "model", "tool", "system", "tools"}
    assert sum(line.tokens for line in lines.values()) == talk.tokens
    assert talk.messages == render_script(LONG, "openai_chat")


def test_a_whole_request_brings_its_system_prompt_and_tools() -> None:
    body = {
        "system": "be brief",
        "tools": [{"name": "read", "input_schema": {}}],
        "messages": render_script(LONG, "anthropic"),
    }
    talk = Conversation(limit=100_000)
    talk.extend(body)
    assert talk.dialect == "anthropic"
    assert {"system", "tools"} <= {line.name for line in talk.ledger()}
    assert talk.messages == body["messages"]


def test_a_dialect_is_settled_by_the_first_message_that_has_its_marks() -> None:
    talk = Conversation(limit=100_000)
    messages = render_script(LONG, "anthropic")
    for message in messages:
        talk.extend([message])
    assert talk.dialect == "anthropic"
    plan = talk.plan(0)
    talk.collect(plan)
    assert validate(talk.messages, "anthropic") == []
    with pytest.raises(BadInput, match="openai_chat"):
        Conversation(limit=9).extend([*messages, *render_script(LONG, "openai_chat")])


def test_neutral_messages_are_taken_too() -> None:
    talk = Conversation(limit=100, dialect="gemini")
    talk.extend([Message.from_text(Role.USER, "hi")])
    assert talk.messages == [{"role": "user", "parts": [{"text": "hi"}]}]


def test_what_cannot_be_read_is_left_out_and_reported() -> None:
    talk = Conversation(limit=100)
    with pytest.warns(UnreadableWarning, match="2 of 3 messages"):
        talk.extend([{"role": "user", "content": "hi"}, None, {"role": "banana"}])
    assert talk.messages == [{"role": "user", "content": "hi"}]
    assert [skipped.position for skipped in talk.skipped] == [1, 2]


def test_a_conversation_survives_a_restart_with_its_stash(tmp_path: Path) -> None:
    script = Script(LONG.beats, extras=True)
    store = SqliteStore(tmp_path / "talk.db")
    talk = conversation(script, "anthropic", store=store, limit=1_500)
    plan = talk.plan()
    talk.collect(plan)
    left = raws(talk)
    store.close()

    again = Conversation(limit=1_500, store=SqliteStore(tmp_path / "talk.db"))
    assert again.dialect == "anthropic"
    assert raws(again) == left
    assert again.tokens == plan.tokens_after
    again.extend([{"role": "user", "content": "still there?"}])
    assert again.plan(0).steps != ()
    again.undo(plan.plan_id)
    assert raws(again) == [
        *render_script(script, "anthropic"),
        {"role": "user", "content": "still there?"},
    ]
    again.close()


def test_a_result_that_comes_after_a_restart_finds_its_call() -> None:
    store = MemoryStore()
    messages = render_script(LONG, "openai_responses")
    Conversation(limit=100_000, store=store).extend(messages[:-1])
    talk = Conversation(limit=100_000, store=store)
    talk.extend([messages[-1]])
    talk.extend([{"role": "assistant", "content": "ok"}, {"role": "user", "content": "go on"}])
    talk.collect(talk.plan(0))
    assert validate(talk.messages, "openai_responses") == []


def test_a_handle_that_was_idle_for_long_sees_what_another_masked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("marksweep.stores.memory.CHANGES_KEPT", 0)
    store = MemoryStore()
    away = conversation(store=store)
    other = Conversation(limit=100_000, store=store, strategy="mask")
    other.collect(other.plan(0))
    other.collect(other.plan(0, strategy=Chosen(["m4"])))
    assert raws(away) == raws(other)


def test_a_result_masked_by_one_plan_and_swept_by_another_comes_back_with_its_call() -> None:
    talk = conversation(strategy="mask")
    masking = talk.plan(0)
    talk.collect(masking)
    talk.collect(talk.plan(0, strategy=Chosen(["m2"])))
    assert len(talk.history) == len(render_script(LONG, "openai_chat")) - 2
    talk.undo(masking.plan_id)
    assert validate(talk.messages, "openai_chat") == []
    assert raws(talk) == render_script(LONG, "openai_chat")


def test_restoring_one_message_brings_back_its_unit() -> None:
    talk = conversation()
    talk.collect(talk.plan(0))
    with pytest.raises(NotFound, match="m999"):
        talk.restore("m3", "m999")
    assert set(talk.restore("m3")) == {"m2", "m3"}
    assert validate(talk.messages, "openai_chat") == []


def test_a_futile_pass_backs_off_and_tries_again_later() -> None:
    talk = Conversation(limit=10, budget=Budget.of(10))
    talk.extend([{"role": "user", "content": "a request that is longer than the window allows"}])
    assert talk.is_due
    assert len(talk.messages) == 1
    assert not talk.is_due
    for _ in range(8):
        talk.extend([{"role": "user", "content": "more"}])
    assert talk.is_due
    assert len(talk.messages) == 2


def test_over_the_limit_no_back_off_keeps_a_new_message_from_being_collected() -> None:
    def words(message: dict[str, Any]) -> int:
        return len(message["content"].split())

    talk = Conversation(limit=1_000, strategy="truncate", counter=words)
    talk.extend([{"role": "user", "content": "w " * 1_100}], pin=True)
    assert len(talk.messages) == 1
    said = [("assistant", "an answer"), ("user", "a question"), ("assistant", "b"), ("user", "c")]
    talk.extend([{"role": role, "content": content} for role, content in said])
    assert [message["content"] for message in talk.messages[1:]] == ["b", "c"]


def test_many_threads_may_extend_and_read() -> None:
    talk = Conversation(limit=2_000)
    talk.extend([{"role": "user", "content": "start"}])
    failures: list[BaseException] = []

    def work(name: int) -> None:
        try:
            for n in range(30):
                talk.extend(
                    [
                        {"role": "user", "content": f"thread {name} says {n} " * 5},
                        {"role": "assistant", "content": "ok"},
                    ]
                )
                assert validate(talk.messages, "openai_chat") == []
        except BaseException as failure:  # noqa: BLE001
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []
    swept = sum(len(step.segments) for e in talk.journal() if e.plan for step in e.plan.steps)
    assert len(talk.history) + swept == 1 + 4 * 30 * 2


@pytest.mark.parametrize("odd", [(), 5, None, lambda _: 5])
def test_what_is_not_a_strategy_is_refused_at_once(odd: Any) -> None:
    with pytest.raises(BadInput, match="is not a strategy; expected one of budget"):
        Conversation(limit=100, strategy=odd)


@pytest.mark.parametrize("turns", [-1, "two"])
def test_an_impossible_number_of_turns_is_refused(turns: Any) -> None:
    with pytest.raises(BadInput, match=f"preserve_recent_turns is {turns!r}; expected"):
        Conversation(limit=100, preserve_recent_turns=turns)


def test_an_unknown_strategy_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(UnknownName, match=r"known are budget, coverage, .*truncate"):
        Conversation(limit=1, strategy="magic")


@pytest.mark.parametrize("dialect", PROVIDERS)
def test_tidy_fits_messages_into_a_limit_and_leaves_its_input_alone(dialect: str) -> None:
    messages = render_script(LONG, dialect)
    before = copy.deepcopy(messages)
    fitted = tidy(messages, limit=1_000)
    assert messages == before
    assert len(json.dumps(fitted)) < len(json.dumps(messages))
    assert fitted[0] == messages[0]
    assert validate(fitted, dialect) == []
    talk = Conversation(limit=1_000)
    talk.extend(fitted)
    assert talk.tokens <= 1_000
    assert tidy(fitted, limit=1_000) == fitted


def test_tidy_returns_a_new_list() -> None:
    messages = render_script(LONG, "openai_chat")
    fitted = tidy(messages, limit=100_000)
    assert fitted == messages
    assert fitted is not messages


def test_tidy_takes_a_request_and_a_transcript() -> None:
    body: dict[str, Any] = {"system": "be brief", "messages": render_script(LONG, "anthropic")}
    fitted = tidy(body, limit=1_000)
    assert fitted["system"] == "be brief"
    assert len(json.dumps(fitted)) < len(json.dumps(body))
    lines = [
        {"type": m["role"], "uuid": str(n), "message": m} for n, m in enumerate(body["messages"])
    ]
    marked = [{"type": "summary", "uuid": "x", "sessionId": "s"}, *lines]
    left = tidy(marked, limit=1_000, strategy="truncate")
    assert left[0] == marked[0]
    (made,) = [line["message"]["content"] for line in left if line not in marked]
    assert "messages left out" in str(made)
    assert validate(left) == []


def test_a_pending_call_is_kept_for_its_result() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "deploy", "arguments": "{}"}
    talk = Conversation(limit=100_000)
    talk.extend([{"role": "user", "content": "deploy it"}, call])
    talk.extend(
        [
            {"role": "user", "content": "and meanwhile?"},
            {"type": "message", "role": "assistant", "content": "I wait for your approval."},
            {"role": "user", "content": "approved"},
        ]
    )
    talk.collect(talk.plan(0))
    assert call in raws(talk)
    assert talk.why("m2") == "m2 must stay: what is going on needs it"
    talk.extend([{"type": "function_call_output", "call_id": "c", "output": "deployed"}])
    assert validate(talk.messages, "openai_responses") == []
    talk.extend([{"type": "message", "role": "assistant", "content": "It is deployed."}])
    talk.collect(talk.plan(0))
    assert call not in raws(talk)


def test_the_request_that_began_a_signed_turn_is_kept() -> None:
    def call(**signed: str) -> dict[str, Any]:
        return {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}, **signed}]}

    def said(text: str) -> dict[str, Any]:
        return {"role": "user", "parts": [{"text": text}]}

    response = {"functionResponse": {"name": "f", "response": {"result": "1"}}}
    answer = {"role": "user", "parts": [response]}
    talk = Conversation(limit=100_000)
    talk.extend([said("go"), call(), answer, said("again"), call(thoughtSignature="s"), answer])
    plan = talk.plan(0, strategy=Chosen(["m4"]))
    assert plan.steps == ()
    talk.collect(talk.plan(0))
    assert raws(talk) == [said("go"), said("again"), call(thoughtSignature="s"), answer]


def test_undoing_a_summary_that_was_merged_later_brings_back_the_messages_and_no_summary() -> None:
    def part(n: int) -> list[Any]:
        said = f"We decided to skip empty rows in part {n}, because they broke the import. " * 3
        asked = f"Go on with part {n}."
        return [{"role": "assistant", "content": said}, {"role": "user", "content": asked}]

    def summaries() -> list[str]:
        return [message.text for message in talk.history if "Summary of" in message.text]

    messages = [{"role": "user", "content": "Mend the importer."}, *chain(*map(part, range(24)))]
    hard = Budget.of(10**6, threshold_percent=0, target_percent=0, pressure_percent=0)
    talk = Conversation(limit=10**6, strategy="summarize", dialect="openai_chat", budget=hard)
    talk.extend(messages[:25])
    summing_up = talk.plan(talk.tokens // 2)
    talk.collect(summing_up)
    (summary,) = summaries()
    talk.extend(messages[25:])
    talk.collect(talk.plan(0))
    (merged,) = summaries()
    assert merged != summary
    talk.undo(summing_up.plan_id)
    while talk.latest() is not None:
        talk.undo()
    assert [message.raw for message in talk.history] == messages


def test_an_endless_conversation_takes_no_more_memory(tmp_path: Path) -> None:
    """What was swept is in the file; none of it is kept in memory."""
    talk = Conversation(limit=3_000, strategy="truncate", store=tmp_path / "talk.db")

    def sizes() -> dict[str, int]:
        heap = talk._heap
        held = {**vars(heap), **vars(heap.index)}.items()
        return {name: len(each) for name, each in held if isinstance(each, list | dict | set)}

    def go_on(turns: int) -> None:
        for n in range(turns):
            talk.extend([{"role": "user", "content": f"and {n}?"}])
            talk.extend([{"role": "assistant", "content": f"it is {n} " * 40}])
            assert talk.messages

    go_on(250)
    before = sizes()
    go_on(150)
    assert len(talk.journal()) > 10
    assert {name: size for name, size in sizes().items() if size > before[name] + 60} == {}
    talk.close()


def test_a_pin_that_was_set_since_a_sweep_stays_when_it_is_undone() -> None:
    talk = conversation(LONG, "anthropic")
    plan = talk.plan(0, "mask")
    talk.collect(plan)
    name = plan.steps[0].segments[0]
    talk.pin(name, "ada")
    talk.undo(plan.plan_id)
    assert "pinned by ada" in talk.why(name)


def test_an_instruction_in_the_middle_stays() -> None:
    talk = Conversation(limit=100_000)
    instruction = {"role": "system", "content": "Answer in one word from now on."}
    for turn in range(4):
        talk.extend([{"role": "user", "content": f"What is in the file number {turn}?"}])
        talk.extend([{"role": "assistant", "content": f"Nothing of interest in {turn}."}])
        if turn == 1:
            talk.extend([instruction])
    talk.collect(talk.plan(0, "truncate"))
    assert instruction in talk.messages
    assert len(talk.messages) < 9


def test_the_line_of_a_run_that_begins_with_a_note_is_where_its_first_message_was() -> None:
    read = [reading(f"{n}.py", f"file {n} " * 200) for n in range(3)]
    talk = conversation(Script((Said("go"), *read, Answered("ok"))))
    said = list(talk._heap.live().values())
    note = talk._heap.note(Sections((Section("file 0 file 0"),)), said[3])
    assert note.position == said[2].position, "beside the result of a call that stays"
    line = talk._heap.gaps().line([note, *said[3:7]])
    assert line is not None
    assert line.position == said[3].position
    assert "4 messages left out (calls of read)" in line.text


@pytest.mark.parametrize("ids", ["m", "turn-"])
def test_neither_a_note_nor_the_line_for_it_separates_a_call_from_its_result(ids: str) -> None:
    read = [reading(f"{n}.py", f"file {n} " * 200) for n in range(3)]
    talk = conversation(Script((Said("go"), *read, Said("and?"), Answered("ok"))), ids=ids)
    names = [message.message_id for message in talk.history]
    note = talk._heap.note(Sections((Section("file 0 file 0"),)), talk._heap.live()[names[3]])
    talk.store.segments.write(talk.workspace, put=[note])
    assert [m.message_id for m in talk.history] == [*names[:3], note.segment_id, *names[3:]]
    talk.collect(talk.plan(0, strategy=Chosen([note.segment_id, names[3], names[5]])))
    left = [m.message_id for m in talk.history]
    assert left == [*names[:3], f"gap-{names[3]}-4", *names[7:]]
    assert validate(talk.messages, "openai_chat") == []


@pytest.mark.parametrize("ids", ["m", "a-"])
def test_the_line_of_a_longer_run_is_before_what_an_undo_returns_of_it(ids: str) -> None:
    read = [reading(f"{n}.py", f"file {n} " * 200) for n in range(3)]
    talk = conversation(Script((Said("go"), *read, Said("and?"), Answered("ok"))), ids=ids)
    names = [message.message_id for message in talk.history]
    first = talk.plan(0, strategy=Chosen([names[1], names[3]]))
    talk.collect(first)
    line = f"gap-{names[1]}-4"
    assert [m.message_id for m in talk.history] == [names[0], line, *names[5:]]
    talk.collect(talk.plan(0, strategy=Chosen([line, names[5]])))
    talk.undo(first.plan_id)
    longer = f"gap-{names[1]}-6"
    assert [m.message_id for m in talk.history] == [names[0], longer, *names[1:5], *names[7:]]
    assert validate(talk.messages, "openai_chat") == []


def test_what_goes_on_both_sides_of_a_line_leaves_one_line() -> None:
    read = [reading(f"{n}.py", f"file {n} " * 600) for n in range(3)]
    talk = conversation(Script((Said("go"), *read, Said("and?"), Answered("ok"))))
    names = [message.message_id for message in talk.history]
    talk.collect(talk.plan(0, strategy=Chosen([names[3]])))
    assert [m.message_id for m in talk.history][3] == f"gap-{names[3]}-2"
    talk.collect(talk.plan(0, strategy=Chosen([names[1], names[5]])))
    left = [m.message_id for m in talk.history]
    assert left == [names[0], f"gap-{names[1]}-6", *names[7:]]


def test_neutral_messages_are_joined_where_one_between_them_was_removed() -> None:
    said = Message.from_text(Role.MODEL, "I look at it.")
    calls = Message(Role.MODEL, (Part(function_call=FunctionCall("c1", "read", {})),))
    line = Line(dialect_named("gemini"))
    line.extend([(1, Message.from_text(Role.USER, "go on")), (2, said), (4, calls)])
    assert line.messages[1:] == [msgspec.structs.replace(said, parts=(*said.parts, *calls.parts))]


def test_a_text_where_names_to_keep_are_expected_is_refused() -> None:
    with pytest.raises(BadInput, match=r"keep is 'todo'; expected a list of names"):
        Conversation(limit=1_000, keep="todo")
