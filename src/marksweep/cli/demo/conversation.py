"""The demo's second part: a transcript is collected, stays valid, and comes back."""

from __future__ import annotations

from rich.console import Console
from rich.rule import Rule

from marksweep.cli import render
from marksweep.cli.demo.transcript import sample_transcript
from marksweep.conversation import Conversation
from marksweep.dialects import validate

STRATEGY = ("superseded", "mask", "truncate")


def show(out: Console) -> None:
    """Collect the sample transcript, recall from it, undo."""
    messages = sample_transcript()
    talk = Conversation(limit=1_000_000, strategy=STRATEGY)
    talk.extend(messages)
    out.print(Rule("7. A conversation with tools: what is dead weight in it", style="dim"))
    out.print(render.ledger(talk.ledger(), talk.budget))
    plan = talk.plan(target_tokens=talk.tokens // 3)
    out.print(render.plan(plan, most=6))

    out.print(Rule("8. Collected, and still valid for its provider", style="dim"))
    report = talk.collect(plan)
    findings = validate(talk.messages)
    out.print(
        f" {len(messages)} → {len(talk.messages)} messages, {report.tokens_before:,} → "
        f"{report.tokens_after:,} tokens, {len(findings)} findings"
    )
    for found in talk.recall("session_id KeyError", limit=80)[:1]:
        out.print(f" recalled for 'session_id KeyError': {found.text.strip().splitlines()[-2]}")
    talk.undo()
    out.print(f" undone: the messages are as they were ({talk.messages == messages})")
