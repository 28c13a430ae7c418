"""The options a plugin takes in `initialize`, checked when they are given."""

from __future__ import annotations

import logging
import string
from collections.abc import Callable, Mapping

import msgspec

from marksweep.errors import BadInput
from marksweep.ledger import SourceEntry
from marksweep.plugins.base import GCConfig, GCTriggerReason
from marksweep.plugins.checks import (
    check_flag,
    check_keys,
    check_percent,
    check_positive,
    check_turns,
    without_comments,
)
from marksweep.strategies.hybrid import MIDDLE_TURNS
from marksweep.summarizers import Extractive, Summarizer, make_summarizer

_log = logging.getLogger(__name__)

AskOwner = Callable[[str, SourceEntry], bool]
"""Whether the entry under this key may go."""

NOTICE_TEMPLATE = (
    "{items} earlier parts of this conversation ({tokens} tokens) were removed to free context."
)
"""The default notice about a collection."""

PLACEHOLDERS = frozenset(
    {
        "items",
        "tokens",
        "percent",
        "plugin",
        "reason",
        "removed",
        "truncated",
        "summarized",
        "kept",
        "freed",
        "tokens_freed",
    }
)
"""What a notification template may contain, in braces."""

ECONOMY, QUALITY = "economy", "quality"
SETTINGS = (ECONOMY, QUALITY)
"""What a coverage plugin may save."""

COMMON = frozenset(
    {
        "preserve_recent_turns",
        "target_percent",
        "pressure_percent",
        "notify_on_gc",
        "notification_template",
        "pays_within_turns",
    }
)
"""Options of every plugin."""

IN_FILES = COMMON | {"setting", "summarize_middle_turns", "summarizer"}
"""Options that a configuration file may have."""

KNOWN = IN_FILES | {"ask_owner"}
"""All known options."""


class Notice(msgspec.Struct, frozen=True):
    """What a notice reports of a collection."""

    items: int
    """Parts of the conversation that were removed."""
    tokens: int
    before: int
    summarized: int = 0
    """Those of them that a summary replaces."""
    kept: int = 0
    """Turns that are left whole."""


class Options(msgspec.Struct, frozen=True):
    """A plugin's options."""

    preserve_recent_turns: int | None = None
    """Overrides the one in GCConfig."""
    target_percent: float | None = None
    """Overrides the one in GCConfig."""
    pressure_percent: float | None = None
    """Overrides the one in GCConfig."""
    notify_on_gc: bool = True
    """Say in the history that something was removed."""
    notification_template: str = NOTICE_TEMPLATE
    summarizer: Summarizer = msgspec.field(default_factory=Extractive)
    summarize_middle_turns: int = MIDDLE_TURNS
    setting: str = ECONOMY
    """What coverage saves: economy the prompt cache, quality what the agent may need again.

    Quality can cost three times as much as not collecting.
    """
    pays_within_turns: float | None = None
    """Postpone a collection that would take longer to pay for the prompt cache it invalidates.

    Not above `pressure_percent`. Without it, none is postponed.
    """
    ask_owner: AskOwner | None = None
    """Whether a CONDITIONAL entry may go now. Without it, none may."""

    def applied_to(self, config: GCConfig) -> GCConfig:
        """Override the configuration's figures with the plugin's own."""
        changes: dict[str, float] = {}
        threshold = config.threshold_percent
        if self.target_percent is not None:
            changes["target_percent"] = min(self.target_percent, threshold)
        if self.pressure_percent is not None:
            pressure = self.pressure_percent
            changes["pressure_percent"] = max(pressure, threshold) if pressure else 0.0
        if self.preserve_recent_turns is not None:
            changes["preserve_recent_turns"] = self.preserve_recent_turns
        return msgspec.structs.replace(config, **changes) if changes else config

    def notice(self, said: Notice, *, plugin: str, reason: GCTriggerReason) -> str:
        """What the history says about a collection."""
        return self.notification_template.format(
            items=said.items,
            removed=said.items,
            truncated=said.items - said.summarized,
            summarized=said.summarized,
            kept=said.kept,
            tokens=said.tokens,
            freed=said.tokens,
            tokens_freed=said.tokens,
            percent=round(100 * said.tokens / said.before) if said.before else 0,
            plugin=plugin,
            reason=reason.value,
        )

    def owner_agrees(self, key: str, entry: SourceEntry) -> bool:
        """Ask the owner of a CONDITIONAL entry. An owner that fails to answer has not agreed."""
        if self.ask_owner is None:
            return False
        try:
            return bool(self.ask_owner(key, entry))
        except Exception:  # noqa: BLE001  whatever a third-party function raises
            _log.exception("the owner of %s could not be asked; it stays", key)
            return False


def read_options(plugin: str, given: Mapping[str, object] | None, own: frozenset[str]) -> Options:
    """Check what `initialize` was given. A value of None means the default.

    What only another plugin has is ignored with a warning: files are switched from one to another.
    """
    said = without_comments(given or {})
    check_keys(f"the configuration of {plugin}", said.keys() - KNOWN, COMMON | own)
    for name in sorted(said.keys() - COMMON - own):
        _log.warning("%s has no option %r; it is ignored", plugin, name)
        del said[name]
    for name in ("preserve_recent_turns", "summarize_middle_turns"):
        if name in said:
            check_turns(name, said[name])
    for name in ("target_percent", "pressure_percent"):
        if name in said:
            check_percent(name, said[name])
    if "pays_within_turns" in said:
        check_positive("pays_within_turns", said["pays_within_turns"])
    if "notify_on_gc" in said:
        check_flag("notify_on_gc", said["notify_on_gc"])
    if "notification_template" in said:
        _check_template(said["notification_template"])
    if said.get("setting", ECONOMY) not in SETTINGS:
        raise BadInput(f"setting is {said['setting']!r}; expected {' or '.join(SETTINGS)}.")
    if not callable(said.get("ask_owner", read_options)):
        raise BadInput(
            f"ask_owner is {said['ask_owner']!r}; expected a function of a key and an entry."
        )
    if "summarizer" in said:
        said["summarizer"] = make_summarizer(said["summarizer"])
    return Options(**said)  # type: ignore[arg-type]


def _check_template(template: object) -> None:
    expected = f"text with any of {', '.join(f'{{{name}}}' for name in sorted(PLACEHOLDERS))}"
    if not isinstance(template, str):
        raise BadInput(f"notification_template is {template!r}; expected {expected}.")
    try:
        names = {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}
        if names <= PLACEHOLDERS:
            filled = Options(notification_template=template)
            filled.notice(Notice(1, 1, 1), plugin="", reason=GCTriggerReason.MANUAL)
            return
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        raise BadInput(f"notification_template is {template!r}: {error}.") from None
    raise BadInput(f"notification_template is {template!r}; expected {expected}.")
