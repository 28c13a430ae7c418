"""The tool that analyzes the working set, or a recorded session.

A host does not show its context to a server, but it records it: a session of Claude Code or Codex,
or any provider's messages. Dead weight in it is what was superseded or repeated, and what nothing
in use refers to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import anyio.from_thread
import msgspec
from pydantic import Field

from marksweep import model
from marksweep.dialects import History
from marksweep.dialects.transcripts import read_transcript
from marksweep.errors import BadInput
from marksweep.mcp.asking import CurrentWorkspace, state_of, unconfirmed
from marksweep.mcp.context_tools import Usage, usage
from marksweep.mcp.server_state import Workspace
from marksweep.mcp.tool import SETS, Answer, Ctx, StrictTool
from marksweep.model import Action, Blocker
from marksweep.strategies.scored import Disposal

LARGEST_FILE = 200_000_000
"""Maximum bytes of one session file: it is held in memory."""

Strategy = Annotated[
    Disposal,
    Field(description="stash; auto: delete old logs and notes that nothing refers to; delete"),
]


class Candidate(msgspec.Struct, frozen=True):
    """A segment that could be swept, and why."""

    segment_id: str
    type: str
    tokens: int
    action: Action
    reason: str
    score: float | None
    """Prune score from 0 to 1; high goes first."""


class DeadWeight(msgspec.Struct, frozen=True):
    """One reason why messages of a session are no longer needed."""

    reason: str
    messages: int
    tokens: int


class Transcript(msgspec.Struct, frozen=True):
    """A recorded session, and its dead weight, heaviest first."""

    path: str
    dialect: str
    messages: int
    skipped_lines: int
    dead_tokens: int
    dead_weight: list[DeadWeight]


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """What would be swept, and why."""

    usage: Usage
    plan_id: str = ""
    """Pass it to context_gc_prune to do exactly this."""
    candidates: list[Candidate]
    candidates_total: int
    tokens_before: int
    tokens_after: int
    blockers: tuple[Blocker, ...] = ()
    """What keeps the plan from its target."""
    applied: bool = False
    compressible: list[Candidate] = []
    """Cold but important: in use, long, untouched. context_gc_compress shortens them."""
    transcript: Transcript | None = None
    """If a session was analyzed."""


def context_gc_analyze(
    ctx: Ctx,
    here: CurrentWorkspace,
    *,
    max_candidates: Annotated[
        int, Field(ge=0, le=10_000, description="Candidates listed; the plan may have more.")
    ] = 20,
    include_scores: Annotated[
        bool, Field(description="List prune scores; high goes first.")
    ] = True,
    dry_run: Annotated[
        bool, Field(description="Only analyze. false: carry the plan out at once.")
    ] = True,
    target_tokens: Annotated[
        int | None, Field(ge=0, description="Tokens to stop at; the configured target if left out.")
    ] = None,
    strategy: Strategy = Disposal.STASH,
    transcript: Annotated[
        str,
        Field(
            max_length=4_096,
            description="A session file of Claude Code or Codex, to find its dead weight. "
            "The file is not changed.",
        ),
    ] = "",
) -> Answer[Analysis]:
    """See how full the working set is, what could go and why, and what is worth shortening with
    context_gc_compress. Call when a limit is near. Returns a plan id: pass it to context_gc_prune
    to do exactly that. Nothing is changed unless dry_run is false. With transcript, analyzes
    a recorded session instead."""
    if transcript:
        if not dry_run:
            raise BadInput("a transcript is only analyzed. Leave dry_run true.")
        return _of_transcript(ctx, here, transcript, max_candidates)
    with here.segments() as context:
        plan = context.plan(target_tokens=target_tokens, disposal=strategy)
        rows = [_candidate(each, scored=include_scores) for each in context.candidates(plan)]
        cold = [_candidate(each, scored=include_scores) for each in context.cold_but_important()]
        context.save(plan)
        if not dry_run:
            if plan.deletes:
                raise unconfirmed(plan)
            context.collect(plan)
        found = Analysis(
            usage=usage(context),
            plan_id=plan.plan_id,
            candidates=rows[:max_candidates],
            candidates_total=sum(len(step.segments) for step in plan.steps),
            tokens_before=plan.tokens_before,
            tokens_after=plan.tokens_after,
            blockers=plan.blockers,
            applied=not dry_run,
            compressible=cold[:max_candidates],
        )
    return Answer(_words(found), found)


def _candidate(found: model.Candidate, *, scored: bool) -> Candidate:
    named = (found.segment_id, found.type, found.tokens, found.action, found.reason)
    return Candidate(*named, found.score if scored else None)


def _words(found: Analysis) -> str:
    used = f"Working set: {found.usage}."
    worth = f" {len(found.compressible)} worth shortening." * bool(found.compressible)
    if not found.candidates_total:
        return f"{used} Nothing to prune.{worth}"
    return (
        f"{'Done' if found.applied else 'Plan'} {found.plan_id}: {found.candidates_total} "
        f"segments, {found.tokens_before:,} → {found.tokens_after:,} tokens. {used}{worth}"
    )


def _of_transcript(ctx: Ctx, here: Workspace, path: str, most: int) -> Answer[Analysis]:
    """Plan to remove the dead weight of a session file. The file is not changed."""
    from marksweep.reading import DEAD, Reading, dead_weight

    def report(done: int, what: str) -> None:
        anyio.from_thread.check_cancelled()
        anyio.from_thread.run(ctx.report_progress, done, 3, what)

    with here.segments() as context:
        prices, budget = context.settings.prices, context.budget
    file = state_of(ctx).allowed(path)
    report(0, "reading")
    history = _read(file)
    report(1, "counting tokens")
    reading = Reading(history, limit=0, strategy=DEAD, prices=prices)
    report(2, "looking for dead weight")
    plan = reading.conversation.plan(0)
    report(3, "done")
    rows = [
        Candidate(name, "message", step.size, step.action, step.reason, None)
        for step in plan.steps
        for name in step.segments
    ]
    weights = [DeadWeight(w.reason, len(w.messages), w.tokens) for w in dead_weight(plan)]
    messages, skipped = len(history.messages), len(history.skipped)
    dead, before = plan.tokens_freed, plan.tokens_before
    found = Analysis(
        usage=Usage.of(before, budget),
        candidates=rows[:most],
        candidates_total=len(rows),
        tokens_before=before,
        tokens_after=plan.tokens_after,
        transcript=Transcript(str(file), history.dialect, messages, skipped, dead, weights),
    )
    words = (
        f"{file} ({history.dialect}, {messages:,} messages, {before:,} tokens): "
        f"{dead:,} tokens ({dead / before if before else 0.0:.0%}) are dead weight."
    )
    return Answer(words, found)


def _read(path: Path) -> History:
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise BadInput(f"{path} is not a file. Name the file of one session.")
        if size > LARGEST_FILE:
            raise BadInput(
                f"{path} has {size:,} bytes; at most {LARGEST_FILE:,} are read. Split it first."
            )
        return read_transcript(path.read_bytes(), str(path), most=LARGEST_FILE).history
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}. Check the path.") from error


TOOLS = (StrictTool.of(context_gc_analyze, "Analyze context", SETS),)
