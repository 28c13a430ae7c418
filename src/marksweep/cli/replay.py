"""`marksweep replay` and `marksweep tune`: strategies against your own transcripts."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from marksweep.cli import INTERRUPTED, render, transcripts
from marksweep.cli.common import (
    FiniteRange,
    confirm,
    emit,
    errors,
    json_option,
    options,
    price_options,
    progress,
)
from marksweep.cli.common import command as make_command
from marksweep.errors import BadInput
from marksweep.money import dollars, price_of
from marksweep.replay import catalog
from marksweep.replay.atoms import EXTRACTORS
from marksweep.replay.catalog import is_usable, settings_for
from marksweep.replay.clairvoyant import MAX_NODES
from marksweep.replay.html import page
from marksweep.replay.html_front import front
from marksweep.replay.inputs import gather
from marksweep.replay.recommend import (
    WANTED_RECALL_PERCENT,
    Recommendation,
    gap_text,
    settings_file,
)
from marksweep.replay.report import (
    BUDGETS,
    MAX_TRANSCRIPTS,
    Replayed,
    Request,
    replay,
)
from marksweep.replay.runner import Budget, How
from marksweep.replay.sandbox import CALL_SECONDS
from marksweep.replay.table import Result, Row, timeless
from marksweep.replay.timeline import most_missed
from marksweep.settings.layers import FILES, FOLDER
from marksweep.strategies.registry import DEAR

TUNED = ("10%", "20%", "35%", "50%", "75%")
"""Budgets that `tune` tries."""

Given = dict[str, Any]
"""The options as click passes them."""

replay_options = options(
    click.argument("paths", nargs=-1, required=True),
    click.option(
        "-s",
        "--strategy",
        "strategies",
        multiple=True,
        help="coverage, mask+truncate:spare=5, gc_hybrid, my.module:Name …; repeatable. "
        f"coverage_quality {DEAR}.",
    ),
    click.option("-b", "--budget", "budgets", multiple=True, help="32k or 25%; repeatable."),
    click.option(
        "--recall",
        "enough",
        default=WANTED_RECALL_PERCENT,
        show_default=True,
        type=FiniteRange(0, 100),
        help="Percent of what is needed that the recommended setting should keep.",
    ),
    click.option("--html", type=click.Path(path_type=Path), help="Write a report for a browser."),
    click.option("--trace", metavar="NAME", help="Transcript for the report's timeline."),
    click.option("--dialect", help="The format; detected if left out."),
    click.option(
        "--extractor",
        type=click.Choice(list(EXTRACTORS)),
        default="names",
        show_default=True,
        help="What counts as needed again.",
    ),
    click.option("--answers", is_flag=True, help="Count numbers in plain answers as needed, too."),
    click.option(
        "--most",
        default=MAX_TRANSCRIPTS,
        show_default=True,
        type=click.IntRange(1),
        help="Maximum number of transcripts; of more, a fixed sample is taken.",
    ),
    click.option(
        "--keep",
        type=click.Path(path_type=Path, file_okay=False),
        help="Keep finished work here, and continue from it.",
    ),
    click.option("--workers", type=click.IntRange(1), help="Processes.  [default: one per core]"),
    click.option(
        "--solver-nodes",
        default=MAX_NODES,
        show_default=True,
        type=click.IntRange(0),
        help="Effort for the exact bound, per transcript and budget; 0: greedy.",
    ),
    click.option(
        "--patience",
        default=CALL_SECONDS,
        show_default=True,
        type=FiniteRange(0, min_open=True),
        help="Time limit for one call of your own plugin or strategy, in seconds.",
    ),
    click.option(
        "--times", is_flag=True, help="Include times in JSON and HTML; they vary from run to run."
    ),
    price_options,
    json_option,
)
"""What both commands take."""


@make_command("replay")
@replay_options
def command(paths: tuple[str, ...], html: Path | None, as_json: bool, **given: Any) -> None:  # noqa: ANN401
    """Show how strategies would have done on recorded transcripts. Nothing is sent anywhere.

    PATHS are files, folders or patterns of transcripts in any format (Claude Code and Codex logs,
    requests, lists of messages; .xz and .gz too), or - for standard input.

    Example:  marksweep replay ~/.claude/projects --budget 32k --html report.html
    """
    found = _run(paths, given)
    _show(found, given, html, as_json=as_json)
    if html is not None and not as_json:
        click.echo(f"The report is in {html}.")


@make_command("tune")
@replay_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Settings file.  [default: .marksweep/settings.toml]",
)
@click.option("--yes", is_flag=True, help="Change an existing settings file without asking.")
def tune(
    paths: tuple[str, ...],
    html: Path | None,
    as_json: bool,
    output: Path | None,
    yes: bool,
    **given: Any,  # noqa: ANN401
) -> None:
    """Find the best setting for your transcripts; write it to a settings file with the evidence.

    Other settings in the file are kept; the original file is kept as FILE.orig.

    Example:  marksweep tune ~/.claude/projects
    """
    path = output or _settings_path()
    report = _run(paths, {**given, "budgets": given["budgets"] or TUNED}, writable)
    if report.chosen is None:
        raise BadInput(
            "no strategy that was replayed can be written to a settings file: they are references, "
            "plugins or your own, or broke a rule. Name others with -s."
        )
    _show(report, given, html, as_json=as_json)
    before = path.read_text("utf-8") if path.exists() else ""
    text = settings_file(report.chosen, report.result, before)
    if before == text:
        return
    if before:
        confirm(f"Change {path}?", yes=yes)
        transcripts.save(path.with_name(path.name + ".orig"), before.encode())
    path.parent.mkdir(parents=True, exist_ok=True)
    transcripts.save(path, text.encode())
    errors().print(f"Written: {path}", soft_wrap=True)


def writable(strategy: str) -> bool:
    """Whether a settings file can name a strategy."""
    return settings_for(strategy) is not None


def _settings_path() -> Path:
    folder = Path(FOLDER)
    other = folder / FILES[1]
    if other.exists():
        raise BadInput(f"{other} is there and holds no comments. Move it, or name a file with -o.")
    return folder / FILES[0]


def _run(
    paths: Sequence[str], given: Given, usable_as: Callable[[str], bool] = is_usable
) -> Replayed:
    """Replay what the options say; names and sizes are checked first."""
    for budget in given["budgets"]:
        Budget.of(budget)
    request = Request(
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
        price=price_of(given["model"], given["price"]),
        trace=given["trace"],
        source=shlex.join(paths),
        usable_as=usable_as,
    )
    try:
        inputs = gather(paths, given["dialect"], leave_out=given["keep"])
        with progress("replaying") as advance:
            return replay(inputs, request, lambda done, jobs: advance(done, jobs, ""))
    except KeyboardInterrupt:
        folder = request.how.folder
        kept = "" if folder is None else f" Finished work is in {folder}; run it again."
        errors().print(f"marksweep: interrupted.{kept}")
        sys.exit(INTERRUPTED)


def _show(report: Replayed, given: Given, html: Path | None, *, as_json: bool) -> None:
    """Print a replay, and write its page; JSON and HTML have times only if asked for."""
    result = report.result if given["times"] else timeless(report.result)
    if html is not None:
        transcripts.save(html, page(result, report.chosen, report.timelines).encode())
    written = msgspec.structs.replace(report, result=result)
    emit(written, None if as_json else shown(report), as_json=as_json)


COLUMNS = ("recall", "any/src", "gap closed", "cost", "churn", "ms")
"""The figures of a row."""
NARROW = ("recall", "gap closed", "cost")
"""Those that a narrow terminal shows."""
NAME_WIDTH = 20
"""Characters of a strategy's name on one line."""
MAX_LISTED = 5
"""Skipped transcripts, and failures of a strategy, that are listed."""


def shown(report: Replayed) -> RenderableType:
    """The figures, the recommended setting, and what was skipped."""
    result = report.result
    needs = sum(line.need_steps for line in result.transcripts)
    count = render.counted(result.transcripts, "transcript")
    head = f"{count}, {result.tokens:,} tokens, {needs:,} steps with needs"
    parts: list[RenderableType] = [Text(head, style="bold")]
    if result.rows:
        parts += [figures(result), *_broken(result), Text(_bounds(result), style="dim")]
    if result.evidence:
        parts.append(_evidence(result))
    if report.chosen:
        chosen = report.chosen
        parts.append(
            Text.assemble(
                "\n",
                (chosen.strategy, "bold"),
                f" at {chosen.budget} (about {chosen.limit_tokens:,} tokens): {chosen.reason}.",
            )
        )
        parts.append(Text("\n" + chosen.code + "\n", style="cyan"))
        parts += _in_words(report, chosen)
    if result.passed:
        parts.append(Text(f"{len(result.passed):,} skipped; the first:", style="yellow"))
        parts += [Text(f" {each.name}: {each.reason}") for each in result.passed[:MAX_LISTED]]
    parts.append(
        Text(
            "Recall says whether what the agent used next was still in context, not whether it did "
            "its task. Cost above 1 is more expensive than no collection.",
            style="dim",
        )
    )
    return Group(*parts)


def _in_words(report: Replayed, chosen: Recommendation) -> Iterator[RenderableType]:
    """What the recommended setting cut, what the model saw instead, what it costs."""
    result, row = report.result, report.result.row(chosen.strategy, chosen.budget)
    yield Text(
        f"Money: {dollars(row.dollars)} for the input of all requests instead of "
        f"{dollars(result.dollars_uncollected)} without collection, by the prices of "
        f"{result.price}. The prompt's prefix is rewritten on {row.rewrites:.0f} % of the requests "
        "after the limit is reached.\n"
    )
    for timeline in report.timelines[:1]:
        yield Text(f"What was removed from {timeline.transcript}, the largest first:", style="bold")
        for cut in timeline.cuts:
            where = f"step {cut.step + 1}, message {cut.at} ({cut.role})"
            yield render.line(f"{where}, {cut.tokens:,} tokens")
            yield render.quoted("before", cut.before)
            yield render.quoted("after", cut.after or "(removed whole)")
        missed = ", ".join(f"{atom} ({steps}×)" for atom, steps in most_missed(timeline))
        yield Text(f"What the agent missed most there: {missed or 'nothing'}.\n")


def figures(result: Result) -> Table:
    """The figures as a table that fits 80 columns."""
    best = {(row.strategy, row.budget) for row in front(result.rows)}
    heads = NARROW if render.is_narrow() else COLUMNS
    if any(row.violations for row in result.rows):
        heads = (*heads, "broken")
    table = render.table("budget", "strategy", *heads, right=heads, whole=("budget",))
    table.padding, table.pad_edge = (0, 1, 0, 0), False
    last = ""
    for row in result.rows:
        cells = _cells(row)
        star = " ★" if (row.strategy, row.budget) in best else ""
        style = "" if catalog.is_usable(row.strategy) else "dim"
        name = Text("\n ".join(_broken_up(row.strategy)) + star, style=style)
        budget = row.budget if row.budget != last else ""
        table.add_row(budget, name, *(cells[head] for head in heads))
        last = row.budget
    return table


def _broken_up(name: str) -> list[str]:
    """A name in lines that fit the column, broken where its parts meet."""
    lines = [""]
    for part in re.findall(r"[^+:,]+[+:,]?", name):
        if lines[-1] and len(lines[-1]) + len(part) > NAME_WIDTH:
            lines.append("")
        lines[-1] += part
    return lines


def _broken(result: Result) -> list[Text]:
    """Who broke a rule, which, and where first."""
    lines = []
    for row in result.rows:
        if row.violations:
            rules = ", ".join(f"{rule} ({count}×)" for rule, count in row.violations.items())
            lines.append(Text(f"\n{row.strategy} at {row.budget}: {rules}", style="red"))
            lines += [Text(f" {failure}") for failure in row.failures]
    for asked in result.evidence:
        if asked.failures:
            lines.append(Text(f"\n{asked.strategy} at {asked.budget} failed", style="red"))
            lines += [Text(f" {failure}") for failure in asked.failures[:MAX_LISTED]]
    return lines


def _bounds(result: Result) -> str:
    """How the clairvoyant bounds were found."""
    ways = {bound.budget: bound.how for bound in result.bounds}
    if len(set(ways.values())) == 1:
        return f"\nThe clairvoyant bound is {next(iter(ways.values()))}."
    return "\nThe clairvoyant bound: " + "; ".join(f"{b} {how}" for b, how in ways.items()) + "."


def _cells(row: Row) -> dict[str, Text]:
    spread = f" [{row.gap_low:.0f}, {row.gap_high:.0f}]" if row.gap_low < row.gap_high else ""
    broken = sum(row.violations.values())
    return {
        "recall": Text(f"{row.recall:.1f}"),
        "any/src": Text(f"{row.recall_any:.0f}/{row.recall_src:.0f}"),
        "gap closed": Text(gap_text(row) + spread),
        "cost": Text(f"{row.cost:.2f}", style="red" if row.cost > 1 else ""),
        "churn": Text(f"{row.churn:,.0f}"),
        "ms": Text(f"{row.times.mean:.1f}" if row.times else ""),
        "broken": Text(str(broken), style="red" if broken else "dim"),
    }


def _evidence(result: Result) -> Table:
    numbers = ("in context", "with recall", "questions")
    table = render.table("budget", "strategy", *numbers, right=numbers)
    for row in result.evidence:
        brought = "–" if row.recalled is None else f"{row.recalled:.1f}"
        table.add_row(row.budget, row.strategy, f"{row.blind:.1f}", brought, f"{row.questions:,}")
    return table
