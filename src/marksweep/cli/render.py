"""Ledgers, plans, journals and the stash as people see them in a terminal.

Everything can be read at 60 columns: text wraps under itself, names and ids are never cut, and a
narrow table leaves out what can be looked up elsewhere. A command to run is never broken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment as Piece
from rich.table import Table
from rich.text import Text

from marksweep.core.budget import Budget, Line
from marksweep.dialects import Skipped
from marksweep.model import Action, Entry, Event, Plan, Segment, Stashed, Step

NARROW_COLUMNS = 80
"""Columns below which a table is narrow."""

BAR_CHARS = 20
"""Characters of a full bar."""

SHOWN_CHARS = 120
"""Characters of a text that a table shows."""

MAX_SKIPPED = 5
"""Lines that cannot be read and are named one by one."""

STYLES = {
    Action.STASH: "cyan",
    Action.DELETE: "red",
    Action.COMPRESS: "magenta",
    Action.MASK: "yellow",
    Action.TRIM: "yellow",
    Action.RECALL: "green",
}


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys instead of showing them; all but tabs and line ends."""


def printable(text: str) -> str:
    """Leave out what a terminal would obey: a transcript or a note can hold escape sequences."""
    return _CONTROLS.sub("", text)


class PlainConsole(Console):
    """A console on which only its own styles are escape sequences, none of what it shows."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Piece]:
        """Draw something, without the control characters in its text."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else Piece(printable(piece.text), piece.style)


def console() -> Console:
    """Make the console for all output: colours only on a terminal, and not with NO_COLOR.

    Brackets are text, not markup.
    """
    return PlainConsole(highlight=False, markup=False)


def is_narrow() -> bool:
    """Return whether tables should leave something out."""
    return console().width < NARROW_COLUMNS


def line(text: str | Text, style: str = "") -> RenderableType:
    """Show a paragraph that wraps under itself."""
    words = Text(text, style=style) if isinstance(text, str) else text
    return Padding(words, (0, 0, 0, 1), expand=False)


def command(label: str, words: str) -> RenderableType:
    """Show a command to run, on a line of its own that is not broken: so it can be copied whole."""
    text = Text(f" {label}:  ", no_wrap=True, overflow="ignore")
    return text.append(words, style="bold")


def title(text: str) -> RenderableType:
    """Show a heading, with room above."""
    return Padding(Text(text, style="bold"), (1, 0, 0, 1), expand=False)


def table(*columns: str, right: Sequence[str] = (), whole: Sequence[str] = ()) -> Table:
    """Make a table without lines. `right` columns hold numbers; `whole` ones are never cut."""
    made = Table(box=None, padding=(0, 1), header_style="dim")
    for name in columns:
        is_number = name in right
        made.add_column(
            name,
            justify="right" if is_number else "left",
            no_wrap=is_number or name in whole,
            overflow="fold",
        )
    return made


def quoted(label: str, text: str) -> RenderableType:
    """Show a quoted text under a label, line by line."""
    lines = Text(f"{label}:", style="dim")
    for each in text.splitlines():
        lines.append("\n│ ", style="dim").append(each.expandtabs(), style="not dim")
    return Padding(lines, (0, 0, 0, 3), expand=False)


def ledger(lines: Iterable[Line], of: str = "segments") -> RenderableType:
    """Show what fills the window."""
    lines = list(lines)
    used = sum(each.tokens for each in lines)
    made = table("type", of, "tokens", "share", right=(of, "tokens"), whole=("type", "share"))
    for each in lines:
        share = each.tokens / used if used else 0.0
        bar = Text("█" * max(1, round(share * BAR_CHARS)), style="blue")
        bar.append(f" {share:.0%}" if share >= 0.01 else " <1%", style="dim")
        made.add_row(each.name, f"{each.segments:,}", f"{each.tokens:,}", bar)
    return made


def gauge(used: int, budget: Budget) -> RenderableType:
    """Show how full the window is, and where its limits are."""
    full = used / budget.limit if budget.limit else 0.0
    style = "red" if used > budget.hard_limit else "yellow" if used > budget.soft_limit else "green"
    text = Text(f"{used:,} of {budget.limit:,} tokens ", style="bold")
    text.append(f"({full:.0%})\n", style=style)
    text.append(
        f"soft limit {budget.soft_limit:,} · hard limit {budget.hard_limit:,} · "
        f"target {budget.target:,}",
        style="dim not bold",
    )
    return line(text)


def plan(found: Plan, most: int = 8) -> RenderableType:
    """Show what would go and why, the first steps in full."""
    if not found.steps:
        return Group(line(f"nothing to do: {found.size_before:,} {found.unit}"), *_blockers(found))
    unit = "message" if found.heap == "conversation" else "segment"
    made = table("action", unit, found.unit, "why", right=(found.unit,), whole=("action",))
    for step in found.steps[:most]:
        action = Text(step.action.value, style=STYLES[step.action])
        made.add_row(action, _names(step), f"{step.size:,}", step.reason)
    rest = found.steps[most:]
    if rest:
        tokens = sum(step.size for step in rest)
        made.add_row("…", f"{len(rest):,} more", f"{tokens:,}", "", style="dim")
    return Group(made, *_summary(found))


def _names(step: Step) -> str:
    first, *others = step.segments
    return f"{first} +{len(others)}" if others else first


def _summary(found: Plan) -> Iterable[RenderableType]:
    head = Text(found.plan_id, style="bold")
    head.append(
        f"  {found.size_before:,} → {found.size_after:,} {found.unit} (target "
        f"{found.target_size:,}), {found.freed:,} freed in {counted(found.steps, 'step')}",
        style="not bold",
    )
    yield line(head)
    if found.cost.edits_from is not None:
        pays = found.cost.pays_after_turns
        after = "never pays" if pays is None else f"pays after {pays:.1f} turns"
        words = f"prompt cache: {found.cost.reread_tokens:,} tokens are read again; {after}"
        yield line(words, style="dim")
    yield from _blockers(found)


def _blockers(found: Plan) -> Iterable[RenderableType]:
    if not found.short_by:
        return
    yield line(f"{found.short_by:,} {found.unit} short of the target. Blocked by:", style="yellow")
    for blocker in found.blockers:
        said = f"{blocker.size:,} {found.unit} in {blocker.segments:,}: {blocker.reason}"
        yield Padding(said, (0, 0, 0, 3))


def counted(things: Sequence[object], noun: str) -> str:
    """Count things: 1 step, 2 steps."""
    return f"{len(things):,} {noun}{'' if len(things) == 1 else 's'}"


def skipped(unread: Sequence[Skipped], done: str) -> Iterator[RenderableType]:
    """Name what cannot be read in a transcript, and say what was done with it."""
    if unread:
        yield line(f"\n{counted(unread, 'line')} cannot be read, {done}:", style="yellow")
        for each in unread[:MAX_SKIPPED]:
            yield line(f"  {each.reason}", style="yellow")
        if len(unread) > MAX_SKIPPED:
            yield line(f"  and {counted(unread[MAX_SKIPPED:], 'more line')}", style="yellow")


def journal(entries: Iterable[Entry], details: Callable[[Entry], str]) -> RenderableType:
    """Show what was planned and done, newest first; `details` renders those of an entry."""
    narrow = is_narrow()
    columns = (
        ("when", "what", "plan", "details")
        if narrow
        else ("when", "what", "plan", "who", "details")
    )
    made = table(*columns, whole=("when", "what", "plan"))
    for entry in entries:
        cells = [
            f"{entry.at:%m-%d %H:%M}" if narrow else f"{entry.at:%Y-%m-%d %H:%M:%S}",
            entry.event.value,
            entry.plan_id,
            entry.actor,
            details(entry),
        ]
        if narrow:
            del cells[3]
        made.add_row(*cells)
    return made


def of_segments(entry: Entry) -> str:
    """Say how much of the working set an entry is about."""
    if entry.report is not None:
        swept = counted(entry.report.swept, "segment")
        return f"{swept}, {entry.report.tokens_freed:,} tokens"
    if (plan := entry.plan) is not None:
        names = [name for step in plan.steps for name in step.segments]
        return f"{counted(names, 'segment')}, {plan.size_before - plan.size_after:,} tokens"
    return counted(entry.segments, "segment") if entry.segments else ""


def of_nodes(entry: Entry) -> str:
    """Say how much of the memory an entry is about."""
    from marksweep.graph.pruning import counted as count_nodes
    from marksweep.heaps.graph import nodes_of, planned

    if entry.plan is not None:
        return f"{entry.plan.strategy}: {count_nodes(planned(entry.plan))}"
    if entry.event in (Event.VANISHED, Event.RETURNED):
        return ", ".join(entry.segments)
    names = entry.report.swept if entry.report is not None else entry.segments
    return count_nodes(nodes_of(names)) if names else ""


def live(segments: Iterable[Segment]) -> RenderableType:
    """Show segments of the working set, each with the beginning of its text."""
    made = table("segment", "type", "tokens", "text", right=("tokens",))
    for each in segments:
        text = " ".join(each.text.split())
        shown = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
        made.add_row(each.segment_id, each.type, f"{each.tokens:,}", shown)
    return made


def stash(entries: Iterable[Stashed]) -> RenderableType:
    """Show what was swept, and why."""
    narrow = is_narrow()
    columns = (
        ("segment", "tokens", "why") if narrow else ("segment", "tokens", "swept", "plan", "why")
    )
    made = table(*columns, right=("tokens",), whole=("swept", "plan"))
    for entry in entries:
        cells = [entry.segment.segment_id, f"{entry.segment.tokens:,}"]
        if not narrow:
            cells += [f"{entry.stashed_at:%Y-%m-%d %H:%M}", entry.plan_id]
        made.add_row(*cells, entry.reason)
    return made
