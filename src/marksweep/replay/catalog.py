"""Collectors by name: the fixed references, coverage, and installed strategies.

    truncate, mask last 10, original score, GDSF, random     fixed references
    coverage, superseded+mask+truncate:spare=5               strategies of a Conversation; tiers
    gc_hybrid:preserve_recent_turns=2                        a GC plugin, with options
    mypackage.mine:Keeper                                    a strategy or collector of your own
    clairvoyant                                              the bound; knows the future

Case, blanks, hyphens and underscores in a reference's name do not matter. What may be somebody
else's code, plugins and your own, is driven in a separate process.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from marksweep.core.strategy import goes_to_limit
from marksweep.errors import BadInput, UnknownName
from marksweep.replay.collectors import ConversationCollector, plugin_spec
from marksweep.replay.drive import Collector
from marksweep.replay.records import Count
from marksweep.replay.references import Gdsf, Mask, OriginalScore, Random, Truncate, TruncateTo
from marksweep.replay.sandbox import CALL_SECONDS, SandboxedStrategy
from marksweep.replay.strategy_spec import parse
from marksweep.settings import Settings
from marksweep.strategies.registry import SEGMENT_TOOLS, STRATEGIES, TIER, strategy_of

Make = Callable[[Count], Collector]

CLAIRVOYANT = "clairvoyant"
TRUNCATE = "truncate"
ECONOMY, QUALITY = "coverage", "coverage_quality"
REFERENCES: dict[str, Make] = {
    TRUNCATE: Truncate,
    "mask last 10": Mask,
    "GDSF": Gdsf,
    "original score": OriginalScore,
    "random": Random,
}
"""The baselines in every table."""
DEFAULT = (ECONOMY, QUALITY, "superseded+mask+truncate", *REFERENCES)
"""What is replayed if nothing is named; the clairvoyant bound is always there."""

PLUGIN = "gc_"
"""How the names of GC plugins begin."""
LIMIT_OPTIONS = ("threshold_percent", "target_percent", "pressure_percent")
"""Options of any strategy of a Conversation that are settings of its window."""
RECENT = "preserve_recent_turns"
AT_LIMIT = ",".join(f"{line}=100" for line in LIMIT_OPTIONS)
"""Lines of a window that starts and lands at its limit."""

Overlay = dict[str, dict[str, object]]
"""Settings that differ from the defaults, by group and name."""

NUMBERED: dict[str, Callable[[Count, int], Collector]] = {
    "mask last": Mask,
    "truncate to": TruncateTo,
}
"""References whose name ends in a number: outputs that stay, percent of the room to land at."""


def canonical(name: str) -> str:
    """The name of a collector in tables; UnknownName lists what there is."""
    plain = _plain(name)
    known = {_plain(each): each for each in (*REFERENCES, CLAIRVOYANT)}
    if plain in known and name not in STRATEGIES.keys() - {TRUNCATE}:
        return known[plain]
    name = plain if _numbered(plain) else name
    maker(name)
    if is_foreign(name):
        spec = parse(name)
        if not spec.is_imported:
            plugin_spec(spec)
        SandboxedStrategy(name).check()
    return name


def maker(name: str, patience: float = CALL_SECONDS) -> Make:
    """How a collector is built, by its canonical name; `patience` is for third-party code."""
    fixed = REFERENCES.get(name)
    if fixed is not None:
        return fixed
    numbered = _numbered(name)
    if numbered:
        make, number = numbered
        return lambda count: make(count, number)
    if is_foreign(name):
        return lambda _: SandboxedStrategy(name, patience)
    given = settings_for(name)
    if given is None:
        references = ", ".join(sorted((*REFERENCES, CLAIRVOYANT)))
        raise UnknownName(
            f"no strategy named {name!r}; known are {references}, "
            f"mask last N, truncate to PERCENT, tiers of {', '.join(sorted(STRATEGIES))}, such as "
            "superseded+mask+truncate:spare=5, GC plugins such as gc_hybrid, and "
            "package.module:Name for one of your own."
        )
    settings = settings_of(given)
    return lambda count: ConversationCollector(count, settings)


def is_foreign(name: str) -> bool:
    """Whether a name may mean third-party code."""
    return name.startswith(PLUGIN) or parse(name).is_imported


def is_usable(name: str) -> bool:
    """Whether a program can use this strategy, rather than only compare with it."""
    return is_foreign(name) or settings_for(name) is not None


def settings_for(name: str) -> Overlay | None:
    """The settings that give a Conversation this strategy; None if no settings can.

    The reference `truncate` goes to the limit and no deeper, so its settings say that, too.
    """
    spec = parse(f"{TRUNCATE}:{AT_LIMIT}" if name == TRUNCATE else name)
    tiers = [tier.strip() for tier in spec.name.split(TIER)]
    if not all(tier in STRATEGIES for tier in tiers):
        return None
    talk: dict[str, object] = {"strategy": TIER.join(tiers)}
    found: Overlay = {"conversation": talk}
    for key, value in spec.options.items():
        if key in LIMIT_OPTIONS and goes_to_limit(strategy_of(spec.name, SEGMENT_TOOLS)):
            raise BadInput(f"{spec.name} goes to the limit and no deeper, so it takes no {key}.")
        if key in LIMIT_OPTIONS:
            found.setdefault("window", {})[key] = value
        elif key == RECENT:
            talk[key] = value
        else:
            talk["options"] = {**talk.get("options", {}), key: value}  # type: ignore[dict-item]
    return found


def settings_of(given: Overlay) -> Settings:
    """The defaults, with these settings over them; BadInput if one is invalid."""
    try:
        return msgspec.convert(given, Settings)
    except msgspec.ValidationError as error:
        raise BadInput(str(error)) from error


def _numbered(name: str) -> tuple[Callable[[Count, int], Collector], int] | None:
    """What a name such as `mask last 5` makes, and its number."""
    words, _, number = name.rpartition(" ")
    return (NUMBERED[words], int(number)) if words in NUMBERED and number.isdecimal() else None


def _plain(name: str) -> str:
    return " ".join(re.split(r"[\s_-]+", name.strip().lower()))
