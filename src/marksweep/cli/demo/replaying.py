"""The end of the demo: the made-up transcript, replayed, and its report for a browser."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from marksweep.cli import render
from marksweep.cli.demo.sample import NAME, sample_trajectory
from marksweep.cli.demo.shown import section
from marksweep.cli.replay_shown import figures
from marksweep.cli.transcripts import save
from marksweep.replay import catalog
from marksweep.replay.html import page
from marksweep.replay.inputs import Inputs
from marksweep.replay.report import Report, Request, replay
from marksweep.replay.table import timeless

BUDGETS = ("15%", "30%", "50%")
ENOUGH = 80.0
"""Recall that is asked of the recommended setting: what a single short transcript allows."""
STRATEGIES = ("coverage", "coverage_quality", catalog.TRUNCATE, "mask last 10", "GDSF")


def replay_sample() -> Report:
    """Replay the made-up transcript at a few budgets."""
    request = Request(strategies=STRATEGIES, budgets=BUDGETS, enough=ENOUGH)
    return replay(Inputs((sample_trajectory(),), (), ()), request)


def show_replay(out: Console, report: Path) -> None:
    """Show how strategies do on the made-up transcript, and write the report to a file."""
    found = replay_sample()
    section(
        out,
        "Which strategy keeps what the agent needs again?",
        f"{NAME}, a recorded session of {found.result.tokens:,} tokens, replayed. recall: how much "
        "of what the agent used next was still there, in percent. cost: against no collection.",
    )
    out.print(figures(found.result))
    if found.chosen:
        chosen = f"recommended: {found.chosen.strategy} at {found.chosen.budget}"
        out.print(render.line(chosen, style="bold"))
    save(report, page(timeless(found.result), found.chosen, found.timelines).encode())
    out.print(render.line(f"the report, with the timeline of what was missed: {report.name}"))
