"""Which GC plugins there are: the built-in ones, and those of installed packages.

A package offers a plugin by an entry point in the group `marksweep.gc_plugins` (or
`jaato.gc_plugins`) that names a function returning the plugin. One that cannot be loaded is
reported by name; the others still load.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

import msgspec

from marksweep.errors import BadInput, MarksweepError, UnknownName
from marksweep.plugins.base import PLUGIN_NEEDS, GCPlugin

GROUPS = ("marksweep.gc_plugins", "jaato.gc_plugins")
"""Entry point groups, in the order in which they are read. A name that is taken stays taken."""

BUILT_IN = (
    "gc_truncate",
    "gc_summarize",
    "gc_hybrid",
    "gc_budget",
    "gc_superseded",
    "gc_coverage",
)
"""The plugins that come with marksweep: one module each, with a `create_plugin`."""

PREFIX = "gc_"

Factory = Callable[[], GCPlugin]

_log = logging.getLogger(__name__)


class BrokenPlugin(msgspec.Struct, frozen=True):
    """An entry point that returns no plugin, and why."""

    name: str
    package: str
    error: str


class Survey(msgspec.Struct, frozen=True):
    """What was found: plugins that load, and those that do not."""

    plugins: Mapping[str, Factory]
    broken: tuple[BrokenPlugin, ...] = ()


def survey_gc_plugins() -> Survey:
    """Look for plugins, and try to import each."""
    plugins: dict[str, Factory] = {
        name: import_module(f"marksweep.plugins.{name}").create_plugin for name in BUILT_IN
    }
    broken = []
    origin: dict[str, str] = {}
    for entry in (entry for group in GROUPS for entry in entry_points(group=group)):
        if entry.name in plugins:
            if origin.get(entry.name) != entry.value:
                taken = origin.get(entry.name, "marksweep itself")
                broken.append(_broken(entry, f"the name is taken by {taken}"))
            continue
        factory = _load(entry)
        if isinstance(factory, BrokenPlugin):
            broken.append(factory)
        else:
            plugins[entry.name] = factory
            origin[entry.name] = entry.value
    return Survey(plugins, tuple(broken))


def discover_gc_plugins() -> Mapping[str, Factory]:
    """The plugins that can be loaded, by name. The others are logged as warnings."""
    survey = survey_gc_plugins()
    for plugin in survey.broken:
        _log.warning("GC plugin %s of %s: %s", plugin.name, plugin.package, plugin.error)
    return survey.plugins


def load_gc_plugin(name: str, config: Mapping[str, object] | None = None) -> GCPlugin:
    """Make a plugin and give it its options. `truncate` is short for `gc_truncate`."""
    factory = _built_in(name) or _offered(name)
    try:
        plugin = factory()
        if isinstance(plugin, GCPlugin):
            plugin.initialize(config)
            return plugin
    except MarksweepError:
        raise
    except Exception as error:
        raise BadInput(
            f"the GC plugin {name!r} cannot be started: {type(error).__name__}: {error}. "
            "Fix its options or the package that provides it."
        ) from error
    raise BadInput(
        f"{name!r} made a {type(plugin).__name__}, which is not a GCPlugin: {PLUGIN_NEEDS}."
    )


def _built_in(name: str) -> Factory | None:
    """Find a built-in plugin. Looking at installed packages takes a hundred times as long."""
    for known in (name, PREFIX + name):
        if known in BUILT_IN:
            made: Factory = import_module(f"marksweep.plugins.{known}").create_plugin
            return made
    return None


def _offered(name: str) -> Factory:
    survey = survey_gc_plugins()
    factory = survey.plugins.get(name) or survey.plugins.get(PREFIX + name)
    if factory is not None:
        return factory
    for broken in survey.broken:
        if broken.name in {name, PREFIX + name}:
            raise BadInput(
                f"the GC plugin {broken.name!r} of {broken.package} cannot be loaded: "
                f"{broken.error}. Fix or remove that package."
            )
    raise UnknownName(
        f"no GC plugin named {name!r}; known are {', '.join(sorted(survey.plugins))}. "
        "Install the package that provides it, or pass a plugin object."
    )


def _load(entry: EntryPoint) -> Factory | BrokenPlugin:
    try:
        factory = entry.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a third-party module does
        return _broken(entry, f"{type(error).__name__}: {error}")
    if not callable(factory):
        return _broken(entry, f"{entry.value} is not a function")
    made: Factory = factory
    return made


def _broken(entry: EntryPoint, error: str) -> BrokenPlugin:
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"
    return BrokenPlugin(entry.name, package, error)
