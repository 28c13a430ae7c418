"""The demo's first part: fill a working set, plan, collect, restore, undo."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from marksweep.cli import render
from marksweep.cli.demo.session import coding_session
from marksweep.cli.demo.shown import section
from marksweep.clock import utc_now
from marksweep.segments import Segments

LIMIT = 1_000_000
"""Room while the session is loaded, so that nothing goes before it is shown."""

WORDS = "KeyError session_id"


def show(out: Console, where: Path) -> None:
    """Lead through one collection."""
    now = utc_now()
    context = Segments(where, limit=LIMIT, actor="demo")
    context.add(*coding_session(now))
    limit = int(context.tokens / 0.95 / 1000) * 1000
    context.close()

    context = Segments(where, limit=limit, actor="demo")
    context.focus(task="fix-login", file="shop/auth/login.py", open_files=["tests/test_login.py"])
    section(out, "A coding session fills its window", "All that an agent has gathered so far.")
    out.print(render.ledger(context.ledger()))
    out.print(render.gauge(context.tokens, context.budget))

    section(out, "What would go, and why", "A plan. Nothing is touched yet.")
    plan = context.plan()
    out.print(render.plan(plan, most=4))

    section(out, "What stays, and why", "The task at hand is fix-login.")
    swept = {name for step in plan.steps for name in step.segments}
    for segment in _examples(context, swept):
        out.print(render.line(context.why(segment)))

    section(out, "Collect exactly that")
    report = context.collect(plan)
    out.print(render.gauge(context.tokens, context.budget))

    section(out, "Nothing is lost: one comes back by its words, or the whole sweep is undone")
    hit = context.search_stash(WORDS, limit=1)[0].found
    name = hit.segment.segment_id
    context.restore(name)
    out.print(render.line(f"search {WORDS!r} → {name}, restored: {context.tokens:,} tokens"))
    back = context.undo(plan.plan_id)
    before = f"{context.tokens:,} tokens, as before ({report.tokens_before:,})"
    out.print(render.line(f"undo → {render.counted(back, 'segment')} are back: {before}"))
    context.close()


def _examples(context: Segments, swept: set[str]) -> list[str]:
    """Pick one kept segment of some types: reached, pinned by the task, and only related."""
    kept: dict[str, str] = {}
    for segment in reversed(context.list()):
        if segment.segment_id not in swept:
            kept.setdefault(segment.type, segment.segment_id)
    return [kept[kind] for kind in ("decision", "code", "note") if kind in kept]
