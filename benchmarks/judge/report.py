"""Compare collectors by their scores, scaled so that `truncate` is 0 and `full` is 100.

Nats per token are pooled over steps: of the whole message, and of its action alone. Intervals are
bootstrapped over records. Only steps that every collector was scored on count.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

RESAMPLES = 1000
LOW, HIGH = "truncate", "full"


class Row(msgspec.Struct, frozen=True):
    """The score of one context: nats and tokens of what was said, and of what was done."""

    set: str
    id: str
    step: int
    kind: str
    tokens: int
    said: tuple[float, int]
    done: tuple[float, int]


Steps = dict[str, Row]
"""The rows of one step by the collector that made its context."""
Measure = Callable[[Row], tuple[float, int]]
"""How to read nats and tokens from a row."""

MEASURES: dict[str, Measure] = {
    "message": lambda row: (row.said[0] + row.done[0], row.said[1] + row.done[1]),
    "action": lambda row: row.done,
}


def tables(file: Path) -> str:
    """Return tables of all sets together, then of each, as Markdown."""
    steps = _steps(file)
    kinds = list(dict.fromkeys(kind for rows in steps.values() for kind in rows))
    whole = {where: rows for where, rows in steps.items() if len(rows) == len(kinds)}
    out = [f"{len(steps) - len(whole)} steps left out: not scored for every collector."]
    for name, records in _by_set(whole):
        count = sum(map(len, records))
        out.append(f"\n## {name}: {count} steps of {len(records)} records\n")
        out.append(_table(records, kinds))
    return "\n".join(out)


def gains(before: Path, after: Path, kind: str) -> str:
    """Return what a collector gains from one file of scores to another, as Markdown.

    In nats per token, on the steps that are in both.
    """
    old, new = _steps(before), _steps(after)
    both = {
        where: {LOW: old[where][kind], HIGH: rows[kind]}
        for where, rows in new.items()
        if kind in rows and kind in old.get(where, {})
    }
    if not both:
        return f"No step has scores of {kind} in both files."
    out = [f"| {kind} | steps | {' | '.join(MEASURES)} |", "|---" * (len(MEASURES) + 2) + "|"]
    for name, records in _by_set(both):
        cells = [str(sum(map(len, records)))]
        draws = _draws(len(records))
        for measure in MEASURES.values():
            had, has = (_sums(records, each, measure) for each in (LOW, HIGH))
            found = sorted(_mean(had, each) - _mean(has, each) for each in draws)
            low, high = _interval(found)
            everything = range(len(records))
            gain = _mean(had, everything) - _mean(has, everything)
            cells.append(f"{gain:+.4f} [{low:+.4f}, {high:+.4f}]")
        out.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(out)


def _steps(file: Path) -> dict[tuple[str, str, int], Steps]:
    """Read the scores of each step."""
    steps: dict[tuple[str, str, int], Steps] = {}
    for row in msgspec.json.decode(file.read_bytes(), type=list[Row]):
        steps.setdefault((row.set, row.id, row.step), {})[row.kind] = row
    return steps


def _by_set(steps: dict[tuple[str, str, int], Steps]) -> Iterator[tuple[str, list[list[Steps]]]]:
    """Yield all sets together, then each, as the steps of each record."""
    for name in (None, *dict.fromkeys(where[0] for where in steps)):
        records: dict[tuple[str, str], list[Steps]] = {}
        for where, rows in steps.items():
            if name in (None, where[0]):
                records.setdefault(where[:2], []).append(rows)
        yield name or "all sets", list(records.values())


def _draws(records: int) -> list[list[int]]:
    draw = random.Random(0)
    return [draw.choices(range(records), k=records) for _ in range(RESAMPLES)]


def _interval(ordered: Sequence[float]) -> tuple[float, float]:
    return ordered[int(0.025 * RESAMPLES)], ordered[int(0.975 * RESAMPLES) - 1]


def _table(records: Sequence[list[Steps]], kinds: Sequence[str]) -> str:
    lines = [
        f"| collector | tokens | {' | '.join(f'{name}: nats, share' for name in MEASURES)} |",
        "|---" * (len(MEASURES) + 2) + "|",
    ]
    draws = _draws(len(records))
    for kind in kinds:
        rows = [step[kind] for record in records for step in record]
        cells = [f"{sum(row.tokens for row in rows) / len(rows):.0f}"]
        for measure in MEASURES.values():
            nats = {each: _sums(records, each, measure) for each in (LOW, kind, HIGH)}
            everything = range(len(records))
            shares = sorted(_share(nats, kind, chosen) for chosen in draws)
            low, high = _interval(shares)
            cells.append(
                f"{_mean(nats[kind], everything):.3f}, "
                f"{_share(nats, kind, everything):+.0f} [{low:.0f}, {high:.0f}]"
            )
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _sums(records: Sequence[list[Steps]], kind: str, measure: Measure) -> list[tuple[float, float]]:
    """Nats and tokens of each record."""
    found = []
    for record in records:
        pairs = [measure(step[kind]) for step in record]
        found.append((sum(nats for nats, _ in pairs), float(sum(size for _, size in pairs))))
    return found


def _mean(sums: Sequence[tuple[float, float]], chosen: Sequence[int]) -> float:
    tokens = sum(sums[at][1] for at in chosen)
    return sum(sums[at][0] for at in chosen) / tokens if tokens else 0.0


def _share(sums: dict[str, list[tuple[float, float]]], kind: str, chosen: Sequence[int]) -> float:
    low, got, high = (_mean(sums[each], chosen) for each in (LOW, kind, HIGH))
    return 100 * (low - got) / (low - high) if low != high else 0.0
