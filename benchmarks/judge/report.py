"""Compare collectors by their scores, scaled so that `truncate` is 0 and `full` is 100.

Nats per token are pooled over steps: of the whole message, and of its action alone. Intervals are
bootstrapped over records. Only steps that every collector was scored on count.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
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
    steps: dict[tuple[str, str, int], Steps] = {}
    for row in msgspec.json.decode(file.read_bytes(), type=list[Row]):
        steps.setdefault((row.set, row.id, row.step), {})[row.kind] = row
    kinds = list(dict.fromkeys(kind for rows in steps.values() for kind in rows))
    whole = {where: rows for where, rows in steps.items() if len(rows) == len(kinds)}
    names = list(dict.fromkeys(where[0] for where in whole))
    out = [f"{len(steps) - len(whole)} steps left out: not scored for every collector."]
    for name in (None, *names):
        records: dict[str, list[Steps]] = {}
        for where, rows in whole.items():
            if name in (None, where[0]):
                records.setdefault(f"{where[0]} {where[1]}", []).append(rows)
        count = sum(map(len, records.values()))
        out.append(f"\n## {name or 'all sets'}: {count} steps of {len(records)} records\n")
        out.append(_table(list(records.values()), kinds))
    return "\n".join(out)


def _table(records: Sequence[list[Steps]], kinds: Sequence[str]) -> str:
    lines = [
        f"| collector | tokens | {' | '.join(f'{name}: nats, share' for name in MEASURES)} |",
        "|---" * (len(MEASURES) + 2) + "|",
    ]
    draw = random.Random(0)
    draws = [draw.choices(range(len(records)), k=len(records)) for _ in range(RESAMPLES)]
    for kind in kinds:
        rows = [step[kind] for record in records for step in record]
        cells = [f"{sum(row.tokens for row in rows) / len(rows):.0f}"]
        for measure in MEASURES.values():
            nats = {each: _sums(records, each, measure) for each in (LOW, kind, HIGH)}
            everything = range(len(records))
            shares = sorted(_share(nats, kind, chosen) for chosen in draws)
            low, high = shares[int(0.025 * RESAMPLES)], shares[int(0.975 * RESAMPLES) - 1]
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
