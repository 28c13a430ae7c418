"""URLs: distinguished from paths, and shown without their credentials."""

from __future__ import annotations

import re
from ipaddress import ip_address

MASK = "***"
"""What replaces a secret."""

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*:/{2,})(?P<rest>\S+)")

_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]+)(:\d*)?")
"""A host with an optional port, and nothing else."""

_SECRET_PARAMETER = re.compile(
    r"(?i)(?<=[?&;#])"
    r"([^=&;#]*(?:key|token|secret|passw(?:or)?d|pwd|auth|credential|signature)[^=&;#]*"
    r"|sig|pass|user(?:name)?)="
    r"[^&;#]*?(?=[.,:!)\"']*(?:[&;#]|$))"
)
"""A parameter named like a secret; the punctuation of the sentence around it stays."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)


def split_scheme(where: str) -> tuple[str, str]:
    """Split a location into its scheme and the rest; a path has no scheme.

    One letter before a colon is a Windows drive.
    """
    named = _SCHEME.fullmatch(where)
    return (named[1].lower(), named[2]) if named else ("", where)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def redacted(text: str) -> str:
    """Mask the credentials of every URL in a text.

    User and password are masked, even a password with an unescaped `/`, `?` or `#`, and so are
    parameters that are named like a secret. The host stays, because people need it.
    """
    return _URL.sub(_masked, text) if "://" in text else text


def _masked(url: re.Match[str]) -> str:
    rest = url["rest"]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        rest = f"{MASK}@{authority.rpartition('@')[2]}{rest[len(authority) :]}"
    elif "@" in rest and not _HOST.fullmatch(authority):
        rest = f"{MASK}@{rest.rpartition('@')[2]}"
    return url["scheme"] + _SECRET_PARAMETER.sub(rf"\1={MASK}", rest)
