"""Finding plugins: ours, those of installed packages, and those that are broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from marksweep.errors import BadInput
from marksweep.messages import Message
from marksweep.plugins import (
    ContextUsage,
    GCConfig,
    GCPlugin,
    GCResult,
    GCTriggerReason,
    discover_gc_plugins,
    load_gc_plugin,
)
from marksweep.plugins.base import takes_budget
from marksweep.plugins.discovery import BUILT_IN
from tests.plugins.histories import full, ids, talk

PLUGIN = """
from marksweep.plugins import GCPlugin, GCConfig, GCResult, GCTriggerReason

class MyPlugin:
    @property
    def name(self):
        return "gc_custom"

    def initialize(self, config=None):
        self.config = config or {}
        if self.config.get("a") == "fail":
            raise ZeroDivisionError("oops")

    def shutdown(self):
        pass

    def should_collect(self, context_usage, config):
        if context_usage.get("percent_used", 0) >= config.threshold_percent:
            return True, GCTriggerReason.THRESHOLD
        return False, None

    def collect(self, history, context_usage, config, reason):
        kept = history[-2:]
        return kept, GCResult(
            success=True,
            items_collected=len(history) - len(kept),
            tokens_before=len(history),
            tokens_after=len(kept),
            plugin_name=self.name,
            trigger_reason=reason,
        )

def create_plugin():
    return MyPlugin()

def failing():
    raise KeyError("no licence")

nothing = 5
"""

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "gc-custom"
version = "1.2"

[tool.hatch.build.targets.wheel]
include = ["gc_*.py"]

[project.entry-points."marksweep.gc_plugins"]
gc_custom = "gc_custom:create_plugin"
gc_broken = "gc_custom_absent:create_plugin"
gc_leaving = "gc_leaving:create_plugin"
gc_nothing = "gc_custom:nothing"
gc_failing = "gc_custom:failing"
gc_truncate = "gc_custom:create_plugin"

[project.entry-points."jaato.gc_plugins"]
gc_custom = "gc_custom:create_plugin"
gc_elder = "gc_custom:create_plugin"
"""

ASK = """
import json, logging
logging.basicConfig(level=logging.WARNING)
from marksweep.plugins import discover_gc_plugins, load_gc_plugin, survey_gc_plugins
from marksweep.plugins import GCConfig, GCTriggerReason
from marksweep.errors import BadInput

survey = survey_gc_plugins()
plugin = load_gc_plugin("custom", {"a": 1})
kept, result = plugin.collect([1, 2, 3, 4], {}, GCConfig(), GCTriggerReason.MANUAL)
def refusal(name, config=None):
    try:
        load_gc_plugin(name, config)
    except BadInput as error:
        return str(error)

print(json.dumps({
    "found": sorted(discover_gc_plugins()),
    "broken": {b.name: [b.package, b.error] for b in survey.broken},
    "kept": kept,
    "freed": result.tokens_freed,
    "config": plugin.config,
    "refused": refusal("gc_broken"),
    "not started": [refusal("gc_failing"), refusal("custom", {"a": "fail"})],
}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a third-party package as a wheel and install it into a separate directory."""
    source = tmp_path_factory.mktemp("gc-custom")
    (source / "gc_custom.py").write_text(PLUGIN)
    (source / "gc_leaving.py").write_text("import sys\nsys.exit('not here')\n")
    (source / "pyproject.toml").write_text(PROJECT)
    target = tmp_path_factory.mktemp("site")
    built = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet"]
    subprocess.run([*pip, "wheel", *offline, "-w", str(built), str(source)], check=True)
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert "gc_custom-1.2.dist-info/entry_points.txt" in archive.namelist()
    options = ["--no-deps", "--no-index", "--quiet", "--target", str(target)]
    subprocess.run([*pip, "install", *options, str(wheel)], check=True)
    return target


@pytest.fixture(scope="module")
def answer(installed: Path) -> dict[str, object]:
    """Return what a process that has the package installed finds."""
    path = os.pathsep.join([str(installed), *(entry for entry in sys.path if entry)])
    run = subprocess.run(
        [sys.executable, "-c", ASK],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    found: dict[str, object] = json.loads(run.stdout)
    found["warnings"] = run.stderr
    return found


def test_an_installed_plugin_is_found_in_both_groups(answer: dict[str, object]) -> None:
    assert answer["found"] == sorted([*BUILT_IN, "gc_custom", "gc_elder", "gc_failing"])


def test_a_plugin_without_a_budget_parameter_runs_unchanged(answer: dict[str, object]) -> None:
    assert (answer["kept"], answer["freed"], answer["config"]) == ([3, 4], 2, {"a": 1})


def test_a_broken_plugin_is_reported_by_name_and_takes_no_other_down(
    answer: dict[str, object],
) -> None:
    broken = answer["broken"]
    assert isinstance(broken, dict)
    assert set(broken) == {"gc_broken", "gc_leaving", "gc_nothing", "gc_truncate"}
    assert broken["gc_broken"][0] == "gc-custom 1.2"
    assert "gc_custom_absent" in broken["gc_broken"][1]
    assert "is not a function" in broken["gc_nothing"][1]
    assert "gc_broken of gc-custom 1.2" in str(answer["warnings"])
    assert "gc-custom 1.2 cannot be loaded" in str(answer["refused"])


def test_a_plugin_that_fails_to_start_is_reported_by_its_name(answer: dict[str, object]) -> None:
    assert answer["not started"] == [
        "the GC plugin 'gc_failing' cannot be started: KeyError: 'no licence'. "
        "Fix its options or the package that provides it.",
        "the GC plugin 'custom' cannot be started: ZeroDivisionError: oops. "
        "Fix its options or the package that provides it.",
    ]


def test_nobody_can_take_the_name_of_a_built_in_plugin(answer: dict[str, object]) -> None:
    broken = answer["broken"]
    assert isinstance(broken, dict)
    assert "taken by marksweep itself" in broken["gc_truncate"][1]


def test_discovery_lists_the_built_in_plugins() -> None:
    assert set(BUILT_IN) <= set(discover_gc_plugins())


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_plugin_fulfils_the_protocol(name: str) -> None:
    plugin = load_gc_plugin(name)
    assert isinstance(plugin, GCPlugin)
    assert plugin.name == name
    assert takes_budget(plugin)
    history = talk(10)
    config = GCConfig(threshold_percent=50, preserve_recent_turns=2)
    kept, result = plugin.collect(history, full(history, 1000), config, GCTriggerReason.THRESHOLD)
    assert isinstance(result, GCResult)
    assert (result.plugin_name, result.trigger_reason) == (name, GCTriggerReason.THRESHOLD)
    assert ids(kept)[:2] == ["system", "u0"]
    plugin.shutdown()


def test_something_that_is_not_a_plugin_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marksweep.plugins.gc_truncate.create_plugin", object)
    with pytest.raises(BadInput, match="made a object, which is not a GCPlugin"):
        load_gc_plugin("gc_truncate")


def test_a_plugin_without_a_budget_parameter_is_recognized() -> None:
    class Old:
        name = "gc_old"

        def initialize(self, config: object = None) -> None: ...

        def shutdown(self) -> None: ...

        def should_collect(
            self, context_usage: ContextUsage, config: GCConfig
        ) -> tuple[bool, None]:
            return False, None

        def collect(
            self,
            history: list[Message],
            context_usage: ContextUsage,
            config: GCConfig,
            reason: GCTriggerReason,
        ) -> None: ...

    assert not takes_budget(Old())  # type: ignore[arg-type]
