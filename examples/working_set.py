"""Keep an agent's working set within its window: plan, look, collect, restore."""

from __future__ import annotations

from marksweep import Segments

context = Segments("memory:", limit=400, count_tokens=lambda text: len(text.split()))
context.focus(task="fix-login")

request = context.write("Please fix the login bug", type="message", task_id="fix-login")
cause = context.write("session_id is missing after the redirect", type="note")
context.link(request.segment_id, cause.segment_id)
for n in range(8):
    context.write("PASSED " * 35, type="log", segment_id=f"test run {n}")

plan = context.plan(target_tokens=100)
for step in plan.steps:
    print(f"{step.action:6} {step.segments[0]:12} {step.size:4} tokens  {step.reason}")

report = context.collect(plan)
print(f"{report.tokens_before} → {report.tokens_after} tokens")
print(context.why(cause.segment_id))

context.restore("test run 0")
context.undo(plan.plan_id)
print(f"everything is back: {len(context.list())} segments")
