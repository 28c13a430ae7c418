"""Plans, ledgers and journals as people see them in a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from marksweep.core.budget import Budget, Line
from marksweep.model import Action, Entry, Plan, Step

BAR = 24
"""Characters of a full bar."""

STYLES = {
    Action.STASH: "cyan",
    Action.DELETE: "red",
    Action.COMPRESS: "magenta",
    Action.MASK: "yellow",
    Action.TRIM: "yellow",
    Action.RECALL: "green",
}


def console() -> Console:
    """Make the console all output goes through: colours only on a terminal, NO_COLOR heeded."""
    return Console(highlight=False)


def ledger(lines: Iterable[Line], budget: Budget) -> RenderableType:
    """Show who uses the window, and where its lines are."""
    lines = list(lines)
    used = sum(line.tokens for line in lines)
    table = Table(box=None, padding=(0, 1), show_header=True, header_style="dim")
    table.add_column("type")
    table.add_column("segments", justify="right")
    table.add_column("tokens", justify="right")
    table.add_column("share")
    for line in lines:
        share = line.tokens / used if used else 0.0
        bar = Text("█" * round(share * BAR), style="blue")
        bar.append(f" {share:.0%}", style="dim")
        table.add_row(line.name, f"{line.segments:,}", f"{line.tokens:,}", bar)
    return Group(table, _gauge(used, budget))


def _gauge(used: int, budget: Budget) -> Text:
    full = used / budget.limit if budget.limit else 0.0
    style = "red" if used > budget.pressure else "yellow" if used > budget.threshold else "green"
    text = Text(f" {used:,} of {budget.limit:,} tokens ", style="bold")
    text.append(f"({full:.0%})", style=style)
    text.append(
        f"  soft line {budget.threshold:,} · hard line {budget.pressure:,} · "
        f"target {budget.target:,}",
        style="dim",
    )
    return text


def plan(found: Plan, most: int = 12, *, ends_short: bool = True) -> RenderableType:
    """Show what would go and why, the first steps in full.

    `ends_short` says whether missing the target is worth a word.
    """
    table = Table(box=None, padding=(0, 1), header_style="dim", title_justify="left")
    table.add_column("action")
    table.add_column("segment", overflow="ellipsis", no_wrap=True, max_width=24)
    table.add_column("tokens", justify="right")
    table.add_column("why", overflow="fold")
    for step in found.steps[:most]:
        table.add_row(
            Text(step.action.value, style=STYLES[step.action]),
            _names(step),
            f"{step.tokens:,}",
            step.reason,
        )
    if len(found.steps) > most:
        rest = found.steps[most:]
        table.add_row(
            "…", f"{len(rest):,} more", f"{sum(step.tokens for step in rest):,}", "", style="dim"
        )
    return Group(table, *_summary(found, ends_short=ends_short))


def _names(step: Step) -> str:
    first, *others = step.segments
    return f"{first} +{len(others)}" if others else first


def _summary(found: Plan, *, ends_short: bool) -> Iterable[Text]:
    head = Text(f" {found.plan_id}", style="bold")
    head.append(
        f"  {found.tokens_before:,} → {found.tokens_after:,} tokens, {found.tokens_freed:,} freed"
        f" in {len(found.steps):,} steps"
    )
    if ends_short:
        head.append(f"; target {found.target_tokens:,}")
    yield head
    if found.cost.edits_from is not None:
        pays = found.cost.pays_after_turns
        after = "never pays" if pays is None else f"pays after {pays:.1f} turns"
        yield Text(
            f" prompt cache: {found.cost.reread_tokens:,} tokens are read again; {after}",
            style="dim",
        )
    if found.short_by and ends_short:
        yield Text(f" {found.short_by:,} tokens short of the target. In the way:", style="yellow")
        for kept in found.kept:
            yield Text(f"   {kept.tokens:,} tokens in {kept.segments:,}: {kept.reason}")


def journal(entries: Iterable[Entry]) -> RenderableType:
    """Show what was planned and done, newest first."""
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for name in ("#", "when", "what", "plan", "who", "details"):
        table.add_column(name)
    for entry in entries:
        details = ""
        if entry.report is not None:
            details = f"{len(entry.report.swept)} segments, {entry.report.tokens_freed:,} tokens"
        elif entry.segments:
            details = f"{len(entry.segments)} segments"
        table.add_row(
            str(entry.seq),
            f"{entry.at:%Y-%m-%d %H:%M:%S}",
            entry.event.value,
            entry.plan_id,
            entry.actor,
            details,
        )
    return table
