"""`marksweep analyze`: what fills the window, what is dead weight, what each strategy would do."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
import msgspec
from rich.console import Group, RenderableType

from marksweep.cli import render, sessions, transcripts
from marksweep.cli.common import (
    CommandContext,
    Progress,
    at_options,
    in_workspace,
    price_options,
    progress,
    refuse_focus,
    say,
    settings,
    words_of,
)
from marksweep.cli.common import command as make_command
from marksweep.cli.session_window import CLIENTS, SessionWindow, session_window, shown
from marksweep.conversation import Conversation
from marksweep.core.budget import Line
from marksweep.dialects import Finding, History, Skipped, validate
from marksweep.model import Candidate, Plan
from marksweep.money import ModelPrice, dollars, price_of
from marksweep.preview import Change, Missed, largest_changes, likely_missed
from marksweep.reading import DEAD, QUICK_DEAD, DeadWeight, Reading, dead_weight
from marksweep.segments import FocusArgs
from marksweep.sizes import Size
from marksweep.strategies.registry import DEAR, warnings_of

QUICK = ("truncate", "mask", "superseded", "budget", "superseded+mask+truncate")
"""Strategies that need no text analysis: a second for fifty megabytes."""

THOROUGH = ("summarize", "hybrid", "coverage", "coverage_quality")
"""Strategies that read every text."""

THOROUGH_TOKENS = 500_000
"""Tokens up to which the thorough strategies are compared by default. More waits longer: they take
about a second for every 150,000 tokens."""

PACKED_SUFFIXES = (".gz", ".xz", ".bz2")
"""Endings of compressed transcripts; the result is not compressed."""

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


class Bill(msgspec.Struct, frozen=True):
    """What a collection costs and saves, in dollars."""

    model: ModelPrice
    request_before: float
    """A request with the current context, all of it from the prompt cache."""
    request_after: float
    """The same after the collection."""
    once: float
    """What the provider reads again because of the collection, above its cached price."""


class Closer(msgspec.Struct, frozen=True):
    """One strategy in detail: before and after, what may be missed, what it costs."""

    strategy: str
    steps: int
    largest: tuple[Change, ...]
    missed: tuple[Missed, ...]
    bill: Bill


class Analysis(msgspec.Struct, frozen=True):
    """Everything `analyze` finds in a transcript."""

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
    closer: Closer
    """What the strategy of the settings would do, or the first of those asked for."""
    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    recommended: str
    """The command to run next."""
    window: SessionWindow | None = None
    """What fills the window, if this is a session of Claude Code or Codex."""


class WorkingSetPlan(Plan, frozen=True):
    """A plan for the working set, its limits, and what else could be freed."""

    limit: int = 0
    soft_limit: int = 0
    """Above this, every change is followed by a small sweep."""
    hard_limit: int = 0
    """Above this, everything is examined."""
    candidates: tuple[Candidate, ...] = ()
    """The segments of the plan, first to go first."""
    compressible: tuple[Candidate, ...] = ()
    """Cold but important: in use, long, untouched. `marksweep stash compress` shortens them."""


@make_command("analyze")
@click.argument("transcript", required=False)
@click.option("--limit", default="60%", show_default=True, help="Target: tokens, 32k, or a share.")
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    help=f"Compare this one; may be repeated. coverage_quality {DEAR}.  [default: all that are "
    "quick enough]",
)
@click.option("--dialect", help="The format; detected if left out.")
@price_options
@at_options
@in_workspace
def command(
    transcript: str | None,
    limit: str,
    strategies: tuple[str, ...],
    dialect: str | None,
    model: str,
    price: str | None,
    at: FocusArgs,
    cli: CommandContext,
) -> None:
    """Show what fills the window, what is dead weight and why. Nothing is changed.

    TRANSCRIPT is a file of messages in any provider's format, a Claude Code or Codex session, or -
    for standard input. Without it, analyze reads this folder's newest Claude Code or Codex session;
    if there is none, or with --store or --workspace, the working set in the store. --task,
    --active-file, --open-file and --breakpoint are for the working set only.

    \b
    Examples:  marksweep analyze session.jsonl --limit 32k
               marksweep analyze --workspace shop --breakpoint src/app.py:42
    """
    paid = price_of(model, price)
    refuse_focus(at, transcript)
    is_named = transcript is not None
    if not is_named and not cli.store and not cli.workspace and at == FocusArgs():
        session = sessions.newest(Path.cwd())
        transcript = str(session) if session else None
        if session is None and not cli.as_json:
            say("no session of Claude Code or Codex in this folder; this is the working set:")
    if transcript is None:
        _working_set(cli, at)
        return
    with progress("reading") as advance:
        history = transcripts.load(transcript, dialect).transcript.history
        is_session = not is_named and not strategies and history.dialect in CLIENTS
        recommend = _resume if is_session else _collect
        found = analyse(history, transcript, limit, strategies, advance, paid, recommend)
    cli.emit(found, None if cli.as_json else _render(transcript, found))


def _working_set(cli: CommandContext, at: FocusArgs) -> None:
    context = cli.segments(at)
    plan, cold, budget = context.plan(), context.cold_but_important(), context.budget
    parts = [
        render.ledger(context.ledger()),
        render.gauge(context.tokens, budget),
        render.title("What a collection would take, and why"),
        render.plan(plan),
    ]
    if cold:
        parts.append(render.title("Cold but important: marksweep stash compress shortens these"))
        parts += [render.line(f"{each.segment_id}: {each.reason}") for each in cold[:MAX_ROWS]]
        if rest := cold[MAX_ROWS:]:
            parts.append(render.line(f"and {len(rest)} more", style="dim"))
    if plan.steps:
        parts += ["", render.command("Do it", cli.again("collect", *words_of(at)))]
    found = WorkingSetPlan(
        **msgspec.structs.asdict(plan),
        limit=budget.limit,
        soft_limit=budget.soft_limit,
        hard_limit=budget.hard_limit,
        candidates=context.candidates(plan),
        compressible=cold,
    )
    cli.emit(found, Group(*parts))


def analyse(
    history: History,
    name: str,
    limit: str,
    strategies: tuple[str, ...],
    advance: Progress,
    paid: ModelPrice,
    recommend: Callable[[str, str, Sequence[str]], str],
) -> Analysis:
    """Analyze a transcript: read it once, and ask every strategy for its plan."""
    findings = tuple(validate(history.given, history.dialect))
    advance(0, 0, "counting tokens")
    configured = settings()
    reading = Reading(history, limit=0, strategy=QUICK_DEAD, prices=configured.prices)
    talk = reading.conversation
    target = Size.read(limit).of(talk.tokens)
    reading.land_at(target, QUICK_DEAD)
    is_large = talk.tokens > THOROUGH_TOKENS
    chosen = configured.conversation
    default = chosen.strategy
    usual = QUICK if is_large else (*THOROUGH, *QUICK, default)
    compared = strategies or tuple(dict.fromkeys(usual))
    advance(0, len(compared) + 1, "dead weight")
    dead = dead_weight(talk.plan(0, QUICK_DEAD if is_large else DEAD))
    plans = {}
    for done, strategy in enumerate(compared, 1):
        advance(done, len(compared) + 1, strategy)
        how = chosen if strategy == default else chosen.named(strategy)
        plans[strategy] = talk.plan(strategy=how.choice())
    tokens, ledger = talk.tokens, talk.ledger()
    named = default if default in plans else compared[0]
    closer = _closer(named, plans[named], talk, paid)
    options = ["--limit", str(target)]
    if strategies and named != default:
        options += ["--strategy", named]
    return Analysis(
        dialect=history.dialect,
        messages=len(history.messages),
        tokens=tokens,
        target_tokens=target,
        ledger=ledger,
        dead_tokens=sum(each.tokens for each in dead),
        dead_weight=dead,
        offers=tuple(_offer(name, plan) for name, plan in plans.items()),
        not_compared=(*THOROUGH, "unreachable") if is_large and not strategies else (),
        closer=closer,
        findings=findings,
        skipped=history.skipped,
        recommended=recommend(name, history.dialect, options),
        window=session_window(history, tokens),
    )


def _closer(strategy: str, plan: Plan, talk: Conversation, paid: ModelPrice) -> Closer:
    """Carry out what a strategy would do, on the copy in memory, and look at the difference."""
    before = talk.history
    talk.collect(plan)
    once = paid.of_reread(plan.cost.reread_tokens)
    return Closer(
        strategy,
        len(plan.steps),
        largest_changes(plan, before, talk.history),
        likely_missed(before, talk.history),
        Bill(paid, paid.of_input(0, plan.tokens_before), paid.of_input(0, plan.tokens_after), once),
    )


def _offer(name: str, plan: Plan) -> Offer:
    cost = plan.cost
    return Offer(
        name, plan.tokens_after, plan.tokens_freed, cost.reread_tokens, cost.pays_after_turns
    )


def _resume(name: str, dialect: str, options: Sequence[str]) -> str:
    """Write the command that continues a session of this folder in a smaller copy."""
    return shlex.join(["marksweep", "resume", CLIENTS[dialect], Path(name).stem, *options])


def _collect(name: str, dialect: str, options: Sequence[str]) -> str:  # noqa: ARG001
    """Write the command that makes a smaller copy of a transcript."""
    if name == transcripts.STDIN:
        return f"{shlex.join(['marksweep', 'collect', '-', *options])} > smaller"
    path = Path(name)
    plain = path.with_suffix("") if path.suffix in PACKED_SUFFIXES else path
    output = plain.with_name(f"{plain.stem}.smaller{plain.suffix}")
    return shlex.join(["marksweep", "collect", name, *options, "-o", str(output)])


def _render(name: str, found: Analysis) -> RenderableType:
    share = found.dead_tokens / found.tokens if found.tokens else 0.0
    parts = [
        render.line(
            f"{name}: {found.messages:,} messages, {found.tokens:,} tokens ({found.dialect})",
            style="bold",
        ),
        render.title("What fills the window"),
        render.ledger(found.ledger, of="messages"),
        *(shown(found.window) if found.window else ()),
        render.title(f"Dead weight: {found.dead_tokens:,} tokens ({share:.0%})"),
        _dead(found.dead_weight),
        render.title(f"What each strategy would do, down to {found.target_tokens:,} tokens"),
        _offers(found.offers),
        *_look_closer(found.closer),
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
    if found.closer.steps:
        parts += ["", render.command("Do it", found.recommended)]
    return Group(*parts)


def _look_closer(found: Closer) -> Iterator[RenderableType]:
    """Say what goes, what the model sees in its place, what it costs and what may be missed."""
    name = found.strategy.replace("+", " + ")
    if not found.largest:
        yield render.title(f"What {name} would change: nothing")
        return
    yield render.title(
        f"What {name} would change: the largest {len(found.largest)} of "
        f"{render.counted(range(found.steps), 'step')}"
    )
    for change in found.largest:
        names = ", ".join(change.messages[:3]) + " …" * (len(change.messages) > 3)
        yield render.line(f"{names}: {change.action.value}, {change.tokens:,} tokens freed")
        yield render.line(f"  {change.reason}", style="dim")
        yield render.quoted("before", change.before)
        yield render.quoted("after", change.after or "(nothing stands in its place)")
    yield render.title("What the agent would probably miss")
    yield from _missed(found.missed)
    yield render.title("What it costs")
    yield render.line(_bill(found.bill))


def _missed(found: tuple[Missed, ...]) -> Iterator[RenderableType]:
    if not found:
        yield render.line("nothing that it used more than once: all such names are still there")
        return
    table = render.table("name", "used", "last in", right=("used",))
    for each in found:
        table.add_row(each.name, f"{each.uses} times", each.message)
    yield table
    yield render.line(
        "names that it used more than once and that no message holds any more; recall finds them",
        style="dim",
    )


def _bill(found: Bill) -> str:
    return (
        f"{found.model}: the input of a request is {dollars(found.request_before)} now, if cached, "
        f"and {dollars(found.request_after)} after; the collection costs {dollars(found.once)} "
        "once."
    )


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
    warnings = dict.fromkeys(w for offer in offers for w in warnings_of(offer.strategy))
    parts = [render.line(warning, style="yellow") for warning in warnings]
    is_there = any(offer.strategy == default for offer in offers)
    notes = "* what collect does by default. " * is_there + (
        "read again: what the prompt cache loses once; pays after: when the smaller requests have "
        "made up for it, at the prices of the settings."
    )
    return Group(table, *parts, render.line(notes, style="dim"))
