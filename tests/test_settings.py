"""Settings: one precedence; impossible values are refused with key, value, range and source."""

from __future__ import annotations

import json
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marksweep import increment
from marksweep.core import budget, score
from marksweep.core.budget import Budget
from marksweep.core.plan import Prices
from marksweep.core.score import SeedAge, SeedRetention, Weights
from marksweep.errors import BadInput, UnknownName
from marksweep.model import Segment
from marksweep.settings import Scoring, Settings, Steps, Store, Window, load_settings
from marksweep.testing.builders import NOW


def write(folder: Path, text: str, name: str = "settings.toml") -> Path:
    path = folder / ".marksweep" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def load(folder: Path, environment: dict[str, str] | None = None, **explicit: object) -> Settings:
    return load_settings(folder, explicit=explicit, environment=environment or {})


class TestDefaults:
    def test_they_are_the_constants_of_the_code(self) -> None:
        settings = Settings()
        assert settings.window.budget() == Budget.of(128_000)
        assert settings.window.threshold_percent == budget.SOFT_PERCENT
        assert settings.steps == Steps(
            batch=increment.MAX_BATCH_UNITS, sample=increment.SAMPLE_SEGMENTS
        )
        assert settings.roots.last_messages == 10
        assert settings.roots.decision_hours == 1
        assert settings.prices == Prices()

    def test_the_default_scorer_is_the_one_of_the_code(self) -> None:
        segment = Segment(segment_id="a", type="log", created_at=NOW - timedelta(hours=3))
        assert Scoring().build()(segment, NOW) == score.seed_age(segment, NOW)
        other = Scoring(scorer="seed_retention").build()
        assert other(segment, NOW) == score.seed_retention(segment, NOW)

    def test_without_file_and_environment_there_are_only_defaults(self, tmp_path: Path) -> None:
        assert load(tmp_path) == Settings()

    def test_they_survive_being_saved(self) -> None:
        settings = Settings(window=Window(limit_tokens=5), store=Store(workspace="w"))
        saved = msgspec.json.encode(settings)
        assert msgspec.json.decode(saved, type=Settings) == settings

    def test_every_value_says_what_it_means(self) -> None:
        """Each field of each group is followed by a docstring."""
        import marksweep.settings.groups as module

        source = Path(module.__file__).read_text("utf-8")
        fields = list(re.finditer(r"^    \w+: .+ = .+\n(?P<next>.+)", source, re.MULTILINE))
        assert len(fields) > 20
        groups = {"window: Window", "roots: Roots", "scoring: Scoring", "store: Store"}
        groups |= {"retention: Retention", "steps: Steps"}
        for field in fields:
            if not any(field[0].strip().startswith(group) for group in groups):
                assert field["next"].lstrip().startswith('"""'), field[0]


class TestPrecedence:
    def test_each_source_overrides_the_one_below_it(self, tmp_path: Path) -> None:
        assert load(tmp_path).window.threshold_percent == 90
        write(tmp_path, "[window]\nthreshold_percent = 70\ntarget_percent = 40")
        assert load(tmp_path).window.threshold_percent == 70
        environment = {"MARKSWEEP_GC_THRESHOLD": "75"}
        assert load(tmp_path, environment).window.threshold_percent == 75
        settings = load(tmp_path, environment, window={"threshold_percent": 65})
        assert settings.window.threshold_percent == 65
        assert settings.window.target_percent == 40, "each key on its own"

    @pytest.mark.parametrize("name", ["THRESHOLD", "TARGET", "PRESSURE"])
    def test_the_older_variable_names_are_accepted_and_give_way(
        self, tmp_path: Path, name: str
    ) -> None:
        value = {"THRESHOLD": 71.5, "TARGET": 31.5, "PRESSURE": 91.5}[name]
        key = f"{name.lower()}_percent"
        environment = {f"JAATO_GC_{name}": str(value)}
        assert getattr(load(tmp_path, environment).window, key) == value
        environment[f"MARKSWEEP_GC_{name}"] = str(value + 1)
        assert getattr(load(tmp_path, environment).window, key) == value + 1

    def test_an_empty_variable_is_not_set(self, tmp_path: Path) -> None:
        environment = {"MARKSWEEP_GC_TARGET": " ", "JAATO_GC_TARGET": "35"}
        assert load(tmp_path, environment).window.target_percent == 35

    def test_store_and_workspace_come_from_the_environment_as_text(self, tmp_path: Path) -> None:
        environment = {"MARKSWEEP_STORE": "redis://h/1", "MARKSWEEP_WORKSPACE": "42"}
        assert load(tmp_path, environment).store == Store("redis://h/1", "42")

    def test_the_real_environment_is_read_by_default(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MARKSWEEP_GC_TARGET", "12")
        assert load_settings(tmp_path).window.target_percent == 12


class TestFiles:
    CONTENT: ClassVar = {
        "window": {"limit_tokens": 32_000, "target_percent": 50},
        "scoring": {"scorer": "seed_retention", "weights": {"recency": 0.1}},
        "roots": {"invariant_tags": ["overview"]},
        "prices": {"cached": 0.25},
    }
    EXPECTED = Settings(
        window=Window(limit_tokens=32_000, target_percent=50),
        scoring=Scoring(scorer="seed_retention", weights=Weights(recency=0.1)),
        roots=msgspec.structs.replace(Settings().roots, invariant_tags=("overview",)),
        prices=Prices(cached=0.25),
    )

    def test_json_is_read(self, tmp_path: Path) -> None:
        write(tmp_path, json.dumps(self.CONTENT), "settings.json")
        assert load(tmp_path) == self.EXPECTED

    def test_toml_is_read(self, tmp_path: Path) -> None:
        write(
            tmp_path,
            """
            prices.cached = 0.25
            [window]
            limit_tokens = 32_000
            target_percent = 50
            [scoring]
            scorer = "seed_retention"
            weights.recency = 0.1
            [roots]
            invariant_tags = ["overview"]
            """,
        )
        assert load(tmp_path) == self.EXPECTED

    def test_one_type_can_be_given_its_importance_and_the_others_keep_theirs(
        self, tmp_path: Path
    ) -> None:
        write(tmp_path, "[scoring.dispensable]\nmessage = 0.9")
        scorer = load(tmp_path).scoring.build()
        assert isinstance(scorer, SeedAge)
        assert scorer.dispensable == {**score.DISPENSABLE, "message": 0.9}
        scorer = Scoring(scorer="seed_retention", importance={"log": 0.9}).build()
        assert isinstance(scorer, SeedRetention)
        assert scorer.importance == {**score.IMPORTANCE, "log": 0.9}

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("settings.toml", "window = {"),
            ("settings.json", '{"window": '),
            ("settings.json", "[1, 2]"),
            ("settings.json", '{"window": 3}'),
        ],
    )
    def test_a_damaged_file_is_named_and_left_alone(
        self, tmp_path: Path, name: str, text: str
    ) -> None:
        path = write(tmp_path, text, name)
        with pytest.raises(BadInput, match=re.escape(str(path))):
            load(tmp_path)
        assert path.read_text("utf-8") == text

    def test_a_file_that_is_not_text_is_named(self, tmp_path: Path) -> None:
        path = write(tmp_path, "")
        path.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(BadInput, match=re.escape(str(path))):
            load(tmp_path)

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("settings.toml", "window = " + "[" * 3_000 + "]" * 3_000),
            ("settings.toml", "window" + ".a" * 3_000 + " = 1"),
            ("settings.json", '{"window": ' + "[" * 3_000 + "]" * 3_000 + "}"),
            ("settings.json", "[" * 100_000),
            ("settings.json", '{"window": ' * 3_000 + "1" + "}" * 3_000),
            ("settings.json", '{"window": {"limit_tokens": ' + "[" * 900 + "]" * 900 + "}}"),
            ("settings.json", '{"window": {"limit_tokens": ' + "9" * 5_000 + "}}"),
            ("settings.toml", f"# {'x' * 1_000_000}"),
        ],
    )
    def test_a_file_made_to_break_its_reader_is_named_in_a_few_words(
        self, tmp_path: Path, name: str, text: str
    ) -> None:
        path = write(tmp_path, text, name)
        with pytest.raises(BadInput, match=re.escape(str(path))) as caught:
            load(tmp_path)
        assert len(str(caught.value)) < 500

    def test_a_pipe_in_place_of_the_file_is_refused_at_once(self, tmp_path: Path) -> None:
        (tmp_path / ".marksweep").mkdir()
        os.mkfifo(tmp_path / ".marksweep/settings.toml")
        with pytest.raises(BadInput, match="it is a pipe; expected a file"):
            load(tmp_path)

    @pytest.mark.parametrize(("target", "kind"), [("/dev/zero", "a device"), ("/", "a folder")])
    def test_a_device_or_a_folder_in_place_of_the_file_is_refused(
        self, tmp_path: Path, target: str, kind: str
    ) -> None:
        (tmp_path / ".marksweep").mkdir()
        (tmp_path / ".marksweep/settings.json").symlink_to(target)
        with pytest.raises(BadInput, match=kind):
            load(tmp_path)

    def test_a_home_that_does_not_exist_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match="no home folder '~nobody-here'"):
            load_settings("~nobody-here/project")
        with pytest.raises(BadInput, match="no home folder '~nobody-here'"):
            write(tmp_path, "store.location = '~nobody-here/x.db'") and load(tmp_path)

    def test_an_empty_file_gives_the_defaults(self, tmp_path: Path) -> None:
        write(tmp_path, "")
        assert load(tmp_path) == Settings()

    def test_two_files_are_one_too_many(self, tmp_path: Path) -> None:
        write(tmp_path, "")
        write(tmp_path, "{}", "settings.json")
        with pytest.raises(BadInput, match=r"settings\.toml and .*settings\.json"):
            load(tmp_path)


class TestUnknownKeys:
    def test_the_known_ones_are_listed_and_the_closest_is_offered(self, tmp_path: Path) -> None:
        path = write(tmp_path, "[window]\ntreshold_percent = 70")
        with pytest.raises(UnknownName) as caught:
            load(tmp_path)
        message = str(caught.value)
        assert str(path) in message
        assert "'window.treshold_percent'" in message
        assert "Did you mean 'threshold_percent'?" in message
        assert "limit_tokens, pays_within_turns, pressure_percent, target_percent" in message

    def test_groups_are_checked_too(self, tmp_path: Path) -> None:
        with pytest.raises(UnknownName, match="Did you mean 'window'"):
            load(tmp_path, windows={})
        with pytest.raises(UnknownName, match=r"'scoring\.weights\.refs'"):
            load(tmp_path, scoring={"weights": {"refs": 1}})

    def test_an_unknown_scorer_is_refused_with_its_source(self, tmp_path: Path) -> None:
        path = write(tmp_path, '[scoring]\nscorer = "age"')
        with pytest.raises(UnknownName, match=f"{re.escape(str(path))}.*'age'.*seed_age"):
            load(tmp_path)


IMPOSSIBLE = [
    ("window", "threshold_percent", -1, "from 0 to 100"),
    ("window", "threshold_percent", 100.5, "from 0 to 100"),
    ("window", "threshold_percent", float("nan"), "from 0 to 100"),
    ("window", "pressure_percent", float("inf"), "from 0 to 100"),
    ("window", "target_percent", "sixty", "from 0 to 100"),
    ("window", "target_percent", True, "from 0 to 100"),
    ("window", "target_percent", 91, "from 0 to 90"),
    ("window", "pressure_percent", 89, "from 90 to 100"),
    ("window", "limit_tokens", -5, "from 0 to 1,000,000,000,000,000"),
    ("window", "limit_tokens", 1.5, "a whole number"),
    ("roots", "last_messages", -1, "a whole number from 0"),
    ("roots", "decision_hours", -0.5, "a number from 0"),
    ("roots", "invariant_tags", "overview", "a list of texts"),
    ("scoring", "half_life_hours", 0, "above 0"),
    ("scoring", "dispensable", {"log": 2}, "from 0 to 1"),
    ("scoring", "weights", {"recency": -0.1}, "from 0 to 1"),
    ("scoring", "weights", {"recency": float("nan")}, "from 0 to 1"),
    ("scoring", "weights", {"recency": 0.9}, "at most 1"),
    ("scoring", "weights", {"recency": "high"}, "a number"),
    ("retention", "grace_hours", -1, "a number from 0"),
    ("retention", "grace_hours", 1e18, "a number from 0"),
    ("memory", "grace_days", 900_000, "above 0 up to 36,500"),
    ("memory", "life_days", {"agent": 1e9}, "above 0 up to 36,500"),
    ("store", "plan_days", 1e9, "above 0 up to 36,500"),
    ("steps", "batch", 4, "from 5 to 20"),
    ("steps", "batch", 21, "from 5 to 20"),
    ("prices", "cached", -1, "a number from 0"),
    ("store", "workspace", " ", "a name"),
    ("store", "location", 3, "a text"),
]


class TestImpossibleValues:
    @pytest.mark.parametrize(("group", "key", "value", "expected"), IMPOSSIBLE)
    def test_the_error_names_key_value_range_and_source(
        self, tmp_path: Path, group: str, key: str, value: object, expected: str
    ) -> None:
        content = json.dumps({group: {key: value}})
        path = write(tmp_path, content, "settings.json")
        with pytest.raises(BadInput) as caught:
            load(tmp_path)
        message = str(caught.value)
        assert str(path) in message
        assert f"{group}.{key}" in message
        assert expected in message
        shown = next(iter(value.values())) if isinstance(value, dict) else value
        assert str(shown) in message or expected == "at most 1" or not str(shown).strip()

    @pytest.mark.parametrize("text", ["lots", "nan", "-3", "101", "80 %", "1e400"])
    @pytest.mark.parametrize("name", ["MARKSWEEP_GC_THRESHOLD", "JAATO_GC_PRESSURE"])
    def test_a_bad_variable_is_named(self, tmp_path: Path, name: str, text: str) -> None:
        with pytest.raises(BadInput, match=f"{name}: window.*from 0 to 100"):
            load(tmp_path, {name: text})

    def test_a_combination_names_every_source(self, tmp_path: Path) -> None:
        path = write(tmp_path, "[window]\nthreshold_percent = 50\ntarget_percent = 20")
        with pytest.raises(BadInput) as caught:
            load(tmp_path, {"MARKSWEEP_GC_TARGET": "55"})
        for part in (str(path), "MARKSWEEP_GC_TARGET", "target_percent is 55", "percent 50"):
            assert part in str(caught.value)

    def test_a_group_made_by_hand_is_checked_as_well(self) -> None:
        with pytest.raises(BadInput, match=r"window.target_percent is 95"):
            Window(target_percent=95)
        with pytest.raises(BadInput, match=r"steps.batch is 50"):
            Steps(batch=50)
        with pytest.raises(BadInput, match=r"prices.write is nan"):
            Settings(prices=Prices(write=float("nan")))

    @given(*[st.floats(-10, 110, allow_nan=False)] * 3)
    def test_a_window_that_can_be_made_has_its_lines_in_order(
        self, threshold: float, target: float, pressure: float
    ) -> None:
        in_order = 0 <= target <= threshold <= pressure <= 100
        try:
            window = Window(
                threshold_percent=threshold, target_percent=target, pressure_percent=pressure
            )
        except BadInput:
            assert not in_order
        else:
            assert in_order
            lines = window.budget()
            assert lines.target <= lines.soft_limit <= lines.hard_limit <= lines.limit


def test_the_conversation_is_set_up_by_name_and_checked(tmp_path: Path) -> None:
    (tmp_path / ".marksweep").mkdir()
    path = tmp_path / ".marksweep/settings.toml"
    path.write_text(
        "[conversation]\nstrategy = 'superseded+mask'\noptions = {spare = 2}\n"
        "[scoring]\nscorer = 'seed_retention'\n"
    )
    found = load_settings(tmp_path, environment={})
    assert found.conversation.options == {"spare": 2}
    assert isinstance(found.scoring.build(), SeedRetention)
    for wrong, expected in (
        ("strategy = 'magic'", "no strategy named 'magic'"),
        ("strategy = 'mask'\noptions = {colour = 2}", "no option 'colour'"),
        ("strategy = 'mask'\noptions = {spare = 'x'}", r"options\.spare is 'x'"),
        ("preserve_recent_turns = -1", "preserve_recent_turns"),
    ):
        path.write_text(f"[conversation]\n{wrong}\n")
        with pytest.raises(BadInput, match=expected):
            load_settings(tmp_path, environment={})


def test_a_project_that_cannot_be_examined_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read: File name too long"):
        load_settings(tmp_path / ("a" * 300), environment={})
