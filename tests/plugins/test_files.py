"""Configuration from four sources: file, profile, inline, program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from marksweep.errors import BadInput, NotFound, NotTrusted, UnknownName
from marksweep.plugins import (
    GCConfig,
    GCTriggerReason,
    Profile,
    choose_gc,
    load_gc_from_file,
    load_gc_plugin,
    load_profile,
)
from marksweep.plugins.discovery import BUILT_IN
from marksweep.plugins.files import project_claims, read_gc
from marksweep.settings.trust import agree
from marksweep.testing.builders import NOW
from tests.plugins.histories import budget_for, full, ids, talk

HYBRID = {
    "type": "hybrid",
    "threshold_percent": 85.0,
    "preserve_recent_turns": 3,
    "notify_on_gc": False,
    "summarize_middle_turns": 2,
    "max_turns": None,
    "plugin_config": {},
}
BUDGET = {
    "plugin": "gc_budget",
    "config": {
        "preserve_recent_turns": 4,
        "target_percent": 50.0,
        "pressure_percent": 95.0,
        "notify_on_gc": True,
    },
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, plain: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(plain))
    return path


def test_the_typed_shape_is_read(project: Path) -> None:
    write(project / ".jaato/gc.json", HYBRID)
    loaded = load_gc_from_file()
    assert loaded is not None
    plugin, config = loaded
    assert plugin.name == "gc_hybrid"
    assert (config.threshold_percent, config.preserve_recent_turns) == (85.0, 3)
    assert config.max_turns is None


def test_the_named_shape_is_read(project: Path) -> None:
    write(project / ".marksweep/gc.json", BUDGET)
    loaded = load_gc_from_file()
    assert loaded is not None
    plugin, config = loaded
    assert plugin.name == "gc_budget"
    assert (config.target_percent, config.pressure_percent) == (50.0, 95.0)


def test_our_file_goes_before_the_other_and_is_not_mixed_with_it(project: Path) -> None:
    write(project / ".jaato/gc.json", HYBRID)
    write(project / ".marksweep/gc.json", {"type": "truncate"})
    loaded = load_gc_from_file()
    assert loaded is not None
    assert loaded[0].name == "gc_truncate"
    assert loaded[1] == GCConfig()


def test_a_path_may_be_given(project: Path) -> None:
    loaded = load_gc_from_file(write(project / "elsewhere.json", HYBRID))
    assert loaded is not None
    assert loaded[0].name == "gc_hybrid"


def test_a_missing_file_is_not_an_error(project: Path) -> None:
    assert load_gc_from_file() is None
    assert load_gc_from_file(project / "nothing.json") is None


def test_options_in_the_file_reach_the_plugin(project: Path) -> None:
    write(project / ".marksweep/gc.json", {**HYBRID, "threshold_percent": 50.0})
    loaded = load_gc_from_file()
    assert loaded is not None
    plugin, config = loaded
    history = talk(12)
    kept, result = plugin.collect(
        history,
        full(history, 1300),
        config,
        GCTriggerReason.THRESHOLD,
        budget_for(history, 1300),
    )
    assert result.notification is None
    assert result.details["turns_truncated"]
    assert ids(kept)[-6:] == [f"{who}{n}" for n in (9, 10, 11) for who in "um"]


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("type", None, "gc_truncate"),
        ("threshold_percent", None, 80.0),
        ("preserve_recent_turns", None, 5),
        ("max_turns", None, None),
        ("type", "summarize", "gc_summarize"),
        ("threshold_percent", 5.0, 5.0),
        ("preserve_recent_turns", 3, 3),
        ("max_turns", 40, 40),
    ],
)
def test_each_option_of_the_inline_table_is_read_and_has_its_default(
    option: str, value: object, expected: object
) -> None:
    spec = choose_gc(inline={"gc": {option: value}})
    assert spec is not None
    plugin, config = spec.load()
    assert (plugin.name if option == "type" else getattr(config, option)) == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [({}, True), ({"notify_on_gc": True}, True), ({"notify_on_gc": False}, False)],
)
def test_notify_on_gc_in_line_is_true_by_default(given: dict[str, object], said: bool) -> None:
    spec = read_gc({"threshold_percent": 50.0, **given}, "here")
    plugin, config = spec.load()
    history = talk(12)
    _, result = plugin.collect(
        history, full(history, 1300), config, GCTriggerReason.THRESHOLD, budget_for(history, 1300)
    )
    assert (result.notification is not None) is said


def test_summarize_middle_turns_in_line_is_for_hybrid() -> None:
    spec = choose_gc(inline={"gc": {"type": "hybrid", "summarize_middle_turns": 7}})
    assert spec is not None
    assert spec.options == {"summarize_middle_turns": 7}
    spec.load()


REAL_WORLD = {
    "_comment": "collect early, keep the gist",
    "type": "budget",
    "threshold_percent": 80.0,
    "target_percent": 60.0,
    "pressure_percent": 0,
    "preserve_recent_turns": 5,
    "summarize_middle_turns": 10,
    "notify_on_gc": True,
    "notification_template": "{removed} gone, {truncated} cut, {summarized} summed up, {kept} left",
    "auto_trigger": True,
    "check_before_send": True,
    "max_turns": None,
    "pinned_turn_indices": [],
    "plugin_config": {"_why": "nothing yet"},
}


@pytest.mark.parametrize("shape", ["typed", "named"])
def test_a_file_as_users_have_it_loads_and_what_does_not_apply_is_ignored_with_a_warning(
    shape: str, project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rest = {key: value for key, value in REAL_WORLD.items() if key != "type"}
    named = {"_comment": "two shapes", "plugin": "gc_budget", "config": rest}
    write(project / ".jaato/gc.json", REAL_WORLD if shape == "typed" else named)
    loaded = load_gc_from_file()
    assert loaded is not None
    plugin, config = loaded
    assert plugin.name == "gc_budget"
    assert (config.continuous, config.pressure_percent) == (True, 0.0)
    assert "gc_budget has no option 'summarize_middle_turns'; it is ignored" in caplog.text
    assert "_comment" not in caplog.text
    history = talk(12)
    usage = full(history, 1_700)
    assert plugin.should_collect(usage, config) == (True, GCTriggerReason.CONTINUOUS)
    _, result = plugin.collect(history, usage, config, GCTriggerReason.CONTINUOUS)
    count = result.items_collected
    assert result.notification is not None
    assert f"{count} gone, {count} cut, 0 summed up" in result.notification
    left = int(result.notification.split(" summed up, ")[1].split()[0])
    assert 5 <= left == 12 - count


@pytest.mark.parametrize("plugin", BUILT_IN)
def test_one_file_serves_every_type(plugin: str) -> None:
    loaded, _ = read_gc({**REAL_WORLD, "type": plugin}, "here").load()
    assert loaded.name == plugin


def test_a_template_counts_what_was_truncated_and_what_was_summarized() -> None:
    plain = {
        **HYBRID,
        "notify_on_gc": True,
        "notification_template": "{truncated}+{summarized}={removed}, {tokens_freed}={freed}",
        "threshold_percent": 50.0,
        "target_percent": 25.0,
    }
    plugin, config = read_gc(plain, "here").load()
    history = talk(12)
    _, result = plugin.collect(
        history, full(history, 1500), config, GCTriggerReason.THRESHOLD, budget_for(history, 1500)
    )
    assert result.notification is not None
    truncated, summarized = result.details["turns_truncated"], result.details["turns_summarized"]
    total = result.items_collected
    assert f"{truncated}+{summarized}={total}, " in result.notification
    assert truncated
    assert summarized


def test_plugin_config_goes_before_the_option_beside_it() -> None:
    spec = read_gc({"notify_on_gc": True, "plugin_config": {"notify_on_gc": False}}, "here")
    assert spec.options == {"notify_on_gc": False}


def test_a_profile_with_a_gc_field_is_read_and_the_hosts_fields_are_passed_over(
    project: Path,
) -> None:
    plain = {
        "name": "my-subagent",
        "description": "A specialised one",
        "plugins": ["cli", "file_edit"],
        "temperature": 0.3,
        "gc": HYBRID,
    }
    write(project / ".jaato/profiles/my-subagent.json", plain)
    profile = load_profile("my-subagent")
    assert profile.plugins == ("cli", "file_edit")
    spec = choose_gc(profile=profile)
    assert spec is not None
    assert spec.plugin == "hybrid"


def test_a_profile_that_is_missing_or_damaged_is_an_error(project: Path) -> None:
    with pytest.raises(NotFound, match="no profile 'ghost'"):
        load_profile("ghost")
    write(project / ".marksweep/profiles/odd.json", {"description": "nameless"})
    with pytest.raises(BadInput, match=r"odd\.json is not a profile"):
        load_profile("odd")


def test_inline_configuration_overrides_the_profile_and_the_profile_overrides_the_file(
    project: Path,
) -> None:
    write(project / ".marksweep/gc.json", {"type": "truncate"})
    profile = Profile("p", gc={"type": "hybrid"})
    inline = {"gc": {"type": "budget"}}
    picked = [
        choose_gc(inline=inline, profile=profile),
        choose_gc(profile=profile),
        choose_gc(profile=Profile("bare")),
    ]
    assert [spec.plugin for spec in picked if spec] == ["budget", "hybrid", "truncate"]


def test_nobody_configured_anything(project: Path) -> None:
    assert choose_gc() is None


def test_by_the_program() -> None:
    plugin = load_gc_plugin("gc_truncate", {"preserve_recent_turns": 10})
    assert plugin.name == "gc_truncate"
    assert load_gc_plugin("truncate").name == "gc_truncate"


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        (
            {"type": "truncate", "treshold": 5},
            r"unknown key 'treshold'; known are .*threshold_.*Did you mean 'threshold_percent'",
        ),
        ({"target_precent": 50}, r"Did you mean 'target_percent'\?"),
        ({"plugin": "gc_budget", "config": {"presure_percent": 0}}, r"Did you mean 'pressure_perc"),
        ({"plugin": "gc_budget", "config": {"x": 1}}, r"config in here .*unknown key 'x'"),
        ({"plugin": "gc_budget", "type": "b"}, r"unknown key 'type'; known are config, plugin"),
        ({"threshold_percent": 50, "target_percent": 60}, r"here: target_percent is 60"),
        ({"preserve_recent_turns": -2}, r"here: preserve_recent_turns is -2; .* at least 0"),
        ({"max_turns": -5}, r"here: max_turns is -5; .* at least 1"),
        ({"pinned_turn_indices": 3}, r"here: pinned_turn_indices is 3; expected a list"),
        ({"plugin_config": []}, r"here: plugin_config is \[\]; expected an object"),
        ({"plugin": "gc_budget", "config": [1]}, r"config in here is a list"),
        ({"type": 5}, r"type is 5 in here"),
        ([], r"here is a list; expected an object"),
    ],
)
def test_an_impossible_value_names_the_place_the_key_and_the_value(
    plain: object, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        read_gc(plain, "here")


def test_an_unknown_plugin_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"no GC plugin named 'magic'; known are gc_budget"):
        read_gc({"type": "magic"}, "here").load()


def test_a_file_that_is_not_json_names_the_file_and_the_place(project: Path) -> None:
    (project / "bad.json").write_text('{"type": ')
    with pytest.raises(BadInput, match=r"bad.json cannot be read: .*line 1 column"):
        load_gc_from_file(project / "bad.json")


@pytest.mark.parametrize("inline", [{"gc": {}, "model": "x"}, {"model": {"type": "hybrid"}}])
def test_an_inline_configuration_knows_only_gc(inline: dict[str, object]) -> None:
    with pytest.raises(BadInput, match="'model'; known are gc"):
        choose_gc(inline=inline)


def test_an_inline_configuration_that_is_not_an_object_is_refused() -> None:
    with pytest.raises(BadInput, match="inline_config is \\['gc'\\]; expected an object"):
        choose_gc(inline=["gc"])  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["[" * 100_000, "\udcff", ""])
def test_whatever_a_file_holds_the_error_names_it(project: Path, text: str) -> None:
    (project / "bad.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(BadInput, match=r"bad\.json cannot be read"):
        load_gc_from_file(project / "bad.json")


MODEL = {"endpoint": "https://models.example/v1", "model": "m"}


def test_a_remote_model_named_by_a_file_of_the_project_needs_the_users_consent(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "home"))
    monkeypatch.setenv("MODEL_KEY", "secret")
    path = write(project / ".marksweep/gc.json", {"type": "summarize", "summarizer": MODEL})
    profile = {"name": "p", "gc": {"type": "summarize", "summarizer": MODEL}}
    write(project / ".marksweep/profiles/p.json", profile)
    for load in (load_gc_from_file, lambda: load_profile("p")):
        with pytest.raises(NotTrusted, match=r"models\.example.*marksweep config trust"):
            load()
    assert load_gc_from_file(path), "a file that the program names is the program's word"
    agree(project_claims(), NOW)
    assert load_gc_from_file()
    assert load_profile("p")
    with_key = {"type": "summarize", "summarizer": {**MODEL, "api_key_env": "MODEL_KEY"}}
    write(project / ".marksweep/gc.json", with_key)
    with pytest.raises(NotTrusted, match="sent the key in MODEL_KEY"):
        load_gc_from_file()


def test_a_model_on_this_machine_needs_no_consent(project: Path) -> None:
    summarizer = {**MODEL, "endpoint": "http://localhost:11434/v1"}
    write(project / ".marksweep/gc.json", {"type": "summarize", "summarizer": summarizer})
    assert load_gc_from_file()
    assert project_claims() == ()
