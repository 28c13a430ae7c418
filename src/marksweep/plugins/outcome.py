"""A plan carried out on a history, and told as a GCResult."""

from __future__ import annotations

from collections import Counter as TallyOf
from collections.abc import Iterator, Mapping

import msgspec

from marksweep.core.plan import IN_PLACE
from marksweep.dialects.editing import closed
from marksweep.ledger import InstructionSource
from marksweep.ledger.turns import NOTICE
from marksweep.messages import Counter, Message, Part, Role
from marksweep.model import Plan, Segment, Step
from marksweep.plugins.base import GCRemovalItem, GCResult, GCTriggerReason
from marksweep.plugins.digest import Digester
from marksweep.plugins.options import Options
from marksweep.plugins.view import View


class Written(msgspec.Struct, frozen=True):
    """A history after a collection, and what it and all beside it weigh."""

    history: list[Message]
    tokens: int
    notification: str | None = None


class Teller(msgspec.Struct, frozen=True):
    """Who collects, why, and how to say so."""

    plugin: str
    reason: GCTriggerReason
    options: Options
    counter: Counter

    def notice(self, view: View, plan: Plan) -> Message | None:
        """The message that tells the model what happened, if it weighs less than what was freed."""
        if not self.options.notify_on_gc:
            return None
        items = sum(item.source is InstructionSource.CONVERSATION for item in removals(view, plan))
        text = self.options.notice(
            items=items,
            tokens=plan.tokens_freed,
            before=plan.tokens_before,
            plugin=self.plugin,
            reason=self.reason,
        )
        name = f"{NOTICE}{view.notices + 1}"
        message = Message(Role.USER, (Part(text=f"[{name}] {text}"),), name)
        return message if self.counter(message) < plan.tokens_freed else None

    def unless_over(self, needed: int) -> Teller:
        """Keep quiet if the notice would weigh more than what must be freed."""
        if self.weight() < needed:
            return self
        options = msgspec.structs.replace(self.options, notify_on_gc=False)
        return msgspec.structs.replace(self, options=options)

    def weight(self) -> int:
        """The most tokens a notice takes; 0 if there will be none."""
        if not self.options.notify_on_gc:
            return 0
        longest = self.options.notice(
            items=10**6, tokens=10**9, before=10**9, plugin=self.plugin, reason=self.reason
        )
        name = f"{NOTICE}{10**6}"
        return self.counter(Message(Role.USER, (Part(text=f"[{name}] {longest}"),), name))


def put_off(plan: Plan) -> Plan:
    """Leave everything where it is; the cost says what a later moment should better."""
    return msgspec.structs.replace(
        plan, steps=(), tokens_after=plan.tokens_before, target_tokens=plan.tokens_before
    )


def write_out(view: View, plan: Plan, made: Mapping[str, Message], teller: Teller) -> Written:
    """Carry a plan out on a copy of the history.

    A notice stands where the first message went, in place of any earlier one. It is left out if
    only schemas and enrichment went, which the model does not miss, or if results became lines,
    which tell their own story.
    """
    index = view.scene.graph.index
    steps = [(index[step.segments[0]], step) for step in plan.steps]
    if all(at >= len(view.messages) for at, _ in steps):
        return Written(list(view.history), view.total - plan.tokens_freed)
    gone = {index[name] for step in plan.steps for name in step.segments}
    instead = {at: made[_version(step.replacement)] for at, step in steps if step.replacement}
    whole = [at for at, step in steps if step.action not in IN_PLACE and at < len(view.messages)]
    notice = teller.notice(view, plan) if whole else None
    first = min(whole, default=None)
    kept: list[tuple[int, Message]] = []
    for at, message in enumerate(view.messages):
        if at in instead:
            kept.append((at, instead[at]))
        if at == first and notice is not None:
            kept.append((at, notice))
        if at not in gone:
            kept.append((at, message))
    weight = teller.counter(notice) if notice else 0
    return _joined(view, kept, plan.tokens_after + weight, teller, notice)


def _version(replacement: Segment) -> str:
    """Name the message of a replacement: a summary by its id, a shorter version by its own name."""
    return replacement.raw or replacement.segment_id


def _joined(
    view: View,
    kept: list[tuple[int, Message]],
    tokens: int,
    teller: Teller,
    notice: Message | None,
) -> Written:
    """Close the seams as the provider wants it; what was joined weighs a little less."""
    said = notice.text if notice else None
    history = closed(view.dialect, kept) if view.dialect else [message for _, message in kept]
    if len(history) < len(kept):
        before = sum(teller.counter(message) for _, message in kept)
        tokens += sum(map(teller.counter, history)) - before
    return Written(history, tokens, said)


def result_of(
    view: View, plan: Plan, written: Written, digester: Digester, teller: Teller
) -> GCResult:
    """Tell what a collection did. One that freed nothing and is still over its target failed."""
    removed = tuple(removals(view, plan))
    futile = not removed and bool(plan.short_by)
    return GCResult(
        success=not futile,
        items_collected=len(removed),
        tokens_before=view.total,
        tokens_after=written.tokens,
        plugin_name=teller.plugin,
        trigger_reason=teller.reason,
        notification=written.notification,
        details=_details(plan, removed, digester),
        error=_in_the_way(plan) if futile else None,
        removal_list=removed,
    )


def _details(
    plan: Plan, removed: tuple[GCRemovalItem, ...], digester: Digester
) -> dict[str, object]:
    count = TallyOf(item.reason for item in removed)
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
    summaries = [s.replacement for s in plan.steps if s.replacement and s.action not in IN_PLACE]
    if summaries:
        details["summary_keys"] = [summary.segment_id for summary in summaries]
        details["summary_tokens"] = sum(summary.tokens for summary in summaries)
        details["summarized_by"] = digester.made_by
    if not plan.steps and plan.cost.edits_from is not None:
        details["put_off"] = "a later moment is better for the prompt cache"
    if digester.notes:
        details["summarizer_notes"] = digester.notes
    if plan.short_by:
        details["short_by"] = plan.short_by
        details["cannot_reach_target"] = _in_the_way(plan)
    return details


def _in_the_way(plan: Plan) -> str:
    reasons = "; ".join(f"{kept.tokens:,} tokens {kept.reason}" for kept in plan.kept)
    return f"cannot reach target: {plan.short_by:,} tokens over it. In the way: {reasons}."


def removals(view: View, plan: Plan) -> Iterator[GCRemovalItem]:
    """What went, entry by entry of the ledger; a turn that went with its work is one item."""
    index = view.scene.graph.index
    for step in plan.steps:
        members = sorted(index[name] for name in step.segments)
        word = _word(step)
        if step.action in IN_PLACE:
            yield _shortened(view, step, members[0], word)
            continue
        yield from _in_history(view, [i for i in members if i < len(view.messages)], word)
        yield from _outside(view, [i for i in members if i >= len(view.messages)], word)


def _word(step: Step) -> str:
    """The reason in a word: the one it begins with, else what was done."""
    word = step.reason.partition(":")[0]
    return word if word.isidentifier() else step.action.value


def _shortened(view: View, step: Step, at: int, word: str) -> GCRemovalItem:
    """What of a message went. The message is still there."""
    key = view.reading.keys[at]
    return GCRemovalItem(InstructionSource.CONVERSATION, key, step.tokens, word)


def _in_history(view: View, members: list[int], word: str) -> Iterator[GCRemovalItem]:
    groups: dict[str, list[int]] = {}
    keys = view.reading.keys
    for i in members:
        groups.setdefault(keys[i].partition(".")[0], []).append(i)
    for name, group in groups.items():
        only = {keys[i] for i in group}
        yield GCRemovalItem(
            InstructionSource.CONVERSATION,
            only.pop() if len(only) == 1 else name,
            sum(view.scene.sizes[i] for i in group),
            word,
            tuple(view.messages[i].message_id for i in group),
        )


def _outside(view: View, members: list[int], word: str) -> Iterator[GCRemovalItem]:
    """Items beside the history; enrichment that goes whole is one item without a key."""
    by_source: dict[InstructionSource, list[int]] = {}
    for i in members:
        by_source.setdefault(view.outside[i - len(view.messages)].source, []).append(i)
    for source, group in by_source.items():
        whole = len(group) == sum(item.source is source for item in view.outside)
        if whole and source is InstructionSource.ENRICHMENT:
            yield GCRemovalItem(source, None, sum(view.scene.sizes[i] for i in group), word)
            continue
        for i in group:
            key = view.outside[i - len(view.messages)].key
            yield GCRemovalItem(source, key, view.scene.sizes[i], word)
