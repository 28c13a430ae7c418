"""`marksweep analyze`: who uses the window, what is dead weight, what each strategy would do."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from marksweep.cli import render, transcripts
from marksweep.cli.common import (
    Here,
    Progress,
    in_workspace,
    progress,
    settings,
)
from marksweep.cli.common import command as make_command
from marksweep.core.budget import Line
from marksweep.dialects import Finding, History, Skipped, validate
from marksweep.model import Plan
from marksweep.reading import DEAD, DeadWeight, Reading, dead_weight
from marksweep.settings import Settings
from marksweep.sizes import Size
from marksweep.strategies.registry import TIER, Choice

QUICK = ("truncate", "mask", "superseded", "budget", "superseded+mask+truncate")
"""Strategies that look at messages from outside: a second for fifty megabytes."""

THOROUGH = ("summarize", "hybrid", "coverage", "coverage_quality")
"""Strategies that read every text."""

QUICK_DEAD = "superseded"
"""Dead weight that is found without reading every text."""

THOROUGH_TOKENS = 500_000
"""Tokens up to which the thorough strategies are compared unasked. More waits longer: they take
about a second for every 150,000 tokens."""

MAX_ROWS = 8
"""Reasons for dead weight that are listed."""


class Offer(msgspec.Struct, frozen=True):
    """What one strategy would do."""

    strategy: str
    """As `collect --strategy` takes it."""
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
    dead_tokens: int
    dead_weight: tuple[DeadWeight, ...]
    offers: tuple[Offer, ...]
    not_compared: tuple[str, ...]
    """Strategies that were left out because the transcript is large."""
    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    recommended: str
    """The command to run next."""


@make_command("analyze")
@click.argument("transcript", required=False)
@click.option("--limit", default="60%", show_default=True, help="Target: tokens, 32k, or a share.")
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    help="Compare this one; may be repeated.  [default: all that are quick enough]",
)
@click.option("--dialect", help="The format; detected if left out.")
@in_workspace
def command(
    transcript: str | None, limit: str, strategies: tuple[str, ...], dialect: str | None, here: Here
) -> None:
    """Show who uses the window, what is dead weight and why. Nothing is changed.

    TRANSCRIPT is a file of messages in any provider's format, a Claude Code or Codex session, or -
    for standard input. Without it, the working set in the store is looked at.

    Example:  marksweep analyze session.jsonl --limit 32k
    """
    if transcript is None:
        _working_set(here)
        return
    with progress("reading") as advance:
        history = transcripts.load(transcript, dialect).transcript.history
        found = analyse(history, transcript, limit, strategies, advance)
    here.emit(found, None if here.as_json else _render(transcript, found))


def _working_set(here: Here) -> None:
    context = here.segments()
    plan = context.plan()
    parts = [
        render.ledger(context.ledger()),
        render.gauge(context.tokens, context.budget),
        render.title("What a collection would take, and why"),
        render.plan(plan),
    ]
    cold = context.cold_but_important()
    if cold:
        parts.append(render.title("Cold but important: worth shortening (context_gc_compress)"))
        parts += [render.line(f"{each.segment_id}: {why}") for each, why in cold[:MAX_ROWS]]
        if rest := cold[MAX_ROWS:]:
            parts.append(render.line(f"and {len(rest)} more", style="dim"))
    if plan.steps:
        parts.append(_next("marksweep collect"))
    here.emit(plan, Group(*parts))


def analyse(
    history: History,
    name: str,
    limit: str,
    strategies: tuple[str, ...],
    advance: Progress,
) -> Analysis:
    """Look at a transcript: read it once, and ask every strategy for its plan."""
    findings = tuple(validate(history.given, history.dialect))
    advance(0, 0, "counting tokens")
    here = settings()
    reading = Reading(history, limit=0, strategy=QUICK_DEAD, prices=here.prices)
    talk = reading.conversation
    target = Size.read(limit).of(talk.tokens)
    reading.land_at(target)
    is_large = talk.tokens > THOROUGH_TOKENS
    compared = strategies or (QUICK if is_large else (*THOROUGH, *QUICK))
    advance(0, len(compared) + 1, "dead weight")
    dead = dead_weight(talk.plan(0, QUICK_DEAD if is_large else DEAD))
    offers = []
    for done, strategy in enumerate(compared, 1):
        advance(done, len(compared) + 1, strategy)
        offers.append(_offer(strategy, talk.plan(strategy=_choice(strategy, here))))
    return Analysis(
        dialect=history.dialect,
        messages=len(history.messages),
        tokens=talk.tokens,
        target_tokens=target,
        ledger=talk.ledger(),
        dead_tokens=sum(each.tokens for each in dead),
        dead_weight=dead,
        offers=tuple(offers),
        not_compared=(*THOROUGH, "unreachable") if is_large and not strategies else (),
        findings=findings,
        skipped=history.skipped,
        recommended=_recommended(name, target),
    )


def _choice(strategy: str, here: Settings) -> Choice:
    """Make what `collect --strategy` would."""
    names = strategy.replace(",", TIER)
    return msgspec.structs.replace(here.conversation, strategy=names, options={}).choice()


def _offer(name: str, plan: Plan) -> Offer:
    cost = plan.cost
    return Offer(
        name, plan.tokens_after, plan.tokens_freed, cost.reread_tokens, cost.pays_after_turns
    )


def _recommended(name: str, target: int) -> str:
    if name == transcripts.STDIN:
        return f"marksweep collect - --limit {target} > smaller"
    path = Path(name)
    output = path.with_name(
        f"{path.name.partition('.')[0]}.smaller.json{'l' * path.name.endswith('l')}"
    )
    return shlex.join(["marksweep", "collect", name, "--limit", str(target), "-o", str(output)])


def _render(name: str, found: Analysis) -> RenderableType:
    share = found.dead_tokens / found.tokens if found.tokens else 0.0
    parts = [
        render.line(
            f"{name}: {found.messages:,} messages, {found.tokens:,} tokens ({found.dialect})",
            style="bold",
        ),
        render.title("Who uses the window"),
        render.ledger(found.ledger, of="messages"),
        render.title(f"Dead weight: {found.dead_tokens:,} tokens ({share:.0%})"),
        _dead(found.dead_weight),
        render.title(f"What each strategy would do, down to {found.target_tokens:,} tokens"),
        _offers(found.offers),
    ]
    if found.not_compared:
        names = ", ".join(found.not_compared)
        parts.append(render.line(f"not compared, as this is large: {names}", style="dim"))
    if found.findings:
        first = found.findings[0]
        parts.append(
            render.line(
                f"\n{render.counted(found.findings, 'finding')} (marksweep validate lists them); "
                f"the first: message {first.position}: {first.what}. {first.mend}",
                style="yellow",
            )
        )
    parts += render.skipped(found.skipped, "skipped")
    return Group(*parts, _next(found.recommended))


def _next(command: str) -> RenderableType:
    text = Text("\nDo it:  ")
    text.append(command, style="bold")
    return render.line(text)


def _dead(weights: tuple[DeadWeight, ...]) -> RenderableType:
    if not weights:
        return render.line("none: nothing was superseded, and all is in use")
    table = render.table("tokens", "messages", "why", right=("tokens", "messages"))
    for each in weights[:MAX_ROWS]:
        table.add_row(f"{each.tokens:,}", f"{len(each.messages):,}", each.reason)
    rest = weights[MAX_ROWS:]
    if rest:
        tokens = sum(each.tokens for each in rest)
        messages = sum(len(each.messages) for each in rest)
        more = render.counted(rest, "more reason")
        table.add_row(f"{tokens:,}", f"{messages:,}", more, style="dim")
    return table


def _offers(offers: tuple[Offer, ...]) -> RenderableType:
    default = settings().conversation.strategy
    numbers = ("left", "freed", "read again", "pays after")
    table = render.table("strategy", *numbers, right=numbers)
    for offer in offers:
        pays = "never" if offer.pays_after_turns is None else f"{offer.pays_after_turns:.1f} turns"
        is_default = offer.strategy == default
        table.add_row(
            offer.strategy.replace("+", " + ") + " *" * is_default,
            f"{offer.tokens_after:,}",
            f"{offer.tokens_freed:,}",
            f"{offer.reread_tokens:,}",
            pays,
            style="bold" if is_default else "",
        )
    is_there = any(offer.strategy == default for offer in offers)
    notes = "* what collect does by default. " * is_there + (
        "read again: what the prompt cache loses once; pays after: when the smaller requests have "
        "made up for it."
    )
    return Group(table, render.line(notes, style="dim"))
