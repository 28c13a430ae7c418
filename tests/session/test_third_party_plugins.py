"""Sessions with third-party plugins: whatever these do, the conversation continues."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from marksweep.errors import BadInput, NotFound
from marksweep.messages import FunctionCall, Message, Part, Role, ToolResult
from marksweep.plugins import ContextUsage, GCConfig, GCResult, GCTriggerReason
from marksweep.session import Happened, Session, SessionEvent, Tool
from tests.plugins.histories import text, unpaired, weigh, words


def session(limit: int = 1000) -> Session:
    return Session(
        lambda _: text(20, "reply"),
        context_limit=limit,
        system_instructions="be good",
        counter=words,
    )


def talk(to: Session, turns: int, size: int = 30) -> None:
    for _ in range(turns):
        to.send_message(text(size))


ORPHAN = Part(function_response=ToolResult("nobody asked", "look", "a view"))


class Custom:
    """A plugin as its authors would write it, without a budget."""

    def __init__(self, keep: int = 3) -> None:
        self.keep = keep
        self.down = False

    @property
    def name(self) -> str:
        return "gc_custom"

    def initialize(self, config: object = None) -> None:
        pass

    def shutdown(self) -> None:
        self.down = True

    def should_collect(
        self, context_usage: ContextUsage, config: GCConfig
    ) -> tuple[bool, GCTriggerReason | None]:
        if context_usage.get("percent_used", 0) >= config.threshold_percent:
            return True, GCTriggerReason.THRESHOLD
        return False, None

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
    ) -> tuple[list[Message], GCResult]:
        first = next(at for at, m in enumerate(history) if m.role is Role.USER) + 1
        kept = [*history[:first], *history[max(first, len(history) - self.keep) :]]
        return kept, GCResult(
            success=True,
            items_collected=len(history) - len(kept),
            tokens_before=weigh(history),
            tokens_after=weigh(kept),
            plugin_name=self.name,
            trigger_reason=reason,
        )


def use(chat: Session, plugin: object, config: GCConfig | None = None) -> None:
    chat.set_gc_plugin(plugin, config or GCConfig())  # type: ignore[arg-type]


def test_a_custom_plugin_without_a_budget_runs() -> None:
    chat = session(limit=400)
    use(chat, Custom())
    talk(chat, 20)
    assert chat.get_gc_history()[0].plugin_name == "gc_custom"
    assert chat.get_context_usage()["percent_used"] < 80


def test_a_plugin_that_splits_a_pair_has_its_history_repaired() -> None:
    def model(messages: Sequence[Message]) -> Message | str:
        assert unpaired(messages) == set()
        if messages[-1].role is Role.USER:
            return Message(Role.MODEL, (Part(function_call=FunctionCall("1", "look")),))
        return "done"

    chat = Session(model, counter=words)
    chat.add_tool(Tool("look", "", lambda: text(10)))
    use(chat, Custom(keep=2))
    events: list[SessionEvent] = []
    chat.listen(events.append)
    talk(chat, 2)
    result = chat.manual_gc()
    left = [message.text for message in chat.history]
    assert left == [text(30), "done"], "the result without its call is gone"
    assert result.details["repaired"]
    assert Happened.REPAIRED in {event.happened for event in events}
    assert chat.send_message("and now?").text == "done"


@pytest.mark.parametrize("returned", [None, ([], None), (["x"], "y"), 5])
def test_a_plugin_that_returns_nonsense_has_failed_and_changed_nothing(returned: object) -> None:
    class Odd(Custom):
        def collect(self, *args: object) -> object:  # type: ignore[override]
            return returned

    chat = session(limit=300)
    use(chat, Odd())
    talk(chat, 10)
    assert len(chat.history) == 21
    assert all(not result.success for result in chat.get_gc_history())
    assert "TypeError" in str(chat.get_gc_history()[0].error)


def test_a_plugin_that_raises_has_failed_and_the_conversation_goes_on() -> None:
    class Broken(Custom):
        def collect(self, *args: object) -> object:  # type: ignore[override]
            raise ZeroDivisionError("oops")

    chat = session(limit=300)
    use(chat, Broken())
    talk(chat, 10)
    assert chat.get_gc_history()[0].error == "ZeroDivisionError: oops"


@pytest.mark.parametrize("said", [ZeroDivisionError("oops"), True, None, (True,)])
def test_a_plugin_that_cannot_say_whether_it_is_time_does_not_stop_the_conversation(
    said: object, caplog: pytest.LogCaptureFixture
) -> None:
    class Dumb(Custom):
        def should_collect(self, *args: object) -> object:  # type: ignore[override]
            if isinstance(said, Exception):
                raise said
            return said

    chat = session()
    use(chat, Dumb())
    talk(chat, 2)
    assert len(chat.history) == 5
    assert "gc_custom could not say whether it is time" in caplog.text


def test_a_plugin_that_fails_to_shut_down_is_replaced_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Clinging(Custom):
        def shutdown(self) -> None:
            raise ZeroDivisionError("oops")

    chat = session(limit=300)
    use(chat, Clinging())
    use(chat, Custom())
    talk(chat, 10)
    assert chat.get_gc_history()[0].success
    assert "gc_custom failed to shut down" in caplog.text


def test_what_is_not_a_plugin_or_a_configuration_is_refused_when_it_is_set() -> None:
    with pytest.raises(BadInput, match="a str is not a GCPlugin: it needs name"):
        use(session(), "gc_truncate")
    with pytest.raises(BadInput, match="the configuration is a dict; expected a GCConfig"):
        session().set_gc_plugin(Custom(), {"threshold_percent": 5})  # type: ignore[arg-type]


def test_the_plugin_that_is_replaced_is_shut_down() -> None:
    chat = session()
    first = Custom()
    use(chat, first)
    use(chat, first)
    assert not first.down
    chat.close()
    assert first.down


class Returning(Custom):
    """A plugin that returns what a function makes of the history, and claims to free a lot."""

    def __init__(self, change: Callable[[list[Message]], list[Message]]) -> None:
        super().__init__()
        self._change = change

    def collect(
        self,
        history: list[Message],
        context_usage: ContextUsage,
        config: GCConfig,
        reason: GCTriggerReason,
    ) -> tuple[list[Message], GCResult]:
        return self._change(history), GCResult(True, 99, 10_000, 1, self.name, reason)


def said(role: Role, words: str) -> Message:
    return Message.from_text(role, words)


def collected(change: Callable[[list[Message]], list[Message]]) -> tuple[Session, GCResult]:
    """Let a plugin work on a talk of four turns."""
    chat = session()
    talk(chat, 4)
    use(chat, Returning(change))
    return chat, chat.manual_gc()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda history: [], "it returned an empty history"),
        (lambda history: history[1:], "must stay: locked by its policy"),
        (lambda history: [history[0], *history[2:]], "must stay: locked by its policy"),
        (lambda history: history[:-1], "must stay: the model has not answered it yet"),
        (lambda history: [*history[:2], *reversed(history[2:])], "in another order"),
        (lambda history: [*history[:3], *history[2:]], "returned messages twice"),
        (
            lambda history: [*history[:3], replaced(history[3], 500), *history[4:]],
            "did not make it shorter",
        ),
        (
            lambda history: [*history[:3], said(Role.USER, "psst"), *history[3:]],
            "between two messages that stay",
        ),
        (
            lambda history: [*history[:2], said(Role.USER, text(999)), *history[4:]],
            "it would leave",
        ),
        (
            lambda history: [*history[:2], Message(Role.TOOL, (ORPHAN,)), *history[4:]],
            "its provider would refuse",
        ),
    ],
)
def test_what_breaks_a_law_is_refused_and_the_history_is_as_it_was(
    change: Callable[[list[Message]], list[Message]], error: str
) -> None:
    chat, result = collected(change)
    assert len(chat.history) == 9
    assert not result.success
    assert error in str(result.error)
    assert result.tokens_freed == 0
    with pytest.raises(NotFound):
        chat.undo_gc()
    assert chat.send_message("and now?").text == text(20, "reply")


def replaced(message: Message, size: int) -> Message:
    return Message(message.role, (Part(text=text(size)),), message.message_id)


def test_what_is_removed_changed_and_added_is_undone_and_the_claims_are_counted() -> None:
    summary = said(Role.USER, "they talked about it")

    def change(history: list[Message]) -> list[Message]:
        return [*history[:3], summary, replaced(history[5], 3), *history[6:]]

    chat = session()
    talk(chat, 4)
    before = chat.history
    use(chat, Returning(change))
    result = chat.manual_gc()
    assert list(chat.history) == change(list(before))
    assert (result.tokens_before, result.tokens_after) == (weigh(before), weigh(chat.history))
    chat.undo_gc()
    assert chat.history == before


def test_a_pinned_turn_stays_whatever_a_plugin_returns() -> None:
    chat = session()
    talk(chat, 4)
    config = GCConfig(pinned_turn_indices=(1,))
    use(chat, Returning(lambda h: [*h[:3], *h[5:]]), config)
    assert "in the pinned turn 1" in str(chat.manual_gc().error)
    use(chat, Returning(lambda h: [*h[:5], *h[7:]]), config)
    assert chat.manual_gc().success
