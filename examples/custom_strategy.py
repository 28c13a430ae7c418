"""A custom strategy: output of passed tests goes first, then the oldest."""

from __future__ import annotations

from collections.abc import Iterator

from marksweep import Action, PlanningContext, Proposal, Segments


class TestOutputFirst:
    """Ranks only. The planner takes care of what must stay, of pairs and of the budget."""

    name = "test_output_first"

    def rank(self, context: PlanningContext) -> Iterator[Proposal]:
        """Yield what could go, first to go first, each with its reason."""
        free = context.free()
        logs = [i for i in free if "PASSED" in context.segments[i].text]
        for i in logs:
            yield Proposal((i,), Action.STASH, "output of tests that passed")
        for i in free:
            if i not in logs:
                yield Proposal((i,), Action.STASH, "the oldest left")


context = Segments("memory:", limit=400, count_tokens=lambda text: len(text.split()))
for number in range(3):
    context.write(f"note {number}: " + "the parser drops empty lines " * 6, type="note")
    context.write("PASSED " * 60, type="log", segment_id=f"test run {number}")

plan = context.plan(target_tokens=120, strategy=TestOutputFirst())
for step in plan.steps:
    print(f"{step.segments[0]:12} {step.size:4} tokens  {step.reason}")
context.collect(plan)
