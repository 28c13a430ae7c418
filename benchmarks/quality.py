"""Quality of context collection, by the replay lab on recorded data.

python -m benchmarks.quality                    all tables
python -m benchmarks.quality names 25           one extractor, one budget
python -m benchmarks.quality evidence           conversations only

The data is found through MARKSWEEP_DATA. Figures measure availability: whether what the agent used
next was still in its context. They do not measure success at the task; a miss is a cost, since the
agent will often read it again.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from marksweep.replay.catalog import CLAIRVOYANT, ECONOMY, QUALITY, REFERENCES
from marksweep.replay.counting import exact
from marksweep.replay.datasets import CONVERSATIONS, Case, folder, load
from marksweep.replay.evidence import blind, evidence_recall, recalled
from marksweep.replay.lab import Done, run, run_talks
from marksweep.replay.measures import Figures, Gap, figures, gap
from marksweep.replay.records import read_conversations

BUDGETS = (25, 10)
EXTRACTORS = ("names", "tokens")
CACHE = Path(tempfile.gettempdir()) / "marksweep-clairvoyant"
FLOOR = "truncate"
RECALLING = (ECONOMY, QUALITY)

TARGETS = {
    (QUALITY, "names", 25): 86,
    (QUALITY, "names", 10): 80,
    (ECONOMY, "names", 25): 74,
    (ECONOMY, "names", 10): 70,
    (QUALITY, "tokens", 25): 82,
    (ECONOMY, "tokens", 25): 74,
}
"""Mean gap closed that is asked for; of the second extractor without the two long logs."""


def main() -> int:
    """Print the tables asked for."""
    asked = sys.argv[1:]
    extractors = [name for name in EXTRACTORS if name in asked] or list(EXTRACTORS)
    budgets = [b for b in BUDGETS if str(b) in asked] or list(BUDGETS)
    if asked != ["evidence"]:
        for extractor in extractors:
            sets = load(exact(), extractor)
            for budget in budgets:
                trajectories(sets, extractor, budget)
    if not asked or "evidence" in asked:
        evidence()
    return 0


def trajectories(sets: dict[str, list[Case]], extractor: str, budget: int) -> None:
    """Print one table: collectors by rows, sets by columns."""
    names = [*REFERENCES, ECONOMY, QUALITY, CLAIRVOYANT]
    print(f"\n## {budget} % budget, extractor `{extractor}`\n")
    print(f"| collector | {' | '.join(f'`{name}`' for name in sets)} | mean gap | target |")
    print("|---" * (len(sets) + 3) + "|")
    done = {name: run(cases, names, budget, cache=CACHE) for name, cases in sets.items()}
    for name in names:
        cells, gaps = [], []
        for found in done.values():
            figure, closed = _figures(found, name)
            cells.append(cell(figure, closed))
            if closed.percent is not None:
                gaps.append(closed.percent)
        counted = gaps[:2] if extractor == "tokens" else gaps
        mean = sum(counted) / len(counted)
        target = TARGETS.get((name, extractor, budget), "")
        print(f"| {name} | {' | '.join(cells)} | {mean:+.0f} | {target} |", flush=True)
    solved = Counter(d.solved for found in done.values() for d in found)
    print(f"\nBounds: {', '.join(f'{n} {how}' for how, n in sorted(solved.items()))}.", flush=True)


def _figures(done: list[Done], name: str) -> tuple[Figures, Gap]:
    outcomes = {n: [d.outcomes[n] for d in done] for n in (name, FLOOR, CLAIRVOYANT)}
    return figures(outcomes[name]), gap(outcomes[name], outcomes[FLOOR], outcomes[CLAIRVOYANT])


def cell(figure: Figures, closed: Gap) -> str:
    """NR (any/src), gap with interval; churn; cost; time; violations if any."""
    room = "no room"
    if closed.percent is not None:
        room = f"{closed.percent:+.0f} [{closed.low:.0f}, {closed.high:.0f}]"
    broken = "".join(f"; {n} × {rule}" for rule, n in figure.violations.items())
    return (
        f"{figure.nr:.1f} ({figure.nr_any:.0f}/{figure.nr_src:.0f}), {room}; churn "
        f"{figure.churn:.0f}; cost {figure.cost:.2f}; {figure.ms_mean:.1f} ms{broken}"
    )


def evidence() -> None:
    """Print evidence recall of conversations."""
    print("\n## Evidence recall, 10 % / 25 % budget\n")
    print(f"| | {' | '.join(CONVERSATIONS)} |")
    print("|---" * (len(CONVERSATIONS) + 1) + "|")
    talks = {n: read_conversations(folder() / f"{n}.jsonl.xz") for n in CONVERSATIONS}
    for label, measure, collectors in (
        ("ER_blind", blind, (FLOOR, "GDSF", *RECALLING)),
        ("ER_recall", recalled, RECALLING),
    ):
        for name in collectors:
            cells = [
                " / ".join(
                    f"{evidence_recall(run_talks(talk, measure, name, percent)):.1f}"
                    for percent in sorted(BUDGETS)
                )
                for talk in talks.values()
            ]
            print(f"| {label}, {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
