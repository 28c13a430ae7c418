"""What a collection did, as a GCResult: entry by entry of the ledger."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Sequence

import msgspec

from marksweep.ledger import InstructionSource
from marksweep.ledger.conversation import classify
from marksweep.model import IN_PLACE, Action, Plan, Step
from marksweep.plugins.base import GCRemovalItem, GCResult
from marksweep.plugins.run import Run

replace = msgspec.structs.replace


def removals(run: Run, plan: Plan) -> tuple[GCRemovalItem, ...]:
    """List what would go; a turn that goes with its work is one item."""
    removals_of = _Removals(run, plan).of
    return tuple(item for step in plan.steps for item in removals_of(step))


class _Removals:
    """Reports steps as entries of the ledger."""

    def __init__(self, run: Run, plan: Plan) -> None:
        self._run = run
        segments = run.before.segments
        gone = {name for step in plan.steps for name in step.segments}
        self._sizes = {s.segment_id: s.tokens for s in segments if s.segment_id in gone}
        turns = {s.topic_id for s in segments if s.segment_id in gone}
        self._declared = run.ledger.declared(InstructionSource.CONVERSATION)
        self._entries = classify(run.heap, segments, self._declared, turns)

    def of(self, step: Step) -> Iterator[GCRemovalItem]:
        """Return the items of a step. The line that stands for a run counts against the first."""
        line = step.replacement.tokens if step.replacement and step.stand_in else 0
        for item in self._of(step):
            yield replace(item, tokens_freed=item.tokens_freed - line) if line else item
            line = 0

    def _of(self, step: Step) -> Iterator[GCRemovalItem]:
        word = _word(step)
        if step.action in IN_PLACE:
            key = self._entries[step.segments[0]].key
            yield GCRemovalItem(InstructionSource.CONVERSATION, key, step.size, word)
            return
        external = self._run.external
        yield from self._in_history([n for n in step.segments if n not in external], word)
        yield from self._external([n for n in step.segments if n in external], word)

    def _in_history(self, names: Sequence[str], word: str) -> Iterator[GCRemovalItem]:
        renamed, counts = self._run.renamed, self._run.counts
        if counts is not None:  # what the host does not count goes with the one it is paired with
            names = sorted(names, key=lambda name: not counts.names(name))
        turns: dict[str, list[str]] = {}
        for name in names:
            key = self._entries[name].key
            turn = key if key in self._declared else key.partition(".")[0]
            if turns and counts is not None and not counts.names(name):
                turn = next(iter(turns))
            turns.setdefault(turn, []).append(name)
        for turn, members in turns.items():
            keys = {self._entries[name].key for name in members}
            yield GCRemovalItem(
                InstructionSource.CONVERSATION,
                keys.pop() if len(keys) == 1 else turn,
                sum(self._sizes[name] for name in members),
                word,
                tuple(renamed.get(name, name) for name in members),
            )

    def _external(self, names: Sequence[str], word: str) -> Iterator[GCRemovalItem]:
        """Return items outside the history; enrichment removed whole is one item without a key."""
        external = self._run.external
        by_source: dict[InstructionSource, list[str]] = {}
        for name in names:
            by_source.setdefault(external[name].source, []).append(name)
        for source, members in by_source.items():
            whole = len(members) == sum(item.source is source for item in external.values())
            if whole and source is InstructionSource.ENRICHMENT:
                yield GCRemovalItem(source, None, sum(self._sizes[n] for n in members), word)
                continue
            for name in members:
                yield GCRemovalItem(source, external[name].key, self._sizes[name], word)


def _word(step: Step) -> str:
    """Return the reason in a word: its first word, else what was done."""
    word = step.reason.partition(":")[0]
    return word if word.isidentifier() else step.action.value


def result_of(run: Run, plan: Plan, removed: tuple[GCRemovalItem, ...]) -> GCResult:
    """Report what a collection did. One that freed nothing and is still over its target failed."""
    is_put_off = bool(plan.steps) and not removed
    short_by = plan.short_by if not is_put_off else 0
    blockers = (
        f"cannot reach target: {short_by:,} tokens over it. Blockers: "
        + "; ".join(f"{blocker.size:,} tokens {blocker.reason}" for blocker in plan.blockers)
        + "."
    )
    details = _details(run, plan, removed)
    if is_put_off:
        details["put_off"] = "a later moment is better for the prompt cache"
    if short_by:
        details["short_by"] = short_by
        details["cannot_reach_target"] = blockers
    is_futile = bool(short_by) and not removed
    return GCResult(
        success=not is_futile,
        items_collected=len(removed),
        tokens_before=run.tokens_before,
        tokens_after=run.tokens_after,
        plugin_name=run.request.plugin,
        trigger_reason=run.request.reason,
        notification=run.notification,
        details=details,
        error=blockers if is_futile else None,
        removal_list=list(removed),
    )


def _details(run: Run, plan: Plan, removed: Sequence[GCRemovalItem]) -> dict[str, object]:
    count = Tally(item.reason for item in removed)
    details: dict[str, object] = {
        "plan_id": plan.plan_id,
        "target_tokens": plan.target_tokens,
        "enrichment_cleared": bool(count["enrichment_bulk_clear"]),
        "ephemeral_removed": count["ephemeral"],
        "partial_removed": count["partial_turn"],
        "preservable_removed": count["preservable_under_pressure"],
        "turns_truncated": count["truncated"] + count["ancient_truncated"],
        "turns_summarized": count["summarized"] + count["middle_summarized"],
        "edits_from": plan.cost.edits_from,
        "reread_tokens": plan.cost.reread_tokens,
        "pays_after_turns": plan.cost.pays_after_turns,
    }
    summaries = [
        step.replacement
        for step in plan.steps
        if step.action is Action.COMPRESS and step.replacement is not None
    ]
    if removed and summaries:
        details["summary_keys"] = [summary.segment_id for summary in summaries]
        details["summary_tokens"] = sum(summary.tokens for summary in summaries)
        details["summarized_by"] = [
            run.digester.made_by[summary.segment_id] for summary in summaries
        ]
    if run.digester.notes:
        details["summarizer_notes"] = run.digester.notes
    return details
