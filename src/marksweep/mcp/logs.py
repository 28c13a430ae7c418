"""Logs: one JSON object per line on stderr, with secrets masked. Stdout is the protocol's."""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from marksweep.urls import MASK, redacted

SECRETS = (
    re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{4,}"),
    re.compile(
        r"(?i)((?:api[_-]?key|token|secret|password|passwd|authorization)[\"']?\s*[=:]\s*[\"']?)"
        r"[^\s\"',;&]{4,}"
    ),
    re.compile(r"\b(sk|pk|ghp|gho|ghs|github_pat|xox[abp]|AKIA)[-_A-Za-z0-9]{12,}"),
    re.compile(r"\b(eyJ)[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
)
"""Patterns of secrets: the first group stays, the rest is masked."""

FIELDS = ("tool", "ms", "workspace", "status", "client")
"""Keys of `extra` that are written to the line."""


def masked(text: str, known: Iterable[str] = ()) -> str:
    """Mask secrets: known ones, and what looks like one."""
    for secret in known:
        text = text.replace(secret, MASK)
    for pattern in SECRETS:
        text = pattern.sub(lambda found: f"{found[1]}{MASK}", text)
    return redacted(text)


class JsonLines(logging.Formatter):
    """One JSON object per record."""

    def __init__(self, secrets: Callable[[], Iterable[str]] = tuple) -> None:
        """Mask these secrets, as known at the time of the record, and what looks like one."""
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        """Write a record as a line."""
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": masked(record.getMessage(), self._secrets()),
        }
        line |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info:
            line["error"] = masked(self.formatException(record.exc_info), self._secrets())
        return json.dumps(line, ensure_ascii=False, default=str)


def log_to_stderr(level: str = "info", secrets: Callable[[], Iterable[str]] = tuple) -> None:
    """Send all logs of this process to stderr, as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(secrets))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
