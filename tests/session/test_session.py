"""A session collects automatically and recovers from overflows, whatever its plugin does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from marksweep.errors import BadInput, ContextOverflow, ModelError, NotFound
from marksweep.ledger import ChildKind, InstructionSource
from marksweep.messages import FunctionCall, Message, Part, Role
from marksweep.model import GCPolicy
from marksweep.plugins import (
    GCConfig,
    GCResult,
    GCTriggerReason,
    Profile,
    load_gc_plugin,
)
from marksweep.plugins.discovery import BUILT_IN
from marksweep.session import Answer, Happened, Session, SessionEvent, Tool, Usage
from marksweep.stores.memory import MemoryStore
from marksweep.tokens import count
from tests.plugins.histories import text, unpaired, weigh, words

QUIET = {"notify_on_gc": False}


def echo(messages: Sequence[Message]) -> str:
    return text(20, "reply")


def session(limit: int = 1000, plugin: str | None = "gc_truncate", **config: object) -> Session:
    made = Session(echo, context_limit=limit, system_instructions="be good", counter=words)
    if plugin:
        settings = {"preserve_recent_turns": 2, **config}
        made.set_gc_plugin(load_gc_plugin(plugin, QUIET), GCConfig(**settings))  # type: ignore[arg-type]
    return made


def talk(to: Session, turns: int, size: int = 30) -> None:
    for _ in range(turns):
        to.send_message(text(size))


def test_a_message_is_answered_and_both_are_in_the_history() -> None:
    chat = session(plugin=None)
    said = chat.send_message("hello there")
    assert said.role is Role.MODEL
    assert [message.role for message in chat.history] == [Role.SYSTEM, Role.USER, Role.MODEL]


def test_a_long_conversation_stays_below_its_threshold() -> None:
    chat = session(limit=1000)
    most = 0.0
    for _ in range(60):
        chat.send_message(text(30))
        most = max(most, chat.get_context_usage()["percent_used"])
    assert most < 80
    assert len(chat.get_gc_history()) > 2
    assert all(result.tokens_freed > 0 for result in chat.get_gc_history())


def test_without_a_plugin_nothing_is_collected() -> None:
    chat = session(limit=100, plugin=None)
    talk(chat, 10)
    assert chat.get_context_usage()["percent_used"] > 100
    assert chat.get_gc_history() == ()


class Reporting:
    """A model that reports how much of each request came from its prompt cache."""

    dialect = "openai_chat"

    def __init__(self, cached_tokens: int | None) -> None:
        self.cached_tokens = cached_tokens

    def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Answer:
        said = Message.from_text(Role.MODEL, text(20, "reply"))
        return Answer(said, Usage(weigh(messages), 20, self.cached_tokens))


def most_used(cached_tokens: int | None, cache_minutes: float = 5.0) -> float:
    """How full the context of a long talk was at most after an answer."""
    chat = Session(
        Reporting(cached_tokens), context_limit=1000, counter=words, cache_minutes=cache_minutes
    )
    chat.set_gc_plugin(load_gc_plugin("gc_truncate", QUIET), GCConfig(preserve_recent_turns=2))
    used: list[float] = []
    for _ in range(60):
        chat.send_message(text(1))
        used.append(chat.get_context_usage()["percent_used"])
    assert chat.get_gc_history()
    assert all(result.tokens_freed > 0 for result in chat.get_gc_history())
    return max(used)


def test_while_the_prompt_cache_is_cold_a_collection_starts_sooner() -> None:
    warm = most_used(cached_tokens=500)
    assert 77 < warm <= 80
    assert most_used(cached_tokens=None) == warm, "without a report it is warm for five minutes"
    assert most_used(cached_tokens=0) <= 75, "the provider found nothing in its cache"
    assert most_used(cached_tokens=None, cache_minutes=0) <= 75, "its lifetime has passed"


def test_a_reopened_session_knows_when_it_last_made_a_request() -> None:
    store = MemoryStore()
    first = Session(echo, counter=words, store=store)
    assert first.get_context_usage()["is_cache_cold"], "nothing was sent yet"
    first.send_message("hello")
    assert not first.get_context_usage()["is_cache_cold"]
    assert not Session(echo, counter=words, store=store).get_context_usage()["is_cache_cold"]
    again = Session(echo, counter=words, store=store, cache_minutes=0)
    assert again.get_context_usage()["is_cache_cold"]


def sent_and_left(config: GCConfig) -> tuple[int, int]:
    """Return the size of the largest request of a short talk, and of what is left of the talk."""
    sent: list[int] = []

    def model(messages: Sequence[Message]) -> str:
        sent.append(weigh(messages))
        return "ok"

    chat = Session(model, context_limit=1000, counter=words)
    chat.set_gc_plugin(load_gc_plugin("gc_truncate", QUIET), config)
    talk(chat, 5, size=190)
    return max(sent), weigh(chat.history)


def test_check_before_send_collects_before_the_request() -> None:
    sent, left = sent_and_left(GCConfig(preserve_recent_turns=1))
    assert sent < 800
    assert left < 800


def test_check_before_send_off_leaves_the_check_to_the_time_after_the_answer() -> None:
    sent, left = sent_and_left(GCConfig(preserve_recent_turns=1, check_before_send=False))
    assert sent > 800
    assert left < 800


def test_auto_trigger_off_collects_only_by_hand() -> None:
    chat = session(limit=1000, auto_trigger=False)
    talk(chat, 30)
    assert chat.get_gc_history() == ()
    result = chat.manual_gc()
    assert result.trigger_reason is GCTriggerReason.MANUAL
    assert result.tokens_freed > 0
    assert chat.get_context_usage()["percent_used"] <= 60


def test_manual_gc_without_a_plugin_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(NotFound, match="set_gc_plugin"):
        session(plugin=None).manual_gc()


def test_gc_history_holds_every_result_in_order() -> None:
    chat = session(limit=1000)
    talk(chat, 40)
    chat.manual_gc()
    results = chat.get_gc_history()
    assert results[-1].trigger_reason is GCTriggerReason.MANUAL
    assert {result.plugin_name for result in results} == {"gc_truncate"}


def test_max_turns_starts_a_collection() -> None:
    chat = session(limit=100_000, max_turns=10)
    talk(chat, 30)
    assert chat.get_context_usage()["turns"] <= 10
    assert {result.trigger_reason for result in chat.get_gc_history()} == {
        GCTriggerReason.TURN_LIMIT
    }


def test_continuous_mode_stays_at_the_target() -> None:
    chat = session(limit=1000, plugin="gc_budget", continuous=True)
    talk(chat, 15)
    for _ in range(20):
        chat.send_message(text(30))
        assert chat.get_context_usage()["percent_used"] <= 60
    assert GCTriggerReason.CONTINUOUS in {r.trigger_reason for r in chat.get_gc_history()}


def test_session_applies_removal_list() -> None:
    chat = session(limit=1500, plugin="gc_budget", auto_trigger=False)
    chat.add_tool(Tool("grep", text(50), lambda: "", kind=ChildKind.CORE_TOOL))
    chat.add_tool(Tool("browse", text(50), lambda: "", kind=ChildKind.DISCOVERABLE_TOOL))
    chat.budget.add_child(InstructionSource.ENRICHMENT, "memory", count(text(60)))
    talk(chat, 20)
    result = chat.manual_gc()
    removed = {(item.source, item.child_key) for item in result.removal_list}
    assert (InstructionSource.ENRICHMENT, None) in removed
    assert (InstructionSource.PLUGIN, "browse") in removed
    assert chat.budget.get_child(InstructionSource.PLUGIN, "browse") is None
    assert [tool.name for tool in chat.tools] == ["grep"]
    entry = chat.budget.get_entry(InstructionSource.ENRICHMENT)
    assert entry is not None
    assert entry.total_tokens() == 0


@pytest.mark.parametrize("plugin", ["gc_truncate", "gc_summarize", "gc_hybrid", "gc_budget"])
def test_budget_consistent_after_gc(plugin: str) -> None:
    chat = session(limit=1000, plugin=plugin)
    talk(chat, 40)
    entry = chat.budget.get_entry(InstructionSource.CONVERSATION)
    assert entry is not None
    assert entry.total_tokens() == weigh(chat.history)
    held = [id_ for child in entry.children.values() for id_ in child.message_ids]
    assert sorted(held) == sorted(message.message_id for message in chat.history)
    assert chat.get_context_usage()["total_tokens"] == chat.ledger().total_tokens
    done = [result for result in chat.get_gc_history() if result.success]
    assert done[-1].tokens_after <= 600


@pytest.mark.parametrize("plugin", ["gc_summarize", "gc_hybrid"])
def test_a_summary_is_in_the_ledger_under_its_label_with_who_made_it(plugin: str) -> None:
    chat = session(limit=1000, plugin=plugin)
    talk(chat, 40)
    entry = chat.budget.get_entry(InstructionSource.CONVERSATION)
    assert entry is not None
    summaries = {key: c for key, c in entry.children.items() if key.startswith("gc_summary_")}
    assert summaries
    for key, child in summaries.items():
        assert (child.label, child.gc_policy) == ("Context Summary", GCPolicy.PRESERVABLE), key
        assert child.metadata["created_by"] == plugin


def test_a_clarification_is_preserved_when_turns_around_it_go() -> None:
    chat = session(limit=1000, plugin="gc_budget")
    chat.send_message(text(30))
    chat.send_message("by friday please", kind=ChildKind.CLARIFICATION)
    talk(chat, 40)
    kept = [message for message in chat.history if message.text == "by friday please"]
    assert len(kept) == 1
    entry = chat.budget.get_entry(InstructionSource.CONVERSATION)
    assert entry is not None
    (child,) = [c for c in entry.children.values() if kept[0].message_id in c.message_ids]
    assert child.gc_policy is GCPolicy.PRESERVABLE


def test_tools_are_run_and_their_results_sent_back() -> None:
    script = [
        Message(
            Role.MODEL,
            (
                Part(function_call=FunctionCall("1", "add", {"a": 2, "b": 3})),
                Part(function_call=FunctionCall("2", "nope", {})),
                Part(function_call=FunctionCall("3", "fail", {})),
            ),
        ),
        Message.from_text(Role.MODEL, "five"),
    ]

    def fail() -> str:
        raise OSError("disk full")

    chat = Session(lambda _: script.pop(0), counter=words)
    chat.add_tool(Tool("add", "adds", lambda a, b: a + b))
    chat.add_tool(Tool("fail", "fails", fail))
    assert chat.send_message("2 + 3?").text == "five"
    results = [r for message in chat.history for r in message.function_responses]
    assert [(r.result, r.is_error) for r in results] == [
        (5, False),
        ("there is no tool 'nope'", True),
        ("OSError: disk full", True),
    ]
    assert unpaired(chat.history) == set()


def test_a_model_that_never_stops_calling_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marksweep.session.session.MOST_ROUNDS", 5)
    chat = Session(
        lambda seen: Message(
            Role.MODEL, (Part(function_call=FunctionCall(str(len(seen)), "again")),)
        )
    )
    chat.add_tool(Tool("again", "", lambda: "more"))
    with pytest.raises(ModelError, match="5 times"):
        chat.send_message("go")
    assert unpaired(chat.history) == set()


def test_a_model_that_cannot_be_reached_leaves_the_history_as_it_was() -> None:
    def model(messages: Sequence[Message]) -> str:
        raise ModelError("no route")

    chat = Session(model, counter=words)
    with pytest.raises(ModelError, match="no route"):
        chat.send_message("hello")
    assert chat.history == ()
    assert chat.get_context_usage()["turns"] == 0


def test_a_message_that_was_not_answered_leaves_no_turn_and_no_declaration() -> None:
    answers: list[Exception | str] = ["yes", ModelError("no route"), ModelError("no route"), "yes"]

    def model(messages: Sequence[Message]) -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    chat = Session(model, counter=words)
    chat.send_message("hello")
    before = chat.budget.to_dict()
    for _ in range(2):
        with pytest.raises(ModelError, match="no route"):
            chat.send_message("by friday", kind=ChildKind.CLARIFICATION)
    assert chat.budget.to_dict() == before
    chat.send_message("go on")
    entry = chat.budget.get_entry(InstructionSource.CONVERSATION)
    assert entry is not None
    assert list(entry.children) == ["original_request", "turn_0", "turn_1"]


def test_usage_is_reported_in_the_providers_tokens_and_collected_by_them() -> None:
    class Model:
        dialect = "openai_chat"

        def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Answer:
            return Answer(Message.from_text(Role.MODEL, "ok"), Usage(3 * weigh(messages)))

    chat = Session(Model(), context_limit=1500, counter=words)
    chat.set_gc_plugin(load_gc_plugin("gc_truncate", QUIET), GCConfig(preserve_recent_turns=1))
    talk(chat, 10, size=30)
    assert chat.get_context_usage()["total_tokens"] == pytest.approx(3 * weigh(chat.history), 0.02)
    talk(chat, 10, size=30)
    assert chat.get_gc_history()
    assert 3 * weigh(chat.history) < 0.8 * 1500


def test_what_is_not_text_is_refused_and_leaves_the_history_unchanged() -> None:
    chat = Session(lambda _: "yes")
    with pytest.raises(BadInput, match="the message is a int; expected text"):
        chat.send_message(5)  # type: ignore[arg-type]
    assert chat.history == ()


def test_a_counter_that_gives_fractions_is_rounded_up() -> None:
    chat = Session(lambda _: "yes", counter=lambda m: len(m.text) / 4)
    chat.send_message("hello")
    assert chat.get_context_usage()["total_tokens"] == 2 + 1


def test_work_cut_off_after_a_tool_ran_can_be_resumed() -> None:
    def model(messages: Sequence[Message]) -> Message | str:
        if messages[-1].role is Role.USER:
            return Message(Role.MODEL, (Part(function_call=FunctionCall("1", "look")),))
        if not broken:
            return "seen"
        broken.pop()
        raise ModelError("cut off")

    broken = [1]
    chat = Session(model, counter=words)
    chat.add_tool(Tool("look", "", lambda: "a view"))
    with pytest.raises(ModelError):
        chat.send_message("look")
    assert [m.role for m in chat.history] == [Role.USER, Role.MODEL, Role.TOOL]
    assert chat.resume().text == "seen"
    with pytest.raises(BadInput, match="nothing to resume"):
        chat.resume()


class TestOverflow:
    def chat(self, fits: int, plugin: str | None = "gc_truncate") -> Session:
        def model(messages: Sequence[Message]) -> str:
            if weigh(messages) > fits:
                raise ContextOverflow(f"{weigh(messages)} tokens > {fits} maximum")
            return text(20)

        made = Session(model, context_limit=100_000, counter=words)
        if plugin:
            config = GCConfig(preserve_recent_turns=1)
            made.set_gc_plugin(load_gc_plugin(plugin, QUIET), config)
        return made

    def test_an_overflow_is_answered_by_a_collection_and_one_more_try(self) -> None:
        chat = self.chat(fits=1000)
        talk(chat, 40)
        assert {r.trigger_reason for r in chat.get_gc_history()} == {GCTriggerReason.OVERFLOW}

    @pytest.mark.parametrize("plugin", BUILT_IN)
    def test_a_limit_far_below_the_configured_one_is_reached_in_steps(self, plugin: str) -> None:
        chat = self.chat(fits=400, plugin=plugin)
        for n in range(100):
            chat.append(Message.from_text(Role.USER, f"{n} {text(30)}"))
            chat.append(Message.from_text(Role.MODEL, f"{n} {text(30, 'reply')}"))
        assert chat.send_message("and now?").text
        reasons = [result.trigger_reason for result in chat.get_gc_history()]
        assert set(reasons) == {GCTriggerReason.OVERFLOW}
        assert 1 < len(reasons) < 20

    def test_a_plugin_that_only_claims_to_free_tokens_is_not_called_forever(self) -> None:
        class Boaster:
            name = "gc_boaster"

            def initialize(self, config: object = None) -> None: ...

            def shutdown(self) -> None: ...

            def should_collect(self, *_: object) -> tuple[bool, None]:
                return False, None

            def collect(
                self, history: list[Message], usage: object, config: object, reason: GCTriggerReason
            ) -> tuple[list[Message], GCResult]:
                return history, GCResult(True, 9, 900, 0, self.name, reason)

        chat = self.chat(fits=100, plugin=None)
        chat.set_gc_plugin(Boaster())  # type: ignore[arg-type]
        with pytest.raises(ContextOverflow, match="freed nothing: nothing more may go"):
            chat.send_message(text(200))

    def test_an_overflow_that_nothing_can_be_done_about_says_why(self) -> None:
        chat = self.chat(fits=100)
        with pytest.raises(ContextOverflow, match=r"freed nothing: cannot reach target"):
            chat.send_message(text(200))
        assert chat.history == ()

    def test_an_overflow_without_a_plugin_is_passed_on(self) -> None:
        with pytest.raises(ContextOverflow):
            self.chat(fits=100, plugin=None).send_message(text(200))


@pytest.mark.parametrize("plugin", BUILT_IN)
def test_one_request_with_sixty_tool_calls_finishes_with_default_settings(plugin: str) -> None:
    """The whole run is one turn, and fills the window three times over."""
    limit = 8_000

    def model(messages: Sequence[Message]) -> Message | str:
        if weigh(messages) > limit:
            raise ContextOverflow(f"{weigh(messages)} tokens > {limit} maximum")
        calls = sum(1 for line in ran)
        if calls == 60:
            return "done"
        call = FunctionCall(f"c{calls}", "look", {"at": calls})
        return Message(Role.MODEL, (Part(function_call=call),))

    ran: list[int] = []

    def look(at: int) -> str:
        ran.append(at)
        return f"{at} " + text(360, f"row{at}")

    chat = Session(model, context_limit=limit, counter=words, tools=[Tool("look", "", look)])
    chat.set_gc_plugin(load_gc_plugin(plugin))
    assert chat.send_message("go through all of it").text == "done"
    assert len(ran) == 60
    assert chat.history[0].text == "go through all of it"
    assert unpaired(chat.history) == set()


def test_events_report_to_a_host_what_happens() -> None:
    chat = session(limit=1000)
    events: list[SessionEvent] = []

    def broken(event: SessionEvent) -> None:
        raise RuntimeError("not my day")

    chat.listen(broken)
    chat.listen(events.append)
    talk(chat, 20)
    happened = [event.happened for event in events]
    at = happened.index(Happened.COLLECTING)
    assert happened[at : at + 3] == [Happened.COLLECTING, Happened.COLLECTED, Happened.BUDGET]
    collected = events[at + 1]
    assert collected.result in chat.get_gc_history()
    assert "tokens freed" in collected.text
    assert happened.count(Happened.ANSWERED) == 20


class TestSubSessions:
    @pytest.fixture(autouse=True)
    def project(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        return tmp_path

    def test_from_a_profile(self, project: Path) -> None:
        folder = project / ".marksweep/profiles"
        folder.mkdir(parents=True)
        plain = {"name": "scout", "system_instructions": "find", "gc": {"type": "hybrid"}}
        (folder / "scout.json").write_text(json.dumps(plain))
        child = session().spawn(profile="scout")
        assert [message.text for message in child.history] == ["find"]
        talk(child, 3)
        assert child.manual_gc().plugin_name == "gc_hybrid"

    def test_from_an_inline_configuration_that_triggers_early(self) -> None:
        child = session().spawn(
            inline_config={
                "gc": {"type": "truncate", "threshold_percent": 5.0, "preserve_recent_turns": 3}
            }
        )
        talk(child, 12)
        assert child.get_gc_history()[0].plugin_name == "gc_truncate"

    def test_inline_configuration_overrides_the_profile(self) -> None:
        profile = Profile("p", gc={"type": "hybrid"})
        child = session().spawn(profile=profile, inline_config={"gc": {"type": "budget"}})
        assert child.manual_gc().plugin_name == "gc_budget"

    def test_it_has_its_own_history_and_results(self) -> None:
        parent = session()
        talk(parent, 3)
        child = parent.spawn(inline_config={"gc": {}})
        talk(child, 2)
        assert len(child.history) == 4
        assert len(parent.history) == 7

    def test_it_is_counted_as_its_parent_is(self) -> None:
        child = session().spawn()
        talk(child, 2)
        assert child.get_context_usage()["total_tokens"] == weigh(child.history)

    def test_the_project_file_configures_a_session(self, project: Path) -> None:
        chat = session(plugin=None)
        assert chat.set_gc_from_file() is False
        (project / ".jaato").mkdir()
        (project / ".jaato/gc.json").write_text('{"type": "summarize"}')
        assert chat.set_gc_from_file() is True
        talk(chat, 1)
        assert chat.manual_gc().plugin_name == "gc_summarize"


class Speaks:
    """A model that answers in neutral messages, for a provider with rules of its own."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.asked = 0

    def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Answer:
        del messages, tools
        self.asked += 1
        said = Part(text="I see. " * (900 if self.asked == 1 else 8))
        call = Part(function_call=FunctionCall(f"c{self.asked}", "read", {"path": "a.py"}))
        return Answer(Message(Role.MODEL, (said, call) if self.asked % 5 > 1 else (said,)))


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini"])
@pytest.mark.parametrize("plugin", BUILT_IN)
def test_no_collection_is_refused_where_messages_do_not_name_their_provider(
    plugin: str, dialect: str
) -> None:
    lines = "\n".join(f"line {n} of the file" for n in range(100))
    read = Tool("read", "Read a file.", lambda path: lines)
    chat = Session(Speaks(dialect), context_limit=2_000, tools=[read])
    config = GCConfig(preserve_recent_turns=0, pinned_turn_indices=[0])
    chat.set_gc_plugin(load_gc_plugin(plugin), config)
    for n in range(12):
        chat.send_message(f"look {n}")
    errors = [result.error or "" for result in chat.get_gc_history() if not result.success]
    assert [error for error in errors if not error.startswith("cannot reach target")] == []
