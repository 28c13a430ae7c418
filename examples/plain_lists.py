"""Rank segments that you store yourself: GCEngine on a plain list."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from marksweep import ContextSegment, GCEngine, Reference

now = datetime.now(UTC)
segments = [
    ContextSegment(
        segment_id="goal",
        type="message",
        text="Make the build pass",
        created_at=now,
        tokens=5,
        task_id="build",
        references=(Reference("error"),),
    ),
    ContextSegment(
        segment_id="error", type="log", text="undefined symbol: foo", created_at=now, tokens=6
    ),
    ContextSegment(
        segment_id="old run", type="log", text="…", created_at=now - timedelta(days=9), tokens=900
    ),
]

engine = GCEngine()
roots = engine.compute_roots(segments, task_id="build")
plan = engine.generate_pruning_plan(
    engine.analyze_pruning_candidates(segments, roots), target_tokens=500
)
print(plan.reason)
for candidate in plan.candidates:
    print(f"{candidate.segment_id}: {candidate.reason}")
