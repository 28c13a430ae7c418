"""GCConfig: its defaults, the environment, and impossible values."""

from __future__ import annotations

import math

import pytest

from marksweep.errors import BadInput
from marksweep.plugins import GCConfig


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for prefix in ("MARKSWEEP", "JAATO"):
        for name in ("THRESHOLD", "TARGET", "PRESSURE"):
            monkeypatch.delenv(f"{prefix}_GC_{name}", raising=False)


def test_threshold_percent_is_80_by_default() -> None:
    assert GCConfig().threshold_percent == 80.0


def test_target_percent_is_60_by_default() -> None:
    assert GCConfig().target_percent == 60.0


def test_pressure_percent_is_90_by_default() -> None:
    assert GCConfig().pressure_percent == 90.0


def test_max_turns_is_none_by_default() -> None:
    assert GCConfig().max_turns is None


def test_auto_trigger_is_on_by_default() -> None:
    assert GCConfig().auto_trigger is True


def test_check_before_send_is_on_by_default() -> None:
    assert GCConfig().check_before_send is True


def test_preserve_recent_turns_is_5_by_default() -> None:
    assert GCConfig().preserve_recent_turns == 5


def test_pinned_turn_indices_is_empty_by_default_and_takes_a_list() -> None:
    assert GCConfig().pinned_turn_indices == []
    assert GCConfig(pinned_turn_indices=(3, 1)).pinned_turn_indices == [3, 1]


def test_continuous_is_off_by_default() -> None:
    assert GCConfig().continuous is False


@pytest.mark.parametrize(
    ("variable", "field", "value"),
    [
        ("THRESHOLD", "threshold_percent", 70.0),
        ("TARGET", "target_percent", 40.0),
        ("PRESSURE", "pressure_percent", 95.0),
    ],
)
def test_each_percentage_is_read_from_the_environment_and_our_name_goes_first(
    variable: str, field: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"JAATO_GC_{variable}", str(value))
    assert getattr(GCConfig(), field) == value
    monkeypatch.setenv(f"MARKSWEEP_GC_{variable}", str(value + 1))
    assert getattr(GCConfig(), field) == value + 1


def test_a_given_value_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARKSWEEP_GC_THRESHOLD", "70")
    assert GCConfig(threshold_percent=75.0).threshold_percent == 75.0


@pytest.mark.parametrize("text", ["lots", "-3", "130", "nan"])
def test_nonsense_in_the_environment_names_the_variable(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAATO_GC_TARGET", text)
    with pytest.raises(BadInput, match="JAATO_GC_TARGET is"):
        GCConfig()


@pytest.mark.parametrize(
    ("variable", "value", "field", "used"),
    [
        ("TARGET", "85", "target_percent", 80.0),
        ("PRESSURE", "70", "pressure_percent", 80.0),
    ],
)
def test_what_the_environment_asks_for_and_does_not_fit_is_clamped_with_a_warning(  # noqa: PLR0917
    variable: str,
    value: str,
    field: str,
    used: float,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv(f"MARKSWEEP_GC_{variable}", value)
    assert getattr(GCConfig(), field) == used
    assert f"MARKSWEEP_GC_{variable} is {value}" in caplog.text
    assert "does not fit the threshold 80; 80 is used" in caplog.text


def test_the_environment_gives_way_to_a_threshold_that_was_given(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MARKSWEEP_GC_TARGET", "85")
    assert GCConfig(threshold_percent=40.0).target_percent == 40.0
    monkeypatch.setenv("MARKSWEEP_GC_TARGET", "20")
    monkeypatch.setenv("MARKSWEEP_GC_PRESSURE", "85")
    assert GCConfig(threshold_percent=90.0).pressure_percent == 90.0
    assert caplog.text.count("is used") == 2


def test_a_threshold_of_the_environment_gives_way_to_a_target_or_pressure_that_was_given(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("JAATO_GC_THRESHOLD", "50")
    assert GCConfig(target_percent=60.0).threshold_percent == 60.0
    monkeypatch.setenv("JAATO_GC_THRESHOLD", "95")
    assert GCConfig(pressure_percent=85.0).threshold_percent == 85.0
    assert "JAATO_GC_THRESHOLD is 95" in caplog.text


def test_values_that_fit_are_taken_without_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in (("THRESHOLD", "70"), ("TARGET", "70"), ("PRESSURE", "70")):
        monkeypatch.setenv(f"JAATO_GC_{name}", value)
    config = GCConfig()
    assert (config.threshold_percent, config.target_percent, config.pressure_percent) == (70,) * 3
    assert GCConfig(threshold_percent=5.0).pressure_percent == 70
    assert caplog.text.count("is used") == 1, "only the target had to go down"


@pytest.mark.parametrize("nothing", [0, 0.0, None])
def test_no_pressure_is_continuous_and_leaves_what_is_preservable_alone(nothing: object) -> None:
    config = GCConfig(pressure_percent=nothing)  # type: ignore[arg-type]
    assert (config.continuous, config.pressure_percent) == (True, 0.0)
    assert config.limits(1_000).hard_limit == 1_000


def test_no_pressure_in_the_environment_is_continuous_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAATO_GC_PRESSURE", "0")
    assert GCConfig().continuous is True


def test_a_default_gives_way_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARKSWEEP_GC_THRESHOLD", "40")
    assert GCConfig().target_percent == 30.0
    monkeypatch.setenv("MARKSWEEP_GC_THRESHOLD", "95")
    assert GCConfig().pressure_percent == 95.0


def test_a_low_threshold_draws_the_default_target_down_with_it() -> None:
    config = GCConfig(threshold_percent=5.0)
    assert config.target_percent == 3.75
    assert config.pressure_percent == 90.0


def test_a_high_threshold_draws_the_default_pressure_up_with_it() -> None:
    assert GCConfig(threshold_percent=95.0).pressure_percent == 95.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"threshold_percent": 0}, "threshold_percent is 0; expected a number above 0"),
        ({"threshold_percent": 101}, "threshold_percent is 101; .* at most 100"),
        ({"threshold_percent": "80"}, "threshold_percent is '80'"),
        ({"threshold_percent": float("nan")}, "threshold_percent is nan"),
        ({"target_percent": 90}, "target_percent is 90; .* at most 80 .the threshold."),
        ({"target_percent": -1}, "target_percent is -1; .* at least 0"),
        ({"pressure_percent": 70}, "pressure_percent is 70; .* at least 80 .the threshold."),
        ({"pressure_percent": 101}, "pressure_percent is 101; .* at most 100"),
        ({"max_turns": 0}, "max_turns is 0; expected a whole number of at least 1"),
        ({"max_turns": 2.5}, "max_turns is 2.5"),
        ({"preserve_recent_turns": -1}, "preserve_recent_turns is -1; .* at least 0"),
        ({"pinned_turn_indices": [1, -2]}, "pinned_turn_indices is -2"),
        ({"pinned_turn_indices": 3}, "pinned_turn_indices is 3; expected a list of turns"),
        ({"pinned_turn_indices": "12"}, "pinned_turn_indices is '12'; expected a list of turns"),
        ({"plugin_config": [1]}, r"plugin_config is \[1\]; expected an object"),
        ({"auto_trigger": 1}, "auto_trigger is 1; expected true or false"),
        ({"check_before_send": "yes"}, "check_before_send is 'yes'"),
        ({"continuous": None}, "continuous is None"),
    ],
)
def test_an_impossible_value_names_the_key_the_value_and_the_range(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        GCConfig(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 10**400, "x"])
@pytest.mark.parametrize(
    "name",
    [
        "threshold_percent",
        "target_percent",
        "pressure_percent",
        "preserve_recent_turns",
        "max_turns",
    ],
)
def test_what_is_not_a_number_one_can_work_with_is_refused_in_a_few_words(
    name: str, value: object
) -> None:
    with pytest.raises(BadInput, match=f"{name} is ") as refused:
        GCConfig(**{name: value})  # type: ignore[arg-type]
    assert len(str(refused.value)) < 200
