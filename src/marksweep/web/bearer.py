"""Bearer tokens: from the environment, from a file, or generated at start."""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from marksweep.errors import BadInput
from marksweep.stores.files import Stamp

TOKEN = "MARKSWEEP_TOKEN"  # noqa: S105 - the variable's name
"""The environment variable that may hold the token; otherwise one is generated at every start."""

SHORTEST_TOKEN = 16
"""Minimum length of a token; a shorter one could be guessed."""

UNSETTLED_NS = 100_000_000
"""Nanoseconds after a change in which another change may leave the same stamp."""

logger = logging.getLogger(__name__)


def token_of_environment() -> str:
    """Return the token from the environment; empty if there is none."""
    return os.environ.get(TOKEN, "").strip()


def new_token() -> str:
    """Make a token."""
    return secrets.token_urlsafe(SHORTEST_TOKEN)


def given_token(headers: Mapping[str, str]) -> str:
    """Return the bearer token of a request; empty if it has none."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


class BearerTokens:
    """Bearer tokens and their workspaces: fixed ones, and those in a file as it is now."""

    def __init__(self, fixed: Mapping[str, Sequence[str]], file: str | Path | None = None) -> None:
        self._fixed = fixed
        self._file = None if file is None else Path(file)
        self._seen: Stamp | None = None
        self.secrets: frozenset[str] = frozenset()
        """All tokens that were ever known, to be masked in logs."""
        self._take(fixed if self._file is None else {**self._read(self._file), **fixed})

    def _take(self, workspaces: Mapping[str, Sequence[str]]) -> None:
        for token, names in workspaces.items():
            if len(token) < SHORTEST_TOKEN:
                raise BadInput(
                    f"a token has {len(token)} characters; expected {SHORTEST_TOKEN} or more. "
                    "Make one: python -c 'import secrets; print(secrets.token_urlsafe())'"
                )
            if not names or not all(names):
                raise BadInput("a token has no workspace; expected at least one name.")
        self._by_digest = {digest(token): tuple(names) for token, names in workspaces.items()}
        self.secrets |= frozenset(workspaces)

    def _read(self, file: Path) -> dict[str, list[str]]:
        try:
            found = file.stat()
            body = file.read_bytes()
            # A file that just changed may change again within one tick of the file system's clock.
            settled = time.time_ns() - found.st_mtime_ns > UNSETTLED_NS
            self._seen = Stamp.of(found) if settled else None
            return msgspec.json.decode(body, type=dict[str, list[str]])
        except (OSError, msgspec.DecodeError) as error:
            raise BadInput(
                f"{file} cannot be read: {error}. Expected JSON that maps tokens to "
                'workspaces: {"TOKEN": ["project"]}.'
            ) from error

    def __bool__(self) -> bool:
        """Return whether callers need a token; true even while the file holds none."""
        return self._file is not None or bool(self._by_digest)

    @classmethod
    def load(cls, path: str | None, workspace: str) -> BearerTokens:
        """Read tokens from a file, and one for the server's workspace from the environment."""
        single = token_of_environment()
        return cls({single: [workspace]} if single else {}, path)

    def refresh(self) -> None:
        """Read the file again if it has changed: removed tokens are no longer valid.

        A missing file holds none. If the file is damaged, the tokens read before stay valid.
        """
        if self._file is None:
            return
        try:
            if Stamp.of(self._file.stat()) == self._seen:
                return
            self._take({**self._read(self._file), **self._fixed})
        except FileNotFoundError:
            if self._by_digest.keys() - map(digest, self._fixed):
                logger.warning("%s is missing: its tokens are no longer accepted.", self._file)
            self._seen = None
            self._take(self._fixed)
        except (BadInput, OSError) as error:
            logger.warning("%s The tokens read before stay in force.", error)

    def admit(self, token: str) -> bool:
        """Return whether a token is valid now."""
        return self.workspaces(token) is not None

    def workspaces(self, token: str) -> tuple[str, ...] | None:
        """Return the workspaces of a token; None if it is unknown or was revoked."""
        self.refresh()
        wanted = digest(token)
        found = None
        for known, names in self._by_digest.items():
            if hmac.compare_digest(known, wanted):
                found = names
        return found


def digest(token: str) -> str:
    """Return the digest that replaces a token where the token must not appear."""
    return sha256(token.encode(errors="surrogatepass")).hexdigest()
