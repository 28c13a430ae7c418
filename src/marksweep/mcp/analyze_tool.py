"""The tool that analyzes the working set, or a recorded session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import anyio.from_thread
from pydantic import Field

from marksweep import model
from marksweep.errors import BadInput
from marksweep.mcp.asking import CurrentWorkspace, state_of
from marksweep.mcp.context_tools import usage
from marksweep.mcp.gc_results import Analysis, Blocker, Candidate, DeadWeight, Transcript
from marksweep.mcp.results import Usage
from marksweep.mcp.server_state import Workspace
from marksweep.mcp.tool import SETS, Ctx, StrictTool
from marksweep.model import Plan, Step
from marksweep.strategies.scored import Disposal

Strategy = Annotated[
    Disposal,
    Field(description="stash; auto: delete old logs and notes that nothing refers to; delete"),
]


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
) -> Analysis:
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
            context.collect(plan)
        update = {"applied": not dry_run, "compressible": cold[:max_candidates]}
        return _analysis(plan, rows[:max_candidates], usage(context)).model_copy(update=update)


def _named(plan: Plan, most: int) -> Iterator[tuple[Step, str]]:
    """Return the first segments of a plan, each with its step."""
    named = ((step, name) for step in plan.steps for name in step.segments)
    return (each for each, _ in zip(named, range(most), strict=False))


def _candidate(found: model.Candidate, *, scored: bool) -> Candidate:
    shown = Candidate.model_validate(found)
    return shown if scored else shown.model_copy(update={"score": None})


def _analysis(plan: Plan, rows: list[Candidate], used: Usage) -> Analysis:
    return Analysis(
        usage=used,
        plan_id=plan.plan_id,
        candidates=rows,
        candidates_total=sum(len(step.segments) for step in plan.steps),
        tokens_before=plan.tokens_before,
        tokens_after=plan.tokens_after,
        blockers=[
            Blocker(reason=blocker.reason, segments=blocker.segments, tokens=blocker.size)
            for blocker in plan.blockers
        ],
        applied=False,
    )


def _of_transcript(ctx: Ctx, here: Workspace, path: str, most: int) -> Analysis:
    from marksweep.mcp.transcripts import weigh
    from marksweep.reading import dead_weight

    def report(done: int, total: int, what: str) -> None:
        anyio.from_thread.check_cancelled()
        anyio.from_thread.run(ctx.report_progress, done, total, what)

    with here.segments() as context:
        settings = context.settings
    weighed = weigh(state_of(ctx).allowed(path), report, settings)
    plan = weighed.plan
    with here.segments() as context:
        used = Usage.of(plan.tokens_before, context.budget)
    rows = [
        Candidate(
            segment_id=name,
            type="message",
            tokens=step.size,
            action=step.action.value,
            reason=step.reason,
            score=None,
        )
        for step, name in _named(plan, most)
    ]
    found = Transcript(
        path=str(weighed.path),
        dialect=weighed.dialect,
        messages=weighed.messages,
        skipped_lines=weighed.skipped,
        dead_tokens=plan.tokens_freed,
        dead_weight=[
            DeadWeight(reason=each.reason, messages=len(each.messages), tokens=each.tokens)
            for each in dead_weight(plan)
        ],
    )
    update = {"transcript": found, "plan_id": "", "blockers": []}
    return _analysis(plan, rows, used).model_copy(update=update)


TOOLS = (StrictTool.of(context_gc_analyze, "Analyze context", SETS),)
