"""How settings are merged: explicit over environment over file over default."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from marksweep.errors import BadInput, UnknownName
from marksweep.paths import expanded, read_config
from marksweep.settings.checks import checked
from marksweep.settings.groups import Settings
from marksweep.settings.trust import Claim, claim_of, require_trust
from marksweep.stores.files import PROJECT_FOLDER

FOLDER = PROJECT_FOLDER
"""Where a project keeps its settings file, beside its store."""

FILES = ("settings.toml", "settings.json")
"""Names of a settings file. Only one of them may exist."""

VARIABLES: Mapping[str, str] = {
    "JAATO_GC_THRESHOLD": "window.threshold_percent",
    "JAATO_GC_TARGET": "window.target_percent",
    "JAATO_GC_PRESSURE": "window.pressure_percent",
    "MARKSWEEP_GC_THRESHOLD": "window.threshold_percent",
    "MARKSWEEP_GC_TARGET": "window.target_percent",
    "MARKSWEEP_GC_PRESSURE": "window.pressure_percent",
    "MARKSWEEP_STORE": "store.location",
    "MARKSWEEP_WORKSPACE": "store.workspace",
    "MARKSWEEP_MEMORY": "memory.location",
}
"""Environment variables and the keys they set; of two for one key, the later line wins."""


class Given(NamedTuple):
    """A value, and where it came from."""

    value: object
    source: str


Layer = dict[str, Given]
"""Values by dotted key."""

Shape = TypeVar("Shape", bound=msgspec.Struct)


def load_settings(
    folder: str | Path = ".",
    *,
    explicit: Mapping[str, object] | None = None,
    environment: Mapping[str, str] = os.environ,
    trusted: Collection[str] = (),
) -> Settings:
    """Read the settings of the project in `folder`.

    Raise NotTrusted if the project's own file sends the store or the memory to another host or out
    of the project, unless the user has agreed to that or it is one of `trusted`, as written.
    """
    settings, claims = _layered(folder, explicit or {}, environment)
    require_trust(claim for claim in claims if claim.location not in trusted)
    return settings


def project_claims(folder: str | Path = ".") -> tuple[Claim, ...]:
    """List where a project's settings send remembered content outside the project."""
    return _layered(folder, {}, os.environ)[1]


def _layered(
    folder: str | Path, explicit: Mapping[str, object], environment: Mapping[str, str]
) -> tuple[Settings, tuple[Claim, ...]]:
    project = expanded(folder)
    from_file = _from_file(project / FOLDER)
    from_user = _from_environment(environment)
    from_user |= dict(_flat(explicit, Settings, "explicit setting"))
    settings = _build(Settings, from_file | from_user, "")
    locations = {"store.location": settings.store.location}
    if settings.memory.location:
        locations["memory.location"] = settings.memory.location
    found = (
        claim_of(project, from_file[key].source if key in from_file else FOLDER, key, location)
        for key, location in locations.items()
        if key not in from_user
    )
    return settings, (
        *filter(None, found),
        *_secrets_claim(project, settings, from_file, from_user),
    )


def _secrets_claim(
    project: Path, settings: Settings, from_file: Layer, from_user: Layer
) -> Iterator[Claim]:
    """Yield a claim if a project's file asks to index the user's secrets."""
    key = "index.include"
    if key in from_file and key not in from_user and "secrets" in settings.index.include:
        yield Claim(str(project.resolve()), from_file[key].source, key, "secrets", "secrets")


def _from_environment(environment: Mapping[str, str]) -> Layer:
    """Read the environment. An empty variable counts as not set."""
    return {
        key: Given(_read(environment[name], key), name)
        for name, key in VARIABLES.items()
        if environment.get(name, "").strip()
    }


def _read(text: str, key: str) -> object:
    """Read a variable, as a number if its key takes one and it is one."""
    if not key.startswith("window."):
        return text
    try:
        return float(text)
    except ValueError:
        return text


def _from_file(folder: Path) -> Layer:
    """Read the settings file, if there is one."""
    try:
        there = [path for name in FILES if (path := folder / name).exists()]
    except OSError as error:
        raise BadInput(
            f"{error.filename} cannot be read: {error.strerror}. Check its permissions."
        ) from error
    if not there:
        return {}
    if len(there) > 1:
        raise BadInput(f"both {there[0]} and {there[1]} exist; expected one. Remove the other.")
    return dict(_flat(read_config(there[0]), Settings, str(there[0])))


def _flat(
    content: object, shape: type[msgspec.Struct], source: str, within: str = ""
) -> Iterator[tuple[str, Given]]:
    """Yield the values of nested tables by dotted key; refuse keys not in the shape."""
    if not isinstance(content, Mapping):
        place = f"{source}: {within[:-1]} is" if within else f"{source} holds"
        raise BadInput(f"{place} {reprlib.repr(content)}; expected a table of settings.")
    fields = {field.name: field.type for field in msgspec.structs.fields(shape)}
    for name, value in content.items():
        if name not in fields:
            raise UnknownName(_unknown(f"{within}{name}", str(name), sorted(fields), source))
        inner = fields[name]
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            yield from _flat(value, inner, source, f"{within}{name}.")
        else:
            yield f"{within}{name}", Given(value, source)


def _unknown(key: str, name: str, known: list[str], source: str) -> str:
    close = get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{source}: no setting {key!r}.{hint} Known here are {', '.join(known)}."


def _build(shape: type[Shape], given: Layer, within: str) -> Shape:
    """Build a struct from the given values; an error names their sources."""
    values: dict[str, object] = {}
    for field in msgspec.structs.fields(shape):
        key = f"{within}{field.name}"
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            values[field.name] = _build(field.type, given, f"{key}.")
        elif key in given:
            values[field.name] = _typed(key, given[key], field.type)
    try:
        return shape(**values)
    except BadInput as error:
        sources = {given[key].source for key in given if key.startswith(within)}
        raise type(error)(f"{', '.join(sorted(sources))}: {error}") from None


def _typed(key: str, given: Given, kind: object) -> object:
    """Refuse a value of the wrong type, or out of its range."""
    try:
        return checked(key, given.value, kind)
    except BadInput as error:
        raise BadInput(f"{given.source}: {error}") from None
