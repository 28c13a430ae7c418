"""gc_coverage: one copy of everything likely to be needed again stays, the least valuable goes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from marksweep.dialects import read, validate, written
from marksweep.errors import BadInput
from marksweep.ledger import InstructionBudget
from marksweep.messages import (
    FunctionCall,
    Message,
    Part,
    Role,
    Text,
    ToolResult,
    count_message,
    texts_of,
)
from marksweep.plugins import GCConfig, GCPlugin, GCResult, GCTriggerReason, load_gc_plugin
from tests.plugins.histories import ids, say, unpaired

DOWN = GCConfig(threshold_percent=80, target_percent=60, preserve_recent_turns=1)


def listing(first: int, lines: int = 60) -> str:
    return "\n".join(f"def handler_{n}(request): return ROUTES[{n}]" for n in range(first, lines))


def read_file(n: int, path: str, content: str) -> list[Message]:
    call = FunctionCall(f"c{n}", "read", {"path": path})
    return [
        Message(Role.MODEL, (Part(function_call=call),), f"call{n}"),
        Message(
            Role.TOOL, (Part(function_response=ToolResult(call.id, "read", content)),), f"r{n}"
        ),
    ]


def history() -> list[Message]:
    return [
        say(Role.USER, "u0"),
        *read_file(0, "routes.py", listing(0)),
        *read_file(1, "notes.md", "The deploy key is kept in vault/deploy_4711.\n" + "… \n" * 40),
        *read_file(2, "routes.py", listing(0)),
        say(Role.MODEL, "m0"),
        say(Role.USER, "u1"),
        say(Role.MODEL, "m1"),
    ]


def weigh(messages: list[Message]) -> int:
    return sum(map(count_message, messages))


def collect(
    share: float, messages: list[Message] | None = None, **options: object
) -> tuple[list[Message], GCResult]:
    before = messages or history()
    return collect_by(load_gc_plugin("gc_coverage", options), share, before)


def collect_by(
    plugin: GCPlugin, share: float, before: list[Message]
) -> tuple[list[Message], GCResult]:
    limit = int(weigh(before) / share)
    budget = InstructionBudget.create_default(limit)
    budget.follow(lambda: before, count_message)
    usage = {"percent_used": 100 * share, "total_tokens": weigh(before), "context_limit": limit}
    return plugin.collect(before, usage, DOWN, GCTriggerReason.THRESHOLD, budget)  # type: ignore[arg-type]


each_setting = pytest.mark.parametrize("setting", ["economy", "quality"])


@each_setting
def test_of_two_equal_reads_one_stays_and_the_only_copy_of_a_fact_stays(setting: str) -> None:
    kept, result = collect(0.9, setting=setting)
    said = str(kept)
    assert "deploy_4711" in said
    assert said.count("handler_30(request)") == 1
    assert unpaired(kept) == set()
    assert result.success
    assert result.tokens_freed > 0
    assert result.tokens_after == weigh(kept)


@each_setting
def test_it_stops_at_the_target_and_says_what_went_and_why(setting: str) -> None:
    kept, result = collect(0.9, setting=setting)
    limit = weigh(history()) / 0.9
    assert weigh(kept) <= 0.6 * limit
    assert result.plugin_name == "gc_coverage"
    assert {item.reason for item in result.removal_list} <= {"trim", "stash"}
    assert sum(item.tokens_freed for item in result.removal_list) >= result.tokens_freed
    assert "summary_keys" not in result.details


def test_economy_is_the_default_and_another_word_is_refused_with_those_there_are() -> None:
    assert collect(0.9)[0] == collect(0.9, setting="economy")[0]
    with pytest.raises(BadInput, match="setting is 'thrift'; expected economy or quality"):
        load_gc_plugin("gc_coverage", {"setting": "thrift"})


def test_a_notice_says_that_whole_messages_went_and_can_be_switched_off() -> None:
    template = "gone: {items} by {plugin}"
    kept, result = collect(3.0, notify_on_gc=True, notification_template=template)
    assert result.notification is not None
    assert result.notification.endswith("by gc_coverage")
    assert result.notification in str([message.text for message in kept])
    quiet, silent = collect(3.0, notify_on_gc=False)
    assert silent.notification is None
    assert "gc_notice" not in str(ids(quiet))


def test_recent_turns_stay_with_their_newest_exchanges() -> None:
    before = history()
    kept, _ = collect(0.9, before, preserve_recent_turns=2)
    assert ids(kept) == ids(before), "their bulky results are trimmed, and nothing else is"
    for old, new in zip(before, kept, strict=True):
        if old != new:
            assert str(new.function_responses[0].result).count("[marksweep: ") == 1


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "gemini"])
def test_what_is_left_is_written_as_the_provider_wants_it(dialect: str) -> None:
    messages = list(read(written(history(), dialect), dialect).messages)
    kept, result = collect(0.9, messages)
    raw = written(kept, dialect)
    assert validate(raw, dialect) == []
    assert "deploy_4711" in str(raw)
    assert result.tokens_freed > 0


@pytest.fixture
def read_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ids of the messages whose text was read."""
    names: list[str] = []

    def noting(message: Message) -> Iterator[Text]:
        names.append(message.message_id)
        return texts_of(message)

    monkeypatch.setattr("marksweep.heaps.conversation.texts_of", noting)
    return names


def test_each_message_is_read_once_however_often_is_collected(read_names: list[str]) -> None:
    plugin = load_gc_plugin("gc_coverage")
    kept, _ = collect_by(plugin, 0.9, history())
    assert read_names == ids(history())
    assert kept != history(), "something was shortened, and is known in its new form"
    read_names.clear()
    more = [say(Role.USER, "u2"), say(Role.MODEL, "m2")]
    collect_by(plugin, 0.9, [*kept, *more])
    assert read_names == ["u2", "m2"]


def test_other_content_under_a_known_name_is_read_again(read_names: list[str]) -> None:
    plugin = load_gc_plugin("gc_coverage")
    before = history()
    collect_by(plugin, 0.9, before)
    read_names.clear()
    changed = [*before[:3], *read_file(1, "notes.md", listing(200, 400)), *before[5:]]
    kept, _ = collect_by(plugin, 0.9, changed)
    assert "r1" in read_names
    assert "handler_2" in str(kept)
    assert "deploy_4711" not in str(kept)


def test_ids_that_are_given_to_other_messages_mix_nothing_up() -> None:
    plugin = load_gc_plugin("gc_coverage")
    one = history()
    other = [Message(m.role, tuple(map(_of_another, m.parts)), m.message_id) for m in one]
    for before, foreign in ((one, "widget_"), (other, "handler_")) * 2:
        kept, _ = collect_by(plugin, 0.9, before)
        assert ids(kept)
        assert kept != before
        assert foreign not in str(kept)
        collect_by(plugin, 0.9, [say(Role.USER, "u0")])


def _of_another(part: Part) -> Part:
    result = part.function_response
    if result is None:
        return part
    content = str(result.result).replace("handler_", "widget_").replace("deploy", "budget")
    return Part(function_response=ToolResult(result.call_id, result.name, content))


def test_of_messages_that_left_the_history_no_more_are_remembered_than_are_in_it(
    read_names: list[str],
) -> None:
    plugin = load_gc_plugin("gc_coverage")
    collect_by(plugin, 0.9, history())
    read_names.clear()
    collect_by(plugin, 0.9, history())
    assert "m1" not in read_names
    collect_by(plugin, 0.5, [say(Role.USER, "x0"), say(Role.MODEL, "x1")])
    read_names.clear()
    collect_by(plugin, 0.9, history())
    assert read_names == ids(history())


def test_after_shutdown_it_knows_nothing(read_names: list[str]) -> None:
    plugin = load_gc_plugin("gc_coverage")
    collect_by(plugin, 0.9, history())
    read_names.clear()
    plugin.shutdown()
    assert collect_by(plugin, 0.9, history())[0] == collect(0.9)[0]
    assert read_names == [*ids(history()), *ids(history())]
