"""Tools that collect: analyze, prune, undo, history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import anyio.from_thread
from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from mcp_types import ToolAnnotations
from pydantic import Field

from marksweep.core.score import Scorer, age_hours
from marksweep.errors import BadInput, NotConfirmed, NotFound, Refused
from marksweep.mcp.asking import Consent, Here, can_confirm, desk_of
from marksweep.mcp.context_tools import MOST_AT_ONCE, Name, usage
from marksweep.mcp.desk import Place
from marksweep.mcp.results import (
    Analysis,
    Candidate,
    DeadWeight,
    Event,
    History,
    Obstacle,
    Pruned,
    Transcript,
    Undone,
    Usage,
)
from marksweep.mcp.tool import Ctx, StrictTool
from marksweep.mcp.transcripts import weigh
from marksweep.model import Action, Plan, Step
from marksweep.segments import Segments
from marksweep.strategies.chosen import Chosen
from marksweep.strategies.scored import Disposal, may_be_deleted
from marksweep.strategies.tiers import Tiers

NAMED_IN_QUESTION = 10
"""Segments that a question names; the rest are counted."""

Strategy = Annotated[
    Disposal,
    Field(description="stash; auto: delete old logs and notes that nothing refers to; delete"),
]


def context_gc_analyze(
    ctx: Ctx,
    here: Here,
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
        int | None, Field(ge=0, description="Tokens to land at; the configured target if left out.")
    ] = None,
    strategy: Strategy = Disposal.STASH,
    transcript: Annotated[
        str,
        Field(
            max_length=4_096,
            description="A session file of Claude Code or Codex: what in it is dead weight. "
            "The file is not changed.",
        ),
    ] = "",
) -> Analysis:
    """See how full the working set is, what could go and why. Returns a plan id: pass it to
    context_gc_prune to do exactly that. Nothing is touched unless dry_run is false. With
    transcript, looks at a recorded session instead."""
    if transcript:
        if not dry_run:
            raise BadInput("a transcript is only analyzed. Leave dry_run true.")
        return _of_transcript(ctx, here, transcript, max_candidates)
    with here.segments() as context:
        plan = context.plan(target_tokens=target_tokens, disposal=strategy)
        scorer = context.settings.scoring.build() if include_scores else None
        rows = [
            _candidate(context, plan, step, name, scorer)
            for step, name in _named(plan, max_candidates)
        ]
        context.save(plan)
        if not dry_run:
            context.collect(plan)
        return _analysis(plan, rows, usage(context)).model_copy(update={"applied": not dry_run})


def _named(plan: Plan, most: int) -> Iterator[tuple[Step, str]]:
    """Give the first segments of a plan, each with its step."""
    named = ((step, name) for step in plan.steps for name in step.segments)
    return (each for each, _ in zip(named, range(most), strict=False))


def _candidate(
    context: Segments, plan: Plan, step: Step, name: str, scorer: Scorer | None
) -> Candidate:
    segment = context.get(name)
    if segment is None:
        raise NotFound(f"{name!r} went while it was looked at. Analyze again.")
    return Candidate(
        segment_id=name,
        type=segment.type,
        tokens=segment.tokens,
        action=step.action.value,
        reason=step.reason,
        score=round(scorer(segment, plan.made_at), 4) if scorer else None,
    )


def _analysis(plan: Plan, rows: list[Candidate], used: Usage) -> Analysis:
    return Analysis(
        usage=used,
        plan_id=plan.plan_id,
        candidates=rows,
        candidates_total=sum(len(step.segments) for step in plan.steps),
        tokens_before=plan.tokens_before,
        tokens_after=plan.tokens_after,
        obstacles=[
            Obstacle(reason=kept.reason, segments=kept.segments, tokens=kept.tokens)
            for kept in plan.kept
        ],
        applied=False,
    )


def _of_transcript(ctx: Ctx, here: Place, path: str, most: int) -> Analysis:
    def tell(done: int, total: int, what: str) -> None:
        anyio.from_thread.check_cancelled()
        anyio.from_thread.run(ctx.report_progress, done, total, what)

    weighed = weigh(desk_of(ctx).allowed(path), tell)
    plan = weighed.plan
    tokens: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    for step in plan.steps:
        kind = step.reason.split(";")[0]
        tokens[kind] += step.tokens
        messages[kind] += 1
    with here.segments() as context:
        used = Usage.of(plan.tokens_before, context.budget)
    rows = [
        Candidate(
            segment_id=name,
            type="message",
            tokens=step.tokens,
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
            DeadWeight(reason=kind, messages=messages[kind], tokens=weight)
            for kind, weight in tokens.most_common()
        ],
    )
    update = {"transcript": found, "plan_id": "", "obstacles": []}
    return _analysis(plan, rows, used).model_copy(update=update)


def plan_to_prune(here: Here, segment_ids: list[str], plan_id: str, strategy: Disposal) -> Plan:
    """Make or fetch the plan that a prune carries out."""
    if bool(segment_ids) == bool(plan_id):
        raise BadInput("expected either segment_ids or plan_id. Pass one of them.")
    with here.segments() as context:
        if plan_id:
            plan = context.saved(plan_id)
            if strategy is not Disposal.STASH and not plan.deletes:
                raise BadInput(
                    f"{plan_id} stashes, and strategy is {strategy.value!r}. Leave strategy out, "
                    f"or call context_gc_analyze with strategy {strategy.value!r} for a new plan."
                )
            return plan
        return _plan_for(context, list(dict.fromkeys(segment_ids)), strategy)


def _plan_for(context: Segments, segment_ids: list[str], strategy: Disposal) -> Plan:
    if strategy is not Disposal.AUTO:
        action = Action.DELETE if strategy is Disposal.DELETE else Action.STASH
        return context.plan_for(segment_ids, action)
    age, now = context.settings.retention.delete_after_hours, datetime.now(UTC)
    old = [
        name
        for name in segment_ids
        if (segment := context.get(name)) is not None
        and may_be_deleted(segment.type, segment.refcount, age_hours(segment, now), age)
    ]
    if not old:
        return context.plan_for(segment_ids)
    others = [name for name in segment_ids if name not in set(old)]
    chosen = Tiers(Chosen(old, Action.DELETE), Chosen(others, Action.STASH))
    return context.plan(target_tokens=-1, strategy=chosen)


async def consent(
    ctx: Ctx, plan: Annotated[Plan, Resolve(plan_to_prune)], confirm: str
) -> Elicit[Consent] | Consent:
    """Ask before anything is deleted, if that was not confirmed and the client can ask."""
    if not plan.deletes or confirm or not can_confirm(ctx):
        return Consent(delete=bool(confirm) and confirm == plan.plan_id)
    names = [name for step in plan.steps for name in step.segments if step.action is Action.DELETE]
    tokens = sum(step.tokens for step in plan.steps if step.action is Action.DELETE)
    rest = len(names) - NAMED_IN_QUESTION
    more = f" and {rest} more" if rest > 0 else ""
    return Elicit(
        f"Delete {len(names)} segments ({tokens:,} tokens): "
        f"{', '.join(names[:NAMED_IN_QUESTION])}{more}?",
        Consent,
    )


def context_gc_prune(
    ctx: Ctx,
    here: Here,
    *,
    plan: Annotated[Plan, Resolve(plan_to_prune)],
    answer: Annotated[ElicitationResult[Consent], Resolve(consent)],
    segment_ids: Annotated[list[Name], Field(max_length=MOST_AT_ONCE)] = [],  # noqa: B006
    plan_id: Annotated[  # noqa: ARG001 - like the next two: `plan_to_prune` and `consent` read it
        str, Field(max_length=200, description="Of context_gc_analyze.")
    ] = "",
    strategy: Strategy = Disposal.STASH,  # noqa: ARG001
    confirm: Annotated[  # noqa: ARG001
        str, Field(max_length=200, description="The plan's id again: confirms its deletions.")
    ] = "",
) -> Pruned:
    """Sweep named segments, or exactly what a plan of context_gc_analyze says. The default is the
    stash, from where everything comes back. Deleting needs a confirmation: by the user if the
    client can ask, else by the plan's id in confirm."""
    anyio.from_thread.run(ctx.report_progress, 0, len(plan.steps), "sweeping")
    with here.segments() as context:
        if plan.deletes:
            _check(context, plan, answer)
        report = context.collect(plan, confirm=plan.plan_id)
    anyio.from_thread.run(ctx.report_progress, len(plan.steps), len(plan.steps), "swept")
    return Pruned.of(plan, report, segment_ids)


def _check(context: Segments, plan: Plan, answer: ElicitationResult[Consent]) -> None:
    """Refuse a deletion that nobody agreed to."""
    if not isinstance(answer, AcceptedElicitation):
        raise Refused("the user did not agree to the deletion. Nothing was changed.")
    if not answer.data.delete:
        context.save(plan)
        raise NotConfirmed(
            f"{plan.plan_id} deletes segments and was not confirmed; nothing was changed. To "
            f"delete, call context_gc_prune with plan_id and confirm both {plan.plan_id!r}; or "
            "leave strategy out, and they go to the stash."
        )


def context_gc_undo(
    here: Here,
    plan_id: Annotated[str, Field(max_length=200, description="The latest if left out.")] = "",
) -> Undone:
    """Reverse a whole sweep: everything it took comes back to where it was."""
    with here.segments() as context:
        wanted = plan_id or context.store.stash.latest_plan(context.workspace)
        if not wanted:
            raise NotFound("nothing was swept from this workspace, so there is nothing to undo.")
        restored = context.undo(wanted)
        return Undone(plan_id=wanted, restored=list(restored), usage=usage(context))


def context_gc_history(here: Here, limit: Annotated[int, Field(ge=1, le=1_000)] = 20) -> History:
    """List what was planned, swept, restored and undone, newest first."""
    with here.segments() as context:
        return History(events=[Event.of(entry) for entry in context.history(limit)])


_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_SWEEPS = ToolAnnotations(destructive_hint=True, idempotent_hint=True, open_world_hint=False)
_ANALYZES = ToolAnnotations(destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_UNDOES = ToolAnnotations(destructive_hint=False, idempotent_hint=False, open_world_hint=False)

TOOLS = (
    StrictTool.of(context_gc_analyze, "Analyze context", _ANALYZES),
    StrictTool.of(context_gc_prune, "Prune context", _SWEEPS),
    StrictTool.of(context_gc_undo, "Undo a sweep", _UNDOES),
    StrictTool.of(context_gc_history, "History of collections", _READS),
)
