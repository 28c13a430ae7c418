"""Break the code on purpose, one break at a time: the tests must notice every one.

    python tools/mutants.py            all of them
    python tools/mutants.py mark       those whose name or file contains "mark"

Each mutant is a piece of source and its replacement. It is applied to a copy of the package; the
tests of its part of the package run against the copy. A mutant that survives is a gap in the tests,
and a mutant whose source is not found is a gap in this file: both fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


def laws(pattern: str) -> tuple[str, ...]:
    """Return the tests of some laws."""
    return tuple(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob(f"tests/laws/{pattern}")))


PROVIDERS = tuple(
    f"tests/dialects/test_{name}.py"
    for name in ("anthropic", "gemini", "openai_chat", "openai_responses")
)
FILES = "tests/cli/test_transcript_files.py"
CONVERSATION = "tests/heaps/test_conversation.py"
SEGMENTS = "tests/test_segments.py"
CONTRACT = "tests/heaps/test_heap_contract.py"

GRAPH = ("tests/graph/test_marking.py", "tests/graph/test_prune.py::TestMemoryOnSqlite")

TESTS: dict[str, tuple[str, ...]] = {
    "core/": (
        "tests/core",
        "tests/strategies/test_scored.py",
        "tests/test_engine.py",
        "tests/heaps/test_live_index.py",
        "tests/strategies/test_last_resort.py",
        *laws("test_law_*.py"),
        *laws("test_conversations_11*.py"),
    ),
    "collector.py": ("tests/test_collector.py", CONTRACT, SEGMENTS),
    "heaps/segments.py": (SEGMENTS, CONTRACT, CONVERSATION, *laws("test_undo*.py")),
    "heaps/restoring.py": (SEGMENTS, CONVERSATION, *laws("test_undo*.py")),
    "heaps/forms.py": (*PROVIDERS, "tests/dialects/test_properties.py"),
    "sections.py": ("tests/test_sections.py",),
    "strategies/last_resort.py": (
        "tests/strategies/test_last_resort.py",
        *laws("test_conversations_11*.py"),
    ),
    "strategies/coverage/": (
        "tests/strategies/coverage/test_coverage.py",
        "tests/strategies/coverage/test_index.py",
        *laws("test_conversations_12*.py"),
    ),
    "core/runs.py": (
        *laws("test_conversations_1_*.py"),
        *laws("test_conversations_12*.py"),
        CONVERSATION,
    ),
    "heaps/stash_search.py": ("tests/heaps/test_notes.py",),
    "heaps/gaps.py": (CONVERSATION, *laws("test_conversations_12*.py")),
    "heaps/staying.py": (CONVERSATION, *laws("test_conversations_1*.py")),
    "heaps/conversation.py": (CONVERSATION, *laws("test_conversations_1*.py")),
    "heaps/live_index.py": (
        "tests/heaps/test_live_index.py",
        "tests/heaps/test_fingerprint.py",
        SEGMENTS,
        CONVERSATION,
    ),
    "heaps/graph.py": GRAPH,
    "graph/": GRAPH,
    "plugins/": ("tests/plugins",),
    "conversation.py": ("tests/test_following.py",),
    "following.py": ("tests/test_following.py",),
    "engine.py": ("tests/test_engine.py",),
    "strategies/scored.py": (SEGMENTS, "tests/strategies/test_scored.py"),
    "ledger/": ("tests/test_ledger.py", "tests/session/test_keeping.py"),
    "session/": ("tests/session/test_third_party_plugins.py", "tests/session/test_keeping.py"),
    "dialects/": PROVIDERS,
    "dialects/validity.py": ("tests/dialects/test_detection.py",),
    "dialects/history.py": (
        "tests/dialects/test_detection.py",
        "tests/dialects/test_transcripts.py",
        f"{FILES}::TestDamagedFiles",
        *PROVIDERS,
    ),
    "dialects/transcripts.py": ("tests/dialects/test_transcripts.py", f"{FILES}::TestDamagedFiles"),
    "dialects/base.py": ("tests/dialects/test_transcripts.py", *PROVIDERS, CONVERSATION),
    "dialects/enveloped.py": ("tests/dialects/test_transcripts.py",),
    "cli/transcripts.py": (f"{FILES}::TestLinksAndModes", f"{FILES}::TestConcurrentWriters"),
    "stores/files.py": (f"{FILES}::TestLinksAndModes", f"{FILES}::TestConcurrentWriters"),
    "stores/json_file/": ("tests/stores/test_json_files.py",),
}
"""The tests that must catch the mutants of a file, by path prefix; the longest prefix counts."""


class Mutant(NamedTuple):
    """One break."""

    name: str
    file: str
    source: str
    broken: str

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests that must catch it."""
        return TESTS[max((path for path in TESTS if self.file.startswith(path)), key=len)]


MUTANTS = (
    Mutant(
        "following: the order of keys makes another message",
        "following.py",
        "data = spelled(said, is_sorted=True)\n    if",
        "data = spelled(said)\n    if",
    ),
    Mutant(
        "coverage: what is there comes back again",
        "strategies/coverage/index.py",
        "+ share * self._own_worth(block)",
        "+ self._own_worth(block)",
    ),
    Mutant(
        "runs: a pinned line is replaced",
        "core/runs.py",
        "if is_line(segment) and context.may_yield((i,), Action.TRIM)",
        "if is_line(segment)",
    ),
    Mutant(
        "runs: the line of a scattered unit is where the unit begins",
        "core/runs.py",
        "line = msgspec.structs.replace(line, position=place)",
        "pass",
    ),
    Mutant(
        "live index: a note is before the message that it follows",
        "heaps/live_index.py",
        "{GAP: 0, RECALLED: 2}",
        "{GAP: 0}",
    ),
    Mutant(
        "live index: the line for a run is behind its first message",
        "heaps/live_index.py",
        "{GAP: 0, RECALLED: 2}",
        "{RECALLED: 2}",
    ),
    Mutant(
        "staying: words beside results go with them",
        "heaps/staying.py",
        "for i in sorted(beside, reverse=True):",
        "for i in ():",
    ),
    Mutant(
        "last resort: what stays with others of its unit does not yield",
        "strategies/last_resort.py",
        "if context.may_go((i,))}",
        "if False}",
    ),
    Mutant(
        "coverage: the agent's text may become a bare marker",
        "strategies/coverage/index.py",
        "if self.is_own and not any(",
        "if not self.pieces and not any(",
    ),
    Mutant(
        "coverage: a cold cache is spared",
        "strategies/coverage/choose.py",
        "is_free = context.is_cache_cold or target_tokens == context.limit",
        "is_free = target_tokens == context.limit",
    ),
    Mutant(
        "coverage: what still fits goes too",
        "strategies/coverage/choose.py",
        "if freed > surplus:",
        "if freed > surplus or freed:",
    ),
    Mutant(
        "coverage: an exchange that went does not stay after all",
        "strategies/coverage/choose.py",
        "if not any(frame.is_kept for _, frame in calls):",
        "if not calls:",
    ),
    Mutant(
        "coverage: a unit that goes frees no more than its parts",
        "strategies/coverage/choose.py",
        "if not self._is_last(i):",
        "if self._messages:",
    ),
    Mutant(
        "coverage: the line for a gap counts nothing",
        "strategies/coverage/choose.py",
        "return block.tokens - _line_tokens(block)",
        "return block.tokens",
    ),
    Mutant(
        "coverage: every long call of a tool is worth something by itself",
        "strategies/coverage/index.py",
        "old.own = max(worths.values(), default=0.0)",
        "old.own = max(old.own, *worths.values(), 0.0)",
    ),
    Mutant(
        "coverage: a call that was made before is like any other",
        "strategies/coverage/index.py",
        "0.0 if is_new else CALLED_AGAIN",
        "0.0",
    ),
    Mutant(
        "coverage: a message that is cut anew repeats its calls",
        "strategies/coverage/index.py",
        "is_new = before is None or before.message.segment_id == frame.message.segment_id",
        "is_new = before is None",
    ),
    Mutant(
        "sections: a heading is left alone",
        "sections.py",
        "says_something |= bool(before) and not _HEADING.match(before)",
        "says_something = True",
    ),
    Mutant(
        "coverage: the smallest windows are cut only near their end",
        "strategies/coverage/choose.py",
        "is_free = context.is_cache_cold or target_tokens == context.limit",
        "is_free = context.is_cache_cold",
    ),
    Mutant(
        "runs: an old line stays beside the new one",
        "core/runs.py",
        "between = unsaid | self._old",
        "between = unsaid",
    ),
    Mutant(
        "runs: a line may go by itself",
        "core/runs.py",
        "                staying += sorted(old & step_of.keys())",
        "                pass",
    ),
    Mutant(
        "gaps: a line forgets what the one before it said",
        "heaps/gaps.py",
        "LeftOut.joined([self._left_out(segment) for segment in said])",
        "self._left_out(said[-1])",
    ),
    Mutant(
        "gaps: a line is where a note was",
        "heaps/gaps.py",
        "position=said[0].position",
        "position=run[0].position",
    ),
    Mutant(
        "roots: pins are not roots",
        "core/roots.py",
        "    if not segment.pinned:\n        return None",
        "    if segment.pinned or not segment.pinned:\n        return None",
    ),
    Mutant(
        "roots: the last messages are the first",
        "core/roots.py",
        "in reversed(segments)",
        "in iter(segments)",
    ),
    Mutant(
        "roots: active lines need not overlap",
        "core/roots.py",
        "segment.line_range[0] <= last and first <= segment.line_range[1]",
        "segment.line_range[0] <= last or first <= segment.line_range[1]",
    ),
    Mutant(
        "mark: stops after one step",
        "core/mark.py",
        "                marks[target] = Mark.REACHED\n                stack.append(target)",
        "                marks[target] = Mark.REACHED",
    ),
    Mutant(
        "mark: pairs carry no mark",
        "core/mark.py",
        "for mate in units.members(i):",
        "for mate in ():",
    ),
    Mutant(
        "mark: weak references keep",
        "core/mark.py",
        "            marks[target] = Mark.RELATED\n    _relate",
        "            marks[target] = Mark.REACHED\n    _relate",
    ),
    Mutant("mark: hubs are ignored", "core/mark.py", "    if not reached:", "    if reached:"),
    Mutant(
        "graph: weak references are strong",
        "core/units.py",
        "if hold == strong:",
        "if hold != paired:",
    ),
    Mutant(
        "graph: nothing stands in for an original",
        "core/units.py",
        "        if stand_ins:",
        "        if not stand_ins:",
    ),
    Mutant(
        "graph: the segment before is taken for the target",
        "core/units.py",
        "if i and segments[i - 1].segment_id == name:",
        "if i and segments[i - 1].segment_id <= name:",
    ),
    Mutant(
        "units: pairs that share a member stay separate",
        "core/units.py",
        "            is_tangled = True",
        "            is_tangled = False",
    ),
    Mutant(
        "units: pairs are not joined",
        "core/units.py",
        "        parent[high] = low",
        "        parent[high] = high",
    ),
    Mutant(
        "score: age counts for nothing",
        "core/score.py",
        "w.recency * (age / (age + self.half_life_hours))",
        "w.recency * 0.5",
    ),
    Mutant(
        "score: references make a segment go sooner",
        "core/score.py",
        "+ w.references / (segment.refcount + 1)",
        "+ w.references * (1 - 1 / (segment.refcount + 1))",
    ),
    Mutant("score: retention is not inverted", "core/score.py", "return 1.0 - (", "return 0.0 + ("),
    Mutant(
        "score: time zones are ignored",
        "core/score.py",
        "(now - segment.last_touched_at).total_seconds()",
        "(now.replace(tzinfo=UTC) - segment.last_touched_at).total_seconds()",
    ),
    Mutant(
        "budget: the target may lie above the threshold",
        "core/budget.py",
        "if target_percent > threshold_percent:",
        "if target_percent > 1000:",
    ),
    Mutant(
        "budget: the hard limit is the soft limit",
        "core/budget.py",
        "if used > self.hard_limit or ",
        "if used > self.soft_limit or ",
    ),
    Mutant(
        "budget: the limits ignore what must stay",
        "core/budget.py",
        "if held <= 0:",
        "if held >= 0:",
    ),
    Mutant(
        "trigger: a cold cache changes nothing",
        "core/budget.py",
        "if pressure is Pressure.NONE and not (is_cold and used > budget.cold_limit):",
        "if pressure is Pressure.NONE:",
    ),
    Mutant(
        "trigger: a cache lives forever",
        "core/budget.py",
        "return now - self.last_request > timedelta(minutes=self.minutes)",
        "return False",
    ),
    Mutant(
        "trigger: reported cache reads of nothing are ignored",
        "core/budget.py",
        "cached_tokens == 0 and self.requests > 1",
        "False",
    ),
    Mutant(
        "trigger: a futile pass does not back off",
        "core/budget.py",
        "    if freed > 0:\n        return None",
        "    return None",
    ),
    Mutant(
        "trigger: the back-off never ends",
        "core/budget.py",
        "return grown or change - self.change >= self.wait",
        "return False",
    ),
    Mutant(
        "plan: what was trimmed does not block",
        "core/plan.py",
        "        if self._taken[i] == _GONE:\n            return None",
        "        if self._taken[i]:\n            return None",
    ),
    Mutant(
        "plan: what was trimmed is refused at its full size",
        "core/plan.py",
        "return size - edit.size if edit.action in IN_PLACE else None",
        "return size if edit.action in IN_PLACE else None",
    ),
    Mutant(
        "notes: the head goes with the first excerpt",
        "heaps/stash_search.py",
        '"".join([NOTE_HEAD, *out])',
        '"".join(out)',
    ),
    Mutant(
        "cost: what is read again is forgotten",
        "core/plan.py",
        "sum(sizes[edits_from:]) - freed",
        "0",
    ),
    Mutant(
        "plan: it goes on past the target",
        "core/plan.py",
        "            if target is not None and self.left <= target:\n                return",
        "            if target is not None and self.left <= target // 2:\n                return",
    ),
    Mutant(
        "plan: it stops one too early",
        "core/plan.py",
        "            if target is not None and self.left <= target:\n                return",
        "            if target is not None and self.left <= target + 40:\n                return",
    ),
    Mutant(
        "plan: a result too large for the window drives out everything else",
        "core/plan.py",
        "    if size <= room:\n        return",
        "    if size:\n        return",
    ),
    Mutant(
        "plan: a result that fits alone is trimmed first",
        "core/plan.py",
        "    if size <= room:\n        return",
        "    if not size:\n        return",
    ),
    Mutant(
        "plan: a result too large is trimmed although nothing needs the room",
        "core/plan.py",
        "max(0, room)), context.needed)",
        "max(0, room)), context.size)",
    ),
    Mutant(
        "last resort: the line in place of what is trimmed is not counted",
        "strategies/last_resort.py",
        "(excess + n * LINE_TOKENS)",
        "excess",
    ),
    Mutant(
        "plan: roots may go",
        "core/plan.py",
        "if not candidates.may_go(members) and not (",
        "if members is None and not (",
    ),
    Mutant(
        "plan: units are split",
        "core/plan.py",
        "return units.members(members[0])",
        "return members",
    ),
    Mutant(
        "plan: a replacement is free",
        "core/plan.py",
        "freed -= replacement.tokens",
        "freed -= 0",
    ),
    Mutant(
        "plan: a segment is taken twice",
        "core/plan.py",
        "if taken[i] == _GONE:",
        "if not members:",
    ),
    Mutant(
        "plan: it does not list what blocks it",
        "core/plan.py",
        "blockers=blockers,",
        "blockers=(),",
    ),
    Mutant(
        "plan: the id does not depend on the content",
        "core/plan.py",
        "        digest.update(packed(plan.steps[start : start + _HASHED_AT_ONCE]))",
        "        digest.update(b'')",
    ),
    Mutant(
        "context: preservable goes under any pressure",
        "core/context.py",
        "_PRESERVABLE if pressure < Pressure.HARD",
        "_PRESERVABLE if pressure < Pressure.NONE",
    ),
    Mutant(
        "context: locked may go",
        "core/context.py",
        "if policy == GCPolicy.LOCKED:",
        "if policy == 'unlocked':",
    ),
    Mutant(
        "fingerprint: sums are not brought into range",
        "heaps/live_index.py",
        "{total % _MODULUS:032x}",
        "{total:032x}",
    ),
    Mutant(
        "fingerprint: the text is left out",
        "heaps/live_index.py",
        "text=detached_copy(segment.text))",
        "text='')",
    ),
    Mutant(
        "laws: splitting a pair is allowed",
        "core/laws.py",
        "if step_of.get(segment.segment_id) != step_of.get(reference.target):",
        "if not segment.segment_id:",
    ),
    Mutant(
        "why: the path is not a path", "core/mark.py", "    return steps[::-1]", "    return steps"
    ),
    Mutant(
        "why: what a policy holds may go",
        "core/why.py",
        "        held = held_because(context, goal)",
        "        held = None",
    ),
    Mutant(
        "scored: one of a unit decides whether all are deleted",
        "strategies/scored.py",
        "        disposable = all(",
        "        disposable = any(",
    ),
    Mutant(
        "engine: a pair is split",
        "engine.py",
        "names = (candidate.segment_id, *candidate.paired_with)",
        "names = (candidate.segment_id,)",
    ),
    Mutant(
        "conversation: what cannot be read is a rewind to nothing",
        "conversation.py",
        "if values and links == [None] * len(values):",
        "if values and links == [None] * len(values) + [None]:",
    ),
    Mutant(
        "collector: deletion needs no confirmation",
        "collector.py",
        "if plan.deletes and confirm != plan.plan_id:",
        "if plan.deletes and not plan.plan_id:",
    ),
    Mutant(
        "collector: an outdated plan is applied",
        "collector.py",
        "            self._heap.check(plan)\n",
        "",
    ),
    Mutant(
        "collector: a sweep is not announced",
        "collector.py",
        "with self._intending(Event.SWEEPING, now, plan_id=plan.plan_id, plan=plan):",
        "with contextlib.nullcontext():",
    ),
    Mutant(
        "collector: what a crash left is not recovered",
        "collector.py",
        "            if last.event in INTENTS:",
        "            if last.event not in OPERATIONS:",
    ),
    Mutant(
        "collector: a failed sweep is not recovered",
        "collector.py",
        "                self._settle(now)\n            raise",
        "                pass\n            raise",
    ),
    Mutant(
        "collector: the latest plan may have nothing to undo",
        "collector.py",
        "            if self._heap.kept_of(entry.plan_id):",
        "            if entry.plan_id:",
    ),
    Mutant(
        "collector: restore leaves the unit behind",
        "collector.py",
        "self._bring_back(self._heap.kept_with(ids), Event.RESTORED, now)",
        "self._bring_back(tuple(ids[:0]), Event.RESTORED, now)",
    ),
    Mutant(
        "collector: undo of nothing is not an error",
        "collector.py",
        "            if not ids:\n                raise NotFound(",
        "            if ids is None:\n                raise NotFound(",
    ),
    Mutant(
        "collector: a full disk after the sweep is an error",
        "collector.py",
        "return contextlib.suppress(StoreError)",
        "return contextlib.nullcontext()",
    ),
    Mutant(
        "heap: what goes is not stashed",
        "heaps/segments.py",
        "        if entries:\n            self._store.stash.put(self.workspace, entries)",
        "        if not entries:\n            self._store.stash.put(self.workspace, entries)",
    ),
    Mutant(
        "heap: replacements are not put in",
        "heaps/segments.py",
        "self._write(put=put, remove=swept)",
        "self._write(remove=swept)",
    ),
    Mutant(
        "heap: a changed heap is swept",
        "heaps/segments.py",
        "if self.fingerprint() != plan.fingerprint:",
        "if not plan.fingerprint:",
    ),
    Mutant(
        "heap: deletion has no grace",
        "heaps/segments.py",
        "expires = now + self._grace if step.action is Action.DELETE else None",
        "expires = now if step.action is Action.DELETE else None",
    ),
    Mutant(
        "heap: nothing deleted ever expires",
        "heaps/segments.py",
        "expires = now + self._grace if step.action is Action.DELETE else None",
        "expires = None",
    ),
    Mutant(
        "heap: stand-ins stay beside their originals",
        "heaps/segments.py",
        "for name in (*sorted(back.stand_ins), *notes) if name in live]",
        "for name in notes if name in live]",
    ),
    Mutant(
        "heap: a pin set meanwhile is lost",
        "heaps/segments.py",
        "put=[_as_pinned(entry.segment, live) for entry in back.entries]",
        "put=[entry.segment for entry in back.entries]",
    ),
    Mutant(
        "heap: an id in the stash is assigned again",
        "heaps/segments.py",
        "        if stashed:\n            names",
        "        if not ids:\n            names",
    ),
    Mutant(
        "heap: changes by others are not read",
        "heaps/segments.py",
        "            if changes.version == self._version:",
        "            if changes.version >= self._version:",
    ),
    Mutant(
        "heap: copies of what never went stay in the stash",
        "heaps/segments.py",
        "        remove_all(stash, self.workspace, extra)\n",
        "",
    ),
    Mutant(
        "heap: a sweep that never happened is closed as done",
        "heaps/segments.py",
        "        if extra:\n            return Event.ROLLED_BACK\n",
        "",
    ),
    Mutant(
        "heap: what came back stays in the stash",
        "heaps/segments.py",
        "        remove_all(stash, self.workspace, back)\n",
        "",
    ),
    Mutant(
        "heap: a note that was swept outlives the undo of its plan",
        "heaps/segments.py",
        "        remove_all(stash, self.workspace, stash.get(self.workspace, notes))\n",
        "",
    ),
    Mutant(
        "restoring: what a stand-in became stays in the stash",
        "heaps/restoring.py",
        "        later += versions\n",
        "",
    ),
    Mutant(
        "restoring: units come back in parts",
        "heaps/restoring.py",
        "        wanted = [mate for mate in mates if mate not in back and mate not in live]",
        "        wanted = [mate for mate in mates if mate in back]",
    ),
    Mutant(
        "restoring: later versions stay in the stash",
        "heaps/restoring.py",
        "        elif name not in reached:\n            later.append(entry)",
        "        elif name in reached:\n            later.append(entry)",
    ),
    Mutant(
        "restoring: the oldest version is the newest",
        "heaps/restoring.py",
        "        newest.setdefault(entry.segment.segment_id, entry)",
        "        newest[entry.segment.segment_id] = entry",
    ),
    Mutant(
        "conversation: the first request may go",
        "heaps/conversation.py",
        "return is_first or role is Role.SYSTEM, ",
        "return role is Role.SYSTEM, ",
    ),
    Mutant(
        "conversation: instructions may go",
        "heaps/conversation.py",
        "return is_first or role is Role.SYSTEM, ",
        "return is_first, ",
    ),
    Mutant(
        "conversation: what is not answered yet may go",
        "heaps/staying.py",
        "waiting = spoken[bisect_left(spoken, first) :]",
        "waiting = spoken[:0]",
    ),
    Mutant(
        "conversation: a pending call may go",
        "heaps/conversation.py",
        "Unanswered(self._last_answer, frozenset(self._tying.held()))",
        "Unanswered(self._last_answer, frozenset())",
    ),
    Mutant(
        "conversation: a restored message is written as it was trimmed",
        "heaps/conversation.py",
        "if held is not None and held.raw == segment.raw:\n",
        "if held is not None:\n",
    ),
    Mutant(
        "live index: what goes still counts",
        "heaps/live_index.py",
        "        self.tokens -= tokens\n",
        "",
    ),
    Mutant(
        "live index: the fingerprint keeps what went",
        "heaps/live_index.py",
        "        self._fingerprint.drop(segments)\n",
        "",
    ),
    Mutant(
        "live index: what came back is at the end",
        "heaps/live_index.py",
        "self._is_sorted = self._is_sorted and segment.position > self._last",
        "self._is_sorted = True",
    ),
    Mutant(
        "conversation: recency protects all work of a turn",
        "heaps/staying.py",
        "elif exchanges < protection.exchanges:",
        "else:",
    ),
    Mutant(
        "conversation: recency protects the same above the hard limit",
        "heaps/staying.py",
        "if pressure >= Pressure.HARD:",
        "if pressure < Pressure.NONE:",
    ),
    Mutant(
        "conversation: the user's words may go",
        "heaps/staying.py",
        "for i in sorted(typed, reverse=True):",
        "for i in ():",
    ),
    Mutant(
        "conversation: what was pinned yields",
        "heaps/staying.py",
        "            yields.pop(i, None)\n",
        "",
    ),
    Mutant(
        "plan: no last resort",
        "core/plan.py",
        "if limit is None or builder.left <= limit:",
        "if limit is None or builder.left > 0:",
    ),
    Mutant(
        "last resort: the user's words go before results are trimmed",
        "strategies/last_resort.py",
        "        yield from _oldest(context)\n        yield from self._trim(",
        "        yield from _oldest(context)\n        yield from self.at_last(context)\n"
        "        yield from self._trim(",
    ),
    Mutant(
        "last resort: at the hard limit what is unanswered is never trimmed",
        "strategies/last_resort.py",
        "if context.pressure is Pressure.HARD:",
        "if context.pressure > Pressure.HARD:",
    ),
    Mutant(
        "last resort: the end of a text goes",
        "strategies/last_resort.py",
        "while low < high and sizes[high - 1] <= left:",
        "while low > high and sizes[high - 1] <= left:",
    ),
    Mutant(
        "sections: a text that is trimmed again has two lines",
        "sections.py",
        "if _NEXT_GAP.fullmatch(line)]",
        "if line == _MARK]",
    ),
    Mutant(
        "sections: a line that a text quotes is taken for a gap",
        "sections.py",
        "        if least <= kept <= most:",
        "        if kept <= most:",
    ),
    Mutant(
        "session: roots may go",
        "session/history.py",
        "        self._refuse_roots(context)\n",
        "",
    ),
    Mutant(
        "session: validity for the provider is not checked",
        "session/history.py",
        "        self._check(plan)\n",
        "",
    ),
    Mutant(
        "session: an empty history is accepted",
        "session/history.py",
        "if self._index and not returned:",
        "if not self._index and not returned:",
    ),
    Mutant(
        "session: what a plugin claims is believed",
        "session/session.py",
        "result = replace(result, tokens_before=before, tokens_after=self._total())",
        "result = replace(result, tokens_before=before)",
    ),
    Mutant(
        "session: what a message was declared as is forgotten",
        "ledger/budget.py",
        "return {**dict(declared_in(self._stored.live().values())), **children}",
        "return children",
    ),
    Mutant(
        "session: a pinned turn may go",
        "session/history.py",
        "for n in config.pinned_turn_indices}",
        "for n in ()}",
    ),
    Mutant(
        "session: what was added is after everything",
        "session/history.py",
        "                at = self._segments[free[0]].position",
        "                at = self._heap.next_position",
    ),
    Mutant(
        "graph: a pinned memory may go",
        "heaps/graph.py",
        "        if row.pinned:\n            return f",
        "        if not row:\n            return f",
    ),
    Mutant(
        "graph: what was read lately may go",
        "heaps/graph.py",
        "self.now_us - row.read_us < self._protected_us",
        "self.now_us - row.read_us < 0",
    ),
    Mutant(
        "graph: what is cited outside may go",
        "heaps/graph.py",
        "return self.rules.cited.get(row.memory_id)",
        "return None",
    ),
    Mutant(
        "graph: the cap is ignored",
        "heaps/graph.py",
        "            elif size > left:",
        "            elif size > limit:",
    ),
    Mutant(
        "graph: chunks stay when their memory goes",
        "heaps/graph.py",
        "            keys[Kind.CHUNK] += chunks.get(i, ())\n",
        "            chunks = {}\n",
    ),
    Mutant(
        "graph: a plan of another workspace is applied",
        "heaps/graph.py",
        "if plan.workspace != self.workspace or plan.heap != HEAP:",
        "if plan.heap != HEAP:",
    ),
    Mutant(
        "graph: an interrupted sweep is not finished",
        "heaps/graph.py",
        "        self.sweep(intent.plan, now)\n        return Event.SWEPT",
        "        return Event.SWEPT",
    ),
    Mutant(
        "graph: a purge forgets the grace period",
        "heaps/graph.py",
        "before = now - self._limits.grace",
        "before = now",
    ),
    Mutant(
        "graph: a purge makes no backup",
        "heaps/graph.py",
        "        self._backup(nodes, now)\n",
        "",
    ),
    Mutant(
        "graph: entities that only point at each other stay",
        "graph/strategies.py",
        "        if key not in kept:",
        "        if key not in kept and not survey.entities:",
    ),
    Mutant(
        "graph: what stays keeps nothing",
        "graph/strategies.py",
        "staying = {row.key for i, row in context.live if i not in going}",
        "staying: set[int] = set()",
    ),
    Mutant(
        "graph: the newest of equal notes stays",
        "graph/strategies.py",
        "each[1].created_us,",
        "-each[1].created_us,",
    ),
    Mutant(
        "graph: a note that was replaced makes the one that is valid a duplicate",
        "graph/strategies.py",
        "row.content_hash and row.superseded_us is None:",
        "row.content_hash:",
    ),
    Mutant(
        "graph: reading does not lengthen a life",
        "graph/strategies.py",
        "return max(row.created_us, row.last_seen_us or 0, row.read_us or 0)",
        "return row.created_us",
    ),
    Mutant(
        "plugins: the target is the limit",
        "plugins/run.py",
        "return int(window * share / 100) - unseen",
        "return int(window) - unseen",
    ),
    Mutant(
        "plugins: tokens outside the history are ignored",
        "plugins/run.py",
        'unseen = 0 if self.budget else max(0, self.usage.get("total_tokens", 0) - total)',
        "unseen = 0",
    ),
    Mutant(
        "plugins: an overflow does not raise the pressure",
        "plugins/run.py",
        "        if self.reason is GCTriggerReason.OVERFLOW:\n            return Pressure.HARD",
        "        if self.reason is GCTriggerReason.OVERFLOW:\n            return Pressure.SOFT",
    ),
    Mutant(
        "plugins: notices accumulate",
        "plugins/run.py",
        "(self._notices if is_notice else said).append(message)",
        "said.append(message)",
    ),
    Mutant(
        "plugins: messages that shared an id are renamed",
        "plugins/run.py",
        "replace(m, message_id=self.renamed[m.message_id]) if m.message_id in self.renamed else m",
        "m",
    ),
    Mutant(
        "plugins: a pinned turn may go",
        "plugins/run.py",
        "for number in config.pinned_turn_indices}",
        "for number in ()}",
    ),
    Mutant(
        "plugins: it starts although that is switched off",
        "plugins/run.py",
        "if not config.auto_trigger:",
        "if config.auto_trigger is None:",
    ),
    Mutant(
        "plugins: the owner of a conditional entry is not asked",
        "plugins/run.py",
        "            and self.request.options.owner_agrees(key, entry)\n",
        "",
    ),
    Mutant(
        "plugins: a turn limit takes schemas",
        "plugins/run.py",
        "                policy = GCPolicy.LOCKED",
        "                policy = GCPolicy.EPHEMERAL",
    ),
    Mutant(
        "pairing: a result is not tied to its call",
        "dialects/base.py",
        "tied = {call.message for call, _ in answered if call is not None and call.message != i}",
        "tied: set[int] = set()",
    ),
    Mutant(
        "pairing: the first of several equal calls is answered",
        "dialects/base.py",
        "last = slots[-1].message",
        "last = slots[0].message",
    ),
    Mutant(
        "pairing: a pending call is not kept",
        "dialects/base.py",
        "return {slot.message for slot in self._matcher.waiting()}",
        "return set()",
    ),
    Mutant(
        "pairing: thoughts leave their run",
        "dialects/base.py",
        "tied.update(self._run[-1:] if had_thought else self._run)",
        "tied.update(())",
    ),
    Mutant(
        "pairing: a missing result is not added",
        "dialects/rulebook.py",
        "missing = [] if group.last == waiting else missing",
        "missing = []",
    ),
    Mutant(
        "rulebook: results keep the old id",
        "dialects/rulebook.py",
        "filter(None, (call, found.get(call)))",
        "(call,)",
    ),
    Mutant(
        "rulebook: orphans are fine",
        "dialects/rulebook.py",
        "for slot in answers.orphans(messages):",
        "for slot in answers.orphans(messages)[:0]:",
    ),
    Mutant(
        "detecting: Gemini's role function is chat",
        "dialects/history.py",
        'return "parts" not in m and (',
        "return bool(m) and (",
    ),
    Mutant(
        "detecting: items the provider runs show nothing",
        "dialects/history.py",
        "kind.endswith(RESPONSES_ENDINGS)",
        "False",
    ),
    Mutant(
        "detecting: pydantic-ai is Gemini",
        "dialects/history.py",
        '"parts" in m and not _is_pydantic_ai(m)',
        '"parts" in m',
    ),
    Mutant(
        "history: reading nothing is not an error",
        "dialects/history.py",
        "    if not history.messages:\n        advice",
        "    if history.messages is None:\n        advice",
    ),
    Mutant(
        "history: an unreadable line is dropped",
        "dialects/history.py",
        "            asides.append(Aside(position, value))\n",
        "            asides += [Aside(position, value)] * (value is None)\n",
    ),
    Mutant(
        "history: what is not a message moves to the end",
        "dialects/history.py",
        "while waiting and waiting[-1].position < at:",
        "while waiting and waiting[-1].position < 0:",
    ),
    Mutant(
        "history: results are not named after their calls",
        "dialects/history.py",
        "if result is None or result.name or result.call_id not in names:",
        "if result is None or result.name or names:",
    ),
    Mutant(
        "transcripts: the byte order mark is lost",
        "dialects/transcripts.py",
        "return codecs.BOM_UTF8 + text",
        "return text",
    ),
    Mutant(
        "transcripts: a line break is added at the end",
        "dialects/transcripts.py",
        'end = b"\\n" if lines and self.file.text.endswith(b"\\n") else b""',
        'end = b"\\n"',
    ),
    Mutant(
        "transcripts: an unpacked file has no size limit",
        "dialects/transcripts.py",
        "if most is not None and len(plain) > most:",
        "if most is not None and len(plain) < 0:",
    ),
    Mutant(
        "validity: findings name another message",
        "dialects/validity.py",
        "provider, places[fault.position], fault.what",
        "provider, fault.position, fault.what",
    ),
    Mutant(
        "editing: seams are not closed",
        "heaps/forms.py",
        "if at > last + 1:",
        "if at > last + 9_999:",
    ),
    Mutant(
        "base: a lone surrogate cannot be read",
        "dialects/base.py",
        "        if not HALVES.search(data):",
        "        if data:",
    ),
    Mutant(
        "claude_code: side chains are part of it",
        "dialects/enveloped.py",
        'if line.get("isSidechain") is True:',
        'if line.get("isSidechain") is None:',
    ),
    Mutant(
        "codex: ghost snapshots go to the model",
        "dialects/enveloped.py",
        'word(payload.get("type")) not in ASIDE',
        'word(payload.get("type")) != ""',
    ),
    Mutant(
        "gemini: a lost signature is not marked",
        "dialects/gemini.py",
        "    if len(unsigned) == len(calls):",
        "    if calls:",
    ),
    Mutant(
        "anthropic: results come after the text",
        "dialects/anthropic.py",
        "for part in (*results, *rest)",
        "for part in (*rest, *results)",
    ),
    Mutant(
        "files: a change since it was read is not noticed",
        "cli/transcripts.py",
        "if Stamp.of(path.stat()) != stamp:",
        "if stamp is None:",
    ),
    Mutant(
        "files: late lines are lost",
        "cli/transcripts.py",
        "        if arrived:\n            with",
        "        if arrived is None:\n            with",
    ),
    Mutant(
        "files: a program that has it open is not seen",
        "cli/transcripts.py",
        "& (os.O_WRONLY | os.O_RDWR))",
        "& 0)",
    ),
    Mutant(
        "files: a program that only reads blocks the write",
        "cli/transcripts.py",
        "& (os.O_WRONLY | os.O_RDWR))",
        "| 1)",
    ),
    Mutant(
        "files: the mode is not preserved",
        "cli/transcripts.py",
        "draft.chmod(stat.S_IMODE(wanted.st_mode))",
        "draft.chmod(0o600)",
    ),
    Mutant(
        "files: a link is replaced",
        "cli/transcripts.py",
        "return path.resolve() if path.is_symlink() else path",
        "return path",
    ),
    Mutant(
        "files: a temporary file is left behind",
        "stores/files.py",
        "    finally:\n        draft.unlink(missing_ok=True)",
        "    finally:\n        pass",
    ),
    Mutant(
        "files: a journal is recognised by its inode alone",
        "stores/json_file/files.py",
        " or file.read(len(self._last)) != self._last",
        "",
    ),
)


def survives(mutant: Mutant) -> str:
    """Try one mutant; return what is wrong, or nothing if it was caught."""
    return {1: "", 0: "no test failed"}.get(*attempt(mutant.tests, mutant))


def attempt(tests: tuple[str, ...], mutant: Mutant | None = None) -> tuple[int, str]:
    """Run tests, against a mutant; return their exit code and the end of their output."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(ROOT / "src", copy / "src")
        shutil.copytree(ROOT / "tests", copy / "tests")
        shutil.copytree(ROOT / "docs", copy / "docs")
        shutil.copy(ROOT / "pyproject.toml", copy)
        if mutant is not None:
            target = copy / "src/marksweep" / mutant.file
            source = target.read_text()
            if source.count(mutant.source) != 1:
                return -1, f"its source occurs {source.count(mutant.source)} times in {mutant.file}"
            target.write_text(source.replace(mutant.source, mutant.broken))
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n0", *tests],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": "src", "HYPOTHESIS_PROFILE": "mutants"},
            capture_output=True,
            text=True,
            check=False,
        )
        return ran.returncode, f"the tests ended with {ran.returncode}:\n{ran.stdout[-2000:]}"


def main() -> int:
    """Try all mutants, or the named ones; print which survive."""
    wanted = [m for m in MUTANTS if all(word in f"{m.name} {m.file}" for word in sys.argv[1:])]
    code, output = attempt(tuple(dict.fromkeys(test for m in wanted for test in m.tests)))
    if code:
        print(f"the tests fail before anything is broken; fix that first: {output}")
        return 1
    failures = 0
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for mutant, problem in zip(wanted, pool.map(survives, wanted), strict=True):
            failures += bool(problem)
            print(f"{'SURVIVES' if problem else 'caught  '}  {mutant.name}  {problem}", flush=True)
    print(f"{len(wanted) - failures} of {len(wanted)} mutants caught")
    return 1 if failures or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
