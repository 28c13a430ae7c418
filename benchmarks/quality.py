"""Quality of context collection, by the replay lab on recorded data.

python -m benchmarks.quality                    all tables
python -m benchmarks.quality names 25           one extractor, one budget
python -m benchmarks.quality cost               cost, and how often the prompt is rewritten
python -m benchmarks.quality held               trajectories on which no weight was chosen
python -m benchmarks.quality evidence           conversations only

The data is found through MARKSWEEP_DATA. Every strategy of ours is measured through `Conversation`,
as a program runs it; `trim_messages` runs in its own environment. Figures measure
availability: whether what the agent used next was still in its context. They do not measure success
at the task; a miss is a cost, since the agent will often read it again.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.datasets import CONVERSATIONS, folder, load
from benchmarks.trimmed import LANGCHAIN, trimmed
from marksweep.core.plan import Prices
from marksweep.replay.atoms import EXTRACTORS
from marksweep.replay.cases import Case
from marksweep.replay.catalog import CLAIRVOYANT, ECONOMY, QUALITY, REFERENCES, TRUNCATE
from marksweep.replay.counting import exact
from marksweep.replay.measures import Figures, Gap, Outcome, Times, figures, gap
from marksweep.replay.records import Conversation, read_records
from marksweep.replay.runner import Budget, How, JobResult
from marksweep.replay.runner import run as run_at
from marksweep.replay.table import evidence_row

BUDGETS = (25, 10)
WORKERS = 2
CACHE = Path(tempfile.gettempdir()) / "marksweep-bounds"
OURS = (ECONOMY, QUALITY)
DEEP = "truncate to 60"
"""Truncation, rarely and deep: the reference for our cost."""
COMPARED = (*REFERENCES, DEEP, *OURS, CLAIRVOYANT)

SEEN = 60
"""Trajectories of a set on which weights were chosen; the others were never used."""
HELD_OUT = 40
"""How many of the others are measured."""

TARGETS: dict[tuple[str, str, int], int] = {
    (QUALITY, "names", 25): 86,
    (QUALITY, "names", 10): 80,
    (ECONOMY, "names", 25): 74,
    (ECONOMY, "names", 10): 70,
    (QUALITY, "tokens", 25): 82,
    (ECONOMY, "tokens", 25): 74,
}
"""Required mean of the gap closed; for extractors other than `names`, without the two long logs."""

COSTS = "economy at 25 %: cost ≤ 0.78 / 0.97 / 0.50"
PRICES = Prices()
"""Prices of the table of costs: a cached token 0.1, one that is written to the cache 1.25."""
BILLS = "economy: at most 1.1 × truncate to 60; prefix rewritten on at most 20 % of the requests"
RECALLS = "required at 10 % / 25 %: LoCoMo 86 / 91, QMSum 32 / 55, BEAM 89 / 95"


def main() -> int:
    """Print the requested tables."""
    asked = sys.argv[1:]
    extractors = [name for name in EXTRACTORS if name in asked] or list(EXTRACTORS)
    budgets = [b for b in BUDGETS if str(b) in asked] or list(BUDGETS)
    if not asked or {*asked} & {*EXTRACTORS, *map(str, BUDGETS)}:
        for extractor in extractors:
            sets = load(exact(), extractor)
            for budget in budgets:
                trajectories(sets, extractor, budget)
    if not asked or "cost" in asked:
        for budget in budgets:
            costs(load(exact()), budget)
    if not asked or "held" in asked:
        held_out()
    if not asked or "evidence" in asked:
        evidence()
    return 0


def trajectories(sets: dict[str, list[Case]], extractor: str, budget: int) -> None:
    """Print one table: collectors by rows, sets by columns."""
    print(f"\n## {budget} % budget, extractor `{extractor}`; {COSTS}\n")
    print(f"| collector | {' | '.join(f'`{name}`' for name in sets)} | mean gap | target |")
    print("|---" * (len(sets) + 3) + "|")
    done = {name: run(cases, COMPARED, budget, cache=CACHE) for name, cases in sets.items()}
    for name in COMPARED:
        rows = [(_outcomes(found, name), found) for found in done.values()]
        _row(name, rows, extractor, TARGETS.get((name, extractor, budget), ""))
    if extractor == "names":
        peers = {name: trimmed(cases, budget) for name, cases in sets.items()}
        rows = [(peers[name], found) for name, found in done.items()]
        _row(LANGCHAIN, rows, extractor, "")
    solved = Counter(d.solved for found in done.values() for d in found)
    print(f"\nBounds: {', '.join(f'{n} {how}' for how, n in sorted(solved.items()))}.", flush=True)


def costs(sets: dict[str, list[Case]], budget: int) -> None:
    """Print what each collector costs relative to truncation, and how often it rewrites the prompt.

    No bound is needed, so this is quick.
    """
    print(f"\n## Cost at a {budget} % budget, after the limit is reached; {BILLS}\n")
    print(f"| collector | {' | '.join(f'`{name}`' for name in sets)} |")
    print("|---" * (len(sets) + 1) + "|")
    compared = (TRUNCATE, DEEP, *OURS)
    done = {name: run(cases, compared, budget) for name, cases in sets.items()}
    for name in compared:
        cells = []
        for found in done.values():
            ours, deep = (figures(_outcomes(found, each)) for each in (name, DEEP))
            ratio = ours.priced(PRICES) / deep.priced(PRICES)
            broken = sum(ours.violations.values())
            cells.append(
                f"{ratio:.2f} × {DEEP}, {ours.cost:.2f} × none; rewritten {ours.rewrites:.0f} %; "
                f"recall {ours.recall:.1f}; {broken} violations"
            )
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def held_out() -> None:
    """Print the figures of trajectories on which no weight was chosen."""
    cases = load(exact(), "names", SEEN + HELD_OUT)["mini_swe"][SEEN:]
    for budget in BUDGETS:
        print(f"\n## {budget} % budget, {len(cases)} trajectories of `mini_swe` held out\n")
        print("| collector | `mini_swe` | mean gap | target |")
        print("|---|---|---|---|")
        found = run(cases, COMPARED, budget, cache=CACHE)
        for name in COMPARED:
            _row(name, [(_outcomes(found, name), found)], "names", "")


def run(
    cases: Sequence[Case], collectors: Sequence[str], percent: int, cache: Path | None = None
) -> list[JobResult]:
    """Drive collectors over trajectories; `cache` keeps what is done."""
    budget = Budget.of(f"{percent}%")
    how = How(workers=WORKERS, folder=cache)
    return run_at(cases, (), collectors, [budget], how).done[budget.label]


def _outcomes(done: Sequence[JobResult], name: str) -> list[Outcome]:
    return [each.outcomes[name] for each in done]


def _row(
    name: str, sets: list[tuple[list[Outcome], list[JobResult]]], extractor: str, target: int | str
) -> None:
    cells, gaps = [], []
    for outcomes, found in sets:
        figure = figures(outcomes)
        closed = gap(outcomes, _outcomes(found, TRUNCATE), _outcomes(found, CLAIRVOYANT))
        cells.append(cell(figure, closed))
        if closed.percent is not None:
            gaps.append(closed.percent)
    counted = gaps if extractor == "names" else gaps[:2]
    mean = f"{sum(counted) / len(counted):+.0f}" if counted else "no room"
    print(f"| {name} | {' | '.join(cells)} | {mean} | {target} |", flush=True)


def cell(figure: Figures, closed: Gap) -> str:
    """NR (any/src), gap with interval; churn and rewrites; cost; time; violations if any."""
    room = "no room"
    if closed.percent is not None:
        room = f"{closed.percent:+.0f} [{closed.low:.0f}, {closed.high:.0f}]"
    broken = "".join(f"; {n} × {rule}" for rule, n in figure.violations.items())
    times = figure.times or Times(0.0, 0.0, 0.0)
    return (
        f"{figure.recall:.1f} ({figure.recall_any:.0f}/{figure.recall_src:.0f}), {room}; churn "
        f"{figure.churn:.0f}, rewritten {figure.rewrites:.0f} %; cost {figure.cost:.2f}; "
        f"{times.mean:.1f} ms, at most {times.max:.0f}{broken}"
    )


def evidence() -> None:
    """Print evidence recall of conversations."""
    print(f"\n## Evidence recall, 10 % / 25 % budget; {RECALLS}\n")
    print(f"| | {' | '.join(CONVERSATIONS)} |")
    print("|---" * (len(CONVERSATIONS) + 1) + "|")
    budgets = [Budget.of(f"{percent}%") for percent in sorted(BUDGETS)]
    compared = (TRUNCATE, "GDSF", *OURS)
    rows: dict[str, list[str]] = {}
    for set_name in CONVERSATIONS:
        talks = read_records(folder() / f"{set_name}.jsonl.xz", Conversation)
        found = run_at((), talks, compared, budgets, How(workers=WORKERS)).answers
        for name in compared:
            done = [evidence_row(name, b.label, found[b.label][name]) for b in budgets]
            blind = " / ".join(f"{each.blind:.1f}" for each in done)
            rows.setdefault(f"ER_blind, {name}", []).append(blind)
            if name in OURS:
                recalled = " / ".join(f"{each.recalled:.1f}" for each in done)
                rows.setdefault(f"ER_recall, {name}", []).append(recalled)
    for label in sorted(rows, key=lambda label: label.startswith("ER_recall")):
        print(f"| {label} | {' | '.join(rows[label])} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
