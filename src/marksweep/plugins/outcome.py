"""A plan carried out on a history, and told as a GCResult."""

from __future__ import annotations

from collections import Counter as TallyOf
from collections.abc import Iterator, Mapping
from itertools import chain

import msgspec

from marksweep.core.plan import StepIndices
from marksweep.dialects.editing import Line
from marksweep.ledger import InstructionSource
from marksweep.messages import Counter, Message, Part, Role
from marksweep.messages.turns import NOTICE
from marksweep.model import IN_PLACE, Plan, Segment, Step
from marksweep.plugins.base import GCRemovalItem, GCResult, GCTriggerReason
from marksweep.plugins.digest import Digester
from marksweep.plugins.options import Options
from marksweep.plugins.view import View


class Written(msgspec.Struct, frozen=True):
    """A history after a collection, and what it and all beside it weigh."""

    history: list[Message]
    tokens: int
    notification: str | None = None


class Deed(msgspec.Struct, frozen=True):
    """A plan for a view, and where in it each step's messages stand."""

    plan: Plan
    places: StepIndices

    def __iter__(self) -> Iterator[tuple[Step, tuple[int, ...]]]:
        """Give each step with its places."""
        return zip(self.plan.steps, self.places, strict=True)

    def put_off(self) -> Deed:
        """Leave everything where it is; the cost says what a later moment should better."""
        before = self.plan.size_before
        plan = msgspec.structs.replace(self.plan, steps=(), size_after=before, target_size=before)
        return Deed(plan, ())


class Teller(msgspec.Struct, frozen=True):
    """Who collects, why, and how to say so."""

    plugin: str
    reason: GCTriggerReason
    options: Options
    counter: Counter

    def notice(self, view: View, deed: Deed) -> Message | None:
        """The message that tells the model what happened, if it weighs less than what was freed."""
        if not self.options.notify_on_gc:
            return None
        plan = deed.plan
        items = sum(item.source is InstructionSource.CONVERSATION for item in removals(view, deed))
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


def write_out(view: View, deed: Deed, made: Mapping[str, Message], teller: Teller) -> Written:
    """Carry a plan out on a copy of the history.

    A notice stands where the first message went, in place of any earlier one. It is left out if
    only schemas and enrichment went, which the model does not miss, or if results became lines,
    which tell their own story.
    """
    plan, end = deed.plan, len(view.messages)
    if all(places[0] >= end for places in deed.places):
        return Written(list(view.history), view.total - plan.tokens_freed)
    gone = set(chain.from_iterable(deed.places))
    new = {p[0]: [made[_version(step.replacement)]] for step, p in deed if step.replacement}
    whole = [p[0] for step, p in deed if step.action not in IN_PLACE and p[0] < end]
    notice = teller.notice(view, deed) if whole else None
    if notice is not None:
        new.setdefault(min(whole), []).append(notice)
    kept: list[Message] = []
    places: list[int] = []
    for at, message in enumerate(view.messages):
        if at not in gone:
            kept.append(message)
            places.append(at)
        elif at in new:
            kept += new[at]
            places += [at] * len(new[at])
    tokens = plan.tokens_after + (teller.counter(notice) if notice else 0)
    history = kept
    if view.dialect is not None:
        line = Line(view.dialect)
        line.extend(zip(places, kept, strict=True))
        history = line.messages
    if len(history) < len(kept):  # What was joined weighs a little less.
        tokens += sum(map(teller.counter, history)) - sum(map(teller.counter, kept))
    return Written(history, tokens, notice.text if notice else None)


def _version(replacement: Segment) -> str:
    """Name the message of a replacement: a summary by its id, a shorter version by its own name."""
    return replacement.raw or replacement.segment_id


def result_of(
    view: View, deed: Deed, written: Written, digester: Digester, teller: Teller
) -> GCResult:
    """Tell what a collection did. One that freed nothing and is still over its target failed."""
    plan, removed = deed.plan, tuple(removals(view, deed))
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
    reasons = "; ".join(f"{blocker.size:,} tokens {blocker.reason}" for blocker in plan.blockers)
    return f"cannot reach target: {plan.short_by:,} tokens over it. In the way: {reasons}."


def removals(view: View, deed: Deed) -> Iterator[GCRemovalItem]:
    """What went, entry by entry of the ledger; a turn that went with its work is one item."""
    for step, places in deed:
        members = sorted(places)
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
    key = view.reading.entries[at].key
    return GCRemovalItem(InstructionSource.CONVERSATION, key, step.size, word)


def _in_history(view: View, members: list[int], word: str) -> Iterator[GCRemovalItem]:
    groups: dict[str, list[int]] = {}
    entries = view.reading.entries
    for i in members:
        groups.setdefault(entries[i].key.partition(".")[0], []).append(i)
    for name, group in groups.items():
        only = {entries[i].key for i in group}
        yield GCRemovalItem(
            InstructionSource.CONVERSATION,
            only.pop() if len(only) == 1 else name,
            sum(view.context.sizes[i] for i in group),
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
            yield GCRemovalItem(source, None, sum(view.context.sizes[i] for i in group), word)
            continue
        for i in group:
            key = view.outside[i - len(view.messages)].key
            yield GCRemovalItem(source, key, view.context.sizes[i], word)
