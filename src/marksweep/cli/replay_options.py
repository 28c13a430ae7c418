"""The options that `replay` and `tune` share."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

import click

from marksweep.cli.common import json_option
from marksweep.replay import catalog
from marksweep.replay.atoms import EXTRACTORS
from marksweep.replay.clairvoyant import NODES
from marksweep.replay.front import Budget, How
from marksweep.replay.recommend import ENOUGH
from marksweep.replay.report import BUDGETS, MOST, Request
from marksweep.replay.sandbox import PATIENCE

Command = Callable[..., Any]


class Given(TypedDict):
    """The options as click passes them."""

    strategies: tuple[str, ...]
    budgets: tuple[str, ...]
    enough: float
    trace: str | None
    dialect: str | None
    sets: tuple[str, ...]
    extractor: str
    answers: bool
    most: int
    keep: Path | None
    workers: int | None
    solver_nodes: int
    patience: float
    times: bool


def with_budgets(given: Given, budgets: tuple[str, ...]) -> Given:
    """The options, with these budgets if none was named."""
    return {**given, "budgets": given["budgets"] or budgets}


def request_of(paths: Sequence[str], given: Given) -> Request:
    """What the options ask for; names and sizes are checked before any work."""
    for budget in given["budgets"]:
        Budget.of(budget)
    return Request(
        strategies=tuple(map(catalog.canonical, given["strategies"])) or catalog.DEFAULT,
        budgets=given["budgets"] or BUDGETS,
        enough=given["enough"],
        extractor=given["extractor"],
        answers=given["answers"],
        most=given["most"],
        how=How(
            workers=given["workers"] or os.cpu_count() or 1,
            nodes=given["solver_nodes"],
            patience=given["patience"],
            folder=given["keep"],
        ),
        trace=given["trace"],
        source=shlex.join(paths) or "PATH",
    )


def shared(function: Command) -> Command:
    """Add the options that both commands have."""
    for option in reversed(
        (
            click.argument("paths", nargs=-1),
            click.option(
                "-s",
                "--strategy",
                "strategies",
                multiple=True,
                help="coverage, mask+truncate:spare=5, gc_hybrid, my.module:Name …; again for more",
            ),
            click.option(
                "-b", "--budget", "budgets", multiple=True, help="32k or 25%; again for more."
            ),
            click.option(
                "--recall",
                "enough",
                default=ENOUGH,
                show_default=True,
                type=click.FloatRange(0, 100),
                help="Percent of what is needed that the recommended setting should have.",
            ),
            click.option(
                "--html", type=click.Path(path_type=Path), help="Write a report for a browser."
            ),
            click.option("--trace", metavar="NAME", help="Transcript for the report's timeline."),
            click.option("--dialect", help="The format, if it cannot be told from the content."),
            click.option(
                "--set", "sets", multiple=True, help="Without PATHS: a set in MARKSWEEP_DATA."
            ),
            click.option(
                "--extractor",
                type=click.Choice(list(EXTRACTORS)),
                default="names",
                show_default=True,
                help="What counts as needed again.",
            ),
            click.option(
                "--answers", is_flag=True, help="Numbers in plain answers are needs, too."
            ),
            click.option(
                "--most",
                default=MOST,
                show_default=True,
                type=click.IntRange(1),
                help="Transcripts that are replayed, drawn by lot if there are more.",
            ),
            click.option(
                "--keep",
                type=click.Path(path_type=Path, file_okay=False),
                help="Keep finished work here and go on from it.",
            ),
            click.option(
                "--workers", type=click.IntRange(1), help="Processes.  [default: one per core]"
            ),
            click.option(
                "--solver-nodes",
                default=NODES,
                show_default=True,
                type=click.IntRange(0),
                help="Effort for the exact bound, per transcript and budget; 0: greedy.",
            ),
            click.option(
                "--patience",
                default=PATIENCE,
                show_default=True,
                type=click.FloatRange(0, min_open=True),
                help="Seconds that a plugin or strategy of your own has for one call.",
            ),
            click.option(
                "--times", is_flag=True, help="Put times into JSON and HTML, which then vary."
            ),
            json_option,
        )
    ):
        function = option(function)
    return function
