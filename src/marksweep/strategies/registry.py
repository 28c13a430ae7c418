"""Strategies by name, for settings and command lines.

    "truncate"                               one of them
    ("superseded", "mask", "truncate")       tiers: each only if those before it fell short
    "superseded+mask+truncate"               the same in settings and on a command line

A new strategy or option is one line in STRATEGIES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from marksweep.core.strategy import Strategy
from marksweep.errors import BadInput, UnknownName
from marksweep.messages import Text
from marksweep.model import Segment
from marksweep.strategies.budget import ByPolicy
from marksweep.strategies.coverage import QUALITY, Coverage, Limit, Note
from marksweep.strategies.dead import Dead
from marksweep.strategies.garbage import Garbage
from marksweep.strategies.hybrid import Hybrid
from marksweep.strategies.mask import Mask, Outcomes, Texts, Trimmed
from marksweep.strategies.scored import Scored
from marksweep.strategies.summarize import Digest, Summarize
from marksweep.strategies.superseded import Superseded
from marksweep.strategies.tiers import in_tiers
from marksweep.strategies.truncate import Truncate
from marksweep.strategies.unreachable import Unreachable
from marksweep.summarizers.digesting import Digester

TIER = "+"
"""The separator between the names of strategies that are tried in turn."""


class MessageTools(msgspec.Struct, frozen=True):
    """What a heap provides to a strategy: how to read, shorten and make messages."""

    outcomes: Outcomes
    digest: Digest
    texts: Texts
    trimmed: Trimmed
    note: Note | None = None
    """None: nothing is brought back automatically."""
    limit: Limit | None = None
    """The window, if it is known."""


WRITTEN_TYPES = frozenset({"decision", "message", "note", "summary"})
"""Types of segments that the agent writes itself; the others hold what it was shown."""


def _one_text(segment: Segment) -> Sequence[Text]:
    return (Text(0, segment.text, is_observed=segment.type not in WRITTEN_TYPES),)


SEGMENT_TOOLS = MessageTools(
    outcomes=lambda _: (), digest=Digester(), texts=_one_text, trimmed=lambda *_: None
)
"""For a heap of plain segments: each is one text, which goes whole."""

Make = Callable[[MessageTools], Strategy]

Choice = str | Strategy | Make | Sequence["str | Strategy | Make"]
"""What callers may pass for a strategy; several make tiers."""


DEAR = "can cost three times as much as not collecting: it rewrites the prompt at most requests"


class Registered(msgspec.Struct, frozen=True):
    """How a strategy is made, and the options it takes: whole numbers, 0 or more."""

    make: Callable[..., Strategy]
    options: tuple[str, ...] = ()
    warning: str = ""
    """A warning to show to those who choose it."""


STRATEGIES: Mapping[str, Registered] = {
    "budget": Registered(lambda _: ByPolicy()),
    "coverage": Registered(lambda t: Coverage(t.texts, t.trimmed, note=t.note, limit=t.limit)),
    "coverage_quality": Registered(
        lambda t: Coverage(t.texts, t.trimmed, QUALITY, note=t.note, limit=t.limit), warning=DEAR
    ),
    "dead": Registered(
        lambda t: Dead(
            Superseded(t.outcomes, t.trimmed), Unreachable(t.outcomes, t.texts, t.trimmed)
        )
    ),
    "garbage": Registered(lambda _: Garbage()),
    "hybrid": Registered(lambda t, **options: Hybrid(t.digest, **options), ("middle",)),
    "mask": Registered(
        lambda t, **options: Mask(t.outcomes, t.trimmed, **options), ("bulky", "spare")
    ),
    "scored": Registered(lambda _: Scored()),
    "summarize": Registered(lambda t: Summarize(t.digest)),
    "superseded": Registered(lambda t: Superseded(t.outcomes, t.trimmed)),
    "truncate": Registered(lambda _: Truncate()),
    "unreachable": Registered(lambda t: Unreachable(t.outcomes, t.texts, t.trimmed)),
}
"""The strategies by name."""


def strategy_of(choice: Choice, tools: MessageTools) -> Strategy:
    """Make the chosen strategy; UnknownName lists the known names."""
    if isinstance(choice, str):
        return in_tiers(*(STRATEGIES[name].make(tools) for name in tiers_of(choice)))
    if isinstance(choice, Sequence) and choice:
        return in_tiers(*(strategy_of(each, tools) for each in choice))
    made = choice(tools) if callable(choice) else choice
    if isinstance(made, Sequence) or not hasattr(made, "rank"):
        raise BadInput(
            f"{choice!r} is not a strategy; expected one of {', '.join(sorted(STRATEGIES))}, "
            "several names in order, or an object with `name` and `rank`."
        )
    return made


def tiers_of(names: str) -> tuple[str, ...]:
    """The strategies that a text names, in order; UnknownName lists the known names."""
    tiers = tuple(name.strip() for name in names.split(TIER))
    for name in tiers:
        if name not in STRATEGIES:
            raise UnknownName(
                f"no strategy named {name!r}; known are {', '.join(sorted(STRATEGIES))}, and "
                "several of them joined by +."
            )
    return tiers


def warnings_of(names: str) -> tuple[str, ...]:
    """What should be known about strategies before one of them is chosen, each with its name."""
    tiers = [name.strip() for name in names.partition(":")[0].split(TIER)]
    return tuple(
        f"{name} {STRATEGIES[name].warning}"
        for name in tiers
        if name in STRATEGIES and STRATEGIES[name].warning
    )


def with_options(names: str, options: Mapping[str, int]) -> Choice:
    """The strategies of a text with options; each option goes to the tiers that know it."""
    tiers = tiers_of(names)
    known = sorted({option for name in tiers for option in STRATEGIES[name].options})
    for option, value in options.items():
        if option not in known:
            raise UnknownName(
                f"{names} has no option {option!r}; known are {', '.join(known) or 'none'}."
            )
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise BadInput(f"{option} of {names} is {value!r}; expected a whole number, 0 or more.")
    return lambda tools: in_tiers(*(_configured(name, options, tools) for name in tiers))


def _configured(name: str, options: Mapping[str, int], tools: MessageTools) -> Strategy:
    entry = STRATEGIES[name]
    return entry.make(tools, **{key: options[key] for key in entry.options if key in options})
