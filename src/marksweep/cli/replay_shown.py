"""A replay as people see it on a terminal."""

from __future__ import annotations

import re

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from marksweep.cli import render
from marksweep.replay import catalog
from marksweep.replay.html_front import front
from marksweep.replay.recommend import gap_text
from marksweep.replay.report import Report
from marksweep.replay.table import Result, Row

COLUMNS = {"recall": 6, "any/src": 7, "gap closed": 10, "cost": 4, "churn": 6, "ms": 4}
"""The figures of a row, and the least width of each."""
NARROW = ("recall", "gap closed", "cost")
"""Those that a narrow terminal shows."""
NAME_WIDTH = 20
"""Characters of a strategy's name on one line."""
SHOWN = 5
"""Transcripts passed over that are named."""


def shown(name: str, report: Report) -> RenderableType:
    """The figures, the recommended setting, and what was passed over."""
    result = report.result
    needs = sum(line.need_steps for line in result.transcripts)
    head = (
        f" {_counted(len(result.transcripts))}, {result.tokens:,} tokens, "
        f"{needs:,} steps with needs"
    )
    parts: list[RenderableType] = [Text(f"{name}{head}".strip(), style="bold")]
    if result.rows:
        parts += [figures(result), *_broken(result), Text(_bounds(result), style="dim")]
    if result.evidence:
        parts.append(_evidence(result))
    if report.chosen:
        chosen = report.chosen
        parts.append(
            f"\n[bold]{escape(chosen.strategy)}[/] at {chosen.budget} "
            f"(about {chosen.limit_tokens:,} tokens): {escape(chosen.reason)}."
        )
        parts.append(Text("\n" + chosen.code + "\n", style="cyan"))
    if result.passed:
        parts.append(Text(f"{len(result.passed):,} passed over; the first:", style="yellow"))
        parts += [Text(f" {each.name}: {each.reason}") for each in result.passed[:SHOWN]]
    parts.append(
        Text(
            "Recall says whether what the agent used next was still in context, not whether it did "
            "its task. Cost above 1 is dearer than no collection.",
            style="dim",
        )
    )
    return Group(*parts)


def _counted(transcripts: int) -> str:
    return "1 transcript" if transcripts == 1 else f"{transcripts:,} transcripts"


def figures(result: Result) -> Table:
    """The figures as a table that fits 80 columns."""
    best = {(row.strategy, row.budget) for row in front(result.rows)}
    broken = any(row.violations for row in result.rows)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("budget", no_wrap=True, min_width=6)
    table.add_column("strategy", overflow="fold", min_width=12)
    heads = NARROW if render.is_narrow() else tuple(COLUMNS)
    for head in heads:
        width = COLUMNS[head]
        table.add_column(head, justify="right", no_wrap=True, min_width=width)
    if broken:
        table.add_column("broken", justify="right", no_wrap=True, min_width=6)
    last = ""
    for row in result.rows:
        cells = [cell for head, cell in _cells(row).items() if head in heads]
        if broken:
            count = sum(row.violations.values())
            cells.append(Text(str(count), style="red" if count else "dim"))
        star = " ★" if (row.strategy, row.budget) in best else ""
        style = "" if catalog.is_usable(row.strategy) else "dim"
        name = Text("\n ".join(_broken_up(row.strategy)) + star, style=style)
        table.add_row(row.budget if row.budget != last else "", name, *cells)
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
    told = []
    for row in result.rows:
        if row.violations:
            rules = ", ".join(f"{rule} ({count}×)" for rule, count in row.violations.items())
            told.append(Text(f"\n{row.strategy} at {row.budget}: {rules}", style="red"))
            told += [Text(f" {failure}") for failure in row.failures]
    for asked in result.evidence:
        if asked.failures:
            told.append(Text(f"\n{asked.strategy} at {asked.budget} failed", style="red"))
            told += [Text(f" {failure}") for failure in asked.failures[:SHOWN]]
    return told


def _bounds(result: Result) -> str:
    """How the clairvoyant bounds were found."""
    ways = {bound.budget: bound.how for bound in result.bounds}
    if len(set(ways.values())) == 1:
        return f"\nThe clairvoyant bound is {next(iter(ways.values()))}."
    return "\nThe clairvoyant bound: " + "; ".join(f"{b} {how}" for b, how in ways.items()) + "."


def _cells(row: Row) -> dict[str, Text]:
    spread = f" [{row.gap_low:.0f}, {row.gap_high:.0f}]" if row.gap_low < row.gap_high else ""
    return {
        "recall": Text(f"{row.recall:.1f}"),
        "any/src": Text(f"{row.recall_any:.0f}/{row.recall_src:.0f}"),
        "gap closed": Text(gap_text(row) + spread),
        "cost": Text(f"{row.cost:.2f}", style="red" if row.cost > 1 else ""),
        "churn": Text(f"{row.churn:,.0f}"),
        "ms": Text(f"{row.times.mean:.1f}" if row.times else ""),
    }


def _evidence(result: Result) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for head in ("budget", "strategy", "in context", "with recall", "questions"):
        table.add_column(head, justify="left" if head == "strategy" else "right")
    for row in result.evidence:
        brought = "–" if row.recalled is None else f"{row.recalled:.1f}"
        table.add_row(row.budget, row.strategy, f"{row.blind:.1f}", brought, f"{row.questions:,}")
    return table
