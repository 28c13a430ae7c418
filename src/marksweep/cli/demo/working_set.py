"""The demo's first part: fill a working set, plan, collect, restore, undo."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.rule import Rule

from marksweep.cli import render
from marksweep.cli.demo.session import coding_session
from marksweep.segments import Segments
from marksweep.tokens import default_counter

LIMIT = 1_000_000
"""Room while the session is loaded, so that nothing goes before it is shown."""


def show(out: Console, where: Path) -> None:
    """Lead through one collection."""
    now = datetime.now(UTC)
    context = Segments(where, limit=LIMIT, actor="demo")
    context.add(*coding_session(now))
    limit = int(context.tokens / 0.95 / 1000) * 1000
    context.close()

    context = Segments(where, limit=limit, actor="demo")
    context.focus(task="fix-login", file="shop/auth/login.py", open_files=["tests/test_login.py"])
    counter = default_counter()
    out.print(Rule("1. A coding session fills its window", style="dim"))
    out.print(
        f" {len(context.list())} segments; tokens by {counter.name}"
        f"{'' if counter.exact else ' (estimated)'}"
    )
    out.print(render.ledger(context.ledger(), context.budget))

    out.print(Rule("2. What would go, and why", style="dim"))
    plan = context.plan()
    out.print(render.plan(plan))

    out.print(Rule("3. What stays, and why", style="dim"))
    swept = {name for step in plan.steps for name in step.segments}
    for segment in _examples(context, swept):
        out.print(f" {context.why(segment)}", soft_wrap=False)

    out.print(Rule("4. Collect exactly that", style="dim"))
    report = context.collect(plan)
    out.print(render.ledger(context.ledger(), context.budget))

    out.print(Rule("5. Nothing is lost: find one in the stash and bring it back", style="dim"))
    hit = context.search_stash("KeyError session_id", limit=1)[0].found
    out.print(f" search 'KeyError session_id' → {hit.segment.segment_id}: {hit.reason}")
    context.restore(hit.segment.segment_id)
    out.print(f" restored {hit.segment.segment_id}: {context.tokens:,} tokens")

    out.print(Rule("6. Undo the whole sweep", style="dim"))
    back = context.undo(plan.plan_id)
    out.print(
        f" {len(back)} segments are back: {context.tokens:,} tokens, "
        f"as before ({report.tokens_before:,})"
    )
    out.print(render.journal(context.history()))
    context.close()


def _examples(context: Segments, swept: set[str]) -> list[str]:
    """Pick one kept segment of each type."""
    kept: dict[str, str] = {}
    for segment in reversed(context.list()):
        if segment.segment_id not in swept:
            kept.setdefault(segment.type, segment.segment_id)
    return list(kept.values())
