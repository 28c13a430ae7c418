"""Trust on first use: a project's own files cannot send the user's data elsewhere without consent.

A cloned repository contains its own `.marksweep/`. A location in it that leads to another host, or
to a path outside the project, is refused until the user has agreed to it: `marksweep config trust`.
Agreements are kept in the user's own configuration folder, each bound to the project's path and to
the exact location, links followed. Values from the environment or a caller need no consent.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from marksweep.errors import BadInput, NotTrusted
from marksweep.paths import expanded, is_folder, read_config
from marksweep.stores.files import (
    PROJECT_FOLDER,
    USERS_OWN,
    FileLock,
    make_folder,
    replace_file,
    unusable,
)
from marksweep.stores.location import BACKUPS, GRAPH_FILE, JSON_FILE, STORE_FILE, path_in
from marksweep.urls import redacted, split_scheme

FILE = "trust.json"
"""Where agreements are kept, in the user's configuration folder."""

COMMAND = "marksweep config trust"

_LOOPBACK = re.compile(
    r"[a-z+]+://([^@/?#\\\s]*@)?(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?(/[^?#\\\s]*)?",
    re.IGNORECASE,
)
"""A server on this machine, written so that all URL parsers agree on it."""


class Claim(msgspec.Struct, frozen=True):
    """A request in a project's own file that needs consent, mostly for a location elsewhere."""

    project: str
    """The project's folder, links followed."""
    source: str
    """The file that says so."""
    key: str
    location: str
    """As written."""
    target: str
    """What is agreed to: a URL, or a path with links followed."""

    @property
    def digest(self) -> str:
        """Identifies an agreement without revealing a password."""
        return sha256("\0".join((self.project, self.key, self.target)).encode()).hexdigest()

    def __str__(self) -> str:
        """Render it as text, without credentials."""
        written, target = redacted(self.location), redacted(self.target)
        leads = "" if written == target else f", which leads to {target!r}"
        return f"{self.source}: {self.key} is {written!r}{leads}"


class Agreement(msgspec.Struct, frozen=True):
    """What the user has agreed to, in a form that shows no password."""

    project: str
    key: str
    target: str
    digest: str
    agreed_at: datetime


def claim_of(project: Path, source: str, key: str, location: str) -> Claim | None:
    """Return the claim of a location; None if it stays within the project."""
    root = project.resolve()
    target = _target(root, location)
    return Claim(str(root), source, key, location, target) if target else None


def require_trust(claims: Iterable[Claim]) -> None:
    """Refuse claims that the user has not agreed to."""
    for claim in claims:
        if not is_agreed(claim):
            raise NotTrusted(
                f"{claim}. A project's own file may not send what is remembered out of the "
                "project, or have secrets read, before you have agreed to it. If you do, run "
                f"`{COMMAND}` in {claim.project}; if not, remove the line from {claim.source}."
            )


def is_agreed(claim: Claim) -> bool:
    """Return whether the user has agreed to exactly this."""
    return any(each.digest == claim.digest for each in _agreements())


def agree(claims: Iterable[Claim], now: datetime) -> None:
    """Remember that the user has agreed."""
    fresh = [
        Agreement(claim.project, claim.key, redacted(claim.target), claim.digest, now)
        for claim in claims
    ]
    digests = {each.digest for each in fresh}
    _rewrite(lambda each: each.digest not in digests, fresh)


def revoke(project: Path) -> bool:
    """Forget all agreements of a project; return whether there were any."""
    root = str(project.resolve())
    return _rewrite(lambda each: each.project != root, []) > 0


def trust_file() -> Path:
    """Return the path of the agreements file, in the user's configuration folder."""
    if sys.platform == "win32":
        above = Path(os.environ.get("APPDATA") or expanded("~/AppData/Roaming"))
    elif sys.platform == "darwin":
        above = expanded("~/Library/Application Support")
    else:
        named = Path(os.environ.get("XDG_CONFIG_HOME", ""))
        above = named if named.is_absolute() else expanded("~/.config")
    return above / "marksweep" / FILE


def _target(root: Path, location: str) -> str:
    """Return where a location leads; empty if into the project, to loopback or to memory."""
    is_socket = split_scheme(location)[0] == "unix"
    path = urlsplit(location).path if is_socket else path_in(location)
    if path is None:
        return "" if _LOOPBACK.fullmatch(location) or location == "memory:" else location
    whole = root / expanded(path)
    is_file = bool(whole.suffix) and not is_folder(whole)
    folder, main = (whole.parent, whole) if is_file else (whole, Path(JSON_FILE))
    is_ours = folder.name == PROJECT_FOLDER or split_scheme(location)[0] == "falkordb"
    names = ("",) if is_ours else (main.stem, STORE_FILE, GRAPH_FILE, BACKUPS)
    links = (each for each in _links_in(folder, root) if each.name.startswith(names))
    found = dict.fromkeys(each.resolve() for each in (whole, *links))
    return " and ".join(str(each) for each in found if not each.is_relative_to(root))


def _links_in(folder: Path, root: Path) -> list[Path]:
    """List the links in a folder of a project, except for files that users write."""
    if not folder.resolve().is_relative_to(root) or not folder.is_dir():
        return []
    found = (each for each in sorted(folder.iterdir()) if each.is_symlink())
    return [each for each in found if each.name not in USERS_OWN]


def _agreements() -> list[Agreement]:
    path = trust_file()
    if not path.exists():
        return []
    try:
        return msgspec.convert(read_config(path), list[Agreement])
    except msgspec.ValidationError as error:
        raise BadInput(
            f"{path} does not hold agreements: {error}. Remove it and agree again."
        ) from None


def _rewrite(keeps: Callable[[Agreement], bool], fresh: list[Agreement]) -> int:
    """Replace agreements; return how many are gone."""
    path = trust_file()
    try:
        make_folder(path.parent)
        with FileLock(path.with_name(f"{FILE}.lock")).held():
            known = _agreements()
            kept = [each for each in known if keeps(each)]
            content = msgspec.json.encode([*kept, *fresh])
            replace_file(path, msgspec.json.format(content, indent=2))
            return len(known) - len(kept)
    except OSError as error:
        raise unusable(path, error) from error
