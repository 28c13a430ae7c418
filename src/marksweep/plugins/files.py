"""Configuration as JSON: a file, a profile with a `gc` field, or a value passed in line.

Two shapes are read, and mean the same:

    {"type": "hybrid", "threshold_percent": 80.0, "notify_on_gc": true, "plugin_config": {}}
    {"plugin": "gc_budget", "config": {"target_percent": 60.0, "notify_on_gc": true}}

Which one counts, first to last: a plugin set by the program; the value passed in line; the
profile's `gc`; the file `.marksweep/gc.json`, then `.jaato/gc.json`. The first that exists counts
whole; they are not mixed. Within it, an option in `plugin_config` overrides the same option
beside it, and what is not said comes from the environment, then from the defaults. Keys that start
with an underscore are comments; an option that only another plugin has is ignored with a warning. A
model on another machine that a file of the project names is refused until the user has agreed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from marksweep.errors import BadInput, NotFound
from marksweep.paths import read_config
from marksweep.plugins.base import GCConfig, GCPlugin
from marksweep.plugins.checks import check_keys, check_object, without_comments
from marksweep.plugins.discovery import load_gc_plugin
from marksweep.plugins.options import IN_FILES
from marksweep.settings.trust import Claim, claim_of, require_trust

GC_FILES = (Path(".marksweep/gc.json"), Path(".jaato/gc.json"))
"""Where the configuration of a project is looked for; the first that exists counts."""

PROFILE_FOLDERS = (Path(".marksweep/profiles"), Path(".jaato/profiles"))
"""Where profiles are looked for, as `<name>.json`."""

DEFAULT_TYPE = "gc_truncate"

_TYPED, _NAMED = "type", "plugin"
_CONFIG = frozenset(GCConfig.__struct_fields__)


class GCSpec(msgspec.Struct, frozen=True):
    """A plugin by name, its configuration and its options: what each way of configuring gives."""

    plugin: str
    config: GCConfig
    options: Mapping[str, object] = {}

    def load(self) -> tuple[GCPlugin, GCConfig]:
        """Make the plugin."""
        return load_gc_plugin(self.plugin, self.options), self.config


class Profile(msgspec.Struct, frozen=True):
    """A kind of agent: its name, its plugins, and how it collects."""

    name: str
    description: str = ""
    plugins: tuple[str, ...] = ()
    system_instructions: str = ""
    model: str | None = None
    gc: Mapping[str, object] | None = None


def read_gc(plain: object, origin: str) -> GCSpec:
    """Read either shape. `origin` says in errors where it came from."""
    if not isinstance(plain, Mapping):
        raise BadInput(f"{origin} is a {type(plain).__name__}; expected an object.")
    if _NAMED in plain:
        check_keys(origin, plain, frozenset({_NAMED, "config"}))
        name, given = plain[_NAMED], plain.get("config") or {}
        origin = f"config in {origin}"
    else:
        name = plain.get(_TYPED)
        given = {key: value for key, value in plain.items() if key != _TYPED}
        check_keys(origin, given, _CONFIG | IN_FILES | {_TYPED})
    if not isinstance(given, Mapping):
        raise BadInput(f"{origin} is a {type(given).__name__}; expected an object.")
    check_keys(origin, given, _CONFIG | IN_FILES)
    if name is not None and not isinstance(name, str):
        raise BadInput(f"type is {name!r} in {origin}; expected the name of a GC plugin.")
    return _spec(name or DEFAULT_TYPE, given, origin)


def load_gc_from_file(path: Path | str | None = None) -> tuple[GCPlugin, GCConfig] | None:
    """Load a plugin as a file says; None if there is no file.

    Without a path, the project's own file is looked for in the current directory.
    """
    spec = read_gc_file(path)
    return spec.load() if spec else None


def read_gc_file(path: Path | str | None = None) -> GCSpec | None:
    """Read a configuration file; None if there is none."""
    for candidate in GC_FILES if path is None else (Path(path),):
        if candidate.exists():
            spec = read_gc(read_config(candidate), str(candidate))
            if path is None:
                require_trust(_claims(spec, candidate))
            return spec
    return None


def load_profile(name: str, folders: Iterable[Path] = PROFILE_FOLDERS) -> Profile:
    """Read the profile of that name. Fields that concern the host alone are skipped."""
    folders = tuple(folders)
    for folder in folders:
        path = folder / f"{name}.json"
        if path.exists():
            profile, claims = _read_profile(path)
            require_trust(claims)
            return profile
    raise NotFound(f"no profile {name!r} in {', '.join(map(str, folders))}.")


def project_claims() -> tuple[Claim, ...]:
    """List the remote models to which the project's own files send conversations."""
    specs = [(read_gc(read_config(path), str(path)), path) for path in GC_FILES if path.exists()]
    profiles = [path for folder in PROFILE_FOLDERS for path in sorted(folder.glob("*.json"))]
    return (
        *(claim for spec, path in specs for claim in _claims(spec, path)),
        *(claim for path in profiles for claim in _read_profile(path)[1]),
    )


def choose_gc(
    *,
    inline: Mapping[str, object] | None = None,
    profile: Profile | None = None,
    path: Path | str | None = None,
) -> GCSpec | None:
    """Pick the configuration that counts; None if nobody configured anything."""
    if inline is not None:
        check_object("inline_config", inline)
        check_keys("inline_config", inline, frozenset({"gc"}))
        if inline.get("gc") is not None:
            return read_gc(inline["gc"], "inline_config.gc")
    if profile is not None and profile.gc is not None:
        return read_gc(profile.gc, f"gc in the profile {profile.name!r}")
    return read_gc_file(path)


def _spec(name: str, given: Mapping[str, object], origin: str) -> GCSpec:
    said = without_comments(given)
    beside = {key: said.pop(key) for key in (IN_FILES - _CONFIG) & said.keys()}
    try:
        config = GCConfig(**said)  # type: ignore[arg-type]
    except BadInput as error:
        raise BadInput(f"{origin}: {error}") from error
    return GCSpec(name, config, {**beside, **config.plugin_config})


def _read_profile(path: Path) -> tuple[Profile, tuple[Claim, ...]]:
    try:
        profile = msgspec.convert(read_config(path), Profile)
    except msgspec.ValidationError as error:
        raise BadInput(f"{path} is not a profile: {error}.") from error
    return profile, () if profile.gc is None else _claims(read_gc(profile.gc, str(path)), path)


def _claims(spec: GCSpec, path: Path) -> tuple[Claim, ...]:
    """Return the model that a file of the project names, unless it runs on this machine."""
    summarizer = spec.options.get("summarizer")
    if not isinstance(summarizer, Mapping):
        return ()
    variable = summarizer.get("api_key_env")
    key = "summarizer.endpoint" + (f", sent the key in {variable}," if variable else "")
    claim = claim_of(Path(), str(path), key, str(summarizer.get("endpoint", "")))
    return (claim,) if claim else ()
