"""Break core/ on purpose, one break at a time: the tests must notice every one.

    python tools/mutants.py            all of them
    python tools/mutants.py mark       those whose name contains "mark"

Each mutant is a piece of source and what stands there instead. It is applied to a copy of the
package; the tests named for it run against the copy. A mutant that survives is a hole in the tests,
and a mutant whose source is not found is a hole in this file: both fail.
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
TESTS = (
    "tests/core",
    "tests/strategies/test_scored.py",
    "tests/test_engine.py",
    "tests/heaps/test_view.py",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests/laws").glob("test_law_*.py"))),
)


class Mutant(NamedTuple):
    """One break."""

    name: str
    file: str
    source: str
    broken: str


MUTANTS = (
    Mutant(
        "roots: pins are no roots",
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
    Mutant(
        "mark: hubs are not looked at", "core/mark.py", "    if not reached:", "    if reached:"
    ),
    Mutant(
        "graph: weak references are strong",
        "core/graph.py",
        "if hold == strong:",
        "if hold != paired:",
    ),
    Mutant(
        "graph: nothing stands in for an original",
        "core/graph.py",
        "        if stand_ins:",
        "        if not stand_ins:",
    ),
    Mutant(
        "graph: the segment before is taken for the target",
        "core/graph.py",
        "if i and segments[i - 1].segment_id == name:",
        "if i and segments[i - 1].segment_id <= name:",
    ),
    Mutant(
        "units: pairs that share a member stay apart",
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
    Mutant(
        "score: retention is not turned round", "core/score.py", "return 1.0 - (", "return 0.0 + ("
    ),
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
        "if used > self.hard_limit:",
        "if used > self.soft_limit:",
    ),
    Mutant(
        "trigger: a futile pass is not waited after",
        "core/trigger.py",
        "    if freed > 0:\n        return None",
        "    return None",
    ),
    Mutant(
        "trigger: the wait never ends",
        "core/trigger.py",
        "return grown or change - self.change >= self.wait",
        "return False",
    ),
    Mutant(
        "cost: what is read again is forgotten",
        "core/cost.py",
        "sum(sizes[edits_from:]) - freed",
        "0",
    ),
    Mutant(
        "plan: it goes on past the target",
        "core/plan.py",
        "            if target is not None and builder.left <= target:\n                break",
        "            if target is not None and builder.left <= target // 2:\n                break",
    ),
    Mutant(
        "plan: it stops one too early",
        "core/plan.py",
        "            if target is not None and builder.left <= target:\n                break",
        "            if target is not None and builder.left <= target + 40:\n                break",
    ),
    Mutant(
        "plan: roots may go",
        "core/plan.py",
        "if not candidates.may_go(members):",
        "if members is None:",
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
        "core/fingerprint.py",
        "{total % _MODULUS:032x}",
        "{total:032x}",
    ),
    Mutant(
        "fingerprint: the text is left out",
        "core/fingerprint.py",
        "text=apart(segment.text))",
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
)


UNBROKEN = Mutant("nothing is broken", "core/plan.py", "class PlanBuilder:", "class PlanBuilder:")


def survives(mutant: Mutant) -> str:
    """Try one mutant; return what is wrong, or nothing if it was caught."""
    return {1: "", 0: "no test failed"}.get(*attempt(mutant))


def attempt(mutant: Mutant) -> tuple[int, str]:
    """Run the tests against a mutant; return their exit code and the end of their output."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(ROOT / "src", copy / "src")
        shutil.copytree(ROOT / "tests", copy / "tests")
        shutil.copy(ROOT / "pyproject.toml", copy)
        target = copy / "src/marksweep" / mutant.file
        source = target.read_text()
        if source.count(mutant.source) != 1:
            return -1, f"its source stands {source.count(mutant.source)} times in {mutant.file}"
        target.write_text(source.replace(mutant.source, mutant.broken))
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n0", *TESTS],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": "src"},
            capture_output=True,
            text=True,
            check=False,
        )
        return ran.returncode, f"the tests ended with {ran.returncode}:\n{ran.stdout[-2000:]}"


def main() -> int:
    """Try all mutants, or those named; say which survive."""
    wanted = [m for m in MUTANTS if all(word in m.name for word in sys.argv[1:])]
    code, output = attempt(UNBROKEN)
    if code:
        print(f"the tests fail before anything is broken; mend that first: {output}")
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
