"""Collectors by name: the fixed references, coverage, and installed strategies.

    truncate, mask last 10, original score, GDSF, random     fixed references
    coverage economy, coverage quality                       the lab's collector: pages back in, too
    coverage, superseded+mask+truncate                       strategies of a Conversation; tiers
    gc_hybrid:preserve_recent_turns=2                        a GC plugin, with options
    clairvoyant                                              the bound; sees what comes

Case, blanks, hyphens and underscores in a reference's name do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from marksweep.errors import UnknownName
from marksweep.replay.apart import Apart, spec_of
from marksweep.replay.collectors import Installed, economy, quality
from marksweep.replay.drive import Collector
from marksweep.replay.lab import CLAIRVOYANT, COLLECTORS
from marksweep.replay.records import Count
from marksweep.replay.references import Mask
from marksweep.strategies.named import NAMED

Make = Callable[[Count], Collector]

TRUNCATE = "truncate"
ECONOMY, QUALITY = "coverage economy", "coverage quality"
OWN: dict[str, Make] = {ECONOMY: economy, QUALITY: quality}
REFERENCES = (TRUNCATE, "mask last 10", "GDSF", "original score", "random")
DEFAULT = (ECONOMY, QUALITY, "coverage", *REFERENCES)
"""What is replayed if nothing is named; the clairvoyant bound is always there."""

PLUGIN = "gc_"
"""How the names of GC plugins begin."""

_MASK = re.compile(r"mask last (\d+)")


def canonical(name: str) -> str:
    """The name that a collector goes by in tables; UnknownName lists what there is."""
    if name in NAMED and name != TRUNCATE:
        return name
    if name.startswith(PLUGIN):
        spec_of(name).load()
        return name
    plain = _plain(name)
    known = {_plain(each): each for each in (*COLLECTORS, *OWN, CLAIRVOYANT)}
    if plain in known:
        return known[plain]
    if _MASK.fullmatch(plain):
        return plain
    tiers = [tier.strip() for tier in name.split("+")]
    if all(tier in NAMED for tier in tiers):
        return "+".join(tiers)
    raise UnknownName(
        f"no strategy named {name!r}; known are {', '.join(sorted(known.values()))}, mask last N, "
        f"tiers of {', '.join(sorted(NAMED))}, such as superseded+mask+truncate, and GC plugins "
        "such as gc_hybrid."
    )


def register(name: str) -> None:
    """Let the lab build this collector. Called in every process that drives one."""
    if name != CLAIRVOYANT and name not in COLLECTORS:
        COLLECTORS[name] = maker(name)


def maker(name: str) -> Make:
    """How a collector is built, by its canonical name."""
    if name in COLLECTORS:
        return COLLECTORS[name]
    if name in OWN:
        return OWN[name]
    masked = _MASK.fullmatch(name)
    if masked:
        last = int(masked[1])
        return lambda count: Mask(count, last)
    if name.startswith(PLUGIN):
        return lambda _: Apart(name)
    tiers = tuple(name.split("+"))
    return lambda count: Installed(count, tiers if len(tiers) > 1 else tiers[0])


def is_usable(name: str) -> bool:
    """Whether a program can have this strategy, rather than only compare itself with it."""
    return name not in (CLAIRVOYANT, "GDSF", "original score", "random")


def _plain(name: str) -> str:
    return " ".join(re.split(r"[\s_-]+", name.strip().lower()))
