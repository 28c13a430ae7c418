"""`marksweep analyze`: who uses the window, what is dead weight, what each strategy would do."""

from __future__ import annotations

import click
import msgspec
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from marksweep.cli import render, sizes, transcripts
from marksweep.cli.common import command as make_command
from marksweep.cli.common import (
    emit,
    json_option,
    open_segments,
    settings,
    store_option,
    workspace_option,
)
from marksweep.core.budget import Budget, Line
from marksweep.dialects import Finding, History, Skipped, validate
from marksweep.model import Plan
from marksweep.reading import Reading
from marksweep.segments import Segments
from marksweep.strategies.named import NAMED, Choice

RECOMMENDED = "superseded, then mask, then truncate"
TIERS = ("superseded", "mask", "truncate")
OFFERED = tuple(name for name in NAMED if name not in ("garbage", "scored"))


class Offer(msgspec.Struct, frozen=True):
    """What one strategy would do."""

    strategy: str
    tokens_after: int
    tokens_freed: int
    reread_tokens: int
    pays_after_turns: float | None


class Analysis(msgspec.Struct, frozen=True):
    """All that `analyze` finds in a transcript."""

    dialect: str
    messages: int
    tokens: int
    target_tokens: int
    ledger: tuple[Line, ...]
    dead_weight: Plan
    offers: tuple[Offer, ...]
    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    recommended: str


@make_command("analyze")
@click.argument("transcript", required=False)
@click.option("--limit", default="60%", show_default=True, help="Target: tokens, 32k, or a share.")
@click.option("--dialect", help="The format, if it cannot be told from the content.")
@store_option
@workspace_option
@json_option
def command(
    transcript: str | None,
    limit: str,
    dialect: str | None,
    store: str | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Show who uses the window, what is dead weight and why. Nothing is changed.

    TRANSCRIPT is a file of messages in any provider's format, a Claude Code or Codex session, or -
    for standard input. Without it, the working set in the store is looked at.

    Example:  marksweep analyze session.jsonl --limit 32k
    """
    if transcript is None:
        _working_set(open_segments(store, workspace), as_json=as_json)
        return
    found = analyse(transcripts.load(transcript, dialect), transcript, limit)
    emit(found, None if as_json else _shown(found), as_json=as_json)


def _working_set(context: Segments, *, as_json: bool) -> None:
    plan = context.plan()
    shown = Group(render.ledger(context.ledger(), context.budget), render.plan(plan))
    emit(plan, shown, as_json=as_json)


def analyse(loaded: transcripts.Transcript, name: str, limit: str) -> Analysis:
    """Look at a transcript."""
    history = loaded.history
    talk = Reading(history, limit=10**12).conversation
    target = sizes.tokens(limit, talk.tokens)
    dead = _fitting(history, 0, "superseded")
    choices: dict[str, Choice] = {**{name: name for name in OFFERED}, RECOMMENDED: TIERS}
    offers = [_offer(name, _fitting(history, target, choice)) for name, choice in choices.items()]
    return Analysis(
        dialect=history.dialect,
        messages=len(history.messages),
        tokens=talk.tokens,
        target_tokens=target,
        ledger=talk.ledger(),
        dead_weight=dead,
        offers=tuple(offers),
        findings=tuple(validate(history.given, history.dialect)),
        skipped=history.skipped,
        recommended=f"marksweep collect {name} --limit {target}",
    )


def _fitting(history: History, limit: int, strategy: Choice) -> Plan:
    return Reading(
        history, limit=limit, strategy=strategy, prices=settings().prices
    ).conversation.plan()


def _offer(name: str, plan: Plan) -> Offer:
    cost = plan.cost
    return Offer(
        name, plan.tokens_after, plan.tokens_freed, cost.reread_tokens, cost.pays_after_turns
    )


def _shown(found: Analysis) -> RenderableType:
    parts: list[RenderableType] = [
        Text(f" {found.messages:,} messages, {found.dialect}", style="bold"),
        render.ledger(found.ledger, Budget.of(max(1, found.tokens))),
        Text("\nDead weight", style="bold"),
        render.plan(found.dead_weight, most=8, ends_short=False),
        Text(f"\nDown to {found.target_tokens:,} tokens", style="bold"),
        _offers(found.offers),
    ]
    if found.findings:
        parts.append(Text(f"\n{len(found.findings)} findings; the first:", style="yellow"))
        first = found.findings[0]
        parts.append(Text(f" message {first.position}: {first.what}. {first.mend}"))
    if found.skipped:
        parts.append(Text(f"\n{len(found.skipped)} lines skipped; the first:", style="yellow"))
        parts.append(Text(f" {found.skipped[0].position}: {found.skipped[0].reason}"))
    parts.append(f"\nDo it:  [bold]{escape(found.recommended)}[/]")
    return Group(*parts)


def _offers(offers: tuple[Offer, ...]) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("strategy")
    for name in ("left", "freed", "read again", "pays after"):
        table.add_column(name, justify="right")
    for offer in offers:
        pays = "never" if offer.pays_after_turns is None else f"{offer.pays_after_turns:.1f} turns"
        table.add_row(
            offer.strategy,
            f"{offer.tokens_after:,}",
            f"{offer.tokens_freed:,}",
            f"{offer.reread_tokens:,}",
            pays,
        )
    return table
