"""What frameworks ship, compared with marksweep, on recorded runs in `MARKSWEEP_DATA`.

python -m benchmarks.peers.recorded        a few runs of each set, at a quarter of their size

Share: tokens sent, of those without any collection. Paired: steps in which every call has its
result, as providers require. Within our rules: steps that also keep the limit, the first messages
up to the task, and what came since the last step, as the replay lab requires; no provider refuses
the others. Availability: how much of what the agent used next was in its context; the lab counts 0
for a step outside its rules. Cost: of the input with a prompt cache, relative to no collection. All
times are wall time. A model's summaries are replaced by a text without information.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.datasets import load
from benchmarks.peers.drivers.pairing import is_paired
from benchmarks.peers.environments import CannotInstall, interpreter, last_line
from benchmarks.quality import run
from benchmarks.trimmed import Job, Precomputed
from marksweep.replay.cases import Case
from marksweep.replay.catalog import ECONOMY, QUALITY
from marksweep.replay.counting import exact
from marksweep.replay.drive import Pricer, drive, limit_of
from marksweep.replay.guards import Violation
from marksweep.replay.hits import Reader, proofs
from marksweep.replay.measures import Outcome, figures
from marksweep.replay.records import Wire

PERCENT = 25
RUNS = 6
"""Runs of each set. More take longer: some peers are quadratic."""
MINUTES = 5
"""How long a peer may take for one set."""

PEERS = {
    "LangChain ContextEditingMiddleware": ("langchain", "clear"),
    "LangChain SummarizationMiddleware": ("langchain", "summarize"),
    "pydantic-ai-harness ClearToolResults": ("pydantic_harness", "clear"),
    "OpenAI Agents ToolOutputTrimmer": ("openai_agents", "trim"),
    "Google ADK ContextFilterPlugin": ("google_adk", "keep_last"),
    "Google ADK EventsCompactionConfig": ("google_adk", "compact"),
    "Agent Framework TruncationStrategy": ("agent_framework", "truncate"),
    "Agent Framework ToolResultCompactionStrategy": ("agent_framework", "compact"),
}
OURS = {"marksweep coverage": ECONOMY, "marksweep coverage_quality": QUALITY}
UNPAIRED = Violation.PAIRING.value
DRIVERS = Path(__file__).parent / "drivers"


class Made(msgspec.Struct, frozen=True):
    """A driver's contexts for one run."""

    contexts: list[list[Wire]]
    seconds: float


def main() -> int:
    """Print a table for each set."""
    for name, cases in load(exact()).items():
        some = cases[:RUNS]
        print(f"\n`{name}`, {len(some)} runs, limit {PERCENT} % of each\n")
        print(
            "| | share | paired | within our rules | availability | cost | rewritten | ms a step |"
        )
        print("|---|---|---|---|---|---|---|---|", flush=True)
        done = run(some, tuple(OURS.values()), PERCENT)
        for label, strategy in OURS.items():
            outcomes = [each.outcomes[strategy] for each in done]
            found = figures(outcomes)
            steps = sum(len(outcome.steps) for outcome in outcomes)
            mean_ms = found.times.mean if found.times else 0.0
            _print(label, outcomes, mean_ms, steps - found.violations.get(UNPAIRED, 0))
        for label, (driver, argument) in PEERS.items():
            try:
                _print(label, *peer(some, driver, argument))
            except (CannotInstall, subprocess.TimeoutExpired) as error:
                print(f"| {label} | {error} | | | | | | |", flush=True)
    return 0


def _print(label: str, outcomes: Sequence[Outcome], milliseconds: float, paired: int) -> None:
    found = figures(outcomes)
    steps = sum(len(outcome.steps) for outcome in outcomes)
    share = (found.fresh + found.cached) / (found.fresh_uncollected + found.cached_uncollected)
    broken = ", ".join(f"{n} × {rule}" for rule, n in found.violations.items())
    valid = f"{steps - sum(found.violations.values())} of {steps}"
    cells = (
        f"{share:.0%}",
        f"{paired} of {steps}",
        f"{valid}{f' ({broken})' if broken else ''}",
        f"{found.recall:.1f}",
        f"{found.cost:.2f}",
        f"{found.rewrites:.0f} %",
        f"{milliseconds:.1f}",
    )
    print(f"| {label} | {' | '.join(cells)} |", flush=True)


def peer(cases: Sequence[Case], driver: str, argument: str) -> tuple[list[Outcome], float, int]:
    """Drive a peer over runs; return the outcomes, milliseconds a step, and how many are paired."""
    limits = [limit_of(case.prices, case.study.trajectory.pinned, PERCENT) for case in cases]
    jobs = [
        Job(case.study.trajectory.messages, limit, [step.at for step in case.study.steps])
        for case, limit in zip(cases, limits, strict=True)
    ]
    ran = subprocess.run(
        [str(interpreter(driver)), str(DRIVERS / f"recorded_{driver}.py"), argument],
        input=b"\n".join(map(msgspec.json.encode, jobs)),
        capture_output=True,
        timeout=MINUTES * 60,
        check=False,
    )
    if ran.returncode:
        raise CannotInstall(f"did not run: {last_line(ran.stderr.decode())}")
    made = [msgspec.json.decode(line, type=Made) for line in ran.stdout.splitlines()]
    count, outcomes = exact(), []
    for case, limit, each in zip(cases, limits, made, strict=True):
        replayed = Precomputed(each.contexts)
        price, reader = Pricer(count), Reader()
        steps = drive(case.study, proofs(case.study), replayed, limit, tokens=price, reader=reader)
        outcomes.append(Outcome(case.study.trajectory.id, tuple(steps)))
    total = sum(len(job.steps) for job in jobs)
    paired = sum(is_paired(context) for each in made for context in each.contexts)
    return outcomes, sum(each.seconds for each in made) * 1_000 / max(1, total), paired


if __name__ == "__main__":
    sys.exit(main())
