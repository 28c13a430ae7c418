"""Replay: how far a strategy is from the best possible, on recorded runs.

    from marksweep.replay import Request, gather, page, replay

    found = replay(gather(["logs"]), Request(budgets=("25%",)))
    Path("report.html").write_text(page(found.result, found.chosen, found.timelines))

The measure:

1. records.py      Read trajectories and conversations.
2. atoms.py        Find the names and lines of a text: what can be needed again.
3. needs.py        Say what each step takes from the past.
4. drive.py        Run a collector over a trajectory, sent past messages only.
5. guards.py       Refuse what no collector may do, such as looking ahead.
6. hits.py         Test whether what was needed was verbatim in context.
7. measures.py     Need recall, gap closed, churn, priced cost, time.
8. clairvoyant.py  The best that dropping whole messages can do; milp.py solves it.
9. evidence.py     The same for conversations with questions.

What is measured:

catalog.py                 Collectors by name; strategy_spec.py reads names with options.
references.py              Simple collectors to read every figure beside.
collectors.py              Strategies of a Conversation, and GC plugins.
sandbox.py                 Plugins and strategies of your own, in separate processes;
                           sandbox_worker.py is the other side.

From transcripts to a recommendation:

inputs.py                  Find transcripts in any dialect; skip what cannot be replayed.
cases.py                   Draw those that are scored, with what they need.
runner.py                  Collectors at several budgets, in several processes;
                           result_cache.py resumes it.
table.py                   The figures as data.
recommend.py               Which setting to use, and the file that says so.
timeline.py                What was in context at each step, what went, what was missed.
report.py                  A whole replay in one call.
html.py                    The report for a browser, with html_front, report.css and report.js.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from marksweep.replay.html import page
    from marksweep.replay.inputs import gather
    from marksweep.replay.report import Replayed, Request, replay
    from marksweep.replay.runner import How

_HOMES = {
    "How": "runner",
    "Replayed": "report",
    "Request": "report",
    "gather": "inputs",
    "page": "html",
    "replay": "report",
}

__all__ = ["How", "Replayed", "Request", "gather", "page", "replay"]


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
