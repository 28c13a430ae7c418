"""Which setting to use, why, and the code and file that do so.

The rule: of the settings that a program can have, that break no rule and that cost no more than no
collection, the cheapest that had enough of what was needed; if none had, the cheapest of those
that come near the best. Of those that cost about the same, the one with the best recall. If all
cost more than no collection, the same among all.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence

import msgspec

from marksweep.errors import BadInput
from marksweep.replay.catalog import PLUGIN, is_usable, settings_for
from marksweep.replay.strategy_spec import parse
from marksweep.replay.table import Result, Row
from marksweep.strategies.registry import warnings_of

WANTED_RECALL_PERCENT = 90.0
"""Need recall, in percent, that is often enough. Higher keeps more and costs more."""
NEAR_BEST_POINTS = 2.0
"""Points of recall below the best that are near it. Higher looks more at the price."""
SAME_COST_RATIO = 1.05
"""Costs up to this many times the lowest are about the same. Higher looks more at recall."""
ROUND_TO = 500
"""A limit in tokens is rounded to this; transcripts differ by more."""


class Recommendation(msgspec.Struct, frozen=True):
    """A setting, and the evidence for it."""

    strategy: str
    budget: str
    limit_tokens: int
    recall: float
    cost: float
    gap: float | None
    reason: str
    code: str
    command: str


def recommend(
    result: Result,
    enough: float = WANTED_RECALL_PERCENT,
    source: str = "PATH",
    usable_as: Callable[[str], bool] = is_usable,
) -> Recommendation | None:
    """Choose among the rows; None if no strategy that can be used was replayed.

    `source` is where the transcripts are, for the command.
    """
    usable = [r for r in result.rows if usable_as(r.strategy) and not r.violations]
    if not usable:
        return None
    saving = [row for row in usable if row.cost <= 1] or usable
    good = [row for row in saving if row.recall >= enough]
    if good:
        reason = f"about the cheapest that had at least {enough:g} % of what the agent needed"
    else:
        most = max(row.recall for row in saving)
        good = [row for row in saving if row.recall >= most - NEAR_BEST_POINTS]
        cheaper = "that costs no more than no collection " if saving is not usable else ""
        reason = (
            f"no setting {cheaper}kept {enough:g} % of what the agent needed; about the cheapest "
            f"within {NEAR_BEST_POINTS:g} points of the best"
        )
    cheapest = min(row.cost for row in good)
    same = [row for row in good if row.cost <= SAME_COST_RATIO * cheapest]
    best = min(same, key=lambda row: (-row.recall, row.cost, row.strategy))
    reason += f": recall {best.recall:.1f} %, {best.cost:.2f} times the price of no collection"
    reason += "".join(f"; {warning}" for warning in warnings_of(best.strategy))
    bound = next(b for b in result.bounds if b.budget == best.budget)
    limit = max(ROUND_TO, round(bound.limit / ROUND_TO) * ROUND_TO)
    return Recommendation(
        best.strategy,
        best.budget,
        limit,
        best.recall,
        best.cost,
        best.gap,
        reason,
        code_for(best.strategy, limit),
        f"marksweep tune {source}",
    )


def code_for(strategy: str, limit: int) -> str:
    """Return the code that uses a strategy."""
    spec = parse(strategy)
    given = settings_for(strategy)
    if given is not None:
        return _conversation_code(given, limit)
    options = ", ".join(f"{key}={value!r}" for key, value in spec.options.items())
    if spec.name.startswith(PLUGIN):
        fields = {"type": spec.name, **spec.options}
        return (
            "from marksweep.plugins.files import read_gc\n\n"
            f"# or write the same as JSON to .marksweep/gc.json; at a limit of {limit:,} tokens\n"
            f'plugin, config = read_gc({fields!r}, "here").load()'
        )
    module, _, name = spec.name.partition(":")
    return f"from {module} import {name}\n\nstrategy = {name}({options})  # at {limit:,} tokens"


def _conversation_code(given: Mapping[str, Mapping[str, object]], limit: int) -> str:
    talk = given["conversation"]
    if set(given) == {"conversation"} and set(talk) == {"strategy"}:
        tiers = tuple(str(talk["strategy"]).split("+"))
        chosen = repr(tiers if len(tiers) > 1 else tiers[0])
        head = "from marksweep import Conversation\n\n"
        made = f"talk = Conversation(limit={limit:_}, strategy={chosen})\n"
    else:
        merged = {**given, "window": {"limit_tokens": limit, **given.get("window", {})}}
        head = (
            "from marksweep import Conversation\nfrom marksweep.settings import load_settings\n\n"
        )
        made = (
            f"settings = load_settings(explicit={merged!r})\n"
            "talk = Conversation.from_settings(settings)\n"
        )
    return (
        f"{head}{made}talk.extend(messages)            # as the provider's SDK gives them\n"
        "request(messages=talk.messages)  # collected when due"
    )


def settings_file(chosen: Recommendation, result: Result, before: str = "") -> str:
    """Write a settings file with the recommended setting, and the evidence in comments.

    Other settings in the file are kept.
    """
    given = settings_for(chosen.strategy)
    if given is None:
        raise BadInput(f"{chosen.strategy} cannot be written to a settings file; see its code.")
    try:
        kept = tomllib.loads(before)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"the settings file is not TOML: {error}. Fix it or move it away.") from None
    window = {"limit_tokens": chosen.limit_tokens, **given.get("window", {})}
    kept["window"] = {**kept.get("window", {}), **window}
    kept["conversation"] = given["conversation"]
    lines = [
        "# Written by `marksweep tune`.",
        f"# {chosen.strategy} at {chosen.budget}: {chosen.reason}.",
        "#",
        *(f"# {line}" for line in _evidence(result)),
        "#",
        "# The figures say whether what the agent used next was still in its context, not whether",
        "# it did its task. Recall and gap in percent; cost against no collection.",
        "#",
        "# `marksweep collect` reads this file; in a program:",
        "#   from marksweep import Conversation",
        "#   from marksweep.settings import load_settings",
        "#   talk = Conversation.from_settings(load_settings())",
        "",
    ]
    return "\n".join([*lines, *_toml(kept)]) + "\n"


def _evidence(result: Result) -> list[str]:
    total = sum(line.need_steps for line in result.transcripts)
    head = f"{len(result.transcripts)} transcripts, {result.tokens:,} tokens, {total} steps that"
    rows = [
        ("strategy", "budget", "recall", "gap", "cost"),
        *(
            (r.strategy, r.budget, f"{r.recall:.1f}", gap_text(r), f"{r.cost:.2f}")
            for r in result.rows
        ),
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    return [
        f"{head} take something from before:",
        "",
        *(
            "  ".join(
                cell.ljust(width) if i < 1 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ),
    ]


def gap_text(row: Row) -> str:
    """The gap closed, or a note if there is no room."""
    return "no room" if row.gap is None else f"{row.gap:+.0f}"


def _toml(table: Mapping[str, object], path: Sequence[str] = ()) -> list[str]:
    """Write nested tables of numbers, texts and lists of them."""
    plain = {key: value for key, value in table.items() if not isinstance(value, dict)}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in plain.items()]
    if path and (lines or not table):
        lines = ["", f"[{'.'.join(map(_key, path))}]", *lines]
    for key, value in table.items():
        if isinstance(value, dict):
            lines += _toml(value, (*path, key))
    return lines


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() else _value(key)


def _value(value: object) -> str:
    return msgspec.json.encode(value).decode()
